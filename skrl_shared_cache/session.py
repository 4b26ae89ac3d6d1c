"""The compute call that is running on this thread."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import torch

from skrl_shared_cache.trees import map_tensors

if TYPE_CHECKING:
    from skrl_shared_cache.info import Counters
    from skrl_shared_cache.memo import Memo
    from skrl_shared_cache.shared_output import Frame


_numbers = itertools.count()


class Session:
    """One outermost call of ``compute``, with the calls of other models' ``compute`` inside it.

    :param role: Role of the outermost call.
    :param mode: One of ``"on"``, ``"off"``, ``"verify"``.
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

    def __init__(self, role: Hashable, mode: str, counters: Counters, key: int) -> None:
        self.role = role
        self.mode = mode
        self.counters = counters
        self.frames: dict[int, Frame | None] = {key: None}  # `_shared_output` of each model that computes
        # what memos hold; of another role's pass (or, on probation, in its place) with the memo and the version
        self.features: list[tuple[Memo | None, torch.Tensor, int, bool]] = []
        self.running_units = 0  # memoized trunks that run now, one inside another
        self.transparent = 0  # above zero, every call passes through: mode off, replays
        self.has_glue = False  # a shared module got a new tensor that requires grad
        self.number = next(_numbers)
        # The roles that need none of the entries that begin here any more: the one that runs, and those that have got
        # one of them, each with the number of the session in which it did. In that one it may still get the others.
        self.served: dict[Hashable, int] = {}

    def end(self, result: Any) -> Any:
        """Look whether the role changed features that it was given, and keep what it returns apart from them.

        :param result: What compute returns.

        :return: The result, with clones in place of those tensors that lie in the memory of features. Not of those that
            require grad: a clone would lie beside the path of the loss, and of writes into them autograd knows.
        """
        storages = []
        for memo, tensor, version, requires_grad in self.features:
            if not tensor.requires_grad:
                storages.append(tensor.untyped_storage()._cdata)
            if memo is None:
                continue
            if tensor._version != version:
                memo.refuse(
                    f"role {self.role!r} writes in place into what it returns",
                    "Write `relu(x)` instead of `relu_(x)` (or `inplace=False`) in the first layer after it.",
                )
            elif (
                tensor.requires_grad is not requires_grad
                or tensor._backward_hooks
                or (tensor.retains_grad and tensor.grad_fn is not None)
            ):
                memo.refuse(
                    f"role {self.role!r} detaches what it returns, retains its gradient, or registers a hook on it",
                    "Do that with a tensor of the role's own: `features.view_as(features)`, `features.detach()`.",
                )
        for value in result if type(result) is tuple else (result,):
            for item in value.values() if type(value) is dict else (value,):
                if type(item) is not torch.Tensor or item.layout is not torch.strided:
                    if type(item) is torch.nn.Parameter or not storages:
                        continue
                elif item.untyped_storage()._cdata not in storages:
                    continue
                return map_tensors(result, lambda tensor: tensor.clone() if _lies_in(tensor, storages) else tensor)
        return result


def _lies_in(tensor: torch.Tensor, storages: list[int]) -> bool:
    return tensor.layout is torch.strided and tensor.untyped_storage()._cdata in storages


class _Active(threading.local):
    session: Session | None = None


active = _Active()
