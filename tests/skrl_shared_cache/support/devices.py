"""Twins and inputs on another device than the one on which they are made."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map

from skrl_shared_cache import SharedModel

from .lines import make_inputs
from .twins import Make, Twins
from .zoo import observations

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def twins_on(device: str, make: Make, base: Any = SharedModel) -> Twins:
    """Return twins whose weights are on a device."""
    twins = Twins(make, base=base)
    twins.each(lambda model: model.to(device))
    return twins


def moved(device: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return inputs with their tensors on a device."""
    result: dict[str, Any] = tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, inputs)
    return result


def inputs_on(device: str, seed: int) -> dict[str, Any]:
    """Return inputs of the plain kinds of model on a device."""
    return moved(device, make_inputs(observations(seed=seed)))
