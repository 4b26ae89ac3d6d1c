"""The promise on every device that this machine has, in full precision and under autocast."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn as nn

from skrl_shared_cache import CacheMismatchError, SharedModel

from .support.devices import inputs_on, moved, needs_cuda, twins_on
from .support.lines import act
from .support.pairs import in_grad_mode
from .support.zoo import FEATURES, OBSERVATION_SIZE, naive, pattern
from .test_trunk_kinds import KINDS as ALL_KINDS
from .test_trunk_kinds import Kind, batch

KINDS = {"naive": Kind(naive), "pattern": Kind(pattern)} | {
    name: ALL_KINDS[name]
    for name in ("CNN", "LSTM", "named method, second layer", "net, of camera and body, pattern", "nested")
}
PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}

all_kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
all_precisions = pytest.mark.parametrize("dtype", PRECISIONS.values(), ids=PRECISIONS)
all_devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
pytestmark = all_devices


@pytest.fixture(autouse=True)
def _same_operation_same_bits() -> Iterator[None]:
    with torch.backends.cudnn.flags(deterministic=True, allow_tf32=False):
        yield


def autocast(device: str, dtype: torch.dtype | None, kind: Kind) -> Any:
    """Return a context of autocast to that dtype, or of none."""
    if device == "cpu" and dtype is torch.float16 and kind.inputs == "rnn":
        pytest.skip("torch has no LSTM in float16 on CPUs")
    return torch.autocast(device, dtype, enabled=dtype is not None)


@all_kinds
@all_precisions
@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no grad"])
def test_every_order_of_calls_returns_what_the_model_returns_without_the_cache(
    device: str, kind: Kind, dtype: torch.dtype | None, grad: bool
) -> None:
    twins = twins_on(device, kind.make)
    batches = [moved(device, batch(kind, size, seed)) for size, seed in ((8, 1), (8, 2), (4, 3))]
    with in_grad_mode(grad), autocast(device, dtype, kind):
        twins.walk(batches, kind.roles, calls=50)
    assert twins.cached.cache_info().hits > 0


@all_kinds
@all_precisions
def test_gradients_are_those_of_the_model_without_the_cache(device: str, kind: Kind, dtype: torch.dtype | None) -> None:
    twins = twins_on(device, kind.make)
    for seed in range(5):
        inputs = moved(device, batch(kind, 8, seed))
        with autocast(device, dtype, kind):
            outputs = [twins.act(inputs, role) for role in kind.roles]
        for model, answers in zip((twins.cached, twins.plain), zip(*outputs), strict=True):
            model.zero_grad()
            sum(answer[0].float().square().sum() for answer in answers).backward()
        twins.assert_same_gradients(1e-5 if dtype is None else 3e-2)
    assert twins.cached.cache_info().hits > 0


def test_a_value_after_a_fused_optimizer_step_is_that_of_the_new_parameters(device: str) -> None:
    """The step moves no version counter."""
    twins = twins_on(device, naive)
    optimizers = [torch.optim.Adam(model.parameters(), lr=0.1, fused=True) for model in (twins.cached, twins.plain)]
    for seed in range(4):
        twins.learn(inputs_on(device, seed))
    twins.copy_gradients()
    inputs = inputs_on(device, 9)
    twins.act(inputs, "policy")
    for optimizer in optimizers:
        optimizer.step()
    twins.act(inputs, "value")
    assert twins.cached.cache_info().last_miss == "parameters changed"


class Verifying(SharedModel):
    shared_cache_mode = "verify"


def generator_of(device: str) -> torch.Tensor:
    return torch.cuda.get_rng_state() if device == "cuda" else torch.get_rng_state()


def dropout() -> nn.Sequential:
    return nn.Sequential(nn.Linear(OBSERVATION_SIZE, FEATURES), nn.Dropout(0.5))


def test_verify_mode_draws_the_random_numbers_of_the_pass_again_and_leaves_the_generators(device: str) -> None:
    model = twins_on(device, partial(naive, trunk=dropout), Verifying).cached
    for seed in range(6):
        inputs = inputs_on(device, seed)
        act(model, inputs, "policy")
        generator = generator_of(device)
        model.compute(inputs, "value")
    assert model.cache_info().hits == 3
    assert torch.equal(generator_of(device), generator)


def test_verify_mode_notices_a_write_that_moves_no_version_counter(device: str) -> None:
    model = twins_on(device, naive, Verifying).cached
    for seed in range(6):
        for role in ("policy", "value"):
            act(model, inputs_on(device, seed), role)
    act(model, inputs_on(device, 9), "policy")
    model.net[0].weight.data.add_(1.0)
    with pytest.raises(CacheMismatchError, match="`net` was about to serve role 'value'"):
        act(model, inputs_on(device, 9), "value")
