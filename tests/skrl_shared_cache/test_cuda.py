"""What only a CUDA device has: streams, graphs, and waiting for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from .support.devices import inputs_on, needs_cuda, twins_on
from .support.lines import OBSERVATIONS, make_inputs
from .support.pairs import in_grad_mode, refusal
from .support.passes import Passes
from .support.twins import Twins
from .support.zoo import naive, pattern

pytestmark = [needs_cuda, pytest.mark.parametrize("make", [naive, pattern])]

ROLES = ("policy", "value")


def warm_twins(make: Any) -> Twins:
    """Return twins on the CUDA device, of which the cached one serves its hits without verifying them."""
    twins = twins_on("cuda", make)
    twins.warm(inputs_on("cuda", 9))
    assert refusal(twins, inputs_on("cuda", 1)) is None
    return twins


def answers(model: Any, inputs: dict[str, Any]) -> list[torch.Tensor]:
    return [model.compute(inputs, role)[0] for role in ROLES]


def update(model: Any, inputs: dict[str, Any]) -> None:
    """Go through a pair and backward once, as an agent does."""
    model.zero_grad(set_to_none=True)
    torch.stack([answer.square().sum() for answer in answers(model, inputs)]).sum().backward()


# ---------------------------------------------------------------------------------------------------------- waiting


@contextlib.contextmanager
def no_waiting() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_pair_of_the_same_tensor_does_not_wait_for_the_device(make: Any) -> None:
    model = warm_twins(make).cached
    batches = [inputs_on("cuda", seed) for seed in range(4)]
    hits = model.cache_info().hits
    with no_waiting():
        for inputs in batches:
            update(model, inputs)
            with torch.no_grad():
                answers(model, inputs)
    assert model.cache_info().hits == hits + 2 * len(batches)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_pair_of_equal_tensors_waits_for_the_device(make: Any) -> None:
    """The comparison of their elements does. It shows, too, that the test above sees it."""
    model, inputs = warm_twins(make).cached, inputs_on("cuda", 1)
    model.compute(inputs, "policy")
    copy = make_inputs(inputs[OBSERVATIONS].clone())
    with no_waiting(), pytest.raises(RuntimeError, match="synchronizing"):
        model.compute(copy, "value")


# ---------------------------------------------------------------------------------------------------------- streams


@contextlib.contextmanager
def side_stream() -> Iterator[None]:
    """Work on a stream that begins after the current one's work, and ends before its next."""
    stream, current = torch.cuda.Stream(), torch.cuda.current_stream()
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        yield
    current.wait_stream(stream)


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no grad"])
def test_a_pair_on_another_stream_hits(make: Any, grad: bool) -> None:
    twins, inputs = warm_twins(make), inputs_on("cuda", 2)
    with side_stream(), in_grad_mode(grad):
        assert refusal(twins, inputs) is None


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no grad"])
def test_a_value_on_another_stream_does_not_get_what_this_one_keeps(make: Any, grad: bool) -> None:
    """The features may not be there yet."""
    twins, inputs = warm_twins(make), inputs_on("cuda", 2)
    with contextlib.ExitStack() as streams, in_grad_mode(grad):
        assert refusal(twins, inputs, between=lambda: streams.enter_context(side_stream())) == "CUDA stream changed"


# ----------------------------------------------------------------------------------------------------------- graphs


def captured(model: Any, function: Callable[[], Any]) -> tuple[torch.cuda.CUDAGraph, Any]:
    """Run a function of one pair until its probation is over, then capture it in a graph, with one pass of the trunk.

    It does not call ``act``: skrl's Gaussian keeps the graph of its last call, whose nodes belong to the stream there.
    """
    passes = Passes(model.net)
    with side_stream():
        for _ in range(6):
            function()
    passes.take()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function()
    assert passes.take() == 1
    return graph, result


def test_a_captured_pair_answers_for_new_inputs_when_it_is_replayed(make: Any) -> None:
    twins, static = twins_on("cuda", make), inputs_on("cuda", 0)
    with torch.no_grad():
        graph, outputs = captured(twins.cached, lambda: answers(twins.cached, static))
        for seed in range(1, 4):
            static[OBSERVATIONS].copy_(inputs_on("cuda", seed)[OBSERVATIONS])
            graph.replay()
            torch.testing.assert_close(outputs, answers(twins.plain, static))
        twins.pair(inputs_on("cuda", 4))


def test_a_captured_update_leaves_the_gradients_of_new_inputs_when_it_is_replayed(make: Any) -> None:
    twins, static = twins_on("cuda", make), inputs_on("cuda", 0)
    graph, _ = captured(twins.cached, lambda: update(twins.cached, static))
    for seed in range(1, 4):
        static[OBSERVATIONS].copy_(inputs_on("cuda", seed)[OBSERVATIONS])
        graph.replay()
        update(twins.plain, static)
        twins.assert_same_gradients()


def test_a_value_in_a_capture_does_not_get_what_was_kept_before_it(make: Any) -> None:
    """A replay would return the value of the observations of the capture for ever."""
    twins, static = twins_on("cuda", make), inputs_on("cuda", 0)
    model = twins.cached
    with torch.no_grad():
        captured(model, lambda: answers(model, static))
        model.compute(static, "policy")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            value = model.compute(static, "value")[0]
        static[OBSERVATIONS].copy_(inputs_on("cuda", 1)[OBSERVATIONS])
        graph.replay()
        torch.testing.assert_close(value, twins.plain.compute(static, "value")[0])


# ----------------------------------------------------------------------------------------------------------- memory


def test_updates_leave_nothing_on_the_device(make: Any) -> None:
    model = warm_twins(make).cached
    allocated = []
    for seed in range(6):
        update(model, inputs_on("cuda", seed))
        model.zero_grad(set_to_none=True)
        allocated.append(torch.cuda.memory_allocated())
    assert len(set(allocated[2:])) == 1
