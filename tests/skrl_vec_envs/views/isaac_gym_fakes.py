"""Environments as OmniIsaacGymEnvs and Isaac Gym make them: what they return are their buffers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import torch

N = 3
BOX = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
ACTIONS = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)


class Buffers:
    """Counts steps; row ``i`` ends every ``i + 2`` steps, row 0 because time is up."""

    def __init__(self) -> None:
        self.num_envs = N
        self.obs_buf, self.states_buf, self.rew_buf = torch.zeros(N, 2), torch.zeros(N, 4), torch.zeros(N)
        self.reset_buf, self.progress_buf = torch.ones(N, dtype=torch.int64), torch.zeros(N, dtype=torch.int64)
        self.resets = 0

    def advance(self, actions: torch.Tensor) -> dict[str, torch.Tensor]:
        assert actions.shape == (N, 1)
        self.progress_buf[self.reset_buf > 0] = 0
        self.progress_buf += 1
        self.obs_buf[:] = self.progress_buf[:, None].float() * torch.tensor([1.0, -1.0])
        self.states_buf[:] = 5.0
        self.rew_buf += 1.0
        self.reset_buf[:] = self.progress_buf >= torch.arange(N) + 2
        return {"time_outs": torch.tensor([1, 0, 0])}


class OmniverseEnv(gymnasium.Env[Any, Any]):
    """OmniIsaacGymEnvs': derived from an ``Env``, which skrl 2 takes for a reason to wrap it as Gymnasium's."""

    observation_space, action_space, num_states = BOX, ACTIONS, 4
    state_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)

    def __init__(self) -> None:
        self._task = Buffers()
        self.num_envs = N

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._task.resets += 1
        return self.step(torch.zeros(N, 1))[0]

    def step(self, actions: torch.Tensor) -> Any:
        self._task.advance(actions)
        observations = {"obs": self._task.obs_buf, "states": self._task.states_buf}
        return observations, self._task.rew_buf, self._task.reset_buf, {}


class Preview3Env(Buffers):
    """Isaac Gym's, previews 3 and 4: the environment is the task, and counts time outs."""

    observation_space, action_space, num_states, rl_device, device = BOX, ACTIONS, 0, "cpu", "cuda:0"

    def reset(self) -> Any:
        self.resets += 1
        return self.step(torch.zeros(N, 1))[0]

    def step(self, actions: torch.Tensor) -> Any:
        infos = self.advance(actions)
        return {"obs": self.obs_buf}, self.rew_buf, self.reset_buf, infos


class Preview2Env:
    """Isaac Gym's, preview 2: around a task, and observations are a tensor."""

    observation_space, action_space, rl_device = BOX, ACTIONS, "cpu"

    def __init__(self) -> None:
        self.task = Buffers()
        self.num_envs = N
        self.gym = SimpleNamespace()

    def reset(self) -> torch.Tensor:
        self.task.resets += 1
        self.task.advance(torch.zeros(N, 1))
        return self.task.obs_buf

    def step(self, actions: torch.Tensor) -> Any:
        infos = self.task.advance(actions)
        return self.task.obs_buf, self.task.rew_buf, self.task.reset_buf, infos


FAKES: tuple[Any, ...] = (OmniverseEnv, Preview3Env, Preview2Env)
