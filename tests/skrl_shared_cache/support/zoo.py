"""Actor-critic models as users write them, one class body for skrl's base class and for the cached one."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as nn

from .lines import OBSERVATIONS, ActorCritic, DiscreteActorCritic

OBSERVATION_SIZE = 6
FEATURES = 16


def mlp(size: int = OBSERVATION_SIZE, features: int = FEATURES) -> nn.Sequential:
    """Return a trunk of two layers."""
    return nn.Sequential(nn.Linear(size, features), nn.ELU(), nn.Linear(features, features), nn.ELU())


def naive(base: Any) -> Any:
    """Every role calls the trunk: what skrl runs twice per pair."""

    class Naive(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)

    return Naive()


def naive_discrete(base: Any) -> Any:
    """The same with a Categorical policy."""

    class NaiveDiscrete(DiscreteActorCritic, base):
        def __init__(self) -> None:
            DiscreteActorCritic.__init__(self, base)
            self.net = mlp()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)

    return NaiveDiscrete()


def pattern(base: Any) -> Any:
    """The single pass of skrl's documentation: the policy leaves its features for the value."""

    class Pattern(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp()
            self.add_heads(FEATURES)
            self._shared_output: Any = None

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            if role == "policy":
                self._shared_output = self.net(inputs[OBSERVATIONS])
                return self.answer(self._shared_output, role, inputs)
            features = self.net(inputs[OBSERVATIONS]) if self._shared_output is None else self._shared_output
            self._shared_output = None
            return self.answer(features, role, inputs)

    return Pattern()


def pattern_discrete(base: Any) -> Any:
    """The same with a Categorical policy."""

    class PatternDiscrete(DiscreteActorCritic, base):
        def __init__(self) -> None:
            DiscreteActorCritic.__init__(self, base)
            self.net = mlp()
            self.add_heads(FEATURES)
            self._shared_output: Any = None

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            if role == "policy":
                self._shared_output = self.net(inputs[OBSERVATIONS])
                return self.answer(self._shared_output, role, inputs)
            features = self.net(inputs[OBSERVATIONS]) if self._shared_output is None else self._shared_output
            self._shared_output = None
            return self.answer(features, role, inputs)

    return PatternDiscrete()


def observations(batch: int = 5, seed: int = 0, size: int | tuple[int, ...] = OBSERVATION_SIZE) -> torch.Tensor:
    """Return a batch of normally distributed observations, f32, shape ``(batch, *size)``."""
    shape = (batch, size) if isinstance(size, int) else (batch, *size)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
