"""Probation: what no condition can see is seen by comparing the first hits with passes of their own."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn as nn

from skrl_shared_cache import SharedCacheWarning

from .support.lines import OBSERVATIONS, ActorCritic, make_inputs
from .support.pairs import in_grad_mode
from .support.passes import CountedLinear, Passes
from .support.twins import Twins
from .support.zoo import FEATURES, OBSERVATION_SIZE, mlp, naive, observations

both_grad_modes = pytest.mark.parametrize("grad", [True, False], ids=["grad", "no grad"])


def passes_of_pairs(twins: Twins, pairs: int, roles: tuple[str, ...] = ("policy", "value")) -> list[int]:
    """Run pairs and return how often the trunk ran in each."""
    passes = Passes(twins.cached.net)
    result = []
    for _ in range(pairs):
        twins._calls += 1
        twins.pair(make_inputs(observations(seed=twins._calls)), roles)
        result.append(passes.take())
    return result


@both_grad_modes
def test_the_first_two_hits_are_verified(grad: bool) -> None:
    """Before them, one pair shows that two roles call the trunk."""
    twins = Twins(naive)
    with in_grad_mode(grad):
        assert passes_of_pairs(twins, 6) == [2, 2, 2, 1, 1, 1]
    assert twins.cached.cache_info().hits == 3


def test_a_named_trunk_is_verified_from_the_first_pair_on() -> None:
    def make(base: Any) -> Any:
        class Named(ActorCritic, base):
            shared_modules = ("net",)

            def __init__(self) -> None:
                ActorCritic.__init__(self, base)
                self.net = mlp()
                self.add_heads(FEATURES)

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                return self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)

        return Named()

    assert passes_of_pairs(Twins(make), 4) == [2, 2, 1, 1]


def test_each_mode_has_a_probation_of_its_own() -> None:
    twins = Twins(naive)
    assert passes_of_pairs(twins, 4) == [2, 2, 2, 1]
    with torch.no_grad():
        assert passes_of_pairs(twins, 3) == [2, 2, 1]
    twins.train(False)
    assert passes_of_pairs(twins, 3) == [2, 2, 1]
    with torch.no_grad():
        assert passes_of_pairs(twins, 3) == [2, 2, 1]
    twins.train(True)
    assert passes_of_pairs(twins, 1) == [1]


def test_each_role_has_a_probation_of_its_own() -> None:
    twins = Twins(naive)
    assert passes_of_pairs(twins, 4) == [2, 2, 2, 1]
    assert passes_of_pairs(twins, 3, ("value", "policy")) == [2, 2, 1]


def by_role(trunk: Callable[[], nn.Module], tell: Callable[[Any, str], Any]) -> Callable[[Any], Any]:
    """Return the maker of a model that tells its trunk the role in a way that no argument shows."""

    def make(base: Any) -> Any:
        class ByRole(ActorCritic, base):
            def __init__(self) -> None:
                ActorCritic.__init__(self, base)
                self.net = trunk()
                self.add_heads(FEATURES)

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                tell(self.net, role)
                return self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)

        return ByRole()

    return make


class Hidden(nn.Module):
    """A trunk that reads what is hidden in an attribute, a list or a closure."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()
        self.role = ""
        self.tensors = [torch.ones(())]
        scale = [1.0]

        def read_scale() -> float:
            return scale[0]

        def write_scale(value: float) -> None:
            scale[0] = value

        self.read_scale, self.write_scale = read_scale, write_scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.layers(x)
        return features * self.tensors[0] * self.read_scale() * (0.5 if self.role == "value" else 1.0)


class StepCounter(Hidden):
    """A trunk that returns something else at each second pass."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.tensors[0] = -self.tensors[0]
        return super().forward(x)


TELLS: dict[str, Callable[[Any, str], Any]] = {
    "attribute": lambda net, role: setattr(net, "role", role),
    "tensor in a list": lambda net, role: net.tensors[0].fill_(float(len(role))),
    "another tensor in a list": lambda net, role: net.tensors.__setitem__(0, torch.tensor(float(len(role)))),
    "closure": lambda net, role: net.write_scale(float(len(role))),
    "data of a parameter": lambda net, role: net.layers[0].weight.data.mul_(2.0 if role == "value" else 0.5),
}


@both_grad_modes
@pytest.mark.parametrize("tell", TELLS.values(), ids=TELLS)
def test_a_trunk_that_depends_on_what_is_hidden_is_right_and_ends_up_unmemoized(tell: Any, grad: bool) -> None:
    twins = Twins(by_role(Hidden, tell))
    with in_grad_mode(grad), pytest.warns(SharedCacheWarning) as caught:
        assert passes_of_pairs(twins, 8)[-5:] == [2] * 5
    (warning,) = caught
    message = str(warning.message)
    for words in ("`net`", "'value'", "largest difference", "as an argument", "register it as a buffer"):
        assert words in message
    assert twins.cached.cache_info().hits == 0


def test_a_trunk_of_which_only_one_mode_depends_on_what_is_hidden_is_noticed_in_that_mode() -> None:
    def tell(net: Any, role: str) -> None:
        net.role = "" if net.training else role

    twins = Twins(by_role(Hidden, tell))
    assert passes_of_pairs(twins, 5) == [2, 2, 2, 1, 1]
    twins.train(False)
    with pytest.warns(SharedCacheWarning, match="leaves `net` alone"):
        assert passes_of_pairs(twins, 4)[-2:] == [2, 2]


def test_a_method_and_a_function_are_on_probation_too() -> None:
    def make(base: Any) -> Any:
        class Units(ActorCritic, base):
            shared_modules = ("trunk",)

            def __init__(self) -> None:
                ActorCritic.__init__(self, base)
                self.net = CountedLinear(OBSERVATION_SIZE, FEATURES)
                self.add_heads(FEATURES)
                self.role = ""

            def trunk(self, x: torch.Tensor) -> torch.Tensor:
                features: torch.Tensor = self.net(x)
                return features * len(self.role)

            def twice(self, x: torch.Tensor) -> torch.Tensor:
                return x * len(self.role)

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                self.role = role
                shared = getattr(self, "shared", lambda function, *args: function(*args))
                return self.answer(
                    self.trunk(inputs[OBSERVATIONS]) + shared(self.twice, inputs[OBSERVATIONS][:, :1]), role, inputs
                )

        return Units()

    twins = Twins(make)
    with pytest.warns(SharedCacheWarning) as caught:
        # in the end the layer in the method, which the role does not touch, is shared by itself
        assert passes_of_pairs(twins, 6)[-1] == 1
    assert sorted(str(warning.message).split("`")[1] for warning in caught) == ["trunk", "twice"]


class Noisy(nn.Module):
    """A trunk with random numbers of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.layers(x)
        return features + torch.rand_like(features)


def dropout() -> nn.Sequential:
    return nn.Sequential(nn.Linear(OBSERVATION_SIZE, FEATURES), nn.Dropout(0.5))


def batch_norm() -> nn.Sequential:
    return nn.Sequential(nn.Linear(OBSERVATION_SIZE, FEATURES), nn.BatchNorm1d(FEATURES))


def spectral_norm() -> nn.Sequential:
    return nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(OBSERVATION_SIZE, FEATURES)))


def unseeded_pairs(trunk: Any, pairs: int = 6) -> list[int]:
    """Run pairs of the cached model alone, which draws other random numbers at each call."""
    twins = Twins(partial(naive, trunk=trunk))
    passes, result = Passes(twins.cached.net), []
    for seed in range(pairs):
        for role in ("policy", "value"):
            twins.cached.compute(make_inputs(observations(seed=seed)), role)
        result.append(passes.take())
    return result


@both_grad_modes
@pytest.mark.parametrize("trunk", [Noisy, dropout, batch_norm, StepCounter, spectral_norm])
def test_a_trunk_that_returns_something_else_at_each_pass_stays_memoized(trunk: Any, grad: bool) -> None:
    with in_grad_mode(grad):
        assert unseeded_pairs(trunk)[-2:] == [1, 1]


def test_probation_leaves_random_numbers_and_buffers_as_a_pass_of_each_role_leaves_them() -> None:
    """In the pairs that are verified the trunk runs twice, as without the cache; what else ran has left no trace."""

    def trunk() -> nn.Sequential:
        return nn.Sequential(nn.Linear(OBSERVATION_SIZE, FEATURES), nn.BatchNorm1d(FEATURES), nn.Dropout(0.5))

    twins = Twins(partial(naive, trunk=trunk))
    states = []
    for model in (twins.cached, twins.plain):
        torch.manual_seed(3)
        for seed in range(3):
            for role in ("policy", "value"):
                model.compute(make_inputs(observations(seed=seed)), role)
        states.append((torch.get_rng_state(), [buffer.clone() for buffer in model.buffers()]))
    assert torch.equal(states[0][0], states[1][0])
    assert all(map(torch.equal, states[0][1], states[1][1]))


def test_dropout_stays_memoized_when_a_third_role_comes_late() -> None:
    """Say a cost that is asked for after a thousand updates."""
    twins = Twins(partial(naive, trunk=dropout))
    for seed in range(6):
        for role in ("policy", "value"):
            twins.cached.compute(make_inputs(observations(seed=seed)), role)
    passes = Passes(twins.cached.net)
    for seed in range(6):
        passes.take()
        for role in ("policy", "cost", "value"):
            twins.cached.compute(make_inputs(observations(seed=seed)), role)
    assert passes.take() == 1


@pytest.mark.parametrize("writer", ["policy", "value"])
@pytest.mark.parametrize("order", [("policy", "value"), ("value", "policy")], ids=["policy first", "value first"])
@both_grad_modes
def test_a_consumer_that_writes_in_place_is_noticed_before_it_gets_a_shared_tensor(
    writer: str, order: tuple[str, str], grad: bool
) -> None:
    """Its own features it may write: the trunk runs for each role then."""

    def make(base: Any) -> Any:
        class Writing(ActorCritic, base):
            def __init__(self) -> None:
                ActorCritic.__init__(self, base)
                self.net = nn.Sequential(nn.Linear(OBSERVATION_SIZE, FEATURES), nn.Identity())
                self.add_heads(FEATURES)

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                features = self.net(inputs[OBSERVATIONS])
                return self.answer(torch.relu_(features) if role == writer else features, role, inputs)

        return Writing()

    twins = Twins(make)
    with in_grad_mode(grad), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        passes_of_pairs(twins, 8, order)
    messages = [str(warning.message) for warning in caught]
    assert len(messages) <= 1
    if order[1] == writer:
        assert "writes in place" in messages[0]
        assert "inplace=False" in messages[0]
        assert repr(writer) in messages[0]


def test_a_refused_trunk_is_refused_in_every_model_that_holds_it() -> None:
    trunk = Hidden()
    make = by_role(lambda: trunk, TELLS["attribute"])
    first, second = Twins(make), Twins(make)
    with pytest.warns(SharedCacheWarning, match="leaves `net` alone"):
        passes_of_pairs(first, 4)
    assert passes_of_pairs(second, 4) == [2 + 2] * 4  # the uncached twin holds it, too


def test_a_trunk_that_is_never_called_by_a_second_role_costs_nothing() -> None:
    twins = Twins(naive)
    for seed in range(10):
        twins.act(make_inputs(observations(seed=seed)), "policy")
    info = twins.cached.cache_info()
    assert (info.hits, info.misses) == (0, 0)
