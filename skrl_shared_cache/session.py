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
    :param counters: Statistics of the outermost model.
    :param key: Key of the outermost model in :py:attr:`frames`.
    """

    mode = "on"  # or "off", "verify"
    running_units = 0  # memoized trunks that run now, one inside another
    transparent = 0  # above zero, every call passes through: mode off, replays
    has_glue = False  # a shared module got a new tensor that requires grad

    def __init__(self, role: Hashable, counters: Counters, key: int) -> None:
        self.role = role
        self.counters = counters
        self.frames: dict[int, Frame | None] = {key: None}  # `_shared_output` of each model that computes
        # of another role's pass (or, on probation, in its place), with the memo that has it and the version
        self.features: list[tuple[Memo, torch.Tensor, int, bool]] = []
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
        addresses = []
        for memo, tensor, version, requires_grad in self.features:
            if tensor._version != version:
                memo.refuse(
                    f"role {self.role!r} writes in place into what it returns",
                    "Write `relu(x)` instead of `relu_(x)` (or `inplace=False`) in the first layer after it.",
                )
            elif tensor.requires_grad is not requires_grad or (
                requires_grad and (tensor._backward_hooks or (tensor.retains_grad and tensor.grad_fn is not None))
            ):
                memo.refuse(
                    f"role {self.role!r} detaches what it returns, retains its gradient, or registers a hook on it",
                    "Do that with a tensor of the role's own: `features.view_as(features)`, `features.detach()`.",
                )
            if not tensor.requires_grad:
                addresses.append(tensor.data_ptr())
        if addresses:
            for value in result if type(result) is tuple else (result,):
                for item in value.values() if type(value) is dict else (value,):
                    # what is no view of anything, and begins elsewhere, lies elsewhere
                    if type(item) is torch.Tensor and item.layout is torch.strided and item._base is None:
                        if item.data_ptr() not in addresses:
                            continue
                    elif type(item) is torch.nn.Parameter:
                        continue
                    return self._keep_apart(result)
        return result

    def _keep_apart(self, result: Any) -> Any:
        features = (tensor for _, tensor, _, _ in self.features if not tensor.requires_grad)
        storages = {tensor.untyped_storage()._cdata for tensor in features}

        def copy(tensor: torch.Tensor) -> torch.Tensor:
            is_within = tensor.layout is torch.strided and tensor.untyped_storage()._cdata in storages
            return tensor.clone() if is_within else tensor

        return map_tensors(result, copy)


class _Active(threading.local):
    session: Session | None = None


active = _Active()
