"""Single conditions of a hit that no other test would miss."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn as nn

from .support.pairs import refusal, warm_twins
from .support.twins import gradients
from .support.zoo import mlp, naive
from .test_outputs import keeping


class OwnFlag(nn.Module):
    """A trunk that reads its own flag, and has a submodule with another one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.layers(x)
        return 2.0 * features if self.training else features


def test_a_trunk_whose_own_flag_alone_was_changed_runs_again() -> None:
    twins = warm_twins(partial(naive, trunk=OwnFlag))
    change = partial(twins.each, lambda model: setattr(model.net, "training", False))
    assert refusal(twins, between=change) == "train/eval mode changed"


def test_features_that_became_a_leaf_in_place_are_not_served() -> None:
    """Their version and ``requires_grad`` are what they were."""
    twins = warm_twins(keeping)

    def cut(model: Any) -> None:
        model.kept["policy"].detach_().requires_grad_()

    assert refusal(twins, between=lambda: twins.each(cut)) == "output was written"
    for model in (twins.cached, twins.plain):
        model.zero_grad()
        model.kept["value"].sum().backward()
        assert gradients(model)["net.0.weight"] is not None
    twins.assert_same_gradients()
