"""The ``_shared_output`` of skrl's documentation, made safe.

Models that follow it put the features there in one role and read them in the next. Here they read what the same compute
put there, and None at the start of another one: so they compute the features afresh, and the memos of the trunk's
modules answer. Where the trunk is more than its modules (two networks, concatenated), no module can answer in grad
mode: its input is a new tensor. Then the last features are *offered* at the start of the next role's compute, if its
inputs, the whole model and the mode are what they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from skrl_shared_cache.entries import Entry, Slot
from skrl_shared_cache.errors import CacheMismatchError
from skrl_shared_cache.memo import Memo
from skrl_shared_cache.replay import difference, read_before, replay, restored_attributes
from skrl_shared_cache.session import Session
from skrl_shared_cache.trees import Unsupported, flatten, map_tensors, versions_of


class Frame:
    """``_shared_output`` within one call of compute.

    :param offered: What the call reads there before it puts anything.
    """

    def __init__(self, offered: Any = None) -> None:
        self.arguments: tuple[Any, Any] = None, None  # inputs and role of the call
        self.value = offered
        self.features: Any = None  # what this call put there and the next role may be offered
        self.read_none = False
        self._written: list[tuple[torch.Tensor, int]] = []

    def get(self) -> Any:
        """Read the attribute.

        :return: What this compute put there, or was offered; else None.
        """
        self.read_none |= self.value is None
        return self.value

    def put(self, value: Any) -> None:
        """Write the attribute.

        :param value: Features, or None.
        """
        self.value = value
        if value is not None:
            self.features = value
            self._written = versions_of(value)

    def explains(self, error: BaseException) -> bool:
        """Whether an error comes from a role that reads the features and does not compute them.

        :param error: What compute raised.

        :return: True if it read None, put nothing, and failed on a None.
        """
        is_about_none = isinstance(error, (TypeError, AttributeError)) and "NoneType" in str(error)
        return is_about_none and self.read_none and self.features is None

    def is_unwritten(self) -> bool:
        """Whether nobody wrote in place into the features since they were put here.

        :return: True if no version counter moved.
        """
        return all(tensor._version == version for tensor, version in self._written)


class SharedOutput:
    """The features of the last compute, for the next role."""

    def __init__(self) -> None:
        self.is_used = False  # this model follows the pattern
        self.is_offered = False  # and the memos of its modules do not suffice
        self.memo = Memo("_shared_output", is_named=True)

    def run(
        self, session: Session, key: int, model: nn.Module, compute: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        """Run a compute, and offer it the features of the one before, if they are what it would compute.

        :param session: Running compute.
        :param key: Key of the model in the session's frames.
        :param model: Model, on all of whose parameters and buffers the features may depend.
        :param compute: Its compute, as the plain function.
        :param args: Arguments of compute after the model.
        :param kwargs: Keyword arguments of compute.

        :return: What compute returns.
        """
        inputs = _inputs_of(args, kwargs)

        def run(frame: Frame) -> Any:
            frame.arguments = inputs, session.role
            session.frames[key] = frame
            return compute(model, *args, **kwargs)

        memo = self.memo
        frame = Frame()
        if not self.is_offered or memo.is_refused or session.transparent:
            result = run(frame)
            self.is_offered = self.is_offered or (frame.read_none and session.has_glue)
            return result
        memo.watch(session.role)
        slot: Slot | None = None
        entry: Entry | None = None
        try:
            tensors: list[torch.Tensor] = []
            structure = flatten(_without_actions(inputs), tensors)
            slot, entry = memo.look_up(session, model, structure, tensors)
        except Unsupported as reason:
            session.counters.bypass(str(reason))
        if entry is None or entry.outputs is None:
            # a model may keep more than the features (an LSTM's states), and then for the next compute only
            memo.drop("another compute came between")
            generation = memo.generation
            result = run(frame)
            is_kept = memo.generation == generation  # or something was dropped meanwhile
            if (
                slot is not None
                and entry is not None
                and is_kept
                and frame.features is not None
                and frame.is_unwritten()
            ):
                entry.generation = generation
                memo.store(session, slot, entry, model, frame.features)
            return result
        if session.mode == "verify" or memo.is_on_probation(session.role, entry):
            result = run(frame)
            self._prove(session, model, entry, run)
            memo.pass_probation(session.role, entry)
            return result
        return run(Frame(memo.use(session, entry)))

    def run_inside(
        self, session: Session, key: int, model: nn.Module, compute: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        """Run a compute inside a compute of the same model.

        :param session: Running compute.
        :param key: Key of the model in the session's frames.
        :param model: Model.
        :param compute: Compute to run, as the plain function.
        :param args: Its arguments after the model.
        :param kwargs: Its keyword arguments.

        :return: What it returns.
        """
        outside = session.frames[key]
        inputs, role = _inputs_of(args, kwargs), args[1] if len(args) > 1 else kwargs.get("role", "")
        if outside is not None and outside.arguments[0] is inputs and outside.arguments[1] == role:
            return compute(model, *args, **kwargs)  # of its parent class: they share the attribute
        session.frames[key] = Frame()
        try:
            return compute(model, *args, **kwargs)
        finally:
            session.frames[key] = outside

    def _prove(self, session: Session, model: nn.Module, entry: Entry, compute: Callable[[Frame], Any]) -> None:
        features = map_tensors(entry.output, torch.clone)
        versions = versions_of(features)

        def run(offered: Any) -> Any:
            session.transparent += 1
            try:
                return compute(Frame(offered))
            finally:
                session.transparent -= 1

        modules = list(model.modules())
        before = entry.before or read_before(modules)
        with restored_attributes(modules):
            without = replay(before, lambda: run(None))
        with restored_attributes(modules):
            differs = difference(without, replay(before, lambda: run(features)))
        if differs is None and any(tensor._version != version for tensor, version in versions):
            differs = "it writes in place into the features"
        if differs is None:
            return
        if session.mode == "verify":
            raise CacheMismatchError(
                f"compute(role={session.role!r}) returned something else with the `_shared_output` of the role before "
                f"than without it: {differs}."
            )
        self.memo.refuse(
            f"compute(role={session.role!r}) returns something else with it than without it ({differs})",
            'Compute the trunk in one method of the model and name it: `shared_modules = ("trunk",)`.',
        )


def _inputs_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0] if args else kwargs.get("inputs")


def _without_actions(inputs: Any) -> Any:
    # only the policy gets the taken actions, and features do not depend on them (probation finds it out if they do)
    if isinstance(inputs, dict):
        return {key: value for key, value in inputs.items() if key != "taken_actions"}
    return inputs
