"""Count how often a trunk really runs."""

from __future__ import annotations

from typing import Any

import torch.nn as nn


class Passes:
    """Counts the forward passes of a trunk by a hook on its first leaf, which runs only when the trunk does.

    A hook on the trunk itself would not do: the cache keeps calling those on a hit, as if the trunk had run.

    :param trunk: Container, or a leaf that counts itself (:class:`CountedLSTM`).
    """

    def __init__(self, trunk: nn.Module) -> None:
        self._total = 0
        self._taken = 0
        leaf = next((module for module in trunk.modules() if not list(module.children())), trunk)
        if leaf is trunk:
            if not isinstance(trunk, Counted):
                raise ValueError(f"a trunk without children must inherit from Counted, got {type(trunk).__name__}")
            trunk.passes = self
        else:
            leaf.register_forward_hook(lambda *_: self.add())

    def add(self) -> None:
        """Count one pass."""
        self._total += 1

    def take(self) -> int:
        """Return the passes since the last call of this method."""
        new = self._total - self._taken
        self._taken = self._total
        return new


class Counted:
    """Mixin for a leaf module used as a trunk: ``class CountedLSTM(Counted, nn.LSTM)``."""

    passes: Passes | None = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.passes is not None:
            self.passes.add()
        return super().forward(*args, **kwargs)  # type: ignore[misc]


class CountedLSTM(Counted, nn.LSTM):
    """An LSTM that counts its passes."""


class CountedLinear(Counted, nn.Linear):
    """A linear layer that counts its passes."""
