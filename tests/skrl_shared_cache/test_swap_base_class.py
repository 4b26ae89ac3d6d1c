"""Existing code, with ``Model`` replaced by ``SharedModel`` in its class statement and nothing else."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn as nn
from skrl.models.torch import Model

from skrl_shared_cache import SharedModel

from .support.agents import make_agent, train
from .support.drift import DriftEnv, DriftWrapper
from .support.lines import OBSERVATIONS, ActorCritic, act, make_inputs
from .support.passes import CountedLSTM, Passes
from .support.twins import Make, Twins, TwoPass, assert_same, build
from .support.zoo import FEATURES, OBSERVATION_SIZE, generated, mlp, naive, naive_discrete, observations, pattern
from .support.zoo import pattern_discrete as discrete_pattern

A, B, SMALL = (make_inputs(observations(batch, seed)) for batch, seed in ((5, 1), (5, 2), (3, 3)))


def storing_value(base: Any) -> Any:
    """The value leaves its features for the policy, which is called after it."""

    class StoringValue(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp()
            self.add_heads(FEATURES)
            self._shared_output: Any = None

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            if role == "value":
                self._shared_output = self.net(inputs[OBSERVATIONS])
                return self.answer(self._shared_output, role, inputs)
            features = self.net(inputs[OBSERVATIONS]) if self._shared_output is None else self._shared_output
            self._shared_output = None
            return self.answer(features, role, inputs)

    return StoringValue()


def never_initialized(base: Any) -> Any:
    """The constructor does not mention ``_shared_output``, as in the classes that skrl generates."""

    class NeverInitialized(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            if role == "policy":
                self._shared_output = self.net(inputs[OBSERVATIONS])
                return self.answer(self._shared_output, role, inputs)
            features = self.net(inputs[OBSERVATIONS]) if self._shared_output is None else self._shared_output
            self._shared_output = None
            return self.answer(features, role, inputs)

    return NeverInitialized()


def never_cleared(base: Any) -> Any:
    """The value branch leaves the features where they are."""

    class NeverCleared(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp()
            self.add_heads(FEATURES)
            self._shared_output: Any = None

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            if role == "policy" or self._shared_output is None:
                self._shared_output = self.net(inputs[OBSERVATIONS])
            return self.answer(self._shared_output, role, inputs)

    return NeverCleared()


def whoever_comes_first(base: Any) -> Any:
    """Every role takes the features that it finds, or leaves some for the next one."""

    class WhoeverComesFirst(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp()
            self.add_heads(FEATURES)
            self._shared_output: Any = None

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            if self._shared_output is None:
                features = self._shared_output = self.net(inputs[OBSERVATIONS])
            else:
                features, self._shared_output = self._shared_output, None
            return self.answer(features, role, inputs)

    return WhoeverComesFirst()


def lstm_that_keeps_its_states(base: Any) -> Any:
    """Features in ``_shared_output``, and the states that belong to them in an attribute of the user's own."""

    class Lstm(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = CountedLSTM(OBSERVATION_SIZE, FEATURES)
            self.add_heads(FEATURES)
            self._shared_output: Any = None
            self._states: Any = None

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            if self._shared_output is None or role == "policy":
                features, self._states = self.net(inputs[OBSERVATIONS][None], tuple(inputs["rnn"]))
                self._shared_output = features[0]
            result = self.answer(self._shared_output, role, inputs, rnn=list(self._states))
            if role != "policy":
                self._shared_output = None
            return result

    return Lstm()


def three_roles(base: Any) -> Any:
    """A policy, a value, and a third role on the same features."""

    class ThreeRoles(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp()
            self.add_heads(FEATURES)
            self.cost_head = nn.Linear(FEATURES, 1)
            self._shared_output: Any = None

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            if role == "policy":
                self._shared_output = self.net(inputs[OBSERVATIONS])
            features = self.net(inputs[OBSERVATIONS]) if self._shared_output is None else self._shared_output
            if role == "cost":
                self._shared_output = None
                return self.cost_head(features), {}
            return self.answer(features, role, inputs)

    return ThreeRoles()


def constructor_of_skrl(base: Any) -> Any:
    """The class statement names the new base, the body still calls ``Model.__init__``."""

    class ConstructorOfSkrl(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, Model)
            self.net = mlp()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)

    return ConstructorOfSkrl()


def compute_of_a_mixin(base: Any) -> Any:
    """``compute`` comes from a class that is no model, before the base in the method resolution order."""

    class Trunk:
        def compute(self: Any, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            result: tuple[Any, ...] = self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)
            return result

    class ComputeOfAMixin(Trunk, ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp()
            self.add_heads(FEATURES)

    return ComputeOfAMixin()


def compute_of_a_parent(base: Any) -> Any:
    """A subclass scales the features and leaves the rest to the ``compute`` that it overrides."""

    class Parent(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)

    class Child(Parent):
        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            mean, *rest = super().compute(inputs=inputs, role=role)
            return (mean * 0.5, *rest)

    return Child()


EXISTING_CODE = {
    "naive": naive,
    "naive, discrete": naive_discrete,
    "pattern": pattern,
    "pattern, discrete": discrete_pattern,
    "pattern, stored by the value": storing_value,
    "pattern, never initialized": never_initialized,
    "pattern, never cleared": never_cleared,
    "pattern, stored by whoever comes first": whoever_comes_first,
    "pattern, three roles": three_roles,
    "generated": generated,
    "generated, value first": partial(generated, roles=("value", "policy")),
    "generated, without skrl's single pass": partial(generated, single_forward_pass=False),
    "constructor of skrl's Model": constructor_of_skrl,
    "compute of a mixin": compute_of_a_mixin,
    "compute of a parent": compute_of_a_parent,
}

all_existing_code = pytest.mark.parametrize("make", EXISTING_CODE.values(), ids=EXISTING_CODE)


def roles_of(make: Make) -> tuple[str, ...]:
    return ("policy", "value", "cost") if make is three_roles else ("policy", "value")


def trunk_of(model: Any) -> nn.Module:
    trunk: nn.Module = model.net if hasattr(model, "net") else model.net_container
    return trunk


@all_existing_code
@pytest.mark.parametrize("grad", [True, False])
def test_every_order_of_calls_returns_what_the_model_returns_without_the_cache(make: Make, grad: bool) -> None:
    twins = Twins(make)
    with torch.set_grad_enabled(grad):
        twins.walk((A, B, SMALL), roles_of(make))


@all_existing_code
def test_gradients_are_those_of_the_model_without_the_cache(make: Make) -> None:
    twins = Twins(make)
    for inputs in (A, B, A, B, SMALL):
        twins.learn(inputs, roles_of(make))
        twins.learn(inputs, roles_of(make)[::-1])


@all_existing_code
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("reverse", [False, True])
def test_after_probation_the_trunk_runs_once_for_all_roles(make: Make, grad: bool, reverse: bool) -> None:
    twins = Twins(make)
    roles = roles_of(make)[::-1] if reverse else roles_of(make)
    twins.warm(SMALL, roles)
    passes = Passes(trunk_of(twins.cached))
    with torch.set_grad_enabled(grad):
        for inputs in (A, B):
            twins.pair(inputs, roles)
            assert passes.take() == 1


def lstm_inputs(batch: int, seed: int) -> dict[str, Any]:
    states = torch.randn((2, 1, batch, FEATURES), generator=torch.Generator().manual_seed(seed))
    return make_inputs(observations(batch, seed), rnn=list(states))


@pytest.mark.parametrize("grad", [True, False])
def test_an_lstm_that_keeps_its_states_returns_those_of_its_inputs(grad: bool) -> None:
    twins = Twins(lstm_that_keeps_its_states)
    batches = [lstm_inputs(5, 1), lstm_inputs(5, 2), lstm_inputs(3, 3)]
    batches.append({**batches[0], "rnn": batches[1]["rnn"]})
    with torch.set_grad_enabled(grad):
        twins.walk(batches)
    twins.warm(batches[0])
    passes = Passes(twins.cached.net)
    with torch.set_grad_enabled(grad):
        twins.pair(batches[1])
    assert passes.take() == 1


@all_existing_code
def test_the_state_dict_has_the_same_keys(make: Make) -> None:
    twins = Twins(make)
    twins.pair(A, roles_of(make))
    assert list(twins.cached.state_dict()) == list(twins.plain.state_dict())


@all_existing_code
def test_the_modules_have_the_same_names_and_types(make: Make) -> None:
    """Before, between and after the calls: nothing is wrapped."""
    twins = Twins(make)
    for _ in range(4):
        cached, plain = (
            [(n, type(m).__name__) for n, m in model.named_modules()] for model in (twins.cached, twins.plain)
        )
        assert cached == plain
        twins.pair(A, roles_of(make))


@pytest.mark.parametrize("bases", [(SharedModel, TwoPass), (TwoPass, SharedModel)], ids=["to skrl", "from skrl"])
def test_a_checkpoint_of_a_model_loads_on_the_other_base_class(bases: tuple[Any, Any], tmp_path: Path) -> None:
    source, target = build(pattern, bases[0], seed=1), build(pattern, bases[1], seed=2)
    for inputs in (A, B):
        act(target, inputs, "policy")
    source.save(str(tmp_path / "model.pt"))
    target.load(str(tmp_path / "model.pt"))
    assert_same(act(target, A, "value"), act(source, A, "value"))


@pytest.mark.parametrize("bases", [(SharedModel, TwoPass), (TwoPass, SharedModel)], ids=["to skrl", "from skrl"])
def test_a_checkpoint_of_an_agent_loads_on_the_other_base_class(bases: tuple[Any, Any], tmp_path: Path) -> None:
    env = DriftWrapper(DriftEnv())
    source, target = (make_agent("PPO", build(pattern, base), env) for base in bases)
    train(source, env, updates=1)
    source.save(str(tmp_path / "agent.pt"))
    target.load(str(tmp_path / "agent.pt"))
    assert_same(dict(target.policy.state_dict()), dict(source.policy.state_dict()))
    assert_same(target.optimizer.state_dict()["state"], source.optimizer.state_dict()["state"])


def count_calls(register: Callable[[Any], Any]) -> list[None]:
    """Register a hook that notes each of its calls, and return the notes."""
    calls: list[None] = []
    register(lambda *_: calls.append(None))
    return calls


@pytest.mark.parametrize("kind", ["register_forward_hook", "register_forward_pre_hook"])
def test_hooks_on_the_trunk_are_called_as_often_as_without_the_cache(kind: str) -> None:
    twins = Twins(naive)
    cached, plain = (count_calls(getattr(model.net, kind)) for model in (twins.cached, twins.plain))
    for inputs in (A, B) * 4:
        twins.pair(inputs)
    assert len(cached) == len(plain) == 16


@pytest.mark.parametrize("role", ["policy", "value"])
def test_a_hook_that_replaces_the_features_of_one_role_changes_that_role_only(role: str) -> None:
    twins = Twins(naive)
    twins.warm(A)

    def double(module: nn.Module, arguments: Any, features: torch.Tensor) -> torch.Tensor:
        return features * 2.0

    for current in ("policy", "value", "policy", "value"):
        handles = [model.net.register_forward_hook(double) for model in (twins.cached, twins.plain) if current == role]
        twins.act(B, current)
        for handle in handles:
            handle.remove()


def test_a_pre_hook_that_replaces_the_input_is_obeyed() -> None:
    twins = Twins(naive)
    twins.warm(A)
    for scale in (2.0, 3.0):

        def multiply(module: nn.Module, arguments: Any, scale: float = scale) -> Any:
            return (arguments[0] * scale,)

        handles = [model.net.register_forward_pre_hook(multiply) for model in (twins.cached, twins.plain)]
        twins.learn(A)
        twins.learn(B)
        for handle in handles:
            handle.remove()


def test_backward_hooks_on_the_trunk_see_the_whole_gradient_of_its_output() -> None:
    """Once per graph: the one graph of the cached pair receives the sum of what the twin's two receive."""
    twins = Twins(naive)
    sums: list[Any] = [0.0, 0.0]
    for i, model in enumerate((twins.cached, twins.plain)):

        def add(module: nn.Module, inputs: Any, outputs: Any, i: int = i) -> None:
            sums[i] = sums[i] + outputs[0]

        model.net.register_full_backward_hook(add)
    inputs = make_inputs(observations().requires_grad_())  # or torch warns that no input requires grad
    for _ in range(6):
        sums[:] = [0.0, 0.0]
        twins.learn(inputs)
        torch.testing.assert_close(*sums, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [naive, pattern])
def test_a_deep_copy_has_its_own_weights_and_its_own_cache(make: Make) -> None:
    twins = Twins(make)
    twins.warm(A)
    with torch.no_grad():
        twins.act(A, "policy")
    clone = copy.deepcopy(twins.cached)
    with torch.no_grad():
        clone.net[0].weight.mul_(2.0)
        twins.plain.net[0].weight.mul_(2.0)
    assert_same(act(clone, A, "value"), act(twins.plain, A, "value"))
    with torch.no_grad():
        twins.plain.net[0].weight.div_(2.0)
    twins.act(A, "value")


def positional(model: Any, inputs: dict[str, Any], role: str) -> Any:
    return model.compute(inputs, role)


def by_keyword(model: Any, inputs: dict[str, Any], role: str) -> Any:
    return model.compute(inputs=inputs, role=role)


def mixed(model: Any, inputs: dict[str, Any], role: str) -> Any:
    return model.compute(inputs, role=role)


@pytest.mark.parametrize("call", [positional, by_keyword, mixed])
@pytest.mark.parametrize(
    "roles", [("policy", "value"), ("policy", 7), ("policy", ("value", 1)), ("policy", None)], ids=str
)
def test_compute_may_be_called_either_way_and_with_any_role(call: Callable[..., Any], roles: Sequence[Any]) -> None:
    cached, plain = build(naive, SharedModel), build(naive, TwoPass)
    passes = Passes(cached.net)
    for inputs in (A, B, A, B, A):
        passes.take()
        for role in roles:
            assert_same(call(cached, inputs, role), call(plain, inputs, role))
    assert passes.take() == 1
