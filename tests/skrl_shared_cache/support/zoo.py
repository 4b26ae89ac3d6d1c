"""Actor-critic models as users write them, one class body for skrl's base class and for the cached one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn as nn
from skrl.utils.model_instantiators.torch import shared as instantiator

from .lines import OBSERVATIONS, SKRL_2, ActorCritic, DiscreteActorCritic, box
from .passes import CountedLSTM

OBSERVATION_SIZE = 6
FEATURES = 16


def mlp(size: int = OBSERVATION_SIZE, features: int = FEATURES) -> nn.Sequential:
    """Return a trunk of two layers."""
    return nn.Sequential(nn.Linear(size, features), nn.ELU(), nn.Linear(features, features), nn.ELU())


def naive(base: Any, trunk: Callable[[], nn.Module] = mlp) -> Any:
    """Every role calls the trunk: what skrl runs twice per pair."""

    class Naive(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = trunk()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)

    return Naive()


def returning(base: Any, pack: Callable[[torch.Tensor], Any]) -> Any:
    """A naive model that returns its features, too, in whatever ``pack`` puts them into."""

    class Returning(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            features = self.net(inputs[OBSERVATIONS])
            return self.answer(features, role, inputs, latent=pack(features))

    return Returning()


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


def pattern(base: Any, trunk: Callable[[], nn.Module] = mlp) -> Any:
    """The single pass of skrl's documentation: the policy leaves its features for the value."""

    class Pattern(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = trunk()
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


class Recurrent(ActorCritic):
    """skrl's way with recurrent states: a list in ``inputs["rnn"]``, each ``(layers, N, features)``, and one back."""

    sequence_length = 4

    def get_specification(self) -> dict[str, Any]:
        return {"rnn": {"sequence_length": self.sequence_length, "sizes": [(1, 4, FEATURES)] * 2}}

    def run_lstm(self, inputs: dict[str, Any]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Run step by step in evaluation, over sequences that begin with their first state in training."""
        hidden, cell = inputs["rnn"]
        flat = inputs[OBSERVATIONS]
        if not self.training:
            features, states = self.net(flat[:, None], (hidden.contiguous(), cell.contiguous()))
            return features[:, 0], list(states)
        sequences = flat.view(-1, self.sequence_length, flat.shape[-1])
        hidden, cell = (s.view(1, -1, self.sequence_length, FEATURES)[:, :, 0].contiguous() for s in (hidden, cell))
        features, states = self.net(sequences, (hidden, cell))
        return features.flatten(0, 1), list(states)


def recurrent(base: Any) -> Any:
    """Every role runs the LSTM."""

    class RecurrentTrunk(Recurrent, base):
        def __init__(self) -> None:
            Recurrent.__init__(self, base)
            self.net = CountedLSTM(OBSERVATION_SIZE, FEATURES, batch_first=True)
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            features, states = self.run_lstm(inputs)
            return self.answer(features, role, inputs, rnn=states)

    return RecurrentTrunk()


def network(input_name: str = OBSERVATIONS.upper()) -> list[dict[str, Any]]:
    """Return the ``network`` entry of a role for skrl's model instantiators, in the format of a Runner's YAML."""
    return [{"name": "net", "input": input_name, "layers": [FEATURES, FEATURES], "activations": "elu"}]


def roles_configuration(policy: str = "GaussianMixin") -> dict[str, dict[str, Any]]:
    """Return the roles of a shared model as a Runner's YAML has them under ``models``."""
    return {
        "policy": {"class": policy, "network": network(), "output": "ACTIONS"},
        "value": {"class": "DeterministicMixin", "network": network(), "output": "ONE"},
    }


def generated(base: Any, roles: tuple[str, str] = ("policy", "value"), single_forward_pass: bool = True) -> Any:
    """The class that skrl's ``shared_model`` generates, with its base class swapped.

    :param base: Base class.
    :param roles: Roles in the order in which a configuration lists them.
    :param single_forward_pass: Whether the generated class uses skrl's single pass.
    """
    configuration = roles_configuration()
    spaces: dict[str, Any] = {"observation_space": box(OBSERVATION_SIZE), "action_space": box(2)}
    source = instantiator.shared_model(
        **spaces,
        structure=[configuration[role]["class"] for role in roles],
        roles=list(roles),
        parameters=[configuration[role] for role in roles],
        single_forward_pass=single_forward_pass,
        return_source=True,
    )
    namespace = {**vars(instantiator), "Model": base}
    exec(source, namespace)
    if SKRL_2:
        spaces["state_space"] = None
    model = namespace["SharedModel"](**spaces, device="cpu")
    # skrl's Runner does this, in the order of the roles: the layers are lazy
    for role in roles:
        model.init_state_dict(role=role)
    return model


def observations(batch: int = 5, seed: int = 0, size: int | tuple[int, ...] = OBSERVATION_SIZE) -> torch.Tensor:
    """Return a batch of normally distributed observations, f32, shape ``(batch, *size)``."""
    shape = (batch, size) if isinstance(size, int) else (batch, *size)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
