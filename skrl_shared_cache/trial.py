"""Compare what an entry holds with what the trunk returns when it runs again: probation, and verify mode."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch

from skrl_shared_cache.entries import Entry
from skrl_shared_cache.errors import CacheMismatchError
from skrl_shared_cache.replay import difference, replay
from skrl_shared_cache.trees import tensors_of


def why_untrusted(entry: Entry, fresh: Any, run: Callable[[], Any]) -> str | None:
    """Judge an entry by a pass that ran after it, for another role.

    If they differ, the trunk runs again from the generators and buffers that the entry began with. If it then returns
    what the entry holds, the difference came from random numbers or from buffers that each pass updates. If it returns
    something else at each run, it does so without the cache, too.

    :param entry: Entry.
    :param fresh: What the pass returned.
    :param run: Runs the trunk once more.

    :return: What differs, or None if the entry could have been used.
    """
    assert entry.before is not None
    if difference(entry.output, fresh) is None:
        return None
    again = replay(entry.before, run)
    differs = difference(entry.output, again)
    if differs is None or difference(again, replay(entry.before, run)) is not None:
        return None
    return differs


def is_overwritten(entry: Entry, fresh: Any) -> bool:
    """Tell whether a pass wrote where an earlier one had put what it returned, which moves no version counter.

    What a CUDA graph returns lies where it lay at the capture. ``torch.compile(mode="reduce-overhead")`` does the same,
    or makes what was kept unreadable.

    :param entry: Entry of the earlier pass.
    :param fresh: What the later pass returned.

    :return: True if it did. A trunk that returns a view of its arguments, parameters or buffers does not.
    """
    outputs = entry.outputs or ()
    buffers = entry.buffers.tensors if entry.buffers is not None else []
    lasting = {_memory_of(tensor) for tensor in (*entry.tensors[: len(entry.tensors) - len(outputs)], *buffers)}
    try:
        kept = {_memory_of(output) for output in outputs}
    except RuntimeError:
        return True
    shared = kept.intersection(map(_memory_of, tensors_of(fresh))) - lasting
    return any(address for _, address in shared)  # what has no elements lies nowhere


def _memory_of(tensor: torch.Tensor) -> tuple[torch.device, int]:
    return tensor.device, tensor.untyped_storage().data_ptr()


def verify(entry: Entry, name: str, role: Hashable, run: Callable[[], Any]) -> None:
    """Compare an entry that is about to be used with a recomputation.

    :param entry: Entry.
    :param name: Name of the trunk.
    :param role: Role.
    :param run: Runs the trunk once more.

    :raises CacheMismatchError: If they differ.
    """
    assert entry.before is not None
    again = replay(entry.before, run)
    differs = difference(entry.output, again)
    if differs is None:
        return
    if difference(again, replay(entry.before, run)) is not None:
        cause = "The trunk is nondeterministic: two recomputations differ from each other as well."
    else:
        cause = (
            "Something changed that moves no version counter (a NumPy or `.data` write, a plain attribute of the "
            "trunk). Call clear_cache() after such a write, or return copies from the environment."
        )
    raise CacheMismatchError(
        f"`{name}` was about to serve role {role!r} from the cache, and a recomputation on the same inputs returned "
        f"something else: {differs}. {cause}"
    )
