"""Sequences of operations that once went wrong, as the machine of ``test_any_order`` found them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn as nn

from .support.lines import make_inputs
from .support.pairs import A, warm_twins
from .support.zoo import FEATURES, OBSERVATION_SIZE, naive, observations
from .test_trunk_kinds import named_method


def test_an_inference_tensor_is_refused_in_grad_mode_even_if_an_equal_one_was_not() -> None:
    twins = warm_twins()
    with torch.inference_mode():
        inputs = make_inputs(observations(seed=7))
    twins.act(make_inputs(observations(seed=7)), "policy")
    for model in (twins.cached, twins.plain):
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            model.act(inputs, role="value")


def exchange_layer_of_trunk(model: Any, layer: nn.Module) -> None:
    model.net[0] = layer


def exchange_layer_of_model(model: Any, layer: nn.Module) -> None:
    model.first = layer


def add_layer(model: Any, layer: nn.Module) -> None:
    model.net[1].extra = layer
    model.net[1].register_forward_hook(lambda module, args, output: output + module.extra(output))


@pytest.mark.parametrize(
    ("make", "exchange", "size"),
    [
        (naive, exchange_layer_of_trunk, OBSERVATION_SIZE),
        (named_method, exchange_layer_of_model, OBSERVATION_SIZE),
        (naive, add_layer, FEATURES),
    ],
)
@pytest.mark.parametrize("is_cleared", [True, False])
def test_a_layer_that_came_between_two_pairs_is_watched(make: Any, exchange: Any, size: int, is_cleared: bool) -> None:
    twins = warm_twins(make)
    twins.pair(A)
    layers = []
    for model in (twins.cached, twins.plain):
        torch.manual_seed(5)
        layers.append(nn.Linear(size, FEATURES))
        exchange(model, layers[-1])
    if is_cleared:
        twins.cached.clear_cache()
    twins.act(A, "policy")
    with torch.no_grad():
        for layer in layers:
            layer.weight.mul_(2.0)
    twins.act(A, "value")
