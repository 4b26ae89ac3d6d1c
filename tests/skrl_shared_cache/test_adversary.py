"""What somebody who does not trust the cache tried, and what held."""

from __future__ import annotations

from typing import Any

import torch

from .support.pairs import A, warm_twins
from .support.twins import assert_same, seeded_act


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
