"""When an entry may be used. An entry is used only if :py:func:`why_refused` finds no reason against it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from skrl_shared_cache.entries import Entry
from skrl_shared_cache.mode import why_modes_differ
from skrl_shared_cache.module_state import ModuleState
from skrl_shared_cache.tensors import TensorRecord, equals, is_alias, may_equal, state_of

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
    """Look for a reason why a trunk might now return something else than it did for an entry; cheapest first.

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
    for record, tensor in zip(entry.inputs, tensors):
        seen, seen_state, _ = record
        # the version first: of a view whose base was written, torch may refuse to tell the grad_fn
        if seen._version != seen_state[0] or state_of(seen) != seen_state:
            return "inputs were written"
        if tensor is not seen and not is_alias(record, tensor):
            if not may_equal(record, tensor):
                return OTHER_GRAPH if tensor.requires_grad else DIFFER
            needs_equality = True
    for output, output_state, _ in entry.outputs:
        if output._version != output_state[0] or state_of(output) != output_state:
            return "output was written"
        if output._backward_hooks or (output.retains_grad and output.grad_fn is not None):
            return "output has a hook, or retains its gradient"  # meant for one role alone
    changed = state.why_changed(module, entry.state)
    if changed is not None:
        return changed
    return NEEDS_EQUALITY if needs_equality else None


def are_equal(records: list[TensorRecord], tensors: Sequence[torch.Tensor]) -> bool:
    """Compare tensors with recorded ones bit by bit. Waits for the device.

    :param records: Records of inputs, for which :py:func:`why_refused` returned :py:data:`NEEDS_EQUALITY`.
    :param tensors: Tensors.

    :return: True if all are the same, or have the same bits.
    """
    return all(
        record[0] is tensor or is_alias(record, tensor) or equals(record[0], tensor)
        for record, tensor in zip(records, tensors)
    )
