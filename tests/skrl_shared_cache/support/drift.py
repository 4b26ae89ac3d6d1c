"""A small deterministic environment in torch, and its skrl wrapper for both lines."""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from skrl.envs.wrappers.torch import MultiAgentEnvWrapper, Wrapper

from .lines import SKRL_2, box


class DriftEnv:
    """A point that drifts on a line and is pushed by the agent, batched over ``N`` environments.

    Observation f32 ``(N, 6)``: fixed random features of position, speed and time. Reward f32 ``(N, 1)``: minus the
    squared distance. An episode terminates beyond a distance of 3 and is truncated after ``horizon`` steps; it then
    restarts within the same step. Nothing is random after construction, every array handed out is new.

    :param discrete: Whether actions are indices 0, 1, 2 (left, none, right), shape ``(N, 1)``,
        rather than pushes, f32 ``(N, 2)``.
    :param num_envs: Number of environments.
    :param horizon: Steps after which an episode is truncated.
    :param shift: Added to every starting position.
    """

    device = torch.device("cpu")

    def __init__(self, discrete: bool = False, num_envs: int = 4, horizon: int = 7, shift: float = 0.0) -> None:
        self.num_envs = num_envs
        self.observation_space = box(6)
        self.action_space: gymnasium.Space[Any] = gymnasium.spaces.Discrete(3) if discrete else box(2)
        self._discrete = discrete
        self._horizon = horizon
        self._start = torch.linspace(-1.0, 1.0, num_envs) + shift
        self._features = torch.randn((3, 6), generator=torch.Generator().manual_seed(7))
        self.reset()

    def reset(self) -> torch.Tensor:
        """Restart every episode and return the observations."""
        self._position, self._speed = self._start.clone(), torch.zeros(self.num_envs)
        self._step = torch.arange(self.num_envs) % self._horizon
        return self._observe()

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Apply the actions and return observations, rewards, terminated and truncated."""
        push = (actions.reshape(-1) - 1.0) if self._discrete else actions[:, 0] - 0.5 * actions[:, 1].tanh()
        self._speed = 0.8 * self._speed + 0.2 * push + 0.05 * torch.sin(3.0 * self._position)
        self._position = self._position + self._speed
        self._step = self._step + 1
        rewards = -(self._position**2).clamp(max=9.0)
        terminated = self._position.abs() > 3.0
        truncated = (self._step >= self._horizon) & ~terminated
        ended = terminated | truncated
        self._position = torch.where(ended, self._start, self._position)
        self._speed = torch.where(ended, 0.0, self._speed)
        self._step = torch.where(ended, 0, self._step)
        return self._observe(), rewards[:, None], terminated[:, None], truncated[:, None]

    def _observe(self) -> torch.Tensor:
        raw = torch.stack([self._position, self._speed, self._step / self._horizon], dim=-1)
        return torch.tanh(raw @ self._features)


class DriftWrapper(Wrapper):
    """skrl's view of a :class:`DriftEnv`, on both lines."""

    def reset(self) -> tuple[torch.Tensor, dict[str, Any]]:
        return self._env.reset(), {}

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, Any]:
        observations, *rest = self._env.step(actions)
        return observations, *rest, {"amp_obs": observations.clone()}  # AMP: the motion that its discriminator judges

    def state(self) -> torch.Tensor | None:
        return None

    def render(self, *args: Any, **kwargs: Any) -> None:
        return None

    def close(self) -> None:
        return None


class DriftGame:
    """Two agents, each with a :class:`DriftEnv` of its own that starts elsewhere."""

    device = torch.device("cpu")
    agents = possible_agents = ("left", "right")
    num_agents = 2

    def __init__(self, num_envs: int = 4) -> None:
        self.num_envs = num_envs
        self.envs = {"left": DriftEnv(num_envs=num_envs), "right": DriftEnv(num_envs=num_envs, shift=0.7)}
        self.observation_spaces = {uid: env.observation_space for uid, env in self.envs.items()}
        self.action_spaces = {uid: env.action_space for uid, env in self.envs.items()}
        self.state_space = None


class DriftGameWrapper(MultiAgentEnvWrapper):
    """skrl's view of a :class:`DriftGame`, on both lines. The state of skrl 1.4's MAPPO is the mean of all views."""

    def reset(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        self._last = {uid: env.reset() for uid, env in self._env.envs.items()}
        return self._last, {}

    def step(self, actions: dict[str, torch.Tensor]) -> tuple[Any, ...]:
        steps = {uid: env.step(actions[uid]) for uid, env in self._env.envs.items()}
        self._last, *rest = ({uid: step[i] for uid, step in steps.items()} for i in range(4))
        return (self._last, *rest, {})

    def state(self) -> Any:
        return dict.fromkeys(self.possible_agents) if SKRL_2 else torch.stack([*self._last.values()]).mean(dim=0)

    def render(self, *args: Any, **kwargs: Any) -> None:
        return None

    def close(self) -> None:
        return None
