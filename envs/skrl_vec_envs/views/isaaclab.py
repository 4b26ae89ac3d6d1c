"""A vectorized environment in the convention of Isaac Lab's ``DirectRLEnv``. Needs neither Isaac Lab nor skrl."""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from gymnasium.vector.utils import batch_space

from skrl_vec_envs.omniverse.env import Observations, VecEnv

_Step = tuple[Observations, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]


class IsaacLabView:
    """Isaac Lab's interface to a :class:`~skrl_vec_envs.omniverse.VecEnv`, with same-step autoreset.

    Observations come in groups: ``"policy"``, shape: (N, O), and, where the task has states, ``"critic"``, shape:
    (N, S). For skrl, ``skrl_vec_envs.wrap_env(view)`` or skrl's ``wrap_env(view, "isaaclab")`` take it.

    :param env: Environment to view, with ``autoreset="same_step"``.

    :raises ValueError: The environment resets lazily.
    """

    def __init__(self, env: VecEnv) -> None:
        if env.autoreset != "same_step":
            raise ValueError(
                f"Isaac Lab resets in the step that ends an episode, got an environment with {env.autoreset!r}: "
                "use VecEnv(autoreset='same_step')"
            )
        self.env = env
        self.extras: dict[str, Any] = {}
        """Infos of the last step."""
        groups = {"policy": env.observation_space}
        if env.num_states:
            groups["critic"] = env.state_space
        self.single_observation_space = gymnasium.spaces.Dict(groups)
        """Space of one environment's observation: a Dict of the groups."""
        self.single_action_space = env.action_space
        """Space of one environment's action."""
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        """Space of the observations."""
        self.action_space = batch_space(self.single_action_space, env.num_envs)
        """Space of the actions."""
        if env.num_states:
            self.state_space = env.state_space

    @property
    def unwrapped(self) -> IsaacLabView:
        """The view itself."""
        return self

    @property
    def num_envs(self) -> int:
        """Number of environments, N."""
        return self.env.num_envs

    @property
    def device(self) -> torch.device:
        """Device of all that is returned."""
        return self.env.device

    @property
    def max_episode_length(self) -> int | None:
        """Steps after which an episode is truncated; None where the task does not say."""
        length: int | None = getattr(self.env.task, "_max_episode_length", None)
        return length

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin all episodes.

        :param seed: Seed with which the task's random numbers begin anew (None: they go on).
        :param options: Accepted, without effect.

        :return: Observations by group; extras.
        """
        self.extras = {}
        return self._groups(self.env.reset(seed)), self.extras

    def step(self, action: torch.Tensor) -> _Step:
        """Make a step.

        :param action: Actions. Shape: (N, A); of a Discrete space: (N,) or (N, 1).

        :return: Observations by group, rewards, shape: (N,), float32, terminated and truncated, never both, shape:
            (N,), bool, extras: the task's, ``"time_outs"``, ``"final_obs"`` and ``"final_states"``.
        """
        observations, rewards, resets, self.extras = self.env.step(action)
        truncated = self.extras["time_outs"].clone()
        return self._groups(observations), rewards, (resets > 0) & ~truncated, truncated, self.extras

    def _groups(self, observations: Observations) -> Observations:
        groups = {"policy": observations["obs"]}
        if self.env.num_states:
            groups["critic"] = observations["states"]
        return groups

    def seed(self, seed: int = -1) -> int:
        """Begin the sequence of the task's random numbers anew.

        :param seed: Seed.

        :return: The seed.
        """
        self.env.seed(seed)
        return seed

    def render(self, recompute: bool = False) -> Any:
        """Return what the task draws, or None."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()
