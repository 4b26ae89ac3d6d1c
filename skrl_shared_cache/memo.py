"""What one trunk returned, and when it may be returned again.

:py:meth:`Memo._why_refused` is the heart of the package: an entry is used only if it finds no reason against it.
"""

from __future__ import annotations

from typing import Any, Callable, Hashable, Sequence

import warnings
import weakref
from collections import Counter, deque
from threading import get_ident

import torch
from torch import nn

from skrl_shared_cache import live
from skrl_shared_cache.errors import CacheMismatchError, SharedCacheWarning
from skrl_shared_cache.mode import bypass_reason, current_mode, why_modes_differ
from skrl_shared_cache.module_state import ModuleState, Snapshot
from skrl_shared_cache.replay import Before, difference, read_before, replay
from skrl_shared_cache.session import Session
from skrl_shared_cache.tensors import TensorRecord, equals, is_alias, is_unchanged, may_equal, record_tensor
from skrl_shared_cache.trees import Unsupported, copy_containers, flatten


PROBATION = 2
MOST_ENTRIES = 16
_NEEDS_EQUALITY = "needs equality"
_OTHER_GRAPH = "inputs are new tensors that require grad"
PAIRS_BEFORE_WARNING = 20


class Entry:
    """One forward pass of a trunk: all that it depended on, and what it returned."""

    __slots__ = ("__weakref__", "structure", "inputs", "state", "mode", "served", "output", "outputs", "before", "generation")

    def __init__(self, structure: Any, inputs: list[TensorRecord], state: Snapshot, mode: Any, role: Hashable) -> None:
        self.structure = structure
        self.inputs = inputs
        self.state = state
        self.mode = mode
        self.served = {role}  # the roles that need it no more: at first its producer
        self.output: Any = None
        self.outputs: list[TensorRecord] = []
        self.before: Before | None = None
        self.generation = 0

    def tensors(self) -> list[torch.Tensor]:
        """List the tensors of the output.

        :return: Tensors.
        """
        return [record.tensor for record in self.outputs]


class Slot:
    """The entries of one call site: a thread, and the position of the call within compute."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.evicted: deque[weakref.ref[torch.Tensor]] = deque(maxlen=MOST_ENTRIES)
        self.dropped: tuple[str, set[Hashable]] | None = None
        self.pairs_in_vain = 0


class Memo:
    """The memory of one trunk: a module, or a function or method of a model.

    :param name: Name to call it in messages.
    :param module: The trunk, or None if it is a function of a model (the model is then passed to each call).
    """

    changes = 0  # moves whenever any memo becomes shared or refused: the models then look which of theirs to use

    def __init__(self, name: str, module: nn.Module | None = None) -> None:
        self.name = name
        self.module = module
        self.is_shared = module is None  # a module is shared when it is named in ``shared_modules`` or has two roles
        self.is_named = module is None
        self.is_refused = False
        self.roles: set[Hashable] = set()
        self.reference = live.reference_to(self)
        self._state = ModuleState()
        self._slots: dict[tuple[int, int], Slot] = {}
        self._bound = 1
        self.generation = 0  # moves with every drop: a pass that was running then is not stored
        self._proofs: Counter[Hashable] = Counter()
        self._trusted: set[Hashable] = set()
        self._has_warned = False

    def name_it(self) -> None:
        """Memoize the trunk without waiting until two roles have called it."""
        self.is_named = self.is_shared = True

    def watch(self, role: Hashable) -> None:
        """Note that a role calls the trunk.

        :param role: Role.
        """
        if role not in self.roles:
            self.roles.add(role)
            if not self.is_shared and len(self.roles) > 1:
                self.is_shared = True
                Memo.changes += 1

    def refuse(self, why: str, fix: str) -> None:
        """Never memoize the trunk again, and say so once.

        :param why: What was seen.
        :param fix: What the user can do.
        """
        self.drop("not memoized any more")
        if not self.is_refused:
            self.is_refused = True
            Memo.changes += 1
            warnings.warn(f"The shared cache leaves `{self.name}` alone from now on: {why}. {fix}", SharedCacheWarning)

    def drop(self, reason: str) -> None:
        """Forget every entry.

        :param reason: A few words: what the next refused lookup reports.
        """
        self.generation += 1
        live.discard(self)
        for slot in list(self._slots.values()):
            if slot.entries:
                slot.dropped = reason, set().union(*(entry.served for entry in slot.entries))
                slot.entries = []

    def forget(self, entry: Entry, reason: str) -> None:
        """Forget one entry, if it is still there.

        :param entry: Entry.
        :param reason: A few words.
        """
        for slot in list(self._slots.values()):
            if entry in slot.entries:
                slot.entries = [other for other in slot.entries if other is not entry]
                slot.dropped = reason, entry.served

    def call(
        self, session: Session, module: nn.Module, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call the trunk, or return what it returned to the other role.

        :param session: Running compute.
        :param module: Module whose parameters and buffers the trunk depends on.
        :param run: The trunk itself.
        :param args: Its arguments.
        :param kwargs: Its keyword arguments.

        :return: What the trunk returns.
        """
        try:
            if len(args) == 1 and not kwargs and type(args[0]) is torch.Tensor:
                slot, entry, pending = self._look_up(session, module, None, args)
            else:
                slot, entry, pending = self.look_up(session, module, (args, kwargs))
        except Unsupported as reason:
            session.counters.bypass(str(reason))
            return run(*args, **kwargs)
        if entry is not None:
            return self._serve(session, slot, entry, module, run, args, kwargs)
        session.counters.misses += 1
        session.running_units += 1
        try:
            output = run(*args, **kwargs)
        finally:
            session.running_units -= 1
        self.store(session, slot, pending, module, output)
        return output

    def look_up(self, session: Session, module: nn.Module, arguments: Any) -> tuple[Slot, Entry | None, Entry | None]:
        """Look for an entry that may be used now.

        :param session: Running compute.
        :param module: Module whose parameters and buffers the trunk depends on.
        :param arguments: Nested arguments of the trunk.

        :return: The slot of the call; the entry, if there is one; a new entry for a pass that begins now, if not.

        :raises Unsupported: If the call must bypass the cache.
        """
        tensors: list[torch.Tensor] = []
        return self._look_up(session, module, flatten(arguments, tensors), tensors)

    def _look_up(
        self, session: Session, module: nn.Module, structure: Any, tensors: Sequence[torch.Tensor]
    ) -> tuple[Slot, Entry | None, Entry | None]:
        position = session.positions.get(self, 0)
        session.positions[self] = position + 1
        key = get_ident(), position
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = Slot()
        reason = bypass_reason()
        if reason is not None:
            raise Unsupported(reason)
        try:
            entry = self._find(session, slot, module, structure, tensors)
            return slot, entry, self._begin(session, module, structure, tensors) if entry is None else None
        except RuntimeError as error:
            if "Inference tensors do not track version counter" in str(error):
                raise Unsupported("an inference tensor") from None
            raise

    def _find(
        self, session: Session, slot: Slot, module: nn.Module, structure: Any, tensors: Sequence[torch.Tensor]
    ) -> Entry | None:
        role = session.role
        reason: str | None = None
        equal_if: list[Entry] = []
        for entry in slot.entries:
            if role not in entry.served:
                reason = self._why_refused(entry, module, structure, tensors)
                if reason is None:
                    return entry
                if reason is _NEEDS_EQUALITY:
                    reason = "inputs differ"
                    equal_if.append(entry)
        for entry in equal_if:  # last, since it waits for the device
            if _are_equal(entry.inputs, tensors):
                return entry
        if reason is None and (slot.dropped is not None or slot.evicted):
            reason = self._why_none(slot, role, tensors)
        if reason is not None:
            session.has_glue |= reason is _OTHER_GRAPH
            session.counters.refuse(reason)
            self._count_in_vain(slot, role, reason)
        return None

    def _why_none(self, slot: Slot, role: Hashable, tensors: list[torch.Tensor]) -> str | None:
        if slot.dropped is not None:
            reason, served = slot.dropped
            slot.dropped = None
            return None if role in served else reason
        if slot.evicted and tensors:
            ages = [age for age, seen in enumerate(reversed(slot.evicted), 1) if seen() is tensors[0]]
            if ages:
                self._bound = max(self._bound, min(MOST_ENTRIES, ages[0] + len(slot.entries)))
                slot.evicted.clear()
                return "evicted"
        return None

    def _why_refused(
        self, entry: Entry, module: nn.Module, structure: Any, tensors: Sequence[torch.Tensor]
    ) -> str | None:
        mode = current_mode()
        if mode != entry.mode:
            return why_modes_differ(mode, entry.mode) + " changed"
        if structure != entry.structure:
            return "inputs differ"
        needs_equality = False
        for record, tensor in zip(entry.inputs, tensors):
            if not is_unchanged(record):
                return "inputs were written"
            if tensor is record.tensor or is_alias(record, tensor):
                continue
            if not may_equal(record, tensor):
                return _OTHER_GRAPH if tensor.requires_grad else "inputs differ"
            needs_equality = True
        for record in entry.outputs:
            if not is_unchanged(record):
                return "output was written"
        changed = self._state.why_changed(module, entry.state)
        if changed is not None:
            return changed
        return _NEEDS_EQUALITY if needs_equality else None

    def _serve(
        self,
        session: Session,
        slot: Slot,
        entry: Entry,
        module: nn.Module,
        run: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        role = session.role
        self.mark_served(slot, entry, role)
        slot.pairs_in_vain = 0
        if session.mode == "on" and not self.is_on_probation(role, module):
            output = entry.output if type(entry.output) is torch.Tensor else copy_containers(entry.output)
            session.counters.hits += 1
            session.shared.extend(entry.tensors())
        else:
            output = self._compare(session, entry, module, run, args, kwargs)
        session.hand_out(self, output)
        return output

    def _compare(
        self,
        session: Session,
        entry: Entry,
        module: nn.Module,
        run: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        role = session.role

        def run_alone() -> Any:
            session.transparent += 1
            try:
                return run(*args, **kwargs)
            finally:
                session.transparent -= 1

        if self.is_on_probation(role, module) or entry.before is None:
            session.counters.misses += 1
            output = run_alone()
            self._prove(entry, output, role, run_alone)
            self.pass_probation(role, module)
            return output
        self._verify(entry, role, run_alone)
        session.counters.hits += 1
        session.shared.extend(entry.tensors())
        return copy_containers(entry.output)

    def mark_served(self, slot: Slot, entry: Entry, role: Hashable) -> None:
        """Note that a role has got an entry. When every known role has, it goes.

        :param slot: Slot of the entry.
        :param entry: Entry.
        :param role: Role.
        """
        entry.served.add(role)
        if self.roles <= entry.served:
            if len(slot.entries) > 1:
                slot.entries = [other for other in slot.entries if other is not entry]
            else:
                slot.entries = []
                live.discard(self)

    def is_on_probation(self, role: Hashable, module: nn.Module) -> bool:
        """Whether the next entry for a role is compared with a pass of its own.

        :param role: Role.
        :param module: Module whose training flag, together with the grad mode, is the mode on probation.

        :return: True for the first :py:data:`PROBATION` times.
        """
        return (role, module.training, torch.is_grad_enabled()) not in self._trusted

    def pass_probation(self, role: Hashable, module: nn.Module) -> None:
        """Count one comparison.

        :param role: Role.
        :param module: As for :py:meth:`is_on_probation`.
        """
        trial = role, module.training, torch.is_grad_enabled()
        self._proofs[trial] += 1
        if self._proofs[trial] == PROBATION:
            self._trusted.add(trial)

    def _prove(self, entry: Entry, fresh: Any, role: Hashable, run: Callable[[], Any]) -> None:
        """Probation: the first outputs that would have been served are compared with those of a pass of their own."""
        differs = difference(entry.output, fresh)
        if differs is None:
            return
        if entry.before is not None:
            again = replay(entry.before, run)
            differs = difference(entry.output, again)
            if differs is None:
                return  # the difference came from random numbers, or from buffers that each pass updates
            if difference(again, replay(entry.before, run)) is not None:
                return  # it returns something else each time that it runs, with or without the cache
        self.refuse(
            f"for the same inputs it returned something else to role {role!r} than to the role before ({differs})",
            "It depends on more than its inputs, parameters and buffers (the role, a tensor in a list or a closure, a "
            "`.data` write): pass that as an argument, or register it as a buffer.",
        )

    def _verify(self, entry: Entry, role: Hashable, run: Callable[[], Any]) -> None:
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
            f"`{self.name}` was about to serve role {role!r} from the cache, and a recomputation on the same inputs "
            f"returned something else: {differs}. {cause}"
        )

    def _begin(self, session: Session, module: nn.Module, structure: Any, tensors: list[torch.Tensor]) -> Entry:
        inputs = list(map(record_tensor, tensors))
        entry = Entry(structure, inputs, self._state.snapshot(module), current_mode(), session.role)
        entry.generation = self.generation
        if session.mode == "verify" or self._has_trial_ahead(session.role, module):
            entry.before = read_before(self._state.modules(module))
        return entry

    def _has_trial_ahead(self, producer: Hashable, module: nn.Module) -> bool:
        for role in self.roles:
            if role != producer and self.is_on_probation(role, module):
                return True
        return len(self.roles) < 2

    def store(self, session: Session, slot: Slot, entry: Entry, module: nn.Module, output: Any) -> None:
        """Keep what a pass returned, unless something was dropped while it ran.

        :param session: Running compute.
        :param slot: Slot of the call.
        :param entry: Entry that began before the pass.
        :param module: Module whose parameters and buffers the trunk depends on.
        :param output: What the pass returned.
        """
        if self.is_refused or entry.generation != self.generation:
            return
        tensors: list[torch.Tensor] = []
        try:
            if type(output) is torch.Tensor:
                tensors.append(output)
                entry.output = output
            else:
                flatten(output, tensors)
                entry.output = copy_containers(output)
            entry.state = self._state.after_forward(module, entry.state)
        except Unsupported as reason:
            session.counters.bypass(f"output: {reason}")
            return
        entry.outputs = list(map(record_tensor, tensors))
        if torch.is_grad_enabled():
            for grad_fn in {record.grad_fn for record in entry.outputs if record.grad_fn is not None}:
                grad_fn.register_prehook(_ForgetAtBackward(self, entry))
        if not slot.entries:
            live.add(self)
        while len(slot.entries) >= self._bound:
            evicted = slot.entries.pop(0)
            if evicted.inputs:
                slot.evicted.append(weakref.ref(evicted.inputs[0].tensor))
        slot.entries = [*slot.entries, entry]
        slot.dropped = None
        session.shared.extend(tensors)

    def _count_in_vain(self, slot: Slot, role: Hashable, reason: str) -> None:
        slot.pairs_in_vain += 1
        if slot.pairs_in_vain < PAIRS_BEFORE_WARNING or self._has_warned:
            return
        self._has_warned = True
        warnings.warn(
            f"The shared cache does not help `{self.name}`: it ran again for role {role!r} in "
            f"{PAIRS_BEFORE_WARNING} pairs in a row ({reason}). If the roles get the same inputs, compute the whole "
            'trunk in one method of the model and name it: `shared_modules = ("trunk",)`, so that it is cached as one '
            "unit. If they get different inputs, one pass cannot serve them: use separate networks.",
            SharedCacheWarning,
        )


def _are_equal(records: list[TensorRecord], tensors: Sequence[torch.Tensor]) -> bool:
    return all(
        record.tensor is tensor or is_alias(record, tensor) or equals(record.tensor, tensor)
        for record, tensor in zip(records, tensors)
    )


class _ForgetAtBackward:
    """A backward uses up the graph of an output: who comes next must get a graph of its own."""

    def __init__(self, memo: Memo, entry: Entry) -> None:
        self._memo = memo.reference
        self._entry = weakref.ref(entry)

    def __call__(self, grad_outputs: Any) -> None:
        memo, entry = self._memo(), self._entry()
        if memo is not None and entry is not None:
            memo.forget(entry, "backward")
