"""When an entry may be used. An entry is used only if :py:func:`why_refused` finds no reason against it."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

import torch
from torch import nn

from skrl_shared_cache.entries import Entry
from skrl_shared_cache.mode import why_modes_differ
from skrl_shared_cache.module_state import WRITTEN, ModuleState
from skrl_shared_cache.tensors import equals, is_alias, may_equal

DIFFER = "inputs differ"
NEEDS_EQUALITY = "inputs may be equal"
OTHER_GRAPH = "inputs are new tensors that require grad"


def why_refused(
    entry: Entry,
    mode: Any,
    module: nn.Module,
    state: ModuleState,
    structure: Any,
    tensors: Sequence[torch.Tensor],
) -> str | None:
    """Look for a reason why a trunk might now return something else than it did for an entry.

    :param entry: Entry.
    :param mode: Mode of the call.
    :param module: Module whose parameters and buffers the trunk depends on.
    :param state: Its state.
    :param structure: Arguments without their tensors.
    :param tensors: Tensors of the arguments.

    :return: A few words; :py:data:`NEEDS_EQUALITY` itself if :py:func:`are_equal` decides; None if there is none.
    """
    if mode != entry.mode:
        return f"{why_modes_differ(mode, entry.mode)} changed"
    if structure != entry.structure:
        return DIFFER
    needs_equality = False
    if not all(map(is_, entry.inputs, tensors)):
        for index, (seen, tensor) in enumerate(zip(entry.inputs, tensors)):
            if tensor is seen:
                continue
            if seen._version != entry.snapshot.versions[index]:
                return WRITTEN
            if not is_alias(seen, tensor):
                if not may_equal(seen, tensor):
                    return OTHER_GRAPH if tensor.requires_grad else DIFFER
                needs_equality = True
    changed = state.why_changed(module, entry.snapshot)
    if changed is not None:
        return changed
    if entry.snapshot.requires_grad is not None:
        for output in entry.outputs:
            if output._backward_hooks or (output.retains_grad and output.grad_fn is not None):
                return "output has a hook, or retains its gradient"  # meant for one role alone
    return NEEDS_EQUALITY if needs_equality else None


def are_equal(seen: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> bool:
    """Compare tensors with seen ones bit by bit. Waits for the device.

    :param seen: Inputs of an entry, for which :py:func:`why_refused` returned :py:data:`NEEDS_EQUALITY`.
    :param tensors: Tensors.

    :return: True if all are the same, or have the same bits.
    """
    return all(one is other or is_alias(one, other) or equals(one, other) for one, other in zip(seen, tensors))
