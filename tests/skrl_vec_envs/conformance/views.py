"""Every view behind one interface of the tests, so that one suite can check them all."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from skrl_vec_envs import wrap_env
from skrl_vec_envs.omniverse import VecEnv
from skrl_vec_envs.views.gymnasium import GymnasiumView
from skrl_vec_envs.views.isaaclab import IsaacLabView
from tests.skrl_vec_envs.rl_games_or_skip import rl_games_view


@dataclasses.dataclass
class Result:
    """What a step returned, as 1-D tensors whatever the view's shapes are."""

    observations: torch.Tensor
    rewards: torch.Tensor
    ended: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    final_obs: torch.Tensor | None
    raw: list[Any]
    """All tensors and arrays returned, to be written to."""


class Driven:
    """An environment seen through a view."""

    modes: tuple[str, ...] = ("lazy", "same_step")
    column = False
    """Whether rewards and ends have shape (N, 1)."""

    def __init__(self, env: VecEnv) -> None:
        self.env = env
        self.view: Any = env

    def reset(self) -> torch.Tensor:
        observations = self.view.reset()
        return self.observed(observations[0] if isinstance(observations, tuple) else observations)

    def step(self, actions: torch.Tensor) -> Result:
        raise NotImplementedError

    def observed(self, observations: Any) -> torch.Tensor:
        raise NotImplementedError

    def states(self, observations: Any) -> torch.Tensor | None:
        return None


class Bare(Driven):
    def observed(self, observations: Any) -> torch.Tensor:
        tensor: torch.Tensor = observations["obs"]
        return tensor

    def step(self, actions: torch.Tensor) -> Result:
        observations, rewards, resets, extras = self.view.step(actions)
        ended, time_outs = resets > 0, extras["time_outs"]
        raw = [self.observed(observations), rewards, resets, *tensors(extras)]
        return Result(raw[0], rewards, ended, ended & ~time_outs, time_outs, extras.get("final_obs"), raw)


class RlGames(Bare):
    def __init__(self, env: VecEnv) -> None:
        super().__init__(env)
        self.view = rl_games_view().RlGamesView(env)

    def observed(self, observations: Any) -> torch.Tensor:
        return super().observed(observations) if isinstance(observations, dict) else observations


class Skrl(Driven):
    column = True

    def __init__(self, env: VecEnv) -> None:
        super().__init__(env)
        self.view = wrap_env(env)

    def observed(self, observations: Any) -> torch.Tensor:
        tensor: torch.Tensor = observations
        return tensor

    def step(self, actions: torch.Tensor) -> Result:
        actions = actions if actions.is_floating_point() or actions.ndim == 2 else actions[:, None]
        observations, rewards, terminated, truncated, infos = self.view.step(actions)
        for column in (rewards, terminated, truncated):
            assert column.shape == (self.env.num_envs, 1)
        raw = [observations, rewards, terminated, truncated, *tensors(infos)]
        rewards, terminated, truncated = rewards[:, 0], terminated[:, 0], truncated[:, 0]
        final = infos.get("final_obs")
        return Result(observations, rewards, terminated | truncated, terminated, truncated, final, raw)


class IsaacLab(Driven):
    modes = ("same_step",)

    def __init__(self, env: VecEnv) -> None:
        super().__init__(env)
        self.view = IsaacLabView(env)

    def observed(self, observations: Any) -> torch.Tensor:
        tensor: torch.Tensor = observations["policy"]
        return tensor

    def step(self, actions: torch.Tensor) -> Result:
        observations, rewards, terminated, truncated, extras = self.view.step(actions)
        raw = [*observations.values(), rewards, terminated, truncated, *tensors(extras)]
        return Result(raw[0], rewards, terminated | truncated, terminated, truncated, extras["final_obs"], raw)


class IsaacLabInSkrl(Skrl):
    modes = ("same_step",)

    def __init__(self, env: VecEnv) -> None:
        Driven.__init__(self, env)
        self.view = wrap_env(IsaacLabView(env), verbose=False)
        self.view._seed = None  # skrl 2 resets with a seed of its own, but the suite compares with other views


class Gymnasium(Driven):
    modes = ("same_step",)

    def __init__(self, env: VecEnv) -> None:
        super().__init__(env)
        self.view = GymnasiumView(env)

    def observed(self, observations: Any) -> torch.Tensor:
        assert isinstance(observations, np.ndarray)
        return torch.from_numpy(observations)

    def step(self, actions: torch.Tensor) -> Result:
        *arrays, infos = self.view.step(actions.numpy())
        observations, rewards, terminated, truncated = map(torch.from_numpy, arrays)
        final = observations.clone()
        for row in np.flatnonzero(infos.get("_final_obs", [])):
            final[row] = torch.from_numpy(infos["final_obs"][row])
        raw = [observations, rewards, terminated, truncated]
        return Result(observations, rewards, terminated | truncated, terminated, truncated, final, raw)


VIEWS: tuple[type[Driven], ...] = (Bare, RlGames, Skrl, IsaacLab, IsaacLabInSkrl, Gymnasium)
CASES = [
    pytest.param(view, mode, id=f"{view.__name__}-{mode}")
    for view in VIEWS
    for mode in ("lazy", "same_step")
    if mode in view.modes
]


def tensors(extras: dict[str, Any]) -> list[torch.Tensor]:
    """List the tensors in a dictionary."""
    return [value for value in extras.values() if isinstance(value, torch.Tensor)]
