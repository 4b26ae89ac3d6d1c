"""Trunks that return the same memory in every call, as CUDA graphs do: no version counter tells of the next call."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
import torch.nn as nn

from skrl_shared_cache import SharedCacheWarning, SharedModel

from .support.devices import inputs_on, needs_cuda, twins_on
from .support.lines import make_inputs
from .support.pairs import A, refusal
from .support.twins import Twins
from .support.zoo import mlp, naive, observations

ROLES = ("policy", "value")
MESSAGE = "it returns the same memory in every call"


class Replayed(nn.Module):
    """As what ``torch.cuda.make_graphed_callables`` makes of a trunk."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()
        self.static: dict[Any, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = self.layers(x)
        static = self.static.setdefault(features.shape, torch.empty_like(features)).data
        static.copy_(features)
        return static


class Freed(nn.Module):
    """As ``mode="reduce-overhead"`` does: what one call returned cannot be read any more when the next one begins."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()
        self.last: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.last is not None:
            torch._C._set_throw_on_mutable_data_ptr(self.last)
        self.last = self.layers(x)
        return self.last


class Cloned(Replayed):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).clone()


kinds = pytest.mark.parametrize("trunk", [Replayed, Freed])


def all_policies_then_all_values(twins: Twins) -> None:
    with torch.no_grad():
        for seed in range(8):
            batches = [make_inputs(observations(seed=10 * seed + i)) for i in range(3)]
            for role in ROLES:
                for batch in batches:
                    twins.act(batch, role)


def test_all_policies_then_all_values_of_a_replayed_trunk() -> None:
    twins = Twins(partial(naive, trunk=Replayed))
    with pytest.warns(SharedCacheWarning, match=MESSAGE):
        all_policies_then_all_values(twins)


def test_all_policies_then_all_values_of_a_trunk_that_frees_what_it_returned() -> None:
    twins = Twins(partial(naive, trunk=Freed))
    all_policies_then_all_values(twins)
    assert "output was overwritten" in twins.cached.cache_info().reasons


@kinds
def test_a_call_of_the_trunk_alone_between_the_two_calls(trunk: Any) -> None:
    twins = Twins(partial(naive, trunk=trunk))

    def pairs() -> None:
        for seed in range(6):
            inputs = make_inputs(observations(seed=seed))
            refusal(twins, inputs)
            refusal(twins, inputs, between=lambda: twins.each(lambda model: model.net(observations(seed=99))))

    with torch.no_grad(), pytest.warns(SharedCacheWarning, match=MESSAGE):
        pairs()


def test_the_fix_that_the_warning_names() -> None:
    twins = Twins(partial(naive, trunk=Cloned))
    all_policies_then_all_values(twins)
    twins.warm(A)
    with torch.no_grad():
        assert refusal(twins, A) is None


# ----------------------------------------------------------------------------------------------- the real ones, on GPUs


def graphed(model: Any) -> None:
    sample = torch.randn(5, 6, device="cuda")
    model.net = torch.cuda.make_graphed_callables(model.net, (sample,))


def reduced(model: Any) -> None:
    """CUDA graphs of ``mode="reduce-overhead"`` without its compiler, which needs triton."""
    model.net = torch.compile(model.net, backend="cudagraphs")


@needs_cuda
@pytest.mark.filterwarnings("ignore:The shared cache leaves")
@pytest.mark.filterwarnings("ignore:Unable to hit fast path of CUDAGraphs:UserWarning")
@pytest.mark.parametrize("make_graphs", [graphed, reduced])
@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no grad"])
def test_a_trunk_with_cuda_graphs(make_graphs: Any, grad: bool) -> None:
    twins = twins_on("cuda", partial(naive, trunk=mlp), SharedModel)
    make_graphs(twins.cached)
    batches = [inputs_on("cuda", seed) for seed in range(3)]
    for _ in range(6):
        for batch in batches:
            if grad:
                twins.learn(batch)
            else:
                with torch.no_grad():
                    twins.pair(batch)
    with torch.no_grad():
        twins.walk(batches, calls=60)
