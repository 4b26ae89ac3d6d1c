"""How long skrl's PPO takes to learn from one rollout: two passes, skrl's own single pass, and SharedModel.

The three take turns. On a GPU the times are those between two events on its stream, and each figure is a median.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from skrl.agents.torch.ppo import PPO
from skrl.memories.torch import RandomMemory
from skrl.models.torch import Model
from skrl.trainers.torch import SequentialTrainer
from torch import nn

from skrl_shared_cache import SharedModel
from tests.skrl_shared_cache.support.agents import configuration
from tests.skrl_shared_cache.support.drift import DriftWrapper
from tests.skrl_shared_cache.support.lines import SKRL_2, box
from tests.skrl_shared_cache.support.passes import Passes
from tests.skrl_shared_cache.support.twins import build
from tests.skrl_shared_cache.support.zoo import FEATURES, OBSERVATION_SIZE, naive, pattern

ROLLOUT, EPOCHS, MINI_BATCHES = 8, 2, 4
PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}
MODELS = {
    "skrl's Model": (naive, Model),
    "skrl's own single pass": (pattern, Model),
    "SharedModel": (naive, SharedModel),
}


class Sizes(NamedTuple):
    """What is trained.

    :param units: Layers of the trunk.
    :param num_envs: Environments. A minibatch has twice as many observations.
    :param updates: Updates that are timed, after two that are not.
    """

    units: tuple[int, ...] = (2048, 1024, 1024, 512)
    num_envs: int = 4096
    updates: int = 5


class Row(NamedTuple):
    """The updates of one model in one precision."""

    precision: str
    model: str
    milliseconds: float
    trunk_passes: int
    """Trunk passes of the last update."""
    difference: float
    """Largest difference to a parameter of skrl's Model after the first update."""


class Noise:
    """N environments of standard normal observations, f32 ``(N, 6)``, and rewards, which last for ever."""

    observation_space, action_space = box(OBSERVATION_SIZE), box(2)

    def __init__(self, num_envs: int, device: str) -> None:
        self.num_envs, self.device = num_envs, torch.device(device)

    def reset(self) -> torch.Tensor:
        return torch.randn(self.num_envs, OBSERVATION_SIZE, device=self.device)

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        never = torch.zeros(self.num_envs, 1, dtype=torch.bool, device=self.device)
        return self.reset(), torch.randn(self.num_envs, 1, device=self.device), never, never


class Training:
    """A PPO of which each update is timed.

    :param name: Name of its model.
    :param sizes: Sizes.
    :param device: Device.
    :param mixed: Whether it learns under autocast, with a GradScaler.
    """

    def __init__(self, name: str, sizes: Sizes, device: str, mixed: bool) -> None:
        make, base = MODELS[name]
        self.model = build(partial(make, trunk=lambda: trunk(sizes.units)), base)
        self.model.device = torch.device(device)  # skrl's agents move their models there
        env = DriftWrapper(Noise(sizes.num_envs, device))
        agent = PPO(
            models={"policy": self.model, "value": self.model},
            memory=RandomMemory(memory_size=ROLLOUT, num_envs=sizes.num_envs, device=device),
            observation_space=env.observation_space,
            action_space=env.action_space,
            device=device,
            cfg=configuration(
                "PPO", rollouts=ROLLOUT, learning_epochs=EPOCHS, mini_batches=MINI_BATCHES, mixed_precision=mixed
            ),
        )
        cfg = {"headless": True, "disable_progressbar": True, "close_environment_at_exit": False}
        self._trainer = SequentialTrainer(env=env, agents=agent, cfg={**cfg, "timesteps": ROLLOUT})
        self.times: list[float] = []
        self.trunk_passes = Passes(self.model.net)
        method = "update" if SKRL_2 else "_update"
        setattr(agent, method, self._timed(getattr(agent, method), device))

    def iterate(self) -> None:
        """Collect a rollout and learn from it, with the random numbers that the other trainings draw as well."""
        torch.manual_seed(len(self.times))
        self._trainer.train()

    def parameters(self) -> torch.Tensor:
        """Copy all parameters into a vector."""
        return nn.utils.parameters_to_vector(self.model.parameters()).detach().clone()

    def _timed(self, update: Callable[..., None], device: str) -> Callable[..., None]:
        def timed(*args: Any, **kwargs: Any) -> None:
            self.trunk_passes.take()
            if device == "cpu":
                start = time.perf_counter()
                update(*args, **kwargs)
                self.times.append(1e3 * (time.perf_counter() - start))
                return
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
            update(*args, **kwargs)
            events[1].record()
            events[1].synchronize()
            self.times.append(events[0].elapsed_time(events[1]))

        return timed


def trunk(units: tuple[int, ...]) -> nn.Sequential:
    """Build a trunk of those layers, and one more to the number of features that the heads expect."""
    layers: list[nn.Module] = []
    for inputs, outputs in zip((OBSERVATION_SIZE, *units), (*units, FEATURES), strict=True):
        layers += [nn.Linear(inputs, outputs), nn.ELU()]
    return nn.Sequential(*layers)


@contextlib.contextmanager
def autocast_dtype(device: str, dtype: torch.dtype | None) -> Iterator[None]:
    """Let autocast, which skrl calls without a dtype, use this one."""
    kind = torch.device(device).type
    before = torch.get_autocast_dtype(kind)
    torch.set_autocast_dtype(kind, dtype or before)
    try:
        yield
    finally:
        torch.set_autocast_dtype(kind, before)


def measure(device: str, sizes: Sizes) -> list[Row]:
    """Time the updates of all models in all precisions.

    :param device: Device.
    :param sizes: Sizes.

    :return: One row each.
    """
    rows = []
    for precision, dtype in PRECISIONS.items():
        with autocast_dtype(device, dtype):
            trainings = {name: Training(name, sizes, device, dtype is not None) for name in MODELS}
            for training in trainings.values():
                training.iterate()
            first = {name: training.parameters() for name, training in trainings.items()}
            for _ in range(1 + sizes.updates):
                for training in trainings.values():
                    training.iterate()
        for name, training in trainings.items():
            difference = (first[name] - first["skrl's Model"]).abs().max().item()
            milliseconds = statistics.median(training.times[2:])
            rows.append(Row(precision, name, milliseconds, training.trunk_passes.take(), difference))
    return rows
