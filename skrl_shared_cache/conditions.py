"""When an entry may be used. An entry is used only if :py:func:`why_refused` finds no reason against it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import is_
from typing import Any

import torch
from torch import nn

from skrl_shared_cache.entries import Entry
from skrl_shared_cache.mode import why_modes_differ
from skrl_shared_cache.module_state import (
    ModuleState,
    address_of,
    figures_of,
    grad_fn_of,
    have_changed,
    requires_grad_of,
    training_of,
    version_of,
)
from skrl_shared_cache.tensors import equals, is_alias, may_equal

DIFFER = "inputs differ"
NEEDS_EQUALITY = "inputs may be equal"
OTHER_GRAPH = "inputs are new tensors that require grad"
_WRITTEN = "inputs were written"
_PARAMETERS = "parameters changed"
_OUTPUT = "output was written"


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
    inputs, outputs, needs_equality = entry.inputs, entry.outputs or (), False
    if not all(map(is_, inputs, tensors)):
        differ = _why_others_differ(entry, tensors)
        needs_equality = differ is NEEDS_EQUALITY
        if differ is not None and not needs_equality:
            return differ
    tree = state.tree or state.walk(module)
    if [module.training, *map(training_of, tree.submodules)] != entry.training:
        return "train/eval mode changed"
    watched = entry.tensors
    if [*map(version_of, watched)] != entry.versions or [*map(address_of, watched)] != entry.addresses:
        return _what_changed(entry)
    if any(tree.empty) or have_changed(tree.dictionaries, entry.held):
        return _PARAMETERS
    if entry.requires_grad is not None:
        # after the versions: of a view whose base was written, torch may refuse to tell the grad_fn
        grad_fns = map(grad_fn_of, chain(inputs, outputs))
        if [*map(requires_grad_of, watched)] != entry.requires_grad or not all(map(is_, grad_fns, entry.grad_fns)):
            return _what_changed(entry)
        for output in outputs:
            if output._backward_hooks or (output.retains_grad and output.grad_fn is not None):
                return "output has a hook, or retains its gradient"  # meant for one role alone
    else:
        for output in outputs:
            if output.requires_grad:
                return _OUTPUT
    buffers = entry.buffers
    if buffers is not None and (have_changed(tree.buffers, buffers) or figures_of(buffers) != entry.buffer_figures):
        return "buffers changed"
    return NEEDS_EQUALITY if needs_equality else None


def are_equal(seen: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> bool:
    """Compare tensors with seen ones bit by bit. Waits for the device.

    :param seen: Inputs of an entry, for which :py:func:`why_refused` returned :py:data:`NEEDS_EQUALITY`.
    :param tensors: Tensors.

    :return: True if all are the same, or have the same bits.
    """
    return all(one is other or is_alias(one, other) or equals(one, other) for one, other in zip(seen, tensors))


def _why_others_differ(entry: Entry, tensors: Sequence[torch.Tensor]) -> str | None:
    needs_equality = False
    for seen, version, tensor in zip(entry.inputs, entry.versions, tensors):
        if tensor is seen:
            continue
        if seen._version != version:
            return _WRITTEN
        if not is_alias(seen, tensor):
            if not may_equal(seen, tensor):
                return OTHER_GRAPH if tensor.requires_grad else DIFFER
            needs_equality = True
    return NEEDS_EQUALITY if needs_equality else None


def _what_changed(entry: Entry) -> str:
    changed = [
        tensor._version != version
        or tensor.data_ptr() != address
        or (entry.requires_grad is not None and tensor.requires_grad is not requires_grad)
        for tensor, version, address, requires_grad in zip(
            entry.tensors, entry.versions, entry.addresses, entry.requires_grad or entry.versions
        )
    ]
    end, begin = len(entry.inputs), len(entry.inputs) + len(entry.held.tensors)
    if any(changed[:end]):
        return _WRITTEN
    if any(changed[begin:]):
        return _OUTPUT
    if not any(changed[end:begin]) and entry.requires_grad is not None:
        if not all(map(is_, map(grad_fn_of, entry.inputs), entry.grad_fns)):
            return _WRITTEN
        if not all(map(is_, map(grad_fn_of, entry.outputs or ()), entry.grad_fns[end:])):
            return _OUTPUT
    return _PARAMETERS
