"""The ``_shared_output`` of skrl's documentation, made safe.

Models that follow it put the features there in one role and read them in the next. Here they read what the same compute
put there, and None at the start of another one: so they compute the features afresh, and the memos of the trunk's
modules answer. Where the trunk is more than its modules (two networks, concatenated), no module can answer in grad
mode: its input is a new tensor. Then the last features are *offered* at the start of the next role's compute, if its
inputs, the whole model and the mode are what they were.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

from skrl_shared_cache.errors import CacheMismatchError
from skrl_shared_cache.memo import Entry, Memo, Slot
from skrl_shared_cache.replay import difference, read_before, replay
from skrl_shared_cache.session import Session
from skrl_shared_cache.trees import Unsupported, copy_containers, flatten, map_tensors


class Frame:
    """``_shared_output`` within one call of compute.

    :param offered: What the call reads there before it puts anything.
    """

    def __init__(self, offered: Any = None) -> None:
        self.inputs: Any = None
        self.role: Any = None
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

    def is_unwritten(self) -> bool:
        """Whether nobody wrote in place into the features since they were put here.

        :return: True if no version counter moved.
        """
        return all(tensor._version == version for tensor, version in self._written)


class SharedOutput:
    """The features of the last compute, for the next role."""

    def __init__(self) -> None:
        self.is_offered = False
        self.memo = Memo("_shared_output")

    def run(self, session: Session, model: torch.nn.Module, inputs: Any, compute: Callable[[Frame], Any]) -> Any:
        """Run a compute, and offer it the features of the one before, if they are what it would compute.

        :param session: Running compute.
        :param model: Model, on all of whose parameters and buffers the features may depend.
        :param inputs: Inputs of compute.
        :param compute: Compute, as a function of the frame to use.

        :return: What compute returns.
        """
        memo = self.memo
        if not self.is_offered or memo.is_refused or session.transparent:
            frame = Frame()
            result = compute(frame)
            # from now on, if this model follows the pattern and the memos of its modules do not suffice
            self.is_offered = self.is_offered or frame.read_none and session.has_glue
            return result
        memo.watch(session.role)
        slot, entry, pending = Slot(), None, None
        try:
            slot, entry, pending = memo.look_up(session, model, _without_actions(inputs))
        except Unsupported as reason:
            session.counters.bypass(str(reason))
        if entry is None:
            # a model may keep more than the features (an LSTM's states), and then for the next compute only
            memo.drop("another compute came between")
            frame = Frame()
            result = compute(frame)
            if pending is not None and frame.features is not None and frame.is_unwritten():
                pending.generation = memo.generation
                memo.store(session, slot, pending, model, frame.features)
            return result
        memo.mark_served(slot, entry, session.role)
        if memo.is_on_probation(session.role, model) or session.mode == "verify":
            result = compute(Frame())
            self._prove(session, model, entry, compute)
            memo.pass_probation(session.role, model)
            return result
        session.counters.hits += 1
        session.share(entry.outputs, entry.inputs)
        features = copy_containers(entry.output)
        session.hand_out(memo, features)
        return compute(Frame(features))

    def _prove(self, session: Session, model: torch.nn.Module, entry: Entry, compute: Callable[[Frame], Any]) -> None:
        features = map_tensors(entry.output, torch.clone)
        versions = versions_of(features)

        def run(offered: Any) -> Any:
            session.transparent += 1
            try:
                return compute(Frame(offered))
            finally:
                session.transparent -= 1

        before = entry.before or read_before(list(model.modules()))
        differs = difference(replay(before, lambda: run(None)), replay(before, lambda: run(features)))
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


def versions_of(value: Any) -> list[tuple[torch.Tensor, int]]:
    """List the tensors of a nested value with their versions.

    :param value: Nested value.

    :return: Pairs of tensor and version; none if the value holds what cannot be compared.
    """
    tensors: list[torch.Tensor] = []
    try:
        flatten(value, tensors)
    except Unsupported:
        return []
    return [(tensor, tensor._version) for tensor in tensors if not tensor.is_inference()]


def _without_actions(inputs: Any) -> Any:
    # only the policy gets the taken actions, and features do not depend on them (probation finds it out if they do)
    if isinstance(inputs, dict):
        return {key: value for key, value in inputs.items() if key != "taken_actions"}
    return inputs
