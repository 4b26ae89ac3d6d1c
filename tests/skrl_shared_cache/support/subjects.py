"""The models that the machine of random operations runs, beside those of the other tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn as nn

from .lines import OBSERVATIONS, ActorCritic
from .twins import Make, build
from .zoo import FEATURES, OBSERVATION_SIZE, mlp, naive


class Failure(Exception):
    """What a model raises half-way through ``compute`` when it was told to."""


def normalized_and_dropped(base: Any) -> Any:
    """Batch normalization and dropout: what a trunk does besides returning a value happens once per pair."""

    class NormalizedAndDropped(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = nn.Sequential(
                nn.Linear(OBSERVATION_SIZE, FEATURES), nn.BatchNorm1d(FEATURES), nn.ELU(), nn.Dropout(0.3)
            )
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)

    return NormalizedAndDropped()


def in_place_heads(base: Any) -> Any:
    """Heads that write in place into what their first layer returns; into the features only when told to."""

    class InPlaceHeads(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp()
            self.policy_layers = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.ReLU(inplace=True))
            self.value_layers = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.ReLU(inplace=True))
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            features = self.net(inputs[OBSERVATIONS])
            if getattr(self, "scribbles", False):
                features[:, 1:].mul_(0.5)
            layers = self.policy_layers if role == "policy" else self.value_layers
            return self.answer(layers(features), role, inputs)

    return InPlaceHeads()


def in_place_trunk(base: Any) -> Any:
    """A trunk that writes into its input, the observations of the caller."""

    class InPlaceTrunk(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = nn.Sequential(nn.ReLU(inplace=True), mlp())
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)

    return InPlaceTrunk()


def features_as_output(base: Any) -> Any:
    """A value that is a view of the features, so that who gets it holds memory of the cache."""

    class FeaturesAsOutput(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            features = self.net(inputs[OBSERVATIONS])
            if role != "policy":
                return features[:, :1], {"latent": features}
            return self.answer(features, role, inputs, latent=features)

    return FeaturesAsOutput()


def model_in_a_model(base: Any) -> Any:
    """The value is that of another model, which holds the same trunk."""

    class ModelInAModel(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp()
            self.critic = naive(base, trunk=lambda: self.net)
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> Any:
            if role == "policy":
                return self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)
            return self.critic.compute(inputs, role)

    return ModelInAModel()


@dataclass(frozen=True)
class Subject:
    """A model to run, and how it may differ from its uncached twin.

    :param make: Builds it on a base class.
    :param batch: Returns inputs of that many rows, from a seed.
    :param roles: Its roles.
    :param is_random: Whether its trunk draws random numbers. A pass less then shifts the actions that are sampled.
    :param has_batch_norm: Whether its trunk writes buffers, once per pass.
    :param is_unit: Whether its trunk may be cached as more than a module: as a method, or by ``_shared_output``.
    :param never_hits: Whether no call can be answered from the cache.
    """

    make: Make
    batch: Callable[[int, int], dict[str, Any]]
    roles: tuple[str, ...] = ("policy", "value")
    is_random: bool = False
    has_batch_norm: bool = False
    is_unit: bool = False
    never_hits: bool = False


def build_for_all(make: Make, base: Any) -> Any:
    """Return a model that can be pickled, although its class is local to a function, and told to fail."""
    model = build(make, base)
    for kind in {type(module) for module in model.modules()}:
        if "<locals>" in kind.__qualname__:
            kind.__module__, kind.__qualname__ = __name__, f"{kind.__name__}On{base.__name__}"
            globals()[kind.__qualname__] = kind
    if hasattr(type(model), "answer"):
        type(model).answer = _answer_or_fail
    return model


def _answer_or_fail(self: Any, features: torch.Tensor, role: str, inputs: dict[str, Any], **outputs: Any) -> Any:
    if getattr(self, "fails", False):
        raise Failure(role)
    return ActorCritic.answer(self, features, role, inputs, **outputs)
