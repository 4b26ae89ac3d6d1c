"""One training, an iteration at a time: how long it takes, what it returns, how often its trunk runs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from skrl.agents.torch import Agent
from skrl.envs.wrappers.torch import Wrapper
from skrl.trainers.torch import SequentialTrainer
from torch import nn

from stopwatch import Stopwatch


@dataclasses.dataclass(frozen=True)
class Iteration:
    """A rollout and the update from it."""

    rollout: float
    """Wall time of the rollout, in seconds."""
    update: float
    """Wall time of the update, in seconds."""
    cpu: float
    """CPU time that all threads of this process took meanwhile, in seconds."""
    returns: list[float]
    """Undiscounted returns of the episodes that ended in the rollout."""

    @property
    def total(self) -> float:
        """Wall time, in seconds."""
        return self.rollout + self.update


class CallCount:
    """Counts how often a module runs.

    A hook on a trunk also sees the calls that a cache answers: count on the trunk's first layer.
    """

    def __init__(self, module: nn.Module) -> None:
        self.calls = 0
        module.register_forward_hook(self._count)

    def _count(self, *_: Any) -> None:
        self.calls += 1


class TimedRun:
    """A training that goes on by one iteration per call, so that two of them can take turns.

    Whatever machine noise comes then hits both. Each run draws from a stream of random numbers of its own, which starts
    where torch's global one stands when the run is made: seed it before each, and they start from the same.

    :param agent: skrl agent that learns on policy. Its logs are best switched off, since they are timed, too.
        Its memory holds one rollout.
    :param env: Environment that resets itself, N environments in one.
    """

    def __init__(self, agent: Agent, env: Wrapper) -> None:
        self.agent = agent
        self.iterations: list[Iteration] = []
        cfg = {
            "timesteps": agent.memory.memory_size,
            "headless": True,
            "disable_progressbar": True,
            "close_environment_at_exit": False,
        }
        self._trainer = SequentialTrainer(cfg=cfg, env=env, agents=agent)
        self._random_state = torch.get_rng_state()
        self._returns = torch.zeros(env.num_envs)
        self._steps: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._watch = Stopwatch("cpu")
        self._watch.watch("update", agent, "post_interaction")
        self._record(env)

    def iterate(self) -> Iteration:
        """Collect one rollout and learn from it."""
        self._watch.seconds["update"] = 0.0
        with self._own_random_numbers():
            cpu, wall = time.process_time(), time.perf_counter()
            self._trainer.train()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        update = self._watch.seconds["update"]
        iteration = Iteration(wall - update, update, cpu, self._ended_episodes())
        self.iterations.append(iteration)
        return iteration

    def parameters(self) -> torch.Tensor:
        """Copy all parameters of the policy into a vector."""
        return nn.utils.parameters_to_vector(self.agent.policy.parameters()).detach().clone()

    def _record(self, env: Wrapper) -> None:
        step = env.step

        def recorded_step(actions: torch.Tensor) -> tuple[Any, ...]:
            observations, rewards, terminated, truncated, infos = step(actions)
            self._steps.append((rewards.clone(), terminated | truncated))
            return observations, rewards, terminated, truncated, infos

        env.step = recorded_step

    @contextmanager
    def _own_random_numbers(self) -> Iterator[None]:
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._random_state)
            yield
            self._random_state = torch.get_rng_state()

    def _ended_episodes(self) -> list[float]:
        returns: list[float] = []
        for rewards, ended in self._steps:
            self._returns += rewards[:, 0].cpu()
            rows = ended[:, 0].cpu()
            returns += self._returns[rows].tolist()
            self._returns[rows] = 0.0
        self._steps.clear()
        return returns
