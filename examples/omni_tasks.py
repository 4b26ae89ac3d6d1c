"""The task that skrl (ppo_omni_skrl.py) and rl_games (ppo_omni_rl_games.py) train on: the same object for both."""

from __future__ import annotations

from collections import deque
from statistics import fmean
from typing import Any

import torch

from skrl_vec_envs.omniverse import SimConfig, VecEnv
from skrl_vec_envs.omniverse.env import StepByRows
from skrl_vec_envs.omniverse.tasks import CartpoleTask, SnakeTask

TASKS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "cartpole": (CartpoleTask, {"maxEpisodeLength": 500}),  # a return is at most 500
    "snake": (SnakeTask, {"height": 6, "width": 6, "maxEpisodeLength": 500, "hunger_limit": 36}),
}
LAST_EPISODES = 100


class CountedEnv(VecEnv):
    """An environment that knows the returns of its last episodes."""

    def __init__(self, *parameters: Any, **keywords: Any) -> None:
        super().__init__(*parameters, **keywords)
        self._running: torch.Tensor | float = 0.0
        self._returns: deque[float] = deque(maxlen=LAST_EPISODES)

    def step_by_rows(self, actions: torch.Tensor) -> StepByRows:
        """Make a step, and add up the rewards."""
        result = super().step_by_rows(actions)
        self._running = self._running + result[1]
        ended = result[2] > 0
        self._returns.extend(self._running[ended].tolist())
        self._running = torch.where(ended, 0.0, self._running)
        return result

    @property
    def mean_return(self) -> float:
        """Mean return of the last episodes; NaN when none ended."""
        return fmean(self._returns) if self._returns else float("nan")


def make_env(task: str, num_envs: int, seed: int) -> CountedEnv:
    """Set up an environment.

    :param task: Name of the task.
    :param num_envs: Number of environments.
    :param seed: Seed of the task.

    :return: Environment with its task.
    """
    task_class, settings = TASKS[task]
    env = CountedEnv(autoreset="lazy")
    config = SimConfig({"num_envs": num_envs, "seed": seed, "task": {"env": settings}})
    env.set_task(task_class(name=task, sim_config=config, env=env))
    return env
