"""What somebody who does not trust the cache tried, and what held."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn as nn
from torch.utils._pytree import tree_leaves

from skrl_shared_cache import cached_preprocessor

from .support.lines import act
from .support.pairs import A, warm_twins
from .support.twins import assert_same, seeded_act
from .support.zoo import observations, returning

RETURNED: dict[str, Callable[[torch.Tensor], Any]] = {
    "tensor": lambda features: features,
    "view": lambda features: features[1:],
    "detached": lambda features: [features.detach()],
    "nested": lambda features: {"latent": (features.view(-1),)},
}


@pytest.mark.parametrize("pack", RETURNED.values(), ids=RETURNED)
def test_a_caller_that_writes_into_what_one_role_returned_does_not_reach_the_other_role(pack: Any) -> None:
    model = warm_twins(partial(returning, pack=pack)).cached
    with torch.no_grad():
        policy, value = (tree_leaves(act(model, A, role)[2]["latent"])[0] for role in ("policy", "value"))
    expected = policy.clone()
    value.zero_()
    assert_same(policy, expected)


def test_what_a_hook_of_the_users_own_leaves_before_a_step_does_not_outlive_it() -> None:
    """It runs after the cache's own hook, and a fused step moves no version counter."""
    twins, values = warm_twins(), []
    for model in (twins.cached, twins.plain):
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)

        def ask_policy(*_: Any, model: Any = model) -> None:
            seeded_act(model, A, "policy")

        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
        with torch.no_grad():
            optimizer.register_step_pre_hook(ask_policy)
            optimizer.step()
            values.append(seeded_act(model, A, "value"))
    assert_same(*values)


class PlainMean(nn.Module):
    """Its statistics are no buffers: only the call that trains it tells that they have changed."""

    mean: Any = 0.0

    def forward(self, x: torch.Tensor, train: bool = False) -> Any:
        if train:
            self.mean = x.mean(0)
        return x - self.mean


def test_a_preprocessor_that_learned_is_asked_again_wherever_it_keeps_its_statistics() -> None:
    x, results = observations(), []
    for scaler in (cached_preprocessor(PlainMean)(), PlainMean()):
        results.append([scaler(x), scaler(x, train=True), scaler(x)])
    assert_same(*results)
