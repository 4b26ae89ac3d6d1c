"""A vectorized environment as skrl's agents and trainers want to see it, on skrl 1.4.3 and 2.x."""

from __future__ import annotations

from typing import Any, Protocol

import gymnasium
import torch
from skrl.envs.wrappers.torch import Wrapper


class VectorEnv(Protocol):
    """What :class:`SkrlView` needs of an environment that resets itself in the step that ends a game."""

    num_envs: int
    device: torch.device

    @property
    def single_observation_space(self) -> gymnasium.Space[Any]:
        """Space of one environment's observation."""

    @property
    def single_action_space(self) -> gymnasium.Space[Any]:
        """Space of one environment's action, a Discrete."""

    def reset(self) -> torch.Tensor:
        """Start all games. Return the observations, shape: (N, *observation)."""

    def step(
        self, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Make a step. Return observations, rewards, terminated, truncated, infos, the tensors of shape (N, ...)."""

    def render(self, board: int = 0) -> str:
        """Draw one board."""


class SkrlView(Wrapper):
    """skrl's interface to a vectorized environment with discrete actions.

    It is a skrl wrapper already: hand it to models, agents, trainers and runners as it is, not to ``wrap_env``.

    Observations are flat, shape: (N, O), also where the space is an image's: that is how skrl stores them, and a model
    gets the image back with ``unflatten_tensorized_space(self.observation_space, inputs["observations"])``
    (``"states"`` instead of ``"observations"`` on skrl 1.4.3). So is ``infos["final_obs"]``.

    Only the first :meth:`reset` reaches the environment, since skrl's trainers reset at the start of each ``train`` and
    ``eval``, and with one environment after each episode, while the environment resets itself. Later ones return what
    the last step returned. For the same reason skrl 2.x's ``time_limit_bootstrap`` takes the value of the next game's
    first observation for a truncated one's; that of the game that ended is in ``infos["final_obs"]``.

    :param env: Environment to view, N environments in one.
    """

    _env: VectorEnv

    def __init__(self, env: VectorEnv) -> None:
        super().__init__(env)
        self._last: tuple[torch.Tensor, dict[str, Any]] | None = None

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """Space of one environment's observation, not flattened."""
        return self._env.single_observation_space

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """Space of one environment's action."""
        return self._env.single_action_space

    def reset(self) -> tuple[torch.Tensor, dict[str, Any]]:
        """Start all games, the first time; return the last observations and infos, afterwards.

        :return: Observations, shape: (N, O); infos.
        """
        if self._last is None:
            self._last = self._env.reset().flatten(1), {}
        return self._last

    def step(
        self, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Make a step.

        :param actions: Actions. Shape: (N, 1), any integer dtype.

        :return: Observations, shape: (N, O), float32; rewards, shape: (N, 1), float32; terminated and truncated, never
            both, shape: (N, 1), bool; infos, whose tensors keep the environment's shapes but for ``"final_obs"``,
            shape: (N, O).
        """
        observations, rewards, terminated, truncated, infos = self._env.step(actions.reshape(-1))
        infos["final_obs"] = infos["final_obs"].flatten(1)
        self._last = observations.flatten(1), infos
        return self._last[0], rewards.view(-1, 1), terminated.view(-1, 1), truncated.view(-1, 1), infos

    def state(self) -> None:
        """Return no state: the environment has none beside its observations."""
        return None

    def render(self, *args: Any, **kwargs: Any) -> str:
        """Draw one board as text, which skrl's trainers drop: set their ``headless``.

        :return: Lines of text.
        """
        return self._env.render(*args, **kwargs)

    def close(self) -> None:
        """Forget the last observations: the next :meth:`reset` starts new games."""
        self._last = None
