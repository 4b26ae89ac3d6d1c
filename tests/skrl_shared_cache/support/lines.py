"""What differs between skrl 1.4 and 2.x, said once, so that every test and model is written once for both lines."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import skrl
import torch
import torch.nn as nn
from packaging import version
from skrl.models.torch import CategoricalMixin, DeterministicMixin, GaussianMixin

SKRL_2 = version.parse(skrl.__version__).major >= 2

OBSERVATIONS = "observations" if SKRL_2 else "states"
"""Key of the observations in a model's inputs. skrl 2 gave the name ``states`` to the privileged ones."""


def box(size: int | tuple[int, ...], limit: float = np.inf) -> gymnasium.spaces.Box:
    """Return a Box of that size, bounded by ``limit`` on both sides."""
    return gymnasium.spaces.Box(-limit, limit, (size,) if isinstance(size, int) else size, np.float32)


def make_inputs(observations: Any, **extra: Any) -> dict[str, Any]:
    """Return the inputs of a model under the key of the installed line, with further keys as given."""
    return {OBSERVATIONS: observations, **extra}


def init_model(
    model: Any, base: Any, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
) -> None:
    """Call the constructor of ``base`` in the manner of the installed line."""
    if SKRL_2:
        base.__init__(model, observation_space=observation_space, action_space=action_space, device="cpu")
    else:
        base.__init__(model, observation_space, action_space, "cpu")


def gaussian_output(mean: torch.Tensor, log_std: torch.Tensor, outputs: dict[str, Any]) -> tuple[Any, ...]:
    """Return what ``compute`` of a Gaussian role returns on the installed line."""
    return (mean, {**outputs, "log_std": log_std}) if SKRL_2 else (mean, log_std, outputs)


def act(model: Any, inputs: dict[str, Any], role: str) -> tuple[torch.Tensor, torch.Tensor | None, dict[str, Any]]:
    """Call ``model.act`` and return actions (or values), log probability (None for a value) and outputs."""
    if SKRL_2:
        actions, outputs = model.act(inputs, role=role)
        return actions, outputs.get("log_prob"), outputs
    result: tuple[torch.Tensor, torch.Tensor | None, dict[str, Any]] = model.act(inputs, role=role)
    return result


def set_training(model: Any, enabled: bool) -> None:
    """Call skrl's own switch between training and evaluation: its name differs between the lines."""
    if SKRL_2:
        model.enable_training_mode(enabled)
    else:
        model.set_mode("train" if enabled else "eval")


class ActorCritic(GaussianMixin, DeterministicMixin):
    """Roles ``policy`` (Gaussian) and any other (deterministic). Subclasses add skrl's Model or the cached one as base.

    ``class Naive(ActorCritic, base)`` calls ``ActorCritic.__init__(self, base)``, builds a trunk, calls
    :meth:`add_heads` and returns ``self.answer(features, role, inputs)`` from ``compute``.
    """

    OBSERVATION_SPACE: gymnasium.Space[Any] = box(6)
    ACTION_SPACE: gymnasium.Space[Any] = box(2)

    def __init__(self, base: Any) -> None:
        init_model(self, base, self.OBSERVATION_SPACE, self.ACTION_SPACE)
        GaussianMixin.__init__(self, role="policy")
        DeterministicMixin.__init__(self, role="value")

    def add_heads(self, features: int) -> None:
        """Build the heads on that many features."""
        self.policy_head = nn.Linear(features, self.num_actions)
        self.log_std = nn.Parameter(torch.full((self.num_actions,), -0.5))
        self.value_head = nn.Linear(features, 1)

    def act(self, inputs: dict[str, Any], role: str = "") -> Any:
        mixin = GaussianMixin if role == "policy" else DeterministicMixin
        return mixin.act(self, inputs, role=role)

    def answer(self, features: torch.Tensor, role: str, inputs: dict[str, Any], **outputs: Any) -> tuple[Any, ...]:
        """Return what ``compute`` has to return: the role's head on the features."""
        if role != "policy":
            return self.value_head(features), outputs
        mean = self.policy_head(features)
        if "alpha" in inputs:  # RPO: the model perturbs its own mean actions, as in skrl's documentation
            mean = mean + torch.zeros_like(mean).uniform_(-inputs["alpha"], inputs["alpha"])
        return gaussian_output(mean, self.log_std, outputs)


class DiscreteActorCritic(CategoricalMixin, DeterministicMixin):
    """The same for a discrete policy, see :class:`ActorCritic`."""

    OBSERVATION_SPACE: gymnasium.Space[Any] = box(6)
    ACTION_SPACE: gymnasium.Space[Any] = gymnasium.spaces.Discrete(3)

    def __init__(self, base: Any) -> None:
        init_model(self, base, self.OBSERVATION_SPACE, self.ACTION_SPACE)
        CategoricalMixin.__init__(self, role="policy")
        DeterministicMixin.__init__(self, role="value")

    def add_heads(self, features: int) -> None:
        """Build the heads on that many features."""
        self.policy_head = nn.Linear(features, self.num_actions)
        self.value_head = nn.Linear(features, 1)

    def act(self, inputs: dict[str, Any], role: str = "") -> Any:
        mixin = CategoricalMixin if role == "policy" else DeterministicMixin
        return mixin.act(self, inputs, role=role)

    def answer(self, features: torch.Tensor, role: str, inputs: dict[str, Any], **outputs: Any) -> tuple[Any, ...]:
        """Return what ``compute`` has to return: the role's head on the features."""
        return (self.policy_head if role == "policy" else self.value_head)(features), outputs
