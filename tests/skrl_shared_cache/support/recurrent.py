"""Recurrent actor-critic models: LSTM and GRU, as users write them and as skrl documents them."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn as nn

from .lines import OBSERVATIONS, ActorCritic
from .passes import Counted, CountedLSTM
from .zoo import FEATURES, OBSERVATION_SIZE

SEQUENCE = 4
"""Steps of the environment in a sequence that an update learns from."""


class CountedGRU(Counted, nn.GRU):
    """A GRU that counts its passes."""


KINDS: dict[str, tuple[type[nn.Module], int]] = {"LSTM": (CountedLSTM, 2), "GRU": (CountedGRU, 1)}
"""Class and number of states: an LSTM has a hidden and a cell state, a GRU a hidden one."""


class RecurrentActorCritic(ActorCritic):
    """One recurrent layer on the observations, and heads on it. Its states are ``(1, N, features)`` each."""

    kind: str

    def __init__(self, base: Any) -> None:
        ActorCritic.__init__(self, base)
        self.net = KINDS[self.kind][0](OBSERVATION_SIZE, FEATURES, batch_first=True)
        self.add_heads(FEATURES)

    def get_specification(self) -> dict[str, Any]:
        states = KINDS[self.kind][1]
        return {"rnn": {"sequence_length": SEQUENCE, "sizes": [(1, 4, FEATURES)] * states}}

    def run_net(self, sequences: torch.Tensor, states: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Run the layer over ``(N, steps, features)``; it takes and returns a GRU's only state without a list."""
        features, after = self.net(sequences, states[0] if len(states) == 1 else tuple(states))
        return features, [after] if len(states) == 1 else list(after)

    def trunk(
        self, observations: torch.Tensor, states: list[torch.Tensor], ends: list[torch.Tensor]
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Return the features, f32 ``(N, features)``, and the states afterwards.

        :param observations: f32 ``(N, observation)``. In training, sequences one after the other.
        :param states: Those before each observation.
        :param ends: Whether an episode terminated or was truncated with the observation, bool ``(N, 1)`` each.
        """
        ended = torch.stack(ends).any(dim=0) if ends else None
        steps = SEQUENCE if self.training else 1
        sequences = observations.view(-1, steps, observations.shape[-1])
        if self.training:
            states = [state.view(1, -1, steps, FEATURES)[:, :, 0].contiguous() for state in states]
        features, states = self.run_sequences(sequences, states, ended)
        return features.flatten(0, 1), states

    def run_sequences(
        self, sequences: torch.Tensor, states: list[torch.Tensor], ended: torch.Tensor | None
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Run over sequences as if no episode ended in them, as many users do."""
        return self.run_net(sequences, states)

    def features(self, inputs: dict[str, Any], role: str) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Run the trunk on what skrl's agents hand out. skrl 1.4 puts the truncated episodes among the terminated."""
        ends = [inputs[name] for name in ("terminated", "truncated") if name in inputs]
        return self.trunk(inputs[OBSERVATIONS], inputs["rnn"], ends)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
        features, states = self.features(inputs, role)
        return self.answer(features, role, inputs, rnn=states)


class ResettingActorCritic(RecurrentActorCritic):
    """Does what the models of skrl's documentation do: where an episode ends, the states are zeroed in place."""

    def run_sequences(
        self, sequences: torch.Tensor, states: list[torch.Tensor], ended: torch.Tensor | None
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        if ended is None or not self.training or not ended.any():
            return self.run_net(sequences, states)
        ended = ended.view(-1, SEQUENCE)
        cuts = [step + 1 for step in range(SEQUENCE - 1) if ended[:, step].any()]
        parts = []
        for start, stop in zip([0, *cuts], [*cuts, SEQUENCE]):
            part, states = self.run_net(sequences[:, start:stop], states)
            for state in states:
                state[:, ended[:, stop - 1]] = 0.0
            parts.append(part)
        return torch.cat(parts, dim=1), states


class PatternActorCritic(ResettingActorCritic):
    """skrl's own single pass: the policy leaves features and states for the value."""

    _shared_output: tuple[torch.Tensor, list[torch.Tensor]] | None = None

    def features(self, inputs: dict[str, Any], role: str) -> tuple[torch.Tensor, list[torch.Tensor]]:
        if role == "policy":
            self._shared_output = super().features(inputs, role)
            return self._shared_output
        features = super().features(inputs, role) if self._shared_output is None else self._shared_output
        self._shared_output = None
        return features


def recurrent(base: Any, kind: str, model: Any = RecurrentActorCritic, **attributes: Any) -> Any:
    """Return a model of that class on a base class.

    :param base: Base class.
    :param kind: ``"LSTM"`` or ``"GRU"``.
    :param model: Class without its base.
    :param attributes: Further class attributes.
    """
    return type("Recurrent", (model, base), {"kind": kind, **attributes})(base)


plain = {kind: partial(recurrent, kind=kind) for kind in KINDS}
resetting = {kind: partial(recurrent, kind=kind, model=ResettingActorCritic) for kind in KINDS}
pattern = {kind: partial(recurrent, kind=kind, model=PatternActorCritic) for kind in KINDS}
named = {kind: partial(recurrent, kind=kind, model=ResettingActorCritic, shared_modules=("trunk",)) for kind in KINDS}
"""The documented model, with its trunk named: what is written in place is within the unit then."""
