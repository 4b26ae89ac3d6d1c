"""``_shared_output`` where the trunk is more than its modules: the next role is offered the last one's features."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn as nn

from skrl_shared_cache import SharedCacheWarning

from .support.lines import OBSERVATIONS, ActorCritic, make_inputs
from .support.pairs import in_grad_mode, refusal, warm_twins
from .support.passes import CountedLinear, Passes
from .support.twins import Twins
from .support.zoo import FEATURES, OBSERVATION_SIZE, observations

A, B = (make_inputs(observations(seed=seed)) for seed in (1, 2))
OTHER_ROLE = {"policy": "value", "value": "policy"}
both_grad_modes = pytest.mark.parametrize("grad", [True, False], ids=["grad", "no grad"])


class Glued(ActorCritic):
    """Two networks, whose concatenation goes through a third one: what no module can answer for in grad mode."""

    def build(self, base: Any) -> None:
        ActorCritic.__init__(self, base)
        self.left, self.right = nn.Linear(OBSERVATION_SIZE, 4), nn.Linear(OBSERVATION_SIZE, 4)
        self.net = CountedLinear(8, FEATURES)
        self.add_heads(FEATURES)
        self._shared_output: Any = None

    def features(self, inputs: dict[str, Any]) -> torch.Tensor:
        x = inputs[OBSERVATIONS]
        result: torch.Tensor = self.net(torch.cat([self.left(x).tanh(), self.right(x).tanh()], dim=-1))
        return result


def glued(base: Any) -> Any:
    """The pattern of skrl's documentation."""

    class Pattern(Glued, base):
        def __init__(self) -> None:
            self.build(base)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            if role == "policy" or self._shared_output is None:
                self._shared_output = self.features(inputs)
            features = self._shared_output
            if role != "policy":
                self._shared_output = None
            return self.answer(features, role, inputs)

    return Pattern()


@both_grad_modes
def test_the_offered_features_save_the_second_pass(grad: bool) -> None:
    twins = warm_twins(glued)
    passes = Passes(twins.cached.net)
    with in_grad_mode(grad):
        for inputs in (B, A):
            twins.pair(inputs)
            assert passes.take() == 1
    twins.learn(B)


def test_features_of_other_inputs_are_not_offered() -> None:
    twins = warm_twins(glued)
    passes = Passes(twins.cached.net)
    assert refusal(twins, A, B) is not None
    assert passes.take() == 2


def test_features_are_not_offered_after_a_change_of_any_module() -> None:
    """Of the whole model: they may depend on any of its parameters."""
    twins = warm_twins(glued)
    passes = Passes(twins.cached.net)

    def double(model: Any) -> None:
        with torch.no_grad():
            model.right.weight.mul_(2.0)

    twins.act(A, "policy")
    twins.each(double)
    twins.act(A, "value")
    assert passes.take() == 2


def test_features_are_not_offered_after_a_backward_through_them() -> None:
    twins = warm_twins(glued)
    twins.each(lambda model: model.zero_grad())
    for role in ("policy", "value"):
        for actions, _, _ in twins.act(A, role):
            (actions**2).sum().backward()
    twins.assert_same_gradients()


@both_grad_modes
def test_features_that_the_head_wrote_are_not_offered(grad: bool) -> None:
    def make(base: Any) -> Any:
        class Writing(Glued, base):
            is_writing = False

            def __init__(self) -> None:
                self.build(base)

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                if role == "policy" or self._shared_output is None:
                    self._shared_output = self.features(inputs)
                if self.is_writing and role == "policy":
                    self._shared_output.mul_(2.0)
                return self.answer(self._shared_output, role, inputs)

        return Writing()

    twins = warm_twins(make)
    twins.each(lambda model: setattr(model, "is_writing", True))
    with in_grad_mode(grad):
        for inputs in (A, B):
            twins.pair(inputs)


@pytest.mark.filterwarnings("ignore::skrl_shared_cache.SharedCacheWarning")
@pytest.mark.parametrize("role", ["policy", "value"])
def test_a_role_that_writes_into_the_features_that_it_was_offered_is_right(role: str) -> None:
    def make(base: Any) -> Any:
        class Writing(Glued, base):
            def __init__(self) -> None:
                self.build(base)
                self.writer = role

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                features = self.features(inputs) if self._shared_output is None else self._shared_output
                self._shared_output = features
                return self.answer(torch.relu_(features) if role == self.writer else features, role, inputs)

        return Writing()

    twins = Twins(make)
    for inputs in (A, B) * 4:
        twins.learn(inputs, (OTHER_ROLE[role], role))


def test_features_that_depend_on_the_taken_actions_are_offered_to_no_other_role() -> None:
    """Only the policy gets them, so that inputs without them count as the same; probation finds out."""

    def make(base: Any) -> Any:
        class Peeking(Glued, base):
            def __init__(self) -> None:
                self.build(base)

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                if role == "policy" or self._shared_output is None:
                    self._shared_output = self.features(inputs) + inputs.get("taken_actions", torch.zeros(5, 2)).sum()
                return self.answer(self._shared_output, role, inputs)

        return Peeking()

    twins = Twins(make)

    def run() -> None:
        for seed in range(8):
            inputs = make_inputs(observations(seed=seed))
            twins.act({**inputs, "taken_actions": torch.ones(5, 2)}, "policy")
            twins.act(inputs, "value")

    with pytest.warns(SharedCacheWarning, match="leaves `_shared_output` alone") as caught:
        run()
    assert "something else with it than without it" in str(caught[0].message)


def test_what_a_model_keeps_besides_belongs_to_its_features() -> None:
    """States that the policy leaves for the value in an attribute of its own: they must be those of the same pass."""

    def make(base: Any) -> Any:
        class Keeping(Glued, base):
            def __init__(self) -> None:
                self.build(base)
                self.states: Any = None

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                if role == "policy" or self._shared_output is None:
                    self._shared_output = self.features(inputs)
                    self.states = 2.0 * inputs[OBSERVATIONS]
                return self.answer(self._shared_output, role, inputs, states=self.states)

        return Keeping()

    twins = Twins(make)
    for grad in (True, False):
        with in_grad_mode(grad):
            twins.walk((A, B), calls=60)


@both_grad_modes
def test_features_are_offered_once(grad: bool) -> None:
    twins = warm_twins(glued)
    passes = Passes(twins.cached.net)
    with in_grad_mode(grad):
        for role in ("policy", "value", "value"):
            twins.act(B, role)
    assert passes.take() == 2
