"""What is kept of one forward pass of a trunk."""

from __future__ import annotations

import functools
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from skrl_shared_cache.tensors import is_alias

if TYPE_CHECKING:
    from skrl_shared_cache.module_state import Held
    from skrl_shared_cache.replay import Before

MOST_ENTRIES = 16


class Entry:
    """One forward pass of a trunk: all that it depended on, and what it returned. It is filled as the pass goes on."""

    # what ModuleState.begin records
    structure: Any  # arguments without their tensors
    inputs: Sequence[torch.Tensor]  # those tensors
    trial: tuple[bool, bool]  # training flag and grad mode: each of the four is on probation by itself
    training: list[bool]
    held: Held
    tensors: list[torch.Tensor]  # inputs, parameters and (later) outputs: the figures have the same order
    versions: list[int]
    addresses: list[int]
    storages: list[Any]  # of the inputs: `x.data = other` may use an address again that nobody holds
    requires_grad: list[bool] | None  # without grad mode, nobody asks
    grad_fns: list[Any]  # of the inputs and (later) the outputs, in grad mode
    # what the memo adds
    mode: Any  # of the pass
    served: dict[Hashable, int]  # roles that need it no more: see Session.served
    generation: int  # of the memo, when the pass began
    before: Before | None = None  # on probation, and in verify mode
    is_second = False  # of a pair: its role was refused the first one. The next pair is none of its business
    output: Any
    # what ModuleState.complete records
    outputs: Sequence[torch.Tensor] | None = None
    buffers: Held | None
    buffer_figures: Any

    def repeats(self, other: Entry) -> bool:
        """Whether this is another pass on the very same inputs.

        :param other: Older entry.

        :return: True if all tensors are the same, or views of the same memory.
        """
        if self.structure != other.structure:
            return False
        return all(new is old or is_alias(old, new) for old, new in zip(other.inputs, self.inputs))


class Gone:
    """An entry that went before all roles had got it.

    :param entry: Entry.
    :param reason: Why it went.
    """

    def __init__(self, entry: Entry, reason: str) -> None:
        self.reason = reason
        self._served = entry.served
        self._first_input = weakref.ref(entry.inputs[0]) if entry.inputs else None

    def is_wanted(self, role: Hashable, inputs: Sequence[torch.Tensor]) -> bool:
        """Whether a role asks for this entry, rather than beginning a pair of its own.

        :param role: Role.
        :param inputs: Tensors of its arguments.

        :return: True if it has not got it, and the first of its inputs is the very same.
        """
        if role in self._served:
            return False
        return self._first_input is None or (bool(inputs) and self._first_input() is inputs[0])


class Slot:
    """The entries of one call site: a thread, and the position of the call within compute.

    There is one entry, unless several calls of one role come before those of the other, as for the agents of skrl
    1.4's IPPO. That shows when a role asks for inputs whose entry had to go: then the bound rises.
    """

    def __init__(self) -> None:
        # `Tensor.register_hook` gives each graph such a dictionary of its own; one for all is a fraction of the cost
        self.hook = torch.empty(0, device="cpu")
        self.hook._backward_hooks = {0: functools.partial(_lose, weakref.ref(self))}
        self.entries: list[Entry] = []
        self.was_refused = False  # the lookup that runs now found no entry that it may use
        self.is_missed = False  # an entry went before all roles had got it
        self.dropped: list[Gone] = []
        self._bound = 1
        self._evicted: deque[Gone] = deque(maxlen=MOST_ENTRIES)

    def add(self, entry: Entry) -> None:
        """Add an entry in the place of those for the same inputs; the oldest one goes if there are too many.

        :param entry: Entry.
        """
        self.dropped = []
        if not self.entries:
            self.entries = [entry]
            return
        entries = [*(other for other in self.entries if not entry.repeats(other)), entry]
        if len(entries) > self._bound:
            oldest = entries.pop(0)
            if oldest.inputs and not oldest.is_second:
                self._evicted.append(Gone(oldest, "evicted"))
                self.is_missed = True
        self.entries = entries

    def remove(self, entry: Entry) -> None:
        """Remove an entry that all roles have got.

        :param entry: Entry.
        """
        self.entries = [other for other in self.entries if other is not entry] if len(self.entries) > 1 else []

    def lose(self, is_lost: Callable[[Entry], bool], reason: str) -> None:
        """Remove some entries before all roles have got them.

        :param is_lost: Tells which.
        :param reason: What the next refused lookup reports.
        """
        lost = [entry for entry in self.entries if is_lost(entry)]
        if lost:
            self.entries = [entry for entry in self.entries if entry not in lost]
            self._miss(lost, reason)

    def drop(self, reason: str) -> None:
        """Remove all entries.

        :param reason: What the next refused lookup reports.
        """
        entries, self.entries = self.entries, []
        self._miss(entries, reason)

    def _miss(self, entries: list[Entry], reason: str) -> None:
        self.dropped = [Gone(entry, reason) for entry in entries if not entry.is_second] or self.dropped
        self.is_missed |= bool(self.dropped)

    def why_gone(self, role: Hashable, inputs: Sequence[torch.Tensor]) -> str | None:
        """Tell why there is no entry for a role.

        :param role: Role.
        :param inputs: Tensors that it asks for.

        :return: A few words, or None if there was none that it could have got.
        """
        for gone in self.dropped:
            if gone.is_wanted(role, inputs):
                return gone.reason
        for age, gone in enumerate(reversed(self._evicted), 1):
            if gone.is_wanted(role, inputs):
                self._bound = max(self._bound, min(MOST_ENTRIES, age + len(self.entries)))
                self._evicted.clear()
                return gone.reason
        self.is_missed = bool(self._evicted)
        return None


def _lose(slot: weakref.ref[Slot], gradient: torch.Tensor | None) -> None:
    # a backward uses up the graph that it runs through: who comes next must get a graph of its own
    its_slot = slot()
    if its_slot is not None:
        its_slot.lose(lambda entry: entry.requires_grad is not None, "backward")
