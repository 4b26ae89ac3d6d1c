"""A whole training, each call of which is repeated by a model without the cache."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map

from .twins import Make, TwoPass, assert_same, build, is_same


class Shadow:
    """Repeats every call of a model on the same inputs, weights and random numbers, without the cache.

    :param model: Model, on any base class.
    :param make: Builds the same model on a base class.
    :param is_tolerant: Whether a difference is only counted, and not an error.
    """

    def __init__(self, model: Any, make: Make, is_tolerant: bool = False) -> None:
        self.calls = 0
        self.wrong = 0
        """Calls whose outputs differed."""
        self._model, self._act = model, model.act
        self._twin = build(make, TwoPass)
        self._is_tolerant = is_tolerant
        model.act = self._checked_act

    def _checked_act(self, inputs: dict[str, Any], role: str = "") -> Any:
        # a model may write into its inputs, and a comparison with the tensor itself would show nothing
        copies = tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, inputs)
        self._twin.load_state_dict(self._model.state_dict())
        self._twin.train(self._model.training)
        with torch.random.fork_rng(devices=[]):
            expected = self._twin.act(copies, role=role)
        actual = self._act(inputs, role=role)
        self.calls += 1
        if self._is_tolerant:
            self.wrong += not is_same(actual, expected)
        else:
            assert_same(actual, expected)
        return actual
