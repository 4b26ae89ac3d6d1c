"""An environment that writes past torch into the observations that it handed out, when every role has seen those.

A write that moves no version counter cannot be noticed between the call of one role and that of the other. After both
it must not matter, whatever they left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from .support.lines import make_inputs
from .support.pairs import A, B, in_grad_mode
from .support.twins import Twins
from .support.zoo import naive, observations, pattern
from .test_trunk_kinds import camera_and_body, camera_and_body_pattern, named_submodule, siamese

P, V = "policy", "value"

STEPS: dict[str, Callable[[torch.Tensor], Any]] = {
    "numpy": lambda x: x.numpy().__imul__(-1.0),
    "data": lambda x: x.data.mul_(-1.0),
}

step_past_torch = pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
both_grad_modes = pytest.mark.parametrize("grad", [True, False], ids=["grad", "no grad"])


def warm_twins(make: Any, x: torch.Tensor) -> Twins:
    twins = Twins(make)
    twins.warm(make_inputs(x))
    return twins


def call(twins: Twins, roles: str, x: torch.Tensor) -> None:
    for role in roles.split():
        twins.act(make_inputs(x), {"P": P, "V": V}[role])


@both_grad_modes
@step_past_torch
@pytest.mark.parametrize("order", ["P V", "V P", "V", "P"])
@pytest.mark.parametrize("make", [naive, pattern, siamese, camera_and_body, camera_and_body_pattern, named_submodule])
def test_a_pair_leaves_nothing_for_the_next_observations(make: Any, order: str, step: Any, grad: bool) -> None:
    """An on-policy agent asks the value alone for the last observations of a rollout."""
    x = observations(size=132) if make in (camera_and_body, camera_and_body_pattern) else observations()
    twins = warm_twins(make, x.clone())
    with in_grad_mode(grad):
        call(twins, "P V", x)
        step(x)
        call(twins, order, x)


@both_grad_modes
@step_past_torch
@pytest.mark.parametrize("order", ["P V", "V P", "V V"])
def test_of_several_passes_on_the_same_observations_the_last_one_is_kept(order: str, step: Any, grad: bool) -> None:
    """More than one pass is kept where several policy calls come before the values, as in skrl 1.4's IPPO."""
    twins, x = warm_twins(naive, observations(seed=3)), observations()
    with in_grad_mode(grad):
        for _ in range(3):
            for role in (P, V):
                for inputs in (A, B):
                    twins.act(inputs, role)
        call(twins, "P P V", x)
        step(x)
        call(twins, order, x)


@both_grad_modes
def test_a_write_into_a_part_of_observations_that_require_grad_is_no_error(grad: bool) -> None:
    """torch then refuses to tell where in the graph the old part belongs, which the cache still holds."""
    twins = warm_twins(camera_and_body, observations(size=132))
    xs = [observations(size=132).requires_grad_() for _ in range(2)]
    with in_grad_mode(grad):
        for role in (P, V):
            twins.act(make_inputs(xs[0]), role, make_inputs(xs[1]))
            with torch.no_grad():
                for x in xs:
                    x.mul_(2.0)


def test_a_part_of_written_observations_is_computed_where_torch_computes_it() -> None:
    """Without grad torch does not ask where in the graph such a part belongs. Nor may the cache."""
    x = observations(size=12).requires_grad_()
    twins, (part, _) = warm_twins(naive, observations()), x.split(6, dim=-1)
    with torch.no_grad():
        x.mul_(2.0)
        call(twins, "P V", part)
    with pytest.raises(RuntimeError, match="modified inplace"):
        twins.plain.act(make_inputs(part))


@contextmanager
def inference(twins: Twins) -> Iterator[None]:
    with torch.inference_mode():
        yield


@contextmanager
def off(twins: Twins) -> Iterator[None]:
    twins.cached.shared_cache_mode = "off"
    yield
    twins.cached.shared_cache_mode = None


@contextmanager
def global_hook(twins: Twins) -> Iterator[None]:
    with torch.nn.modules.module.register_module_forward_hook(lambda module, inputs, output: None):
        yield


@contextmanager
def saved_tensor_hooks(twins: Twins) -> Iterator[None]:
    with torch.autograd.graph.save_on_cpu():
        yield


@step_past_torch
@pytest.mark.parametrize("past", [inference, off, global_hook, saved_tensor_hooks])
@pytest.mark.parametrize("make", [naive, pattern, siamese])
def test_what_is_left_over_serves_nobody_after_a_pair_that_went_past_the_cache(make: Any, past: Any, step: Any) -> None:
    twins, x = warm_twins(make, observations(seed=3)), observations()
    call(twins, "P", x)
    with past(twins):
        call(twins, "P V", x)
    step(x)
    call(twins, "V", x)
