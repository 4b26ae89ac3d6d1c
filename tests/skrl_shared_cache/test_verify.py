"""Verify mode: every hit is compared with a recomputation, and a difference is an error that says where."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn as nn

from skrl_shared_cache import CacheMismatchError, SharedModel

from .support.lines import OBSERVATIONS, ActorCritic, act, make_inputs
from .support.pairs import A, in_grad_mode
from .support.passes import Passes
from .support.twins import Twins, build
from .support.zoo import FEATURES, OBSERVATION_SIZE, mlp, naive, observations, pattern
from .test_trunk_kinds import KINDS as ALL_KINDS
from .test_trunk_kinds import Kind, batch, camera_and_body_pattern, named_method, shared_call, siamese_in_another_order

KINDS = {"naive": naive, "pattern": pattern, "named method": named_method, "self.shared": shared_call}
NAMES = {"naive": "net", "pattern": "net", "named method": "trunk", "self.shared": "trunk"}
both_grad_modes = pytest.mark.parametrize("grad", [True, False], ids=["grad", "no grad"])


class Verifying(SharedModel):
    """The base class of every model here."""

    shared_cache_mode = "verify"


def warm_model(make: Any) -> Any:
    """Return a model in verify mode whose probation is over."""
    model = build(make, Verifying)
    for grad in (True, False):
        with in_grad_mode(grad):
            for seed in range(6):
                for role in ("policy", "value"):
                    act(model, make_inputs(observations(seed=seed)), role)
    assert model.cache_info().hits > 0
    return model


def first_weight(model: Any) -> torch.Tensor:
    weight: torch.Tensor = next(parameter for parameter in model.parameters() if parameter.dim() > 1)
    return weight


WRITES: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "NumPy, observations": lambda model, x: np.add(x.numpy(), 1.0, out=x.numpy()),
    "data, observations": lambda model, x: x.data.add_(1.0),
    "NumPy, weights": lambda model, x: np.add(
        first_weight(model).detach().numpy(), 1.0, out=first_weight(model).detach().numpy()
    ),
    "data, weights": lambda model, x: first_weight(model).data.add_(1.0),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@both_grad_modes
def test_a_write_that_moves_no_version_counter_is_an_error_that_says_where(kind: str, write: Any, grad: bool) -> None:
    model, x = warm_model(KINDS[kind]), observations(seed=20)
    with in_grad_mode(grad):
        act(model, make_inputs(x), "policy")
        write(model, x)
        with pytest.raises(CacheMismatchError, match=r"largest difference [0-9.]+") as error:
            act(model, make_inputs(x), "value")
    message = str(error.value)
    assert f"`{NAMES[kind]}`" in message
    assert "'value'" in message
    assert "clear_cache()" in message
    assert "nondeterministic" not in message


def test_the_largest_difference_is_the_largest_difference() -> None:
    model, x = warm_model(naive), observations(seed=20)
    with torch.no_grad():
        before = model.net(x)
        act(model, make_inputs(x), "policy")
        x.numpy()[2] += 1.0
        with pytest.raises(CacheMismatchError) as error:
            act(model, make_inputs(x), "value")
        after = model.net(x)
    found = re.search(r"largest difference (\S+)\.", str(error.value))
    assert found
    assert float(found[1]) == pytest.approx((before - after).abs().max().item(), rel=1e-4)


def test_a_difference_to_not_a_number_is_named() -> None:
    model, x = warm_model(naive), observations(seed=20)
    act(model, make_inputs(x), "policy")
    x.numpy()[2] = np.nan
    with pytest.raises(CacheMismatchError, match="largest difference nan"):
        act(model, make_inputs(x), "value")


def test_after_the_error_the_model_goes_on_and_is_right() -> None:
    model, x = warm_model(naive), observations(seed=20)
    with torch.no_grad():
        act(model, make_inputs(x), "policy")
        x.numpy()[2] = 0.0
        with pytest.raises(CacheMismatchError):
            act(model, make_inputs(x), "value")
        assert torch.equal(act(model, make_inputs(x), "value")[0], model.value_head(model.net(x)))


def dropout() -> nn.Sequential:
    return nn.Sequential(nn.Linear(OBSERVATION_SIZE, FEATURES), nn.Dropout(0.5))


def batch_norm() -> nn.Sequential:
    return nn.Sequential(nn.Linear(OBSERVATION_SIZE, FEATURES), nn.BatchNorm1d(FEATURES))


class Shifted(nn.Module):
    """A trunk with a buffer of plain numbers that each pass in training moves, and reads."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()
        self.shift: torch.Tensor
        self.register_buffer("shift", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.shift += 1.0
        features: torch.Tensor = self.layers(x)
        return features + self.shift


def test_a_plain_attribute_of_the_trunk_is_noticed() -> None:
    model = warm_model(partial(naive, trunk=dropout))
    act(model, A, "policy")
    model.net[1].p = 0.1
    with pytest.raises(CacheMismatchError, match="`net` was about to serve role 'value'"):
        act(model, A, "value")


@both_grad_modes
@pytest.mark.parametrize("trunk", [mlp, dropout, batch_norm, Shifted])
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_a_right_trunk_passes_and_the_values_are_those_of_one_pass(trunk: Any, grad: bool, training: bool) -> None:
    twins = Twins(partial(naive, trunk=trunk), base=Verifying)
    twins.train(training)
    with in_grad_mode(grad):
        for seed in range(8):
            for role in ("policy", "value"):
                act(twins.cached, make_inputs(observations(seed=seed)), role)
    assert twins.cached.cache_info().hits == 5
    assert twins.cached.cache_info().last_miss is None


@pytest.mark.parametrize("kind", ALL_KINDS.values(), ids=ALL_KINDS)
def test_every_kind_of_trunk_passes(kind: Kind) -> None:
    twins = Twins(kind.make, base=Verifying)
    for seed in range(6):
        twins.learn(batch(kind, 8, seed), kind.roles)
    assert twins.cached.cache_info().hits > 0 or kind.make is siamese_in_another_order


@both_grad_modes
def test_verification_leaves_random_numbers_and_buffers_untouched(grad: bool) -> None:
    """The hit that it verifies draws no number and writes no buffer."""

    def trunk() -> nn.Sequential:
        return nn.Sequential(nn.Linear(OBSERVATION_SIZE, FEATURES), nn.BatchNorm1d(FEATURES), nn.Dropout(0.5))

    model = warm_model(partial(naive, trunk=trunk))
    with in_grad_mode(grad):
        act(model, A, "policy")
        buffers = [(buffer, buffer._version, buffer.clone()) for buffer in model.buffers()]
        state = torch.get_rng_state()
        model.compute(A, "value")
    assert torch.equal(torch.get_rng_state(), state)
    for now, (buffer, version, copy) in zip(model.buffers(), buffers):
        assert now is buffer
        assert now._version == version
        assert torch.equal(now, copy)


class Flaky(nn.Module):
    """A trunk that begins to return something else at each pass."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()
        self.passes = 0
        self.is_flaky = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.passes += self.is_flaky
        features: torch.Tensor = self.layers(x)
        return features + self.passes


def test_a_nondeterministic_trunk_is_said_to_be_one() -> None:
    model = warm_model(partial(naive, trunk=Flaky))
    model.net.is_flaky = True
    act(model, A, "policy")
    with pytest.raises(CacheMismatchError, match="The trunk is nondeterministic: two recomputations differ"):
        act(model, A, "value")


def test_verification_runs_in_the_autocast_mode_of_the_pair() -> None:
    model = warm_model(naive)
    with torch.autocast("cpu", torch.bfloat16):
        for _ in range(3):
            act(model, A, "policy")
            act(model, A, "value")
    assert model.cache_info().last_miss is None


def test_every_hit_runs_the_trunk_once_more() -> None:
    model = warm_model(naive)
    passes = Passes(model.net)
    for seed in range(3):
        for role in ("policy", "value"):
            act(model, make_inputs(observations(seed=seed)), role)
        assert passes.take() == 2


def test_the_recomputation_asks_no_cache_and_counts_nowhere() -> None:
    """A named part of a named trunk is memoized by itself, but not while the trunk is verified."""

    class Nested(ActorCritic, Verifying):
        shared_modules = ("net", "net.0")

        def __init__(self) -> None:
            ActorCritic.__init__(self, Verifying)
            self.net = nn.Sequential(mlp(), nn.ELU())
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)

    model = Nested()
    for seed in range(8):
        before = model.cache_info()
        for role in ("policy", "value"):
            act(model, make_inputs(observations(seed=seed)), role)
    after = model.cache_info()
    assert (after.hits - before.hits, after.misses - before.misses) == (1, 1)


def test_gradients_flow_through_the_pass_that_was_verified() -> None:
    twins = Twins(naive, base=Verifying)
    for seed in range(8):
        twins.learn(make_inputs(observations(seed=seed)))


def test_a_model_that_is_switched_to_verify_between_the_calls_verifies_later_pairs() -> None:
    """What was kept before has no copy of the generators: it is not served, and blamed for nothing."""
    model = build(partial(naive, trunk=dropout), SharedModel)
    for seed in range(6):
        for role in ("policy", "value"):
            act(model, make_inputs(observations(seed=seed)), role)
    act(model, A, "policy")
    model.shared_cache_mode = "verify"
    act(model, A, "value")
    x = observations(seed=20)
    act(model, make_inputs(x), "policy")
    x.numpy()[:] = 0.0
    with pytest.raises(CacheMismatchError):
        act(model, make_inputs(x), "value")


def test_an_offered_shared_output_is_verified() -> None:
    def batch(seed: int) -> dict[str, Any]:
        return make_inputs(observations(seed=seed, size=132))

    model = build(camera_and_body_pattern, Verifying)
    for seed in range(8):
        for role in ("policy", "value"):
            act(model, batch(seed), role)
    inputs = batch(20)
    act(model, inputs, "policy")
    inputs[OBSERVATIONS].numpy()[:] = 0.0
    with pytest.raises(CacheMismatchError, match=r"compute\(role='value'\) .* `_shared_output`|`(cnn|body|net)`"):
        act(model, inputs, "value")
