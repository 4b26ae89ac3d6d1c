"""The compute call that is running on this thread."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import torch

from skrl_shared_cache.tensors import has_hooks, holds_memory_of, share_memory_with
from skrl_shared_cache.trees import map_tensors, tensors_of

if TYPE_CHECKING:
    from skrl_shared_cache.info import Counters
    from skrl_shared_cache.memo import Memo
    from skrl_shared_cache.shared_output import Frame


_numbers = itertools.count()


class Session:
    """One outermost call of ``compute``, with the calls of other models' ``compute`` inside it.

    :param role: Role of the outermost call.
    :param counters: Statistics of the outermost model.
    :param key: Key of the outermost model in :py:attr:`frames`.
    """

    __slots__ = (
        "counters",
        "features",
        "frames",
        "has_glue",
        "mode",
        "number",
        "role",
        "running_units",
        "served",
        "transparent",
    )  # fmt: skip

    def __init__(self, role: Hashable, counters: Counters, key: int) -> None:
        self.role = role
        self.mode = "on"  # or "off", "verify"
        self.running_units = 0  # memoized trunks that run now, one inside another
        self.transparent = 0  # above zero, every call passes through: mode off, replays
        self.has_glue = False  # a shared module got a new tensor that requires grad
        self.counters = counters
        self.frames: dict[int, Frame | None] = {key: None}  # `_shared_output` of each model that computes
        # what the role got, with versions: of another role's pass; with requires_grad: of its own, on probation
        self.features: tuple[tuple[Memo, torch.Tensor, int, bool | None], ...] = ()
        self.number = next(_numbers)
        # The roles that need none of the entries that begin here any more: the one that runs, and those that have got
        # one of them, each with the number of the session in which it did. In that one it may still get the others.
        self.served: dict[Hashable, int] = {}

    def end(self, result: Any) -> Any:
        """Look what the role did with features that it was given.

        :param result: What compute returns.

        :return: The result. In place of what lies in the memory of features there are clones, but not of what requires
            grad: a clone would lie beside the path of the loss, and of writes into it autograd knows.
        """
        for memo, tensor, version, requires_grad in self.features:
            if tensor._version != version:
                memo.refuse_writer(self.role)
            elif requires_grad is not None or (tensor.requires_grad and has_hooks(tensor)):
                self._judge(result, memo, tensor, tensor.requires_grad if requires_grad is None else requires_grad)
            elif self.role in memo.exposing and not tensor.requires_grad:
                result = _apart(result, share_memory_with(tensor))
        return result

    def _judge(self, result: Any, memo: Memo, tensor: torch.Tensor, requires_grad: bool) -> None:
        if tensor.requires_grad is not requires_grad or has_hooks(tensor):
            memo.refuse(
                f"role {self.role!r} detaches what it returns, retains its gradient, or registers a hook on it",
                "Do that with a tensor of the role's own: `features.view_as(features)`, `features.detach()`.",
            )
        elif any(map(share_memory_with(tensor), tensors_of(result))):
            memo.exposing.add(self.role)
        elif not requires_grad and holds_memory_of(tensor, result):
            memo.refuse(
                f"role {self.role!r} returns its output in an object that is no tuple, list or dict",
                "Return a clone there, so that writes into it do not reach the other role: `features.clone()`.",
            )


def _apart(result: Any, shares_memory: Callable[[torch.Tensor], bool]) -> Any:
    return map_tensors(result, lambda tensor: tensor.clone() if shares_memory(tensor) else tensor)


class _Active(threading.local):
    session: Session | None = None


active = _Active()
