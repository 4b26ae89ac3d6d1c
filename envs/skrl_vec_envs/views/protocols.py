"""What the views need of environments that this package does not make, and how these are told apart."""

# mypy: disable-error-code="import-not-found,import-untyped"
# pyright: reportMissingModuleSource=false
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import gymnasium
import torch

if TYPE_CHECKING:
    from isaacgym import gymapi  # of the package isaacgym-stubs; nothing imports Isaac Gym itself


class VectorEnv(Protocol):
    """An environment with same-step autoreset and discrete actions: :class:`skrl_vec_envs.snake.Snake`."""

    num_envs: int
    device: torch.device

    @property
    def single_observation_space(self) -> gymnasium.Space[Any]:
        """Space of one environment's observation."""
        ...

    @property
    def single_action_space(self) -> gymnasium.Space[Any]:
        """Space of one environment's action, a Discrete."""
        ...

    def reset(self) -> torch.Tensor | tuple[torch.Tensor, dict[str, Any]]:
        """Begin all episodes. Return the observations, shape: (N, *observation), with or without infos."""
        ...

    def step(
        self, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Make a step. Return observations, rewards, terminated, truncated, infos, the tensors of shape (N, ...)."""
        ...

    def render(self, board: int = 0) -> str:
        """Draw one board."""
        ...


class IsaacVecEnv(Protocol):
    """What OmniIsaacGymEnvs', Isaac Gym's and :class:`skrl_vec_envs.omniverse.VecEnv` have in common.

    ``rl_device`` (Isaac Gym), ``device`` and ``num_states`` are read where they are there.
    """

    @property
    def num_envs(self) -> int:
        """Number of environments, N."""
        ...

    @property
    def observation_space(self) -> Any:
        """Space of one environment's observation, gymnasium's or gym's."""
        ...

    @property
    def action_space(self) -> Any:
        """Space of one environment's action, gymnasium's or gym's."""
        ...

    def reset(self) -> dict[str, torch.Tensor] | torch.Tensor:
        """Begin all episodes. Return the observations; in a dictionary as ``"obs"``, but for Isaac Gym preview 2."""
        ...

    def step(
        self, actions: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor] | torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Make a step. Return observations, rewards, resets, infos, the tensors of shape (N, ...)."""
        ...


class IsaacGymTask(IsaacVecEnv, Protocol):
    """What Isaac Gym's tasks have in addition (previews 3 and 4; in preview 2 it is ``env.task`` that has it)."""

    @property
    def gym(self) -> gymapi.Gym:
        """Isaac Gym's interface."""
        ...

    @property
    def sim(self) -> gymapi.Sim:
        """Handle of the simulation."""
        ...

    @property
    def viewer(self) -> gymapi.Viewer | None:
        """Handle of the window, None when there is none."""
        ...


AnyEnv = VectorEnv | IsaacVecEnv | IsaacGymTask

_BUFFERS = ("reset_buf", "progress_buf", "rew_buf")


def is_vector_env(env: Any) -> bool:
    """Tell whether it is an environment in the manner of :class:`VectorEnv`."""
    if isinstance(env, (gymnasium.Env, gymnasium.vector.VectorEnv)) or not hasattr(env, "single_observation_space"):
        return False
    grouped = isinstance(env.single_observation_space, gymnasium.spaces.Dict)  # in the manner of Isaac Lab
    return not grouped and all(hasattr(env, name) for name in ("reset", "step", "num_envs"))


def is_isaac_env(env: Any) -> bool:
    """Tell whether it is an environment in the manner of :class:`IsaacVecEnv`: one that keeps, or whose task keeps,
    Isaac Gym's buffers. OmniIsaacGymEnvs' and Isaac Gym's derive from gym's ``Env``, so that their class tells nothing.
    """
    unwrapped = getattr(env, "unwrapped", env)
    for keeper in (unwrapped, getattr(unwrapped, "_task", None), getattr(unwrapped, "task", None)):
        if keeper is not None and all(hasattr(keeper, name) for name in _BUFFERS):
            return all(hasattr(env, name) for name in ("reset", "step", "num_envs"))
    return False


def what_was_seen(env: Any) -> str:
    """Describe an environment, for the error that says that no view knows it.

    :param env: Environment.

    :return: Its classes, and which of the members that the views look for it has.
    """
    looked_for = ("num_envs", "single_observation_space", "observation_space", "action_space", "task", *_BUFFERS)
    classes = [f"{base.__module__}.{base.__qualname__}" for base in type(env).__mro__[:-1] or (object,)]
    has = [name for name in (*looked_for, "reset", "step") if hasattr(env, name)]
    return f"an object of {' < '.join(classes)}, which has {', '.join(has) or 'none of the members looked for'}"
