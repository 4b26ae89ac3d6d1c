"""Grad mode, autocast and thread must be those of the policy's pass."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch

from .support.pairs import A, B, refusal, warm_twins
from .support.twins import Twins

Context = Callable[[], AbstractContextManager[Any]]


def autocast(dtype: torch.dtype) -> Any:
    return torch.autocast("cpu", dtype)


CONTEXTS: dict[str, Context] = {
    "grad": nullcontext,
    "no grad": torch.no_grad,
    "bfloat16": lambda: autocast(torch.bfloat16),
    "float16": lambda: autocast(torch.float16),
}


def refusal_in(twins: Twins, policy: Context, value: Context) -> str | None:
    """Return why the value was refused, if the policy acts in one context and the value in another."""
    context = policy()
    context.__enter__()

    def change() -> None:
        nonlocal context
        context.__exit__(None, None, None)
        context = value()
        context.__enter__()

    try:
        return refusal(twins, between=change)
    finally:
        context.__exit__(None, None, None)


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_pair_in_one_mode_hits(name: str) -> None:
    assert refusal_in(warm_twins(), CONTEXTS[name], CONTEXTS[name]) is None


@pytest.mark.parametrize(
    ("policy", "value", "reason"),
    [
        ("grad", "no grad", "grad mode changed"),
        ("no grad", "grad", "grad mode changed"),
        ("grad", "bfloat16", "autocast changed"),
        ("bfloat16", "grad", "autocast changed"),
        ("bfloat16", "float16", "autocast changed"),
        ("float16", "bfloat16", "autocast changed"),
    ],
)
def test_a_pair_in_two_modes_does_not_hit(policy: str, value: str, reason: str) -> None:
    assert refusal_in(warm_twins(), CONTEXTS[policy], CONTEXTS[value]) == reason


def test_gradients_of_a_value_that_follows_a_policy_without_grad() -> None:
    twins = warm_twins()
    with torch.no_grad():
        twins.act(A, "policy")
    twins.each(lambda model: model.zero_grad())
    for values, _, _ in twins.act(A, "value"):
        values.sum().backward()
    twins.assert_same_gradients()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_under_autocast(dtype: torch.dtype) -> None:
    twins = warm_twins()
    with autocast(dtype):
        twins.act(A, "policy")
        outputs = twins.act(A, "value")
    twins.each(lambda model: model.zero_grad())
    for values, _, _ in outputs:
        values.float().sum().backward()
    twins.assert_same_gradients(3e-2)


def in_a_thread(function: Callable[[], Any]) -> Any:
    """Run a function in a new thread and return what it returns."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_a_pair_in_a_thread_hits() -> None:
    twins = warm_twins()
    assert in_a_thread(lambda: refusal(twins)) is None


def test_a_value_in_another_thread_does_not_get_what_this_thread_kept() -> None:
    twins = warm_twins()
    twins.act(A, "policy")
    before = twins.cached.cache_info().hits
    in_a_thread(lambda: twins.act(A, "value"))
    assert twins.cached.cache_info().hits == before
    twins.act(A, "value")
    assert twins.cached.cache_info().hits == before + 1


def test_a_grad_mode_of_another_thread_does_not_matter() -> None:
    """Grad mode belongs to a thread: a new one begins with it on."""
    twins = warm_twins()
    with torch.no_grad():
        assert in_a_thread(lambda: refusal(twins)) is None
        assert refusal(twins, B) is None
