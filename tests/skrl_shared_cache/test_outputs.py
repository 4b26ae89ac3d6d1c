"""What a pass returned: served only as long as nobody wrote into it and no backward has used its graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn as nn
from torch.utils._pytree import tree_leaves

from skrl_shared_cache import SharedCacheWarning

from .support.lines import OBSERVATIONS, ActorCritic, act
from .support.pairs import A, B, in_grad_mode, refusal, warm_twins
from .support.twins import Twins, assert_same, seeded_act
from .support.zoo import FEATURES, OBSERVATION_SIZE, mlp, naive, pattern

both_grad_modes = pytest.mark.parametrize("grad", [True, False], ids=["grad", "no grad"])


def writable_trunk() -> nn.Sequential:
    """Return a trunk whose output no backward formula needs, so that it may be written in place in grad mode."""
    return nn.Sequential(nn.Linear(OBSERVATION_SIZE, FEATURES), nn.Identity())


def keeping(base: Any) -> Any:
    """A model that keeps its features in attributes, writes into them when asked to, and has three roles."""

    class Keeping(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = writable_trunk()
            self.add_heads(FEATURES)
            self.kept: dict[str, Any] = {}
            self.write: Callable[[torch.Tensor], Any] | None = None
            self.writer = ""

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            features = self.net(inputs[OBSERVATIONS])
            self.kept[role] = features
            if self.write is not None and role == self.writer:
                self.write(features)
            return self.answer(features, role, inputs)

    return Keeping()


WRITES: dict[str, Callable[[torch.Tensor], Any]] = {
    "in place": lambda features: features.mul_(2.0),
    "into a view": lambda features: features[:, 1:].mul_(2.0),
    "through detach": lambda features: features.detach().mul_(2.0),
    "other data": lambda features: setattr(features, "data", 2.0 * features.data),
}


@both_grad_modes
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_features_that_the_first_role_wrote_are_not_served(write: Any, grad: bool) -> None:
    """A policy branch that does so after a thousand well-behaved pairs."""
    twins = warm_twins(keeping)
    with in_grad_mode(grad):
        twins.each(lambda model: setattr(model, "writer", "policy"))
        assert refusal(twins) is None
        twins.each(lambda model: setattr(model, "write", write))
        assert refusal(twins) == "output was written"


@both_grad_modes
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_features_that_the_caller_wrote_between_the_calls_are_not_served(write: Any, grad: bool) -> None:
    twins = warm_twins(keeping)
    with in_grad_mode(grad):
        between = lambda: twins.each(lambda model: write(model.kept["policy"]))  # noqa: E731
        assert refusal(twins, between=between) == "output was written"


@pytest.mark.filterwarnings("ignore::skrl_shared_cache.SharedCacheWarning")
@both_grad_modes
def test_features_that_the_second_role_wrote_are_not_served_to_the_third(grad: bool) -> None:
    roles = ("policy", "value", "cost")
    twins = warm_twins(keeping, roles=roles)
    twins.each(lambda model: setattr(model, "writer", "value"))
    with in_grad_mode(grad):
        assert refusal(twins, roles=roles) is None
        twins.each(lambda model: setattr(model, "write", WRITES["in place"]))
        assert refusal(twins, roles=roles) is not None


def test_a_second_role_that_begins_to_write_ends_the_sharing() -> None:
    """After a thousand well-behaved pairs: it is told so, and both are right."""
    twins = warm_twins(keeping)
    twins.each(lambda model: setattr(model, "writer", "value"))
    twins.each(lambda model: setattr(model, "write", WRITES["in place"]))
    with torch.no_grad(), pytest.warns(SharedCacheWarning, match="role 'value' writes in place"):
        twins.pair(A)
    for inputs in (A, B):
        assert refusal(twins, inputs) == "no entry"
        twins.learn(inputs)


def test_features_that_were_detached_from_their_graph_are_not_served() -> None:
    twins = warm_twins(keeping)
    assert refusal(twins, between=lambda: twins.each(lambda model: model.kept["policy"].detach_())) is not None


def exposing(base: Any) -> Any:
    """A model that returns its features, parts of them and a nest of them beside its actions."""

    class Exposing(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = writable_trunk()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            features = self.net(inputs[OBSERVATIONS])
            nest = {"whole": features, "parts": [features[1:], (features.detach(), features.t())]}
            return self.answer(features, role, inputs, nest=nest)

    return Exposing()


@both_grad_modes
@pytest.mark.parametrize("roles", [("policy", "value"), ("value", "policy")], ids=["policy first", "value first"])
def test_what_compute_returns_may_be_written(roles: tuple[str, str], grad: bool) -> None:
    """None of it lies in the memory of what the other role gets."""
    twins = warm_twins(exposing)

    def write(outputs: Any) -> None:
        with torch.no_grad():
            for leaf in tree_leaves(outputs[2]["nest"]):
                leaf.detach().fill_(7.0)

    with in_grad_mode(grad):
        for role in roles:
            for outputs in twins.act(A, role):
                write(outputs)
        # without grad a copy is returned; with it the features themselves, on the path of the loss, and a write is seen
        assert twins.cached.cache_info().last_miss == "output was written"
        twins.pair(A, roles)


def test_what_compute_returns_keeps_its_graph() -> None:
    twins = warm_twins(exposing)
    twins.act(A, "policy")
    for model, (_, _, outputs) in zip((twins.cached, twins.plain), twins.act(A, "value")):
        model.zero_grad()
        (outputs["nest"]["whole"] ** 2).sum().backward()
    twins.assert_same_gradients()


class Nest(nn.Module):
    """A trunk that returns a nest of tensors and constants."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        features = self.layers(x)
        return {"features": features, "list": [features, 2.0 * features], "tuple": (x, None, "x")}


def taking_apart(base: Any) -> Any:
    """A model whose roles take the nest of their trunk apart."""

    class TakingApart(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = Nest()
            self.add_heads(FEATURES)
            self.cost_head = nn.Linear(FEATURES, 1)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            nest = self.net(inputs[OBSERVATIONS])
            features = nest.pop("features") + nest["list"].pop() + nest["list"].pop()
            nest.clear()
            return (self.cost_head(features), {}) if role == "cost" else self.answer(features, role, inputs)

    return TakingApart()


@both_grad_modes
@pytest.mark.parametrize("roles", [("policy", "value"), ("policy", "value", "cost")], ids=["two roles", "three roles"])
def test_dictionaries_and_lists_that_a_trunk_returns_belong_to_each_role(roles: tuple[str, ...], grad: bool) -> None:
    twins = warm_twins(taking_apart, roles=roles)
    with in_grad_mode(grad):
        for inputs in (A, B):
            assert refusal(twins, inputs, roles=roles) is None


class Holding(nn.Module):
    """A trunk that returns something that the cache does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()

    def forward(self, x: torch.Tensor) -> Any:
        return Box(self.layers(x))


class Box:
    """Something with a tensor in it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def test_an_unknown_output_is_not_kept() -> None:
    def make(base: Any) -> Any:
        class Unpacking(ActorCritic, base):
            def __init__(self) -> None:
                ActorCritic.__init__(self, base)
                self.net = Holding()
                self.add_heads(FEATURES)

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                box = self.net(inputs[OBSERVATIONS])
                box.tensor = 2.0 * box.tensor
                return self.answer(box.tensor, role, inputs)

        return Unpacking()

    twins = Twins(make)
    for inputs in (A, B) * 4:
        twins.learn(inputs)
    info = twins.cached.cache_info()
    assert info.hits == 0
    assert any(reason.startswith("output: ") and "Box" in reason for reason in info.reasons)


BACKWARDS: dict[str, Callable[[Any, Any], Any]] = {
    "backward": lambda model, loss: loss.backward(),
    "retain_graph": lambda model, loss: loss.backward(retain_graph=True),
    "gradient of all": lambda model, loss: torch.autograd.grad(loss, list(model.net.parameters())),
    "gradient of one layer": lambda model, loss: torch.autograd.grad(loss, model.net[0].weight),
}


@pytest.mark.parametrize("backward", BACKWARDS.values(), ids=BACKWARDS)
@pytest.mark.parametrize("make", [naive, pattern])
def test_a_pass_whose_graph_was_used_is_not_served(make: Any, backward: Any) -> None:
    """Its value could not go backward again."""
    twins = warm_twins(make)
    twins.each(lambda model: model.zero_grad())
    policy = twins.act(A, "policy")

    def use_the_graphs() -> None:
        for model, (actions, _, _) in zip((twins.cached, twins.plain), policy):
            backward(model, (actions**2).sum())

    use_the_graphs()
    before = twins.cached.cache_info().hits
    for values, _, _ in twins.act(A, "value"):
        (values**2).sum().backward()
    assert twins.cached.cache_info().hits == before
    assert twins.cached.cache_info().last_miss == "backward"
    twins.assert_same_gradients()


def test_a_pass_is_served_after_a_backward_that_ends_at_its_output() -> None:
    twins = warm_twins(keeping)
    policy = twins.act(A, "policy")
    for model, (actions, _, _) in zip((twins.cached, twins.plain), policy):
        torch.autograd.grad(actions.sum(), model.policy_head.weight)
    assert_same(*twins.act(A, "value"))
    assert twins.cached.cache_info().last_miss is None


def two_outputs(base: Any) -> Any:
    """A trunk that returns two tensors with a graph of its own each; the policy goes backward through one of them."""

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = mlp(), mlp()

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.first(x), self.second(x)

    class TwoOutputs(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = Two()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            first, second = self.net(inputs[OBSERVATIONS])
            return self.answer(second if role == "policy" else first + second, role, inputs)

    return TwoOutputs()


def test_a_pass_is_not_served_when_one_of_its_graphs_was_used() -> None:
    twins = warm_twins(two_outputs)
    twins.each(lambda model: model.zero_grad())
    for role in ("policy", "value"):
        for actions, _, _ in twins.act(A, role):
            (actions**2).sum().backward()
    assert twins.cached.cache_info().last_miss == "backward"
    twins.assert_same_gradients()


@pytest.mark.parametrize("make", [naive, pattern])
def test_both_losses_in_one_backward_use_one_pass(make: Any) -> None:
    twins = warm_twins(make)
    before = twins.cached.cache_info()
    twins.learn(A)
    twins.learn(B)
    assert twins.cached.cache_info().hits == before.hits + 2
    assert twins.cached.cache_info().misses == before.misses + 2


@pytest.mark.parametrize("make", [naive, pattern])
def test_a_pair_that_breaks_off_after_the_policy_spoils_no_later_pair(make: Any) -> None:
    """PPO leaves its minibatch loop between the two calls when the KL divergence is too large."""
    twins = warm_twins(make)
    twins.act(A, "policy")
    for inputs in (B, A):
        assert refusal(twins, inputs) is None
        twins.learn(inputs)


def test_a_value_is_right_after_a_pair_that_broke_off_and_an_update() -> None:
    twins = warm_twins()
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (twins.cached, twins.plain)]
    twins.learn(A)
    twins.copy_gradients()
    twins.act(A, "policy")
    for optimizer in optimizers:
        optimizer.step()
    twins.act(A, "value")
    assert twins.cached.cache_info().last_miss == "parameters changed"


def test_both_roles_get_the_very_same_pass() -> None:
    """With noise inside the trunk, two passes would not be the same."""

    class Noise(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.rand(len(x), FEATURES)

    def make(base: Any) -> Any:
        model = keeping(base)
        model.net = Noise()
        return model

    twins = warm_twins(make)
    for role in ("policy", "value"):
        seeded_act(twins.cached, A, role, seed=hash(role) % 100)
    assert torch.equal(twins.cached.kept["policy"], twins.cached.kept["value"])
    act(twins.cached, A, "policy")
    assert not torch.equal(twins.cached.kept["policy"], twins.cached.kept["value"])
