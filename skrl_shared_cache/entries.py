"""What is kept of one forward pass of a trunk."""

from __future__ import annotations

from typing import Any, Hashable

import weakref
from collections import deque

import torch

from skrl_shared_cache.module_state import Snapshot
from skrl_shared_cache.replay import Before
from skrl_shared_cache.tensors import TensorRecord


MOST_ENTRIES = 16


class Entry:
    """One forward pass of a trunk: all that it depended on, and what it returned.

    :param structure: Arguments without their tensors.
    :param inputs: Records of those tensors, from before the pass.
    :param state: State of the module, from before the pass.
    :param mode: Mode of the pass.
    :param role: Role that ran it.
    :param generation: Generation of the memo when it began.
    """

    __slots__ = (
        "structure", "inputs", "state", "mode", "generation", "served", "output", "outputs", "before", "__weakref__",
    )  # fmt: skip

    def __init__(
        self,
        structure: Any,
        inputs: list[TensorRecord],
        state: Snapshot,
        mode: Any,
        role: Hashable,
        generation: int,
    ) -> None:
        self.structure = structure
        self.inputs = inputs
        self.state = state
        self.mode = mode
        self.generation = generation
        self.served = {role}  # the roles that need it no more: at first its producer
        self.output: Any = None
        self.outputs: list[TensorRecord] = []
        self.before: Before | None = None


class Slot:
    """The entries of one call site: a thread, and the position of the call within compute.

    There is one entry, unless several calls of one role come before those of the other, as for the agents of skrl
    1.4's IPPO. That shows when a role asks for inputs whose entry had to go: then the bound rises.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.dropped: tuple[str, set[Hashable]] | None = None
        self.pairs_in_vain = 0
        self._bound = 1
        self._evicted: deque[weakref.ref[torch.Tensor]] = deque(maxlen=MOST_ENTRIES)

    def add(self, entry: Entry) -> None:
        """Add an entry; the oldest one goes if there are too many.

        :param entry: Entry.
        """
        self.dropped = None
        entries = [*self.entries, entry]
        if len(entries) > self._bound:
            oldest = entries.pop(0)
            if oldest.inputs:
                self._evicted.append(weakref.ref(oldest.inputs[0].tensor))
        self.entries = entries

    def remove(self, entry: Entry) -> None:
        """Remove an entry.

        :param entry: Entry.
        """
        self.entries = [other for other in self.entries if other is not entry] if len(self.entries) > 1 else []

    def drop(self, reason: str) -> None:
        """Remove all entries.

        :param reason: What the next refused lookup reports.
        """
        entries = self.entries
        if entries:
            self.dropped = reason, set().union(*(entry.served for entry in entries))
            self.entries = []

    def why_gone(self, role: Hashable, inputs: Any) -> str | None:
        """Tell why there is no entry for a role.

        :param role: Role.
        :param inputs: Tensors that it asks for.

        :return: A few words, or None if there was none that it could have got.
        """
        if self.dropped is not None:
            reason, served = self.dropped
            self.dropped = None
            return None if role in served else reason
        for age, seen in enumerate(reversed(self._evicted), 1):
            if inputs and seen() is inputs[0]:
                self._bound = max(self._bound, min(MOST_ENTRIES, age + len(self.entries)))
                self._evicted.clear()
                return "evicted"
        return None
