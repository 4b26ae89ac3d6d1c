"""A vectorized environment as skrl's agents and trainers want to see it, on skrl 1.4.3 and 2.x."""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from skrl.envs.wrappers.torch import MultiAgentEnvWrapper, Wrapper
from skrl.envs.wrappers.torch import wrap_env as skrl_wrap_env
from skrl.utils.spaces.torch import convert_gym_space

from skrl_vec_envs.views.isaaclab import IsaacLabView
from skrl_vec_envs.views.protocols import AnyEnv, is_isaac_env, is_vector_env, what_was_seen

_Step = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]


class SkrlView(Wrapper):
    """skrl's interface to a vectorized environment.

    The environment is one of :class:`skrl_vec_envs.omniverse.VecEnv`, :class:`skrl_vec_envs.snake.Snake`,
    OmniIsaacGymEnvs, or Isaac Gym (previews 2 to 4); see :mod:`skrl_vec_envs.views.protocols`.

    It is a skrl wrapper already: hand it to models, agents, trainers and runners as it is, not to ``wrap_env``.

    Observations are flat, shape: (N, O), also where the space is an image's: that is how skrl stores them, and a model
    gets the image back with ``unflatten_tensorized_space(self.observation_space, inputs["observations"])``
    (``"states"`` instead of ``"observations"`` on skrl 1.4.3). So is ``infos["final_obs"]``.

    Only the first :meth:`reset` reaches the environment, since skrl's trainers reset at the start of each ``train`` and
    ``eval``, and with one environment after each episode, while the environment resets itself. Later ones return what
    the last step returned. For the same reason, where the environment resets in the step that ends an episode, skrl
    2.x's ``time_limit_bootstrap`` takes the value of the next episode's first observation for a truncated one's; that
    of the episode that ended is in ``infos["final_obs"]``. Where it resets lazily, the last observation is returned.

    Nothing returned is a buffer of the environment's: skrl adds to rewards in place.

    :param env: Environment to view, N environments in one.

    :raises TypeError: The environment is of another kind.
    :raises ValueError: It is a snake game with several snakes per board; see :class:`skrl_vec_envs.snake.PerSnake`.
    """

    def __init__(self, env: AnyEnv) -> None:
        self._native = is_vector_env(env)
        if not self._native and not is_isaac_env(env):
            raise TypeError(f"SkrlView cannot view {what_was_seen(env)}: use skrl_vec_envs.wrap_env(env)")
        if self._native and getattr(getattr(env, "rules", None), "num_snakes", 1) > 1:
            raise ValueError(
                "SkrlView needs one reward and one end per environment, got boards with several snakes: make each an "
                "environment of its own, SkrlView(skrl_vec_envs.snake.PerSnake(env))"
            )
        super().__init__(env)
        rl_device: str | None = getattr(env, "rl_device", None)  # Isaac Gym's device is that of the simulation
        if rl_device is not None:
            self._device = torch.device(rl_device)
        self._copies = not (self._native or getattr(env, "returns_copies", False))
        self._flat_actions = isinstance(self.action_space, gymnasium.spaces.Discrete)
        self._last: tuple[torch.Tensor, dict[str, Any]] | None = None
        self._states: torch.Tensor | None = None

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """Space of one environment's observation, not flattened."""
        return self._env.single_observation_space if self._native else _space(self._env.observation_space)

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """Space of one environment's action."""
        return self._env.single_action_space if self._native else _space(self._env.action_space)

    @property
    def state_space(self) -> gymnasium.Space[Any] | None:
        """Space of one environment's state; None where there is none."""
        return _space(self._env.state_space) if self._num_states else None

    @property
    def _num_states(self) -> int:
        return 0 if self._native else int(getattr(self._env, "num_states", 0) or 0)

    def reset(self) -> tuple[torch.Tensor, dict[str, Any]]:
        """Begin all episodes, the first time; return the last observations and infos, afterwards.

        :return: Observations, shape: (N, O); infos.
        """
        if self._last is None:
            result = self._env.reset()
            self._last = self._observe(result[0] if isinstance(result, tuple) else result), {}
        return self._last

    def step(self, actions: torch.Tensor) -> _Step:
        """Make a step.

        :param actions: Actions. Shape: (N, A); of a Discrete space: (N, 1), any integer dtype.

        :return: Observations, shape: (N, O), float32; rewards, shape: (N, 1), float32; terminated and truncated, never
            both, shape: (N, 1), bool; infos, whose tensors keep the environment's shapes but for ``"final_obs"``,
            shape: (N, O).
        """
        result = self._env.step(actions.reshape(-1) if self._flat_actions else actions)
        observations, rewards, infos = result[0], result[1], result[-1]
        if self._native:
            terminated, truncated = result[2:4]
        else:
            ended = result[2] > 0
            truncated = _time_outs(infos, ended)
            terminated = ended & ~truncated
            infos = dict(infos)
        if "final_obs" in infos:
            infos["final_obs"] = self._owned(infos["final_obs"])
        self._last = self._observe(observations), infos
        rewards = rewards.to(torch.float32, copy=self._copies)
        return self._last[0], rewards.view(-1, 1), terminated.view(-1, 1), truncated.view(-1, 1), infos

    def _observe(self, observations: Any) -> torch.Tensor:
        if isinstance(observations, dict):
            if self._num_states:
                self._states = self._owned(observations["states"])
            observations = observations["obs"]
        return self._owned(observations)

    def _owned(self, values: torch.Tensor) -> torch.Tensor:
        # of integers the memory would make floating-point numbers anyway
        dtype = values.dtype if values.is_floating_point() else torch.float32
        return values.to(dtype, copy=self._copies).flatten(1)

    def state(self) -> torch.Tensor | None:
        """Return the states of the last step or reset.

        :return: States, shape: (N, S); None where there are none.
        """
        return self._states

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """Draw, as the environment does; skrl's trainers drop what it returns: set their ``headless``."""
        return self._env.render(*args, **kwargs) if hasattr(self._env, "render") else None

    def close(self) -> None:
        """Close the environment where it can be, and forget the last observations: :meth:`reset` begins anew."""
        self._last = None
        if hasattr(self._env, "close"):
            self._env.close()


def wrap_env(env: Any, wrapper: Any = "auto", verbose: bool = True) -> Wrapper | MultiAgentEnvWrapper:
    """Wrap an environment for skrl, see :func:`skrl_vec_envs.wrap_env`."""
    if wrapper == "auto":
        if isinstance(env, (Wrapper, MultiAgentEnvWrapper)):
            return env
        if is_vector_env(env) or is_isaac_env(env):
            return SkrlView(env)
        if isinstance(env, IsaacLabView):
            wrapper = "isaaclab"
    try:
        return skrl_wrap_env(env, wrapper, verbose)
    except ValueError as error:
        if "Unknown wrapper type" not in str(error) or wrapper != "auto":
            raise
        raise TypeError(
            f"no view of skrl_vec_envs and no wrapper of skrl knows {what_was_seen(env)}. An environment needs "
            "num_envs, reset and step, and either single_observation_space and single_action_space, or Isaac Gym's "
            "buffers (reset_buf, progress_buf, rew_buf), or a base class that skrl knows; where skrl's wrapper "
            "is known, name it: wrap_env(env, wrapper='gymnasium')"
        ) from error


def _time_outs(infos: dict[str, Any], ended: torch.Tensor) -> torch.Tensor:
    if "time_outs" not in infos:
        return torch.zeros_like(ended)
    time_outs: torch.Tensor = infos["time_outs"].to(ended.device, torch.bool)
    return ended & time_outs


def _space(space: Any) -> gymnasium.Space[Any]:
    converted: Any = space if isinstance(space, gymnasium.Space) else convert_gym_space(space)
    assert isinstance(converted, gymnasium.Space)
    return converted
