"""The memory of one trunk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from operator import is_
from threading import get_ident
from typing import Any

import torch
from torch import nn

from skrl_shared_cache import live
from skrl_shared_cache.conditions import DIFFER, NEEDS_EQUALITY, OTHER_GRAPH, are_equal, why_refused
from skrl_shared_cache.entries import Entry, Slot
from skrl_shared_cache.errors import warn
from skrl_shared_cache.mode import current_mode
from skrl_shared_cache.module_state import ModuleState
from skrl_shared_cache.replay import read_before
from skrl_shared_cache.session import Session
from skrl_shared_cache.trees import Unsupported, copy_containers, flatten, versions_of
from skrl_shared_cache.trial import is_overwritten, verify, why_untrusted

PROBATION = 2
PAIRS_BEFORE_WARNING = 20
HIT = "hit: the same tensors, and nothing has changed"
EQUAL = "hit: other tensors with the same bits (compared on their device, which takes time)"
RAN = "ran: the first call of a pair"
ON_PROBATION = "ran on probation: compared with the pass that it could have got"


_ADVICE = (
    "If the roles get the same inputs, compute the whole trunk in one method of the model and name it: "
    '`shared_modules = ("trunk",)`, so that it is cached as one unit. If they get different inputs, one pass cannot '
    "serve them: use separate networks."
)
_OTHER_ADVICE = (
    "Something happens to it, or to what it returned, between the calls: let that happen before or after both."
)

Trial = tuple[Hashable, tuple[bool, bool]]
"""A role in a mode: training flag and grad mode."""


class Memo:
    """The memory of one trunk: a module, or a function or method of a model.

    :param name: Name to call it in messages.
    :param is_named: Whether it is memoized at once, without waiting until two roles have called it.
    """

    changes = 0  # moves whenever any memo becomes shared or refused: the models then look which of theirs to use

    def __init__(self, name: str, is_named: bool) -> None:
        self.name = name
        self.is_named = self.is_shared = is_named
        self.is_refused = False
        self.roles: set[Hashable] = set()
        self.exposing: set[Hashable] = set()  # the roles whose compute returned what lies in the memory of the output
        self.ready: set[Hashable] | tuple[()] = ()  # the roles, if the trunk is shared and not refused
        self.generation = 0  # moves with every drop: a pass that was running then is not stored
        self._reference = live.reference_to(self)
        self._state = ModuleState()
        self._slots: dict[tuple[int, int], Slot] = {}
        # the number of the call within its compute, to find the slot; a thread that comes between only makes it miss
        self._session = self._position = -1
        self._proofs: Counter[Trial] = Counter()
        self._trusted: set[Trial] = set()
        self._settled: set[Trial] = set()  # producers in modes in which all other roles are trusted
        self._events: dict[Hashable, tuple[int, str]] = {}  # unusual ones: what a role met with, and in which session
        self._began: dict[Hashable, int] = {}  # the session in which a role ran the trunk last
        self._served: dict[Hashable, int] = {}  # who has got the last entry
        self.refusal = ""  # why it is refused
        self._pairs_in_vain = 0  # since the last hit
        self._has_warned = False

    def name_it(self) -> None:
        """Memoize the trunk without waiting until two roles have called it."""
        self.is_named = self.is_shared = True
        self._update_ready()

    def _update_ready(self) -> None:
        self.ready = self.roles if self.is_shared and not self.is_refused else ()

    def watch(self, role: Hashable) -> None:
        """Note that a role calls the trunk.

        :param role: Role.
        """
        if role in self.roles:
            return
        self.roles.add(role)
        self._settled.clear()
        if not self.is_shared and len(self.roles) > 1:
            self.is_shared = True
            Memo.changes += 1
        self._update_ready()

    def refuse(self, why: str, fix: str) -> None:
        """Never memoize the trunk again, and say so once.

        :param why: What was seen.
        :param fix: What the user can do.
        """
        self.drop("not memoized any more")
        if not self.is_refused:
            self.is_refused, self.refusal = True, why
            self._update_ready()
            Memo.changes += 1
            warn(
                f"The shared cache leaves `{self.name}` alone from now on: {why}. {fix}",
            )

    def refuse_writer(self, role: Hashable) -> None:
        """Never memoize the trunk again, since a role changes what the other role got.

        :param role: Role.
        """
        self.refuse(
            f"role {role!r} writes in place into what it returns",
            "Write `relu(x)` instead of `relu_(x)` (or `inplace=False`) in the first layer after it.",
        )

    def drop(self, reason: str) -> None:
        """Forget every entry.

        :param reason: A few words: what the next refused lookup reports.
        """
        self.generation += 1
        for slot in list(self._slots.values()):
            slot.drop(reason)

    def describe(self, root: nn.Module) -> str:
        """Say what is compared between the calls of two roles.

        :param root: Module whose parameters and buffers the trunk depends on.

        :return: A few words.
        """
        modules = self._state.modules(root)
        parameters = sum(parameter is not None for module in modules for parameter in module._parameters.values())
        buffers = sum(buffer is not None for module in modules for buffer in module._buffers.values())
        return f"{parameters} parameters, {buffers} buffers and train/eval flags of {len(modules)} modules"

    def events(self) -> list[tuple[Hashable, str]]:
        """Tell what each role met with when it called the trunk last.

        :return: Roles and words, in the order of the calls.
        """
        events = {role: (number, RAN) for role, number in self._began.items()}
        hits = {role: (number, HIT) for role, number in self._served.items()}
        for role, event in [*hits.items(), *self._events.items()]:
            if event[0] >= events.get(role, event)[0]:
                events[role] = event
        return [(role, what) for role, (_, what) in sorted(events.items(), key=lambda item: item[1][0])]

    def trials(self) -> dict[Trial, int]:
        """Tell who is on probation.

        :return: Number of comparisons passed by (role, (training, grad mode)).
        """
        return dict(self._proofs)

    def release(self) -> None:
        """Let go of the memory of the parameters, which the last pass holds."""
        self._state.forget()

    def call(
        self,
        session: Session,
        module: nn.Module,
        run: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Call the trunk, or return what it returned to another role.

        :param session: Running compute.
        :param module: Module whose parameters and buffers the trunk depends on.
        :param run: The trunk itself.
        :param args: Its arguments.
        :param kwargs: Its keyword arguments.

        :return: What the trunk returns.
        """
        structure: Any = None
        tensors: Any = args
        try:
            if kwargs or len(args) != 1 or type(args[0]) is not torch.Tensor:
                structure = flatten((args, kwargs), tensors := [])
            slot, entry = self.look_up(session, module, structure, tensors)
        except Unsupported as reason:
            session.counters.bypass(str(reason))
            self._events[session.role] = session.number, f"bypassed the cache: {reason}"
            self.pass_by(session)
            return run(*args, **kwargs)
        if entry.outputs is None:
            session.counters.misses += not session.running_units  # a trunk within a trunk is no pass of its own
            session.running_units += 1
            try:
                output = run(*args, **kwargs)
            finally:
                session.running_units -= 1
            if structure is not None and not _are_unchanged(args, kwargs, structure, tensors):
                session.counters.bypass("the trunk writes into its arguments")
            elif not self.is_refused and entry.generation == self.generation:
                self.store(session, slot, entry, module, output)
            return output
        if (session.role, entry.trial) in self._trusted and session.mode != "verify":
            return self.use(session, entry)
        return self._compare(session, entry, run, args, kwargs)

    def pass_by(self, session: Session) -> None:
        """Note that a role runs the trunk past the cache: what an earlier pair has left over serves nobody any more.

        :param session: Running compute.
        """

        def is_left_over(entry: Entry) -> bool:
            return (
                entry.served is not session.served and entry.served.get(session.role, session.number) != session.number
            )

        for slot in list(self._slots.values()):
            slot.lose(is_left_over, "another call came between")

    def look_up(
        self, session: Session, module: nn.Module, structure: Any, tensors: Sequence[torch.Tensor]
    ) -> tuple[Slot, Entry]:
        """Look for an entry that may be used now.

        :param session: Running compute.
        :param module: Module whose parameters and buffers the trunk depends on.
        :param structure: Arguments of the trunk without their tensors.
        :param tensors: Tensors of the arguments.

        :return: The slot of the call, and an entry. It may be a new one, for a pass that begins now. If it is not, the
            role counts as served, and when every known role is, the entry goes.

        :raises Unsupported: If the call must bypass the cache.
        """
        mode, role, number = current_mode(), session.role, session.number
        if self._session == number:
            self._position += 1
        else:
            self._session, self._position = number, 0
        slot = self._slots.get((get_ident(), self._position))
        if slot is None:
            slot = self._slots[get_ident(), self._position] = Slot()
        found: Entry | None = None
        refused: list[tuple[Entry, str]] = []
        try:
            for each in slot.entries:
                if each.served.get(role, number) == number:
                    reason = why_refused(each, mode, module, self._state, structure, tensors)
                    if reason is None:
                        found = each
                        break
                    refused.append((each, reason))
            if found is None and (refused or slot.is_missed):
                found = self._find_equal(session, slot, refused, tensors)
            if found is not None:
                found.served[role] = number
                self._pairs_in_vain = 0
                if found.served.keys() >= self.roles:
                    slot.remove(found)
                return slot, found
            session.served[role] = -1
            generation = self.generation
            # after the generation was read, and before the parameters are: another thread may take a step at any time
            live.memos[id(self)] = self._reference
            entry = self._state.begin(module, structure, tensors)
            entry.mode, entry.served, entry.generation = mode, session.served, generation
        except RuntimeError as error:
            raise _why_unsupported(error, tensors) from None
        self._began[role], self._served = number, session.served
        if slot.was_refused:
            entry.is_second, slot.was_refused = True, False
            self._events[role] = number, f"ran again: {session.counters.last_miss}{_difference(refused, tensors)}"
        has_trial = (role, entry.trial) not in self._settled and self._has_trial_ahead(role, entry.trial)
        if has_trial or session.mode == "verify":
            entry.before = read_before(self._state.modules(module))
        return slot, entry

    def _find_equal(
        self, session: Session, slot: Slot, refused: list[tuple[Entry, str]], tensors: Sequence[torch.Tensor]
    ) -> Entry | None:
        for entry, reason in refused:
            if reason is NEEDS_EQUALITY and are_equal(entry.inputs, tensors):  # waits for the device
                self._events[session.role] = session.number, EQUAL
                return entry
        reasons = [DIFFER if reason is NEEDS_EQUALITY else reason for entry, reason in refused if not entry.is_second]
        gone = slot.why_gone(session.role, tensors) if slot.is_missed else None
        if gone is not None:
            reasons.append(gone)
        if reasons:
            session.has_glue |= reasons[-1] is OTHER_GRAPH
            session.counters.refuse(reasons[-1])
            self._count_in_vain(session, reasons[-1])
        slot.was_refused = bool(reasons)
        return None

    def store(self, session: Session, slot: Slot, entry: Entry, module: nn.Module, output: Any) -> None:
        """Keep what a pass returned. Not if something was dropped while it ran: then the generation has moved.

        :param session: Running compute.
        :param slot: Slot of the call.
        :param entry: Entry that began before the pass.
        :param module: Module whose parameters and buffers the trunk depends on.
        :param output: What the pass returned.
        """
        outputs = [output]
        try:
            if type(output) is not torch.Tensor or output.layout is not torch.strided:
                flatten(output, outputs := [])
                output = copy_containers(output)
            entry.output = output
            self._state.complete(module, entry, outputs)
        except (Unsupported, RuntimeError) as error:
            reason = error if isinstance(error, Unsupported) else _why_unsupported(error, outputs)
            if not isinstance(reason, Unsupported):
                raise
            session.counters.bypass(f"output: {reason}")
            return
        if entry.trial[1]:
            for tensor in outputs:
                grad_fn = tensor.grad_fn
                if grad_fn is not None:
                    grad_fn._register_hook_dict(slot.hook)
        slot.add(entry)

    def use(self, session: Session, entry: Entry) -> Any:
        """Give an entry to a role.

        :param session: Running compute of the role.
        :param entry: Entry.

        :return: Its output, in containers of its own.
        """
        session.counters.hits += not session.running_units
        for tensor in entry.outputs or ():  # a moment ago, their versions were the recorded ones
            session.features += ((self, tensor, tensor._version, None),)
        return entry.output if type(entry.output) is torch.Tensor else copy_containers(entry.output)

    def _compare(
        self,
        session: Session,
        entry: Entry,
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

        if entry.before is not None and not self.is_on_probation(role, entry):
            verify(entry, self.name, role, run_alone)
            return self.use(session, entry)
        session.counters.misses += 1
        self._events[role] = session.number, ON_PROBATION
        fresh = run_alone()
        for tensor, version in versions_of(fresh):
            session.features += ((self, tensor, version, tensor.requires_grad),)
        if entry.before is None:
            return fresh  # it was kept while nobody was on probation: nothing to judge it by
        if is_overwritten(entry, fresh):
            self.refuse(
                "it returns the same memory in every call, as CUDA graphs do, and the next call overwrites it",
                'Let it return `features.clone()`, or compile it without CUDA graphs (no mode="reduce-overhead").',
            )
            return fresh
        differs = why_untrusted(entry, fresh, run_alone)
        self.pass_probation(role, entry)
        if differs is not None:
            self.refuse(
                f"for the same inputs it returned something else to role {role!r} than to the role before ({differs})",
                "It depends on more than its inputs, parameters and buffers (the role, a tensor in a list or a "
                "closure, a `.data` write): pass that as an argument, or register it as a buffer.",
            )
        return fresh

    def is_on_probation(self, role: Hashable, entry: Entry) -> bool:
        """Whether an entry for a role is compared with a pass of its own.

        :param role: Role.
        :param entry: Entry, made in the training and grad mode that is on probation.

        :return: True for the first :py:data:`PROBATION` times.
        """
        return (role, entry.trial) not in self._trusted

    def pass_probation(self, role: Hashable, entry: Entry) -> None:
        """Count one comparison.

        :param role: Role.
        :param entry: Entry that was compared.
        """
        trial = role, entry.trial
        self._proofs[trial] += 1
        if self._proofs[trial] >= PROBATION:
            self._trusted.add(trial)

    def _has_trial_ahead(self, producer: Hashable, trial: tuple[bool, bool]) -> bool:
        others = self.roles - {producer}
        if others and all((role, trial) in self._trusted for role in others):
            self._settled.add((producer, trial))
            return False
        return True

    def _count_in_vain(self, session: Session, reason: str) -> None:
        self._pairs_in_vain += 1
        is_wanted = self.is_named or not session.counters.has_names
        if self._pairs_in_vain < PAIRS_BEFORE_WARNING or self._has_warned or not is_wanted:
            return
        self._has_warned = True
        warn(
            f"The shared cache does not help `{self.name}`: it ran again for role {session.role!r} in "
            f"{PAIRS_BEFORE_WARNING} pairs in a row ({reason}). {_ADVICE if 'inputs' in reason else _OTHER_ADVICE}"
        )


def _difference(refused: list[tuple[Entry, str]], tensors: Sequence[torch.Tensor]) -> str:
    if not refused or refused[-1][1] not in (NEEDS_EQUALITY, DIFFER, OTHER_GRAPH):
        return ""
    got, kept = (", ".join(f"{list(x.shape)} {x.dtype}" for x in each) for each in (tensors, refused[-1][0].inputs))
    return f" (got {got}; kept {kept})" if got != kept else f" (got other tensors of the same form: {got})"


def _are_unchanged(args: Any, kwargs: Any, structure: Any, tensors: Sequence[torch.Tensor]) -> bool:
    now: list[torch.Tensor] = []
    try:
        return flatten((args, kwargs), now) == structure and all(map(is_, now, tensors))
    except Unsupported:
        return False


def _why_unsupported(error: RuntimeError, tensors: Sequence[torch.Tensor]) -> Exception:
    for tensor in tensors:
        if tensor.layout is not torch.strided or tensor.is_nested:
            return Unsupported(f"a tensor of layout {tensor.layout}")
    if "Inference tensors do not track version counter" in str(error):
        return Unsupported("an inference tensor")
    if "overwritten by a subsequent run" in str(error) or "Cannot access data pointer" in str(error):
        return Unsupported("output was overwritten")  # by the next run of a CUDA graph of torch.compile
    if "modified inplace" in str(error):
        return Unsupported("a view of what was written")
    return error
