"""One of the two models that a machine of random operations drives, and the tensors that belong to it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .lines import OBSERVATIONS

MOST_BATCHES = 5
"""Batches that a side keeps. Older ones die, so that ids and addresses are used again."""


@dataclass
class Side:
    """A model with inputs, results and losses of its own: nothing is shared with the other side."""

    model: Any
    batches: list[dict[str, Any]] = field(default_factory=list)
    result: Any = None
    loss: Any = None

    def train(self, mode: bool) -> None:
        """Put the model into training or evaluation mode."""
        self.model.train(mode)

    def add_batch(self, batch: dict[str, Any]) -> None:
        """Make a batch the newest one."""
        self.batches = [*self.batches, batch][-MOST_BATCHES:]

    def leaf(self, batch: int, index: int = 0) -> torch.Tensor:
        """Return one of the tensors of a batch. The observations come first."""
        leaves = [leaf for leaf in tree_leaves(self.batches[batch]) if isinstance(leaf, torch.Tensor)]
        tensor: torch.Tensor = leaves[index % len(leaves)]
        return tensor

    def replace_observations(self, batch: int, observations: torch.Tensor) -> None:
        """Add a batch that differs from another one by the tensor of its observations."""
        self.add_batch({**self.batches[batch], OBSERVATIONS: observations})

    def leaves_with_gradient(self) -> list[torch.Tensor]:
        """Return the parameters and the inputs, which get gradients, always in the same order."""
        inputs = [leaf for leaf in tree_leaves(self.batches) if isinstance(leaf, torch.Tensor) and leaf.is_leaf]
        return [*self.model.parameters(), *inputs]

    def gradients(self) -> dict[str, torch.Tensor | None]:
        """Return the gradients of parameters and inputs."""
        return {str(i): tensor.grad for i, tensor in enumerate(self.leaves_with_gradient())}

    def buffers(self) -> list[torch.Tensor]:
        """Return copies of the buffers."""
        return [buffer.clone() for buffer in self.model.buffers()]

    def loss_of_result(self) -> torch.Tensor | None:
        """Return a scalar whose gradient reaches all that the last result depends on, or None if it needs none."""
        with torch.autocast("cpu", enabled=False):
            # the sine keeps all gradients within bounds, however often a machine goes backward
            terms = [leaf.float().sin().sum() for leaf in tree_leaves(self.result) if _needs_gradient(leaf)]
        return torch.stack(terms).sum() if terms else None


def _needs_gradient(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.requires_grad


@contextlib.contextmanager
def call_modes(grad: str, autocast: torch.dtype | None) -> Iterator[None]:
    """Enter a grad mode (``grad``, ``no_grad`` or ``inference``) and autocast on the CPU, if a dtype is given."""
    with contextlib.ExitStack() as stack:
        if grad == "inference":
            stack.enter_context(torch.inference_mode())
        else:
            stack.enter_context(torch.set_grad_enabled(grad == "grad"))
        if autocast is not None:
            stack.enter_context(torch.autocast("cpu", autocast))
        yield
