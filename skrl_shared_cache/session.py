"""The compute call that is running on this thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Hashable

import threading

import torch

from skrl_shared_cache.trees import flatten, map_tensors


if TYPE_CHECKING:
    from skrl_shared_cache.info import Counters
    from skrl_shared_cache.memo import Memo
    from skrl_shared_cache.shared_output import Frame


class Session:
    """One outermost call of ``compute``, with the calls of other models' ``compute`` inside it.

    :param role: Role of the outermost call.
    :param mode: One of ``"on"``, ``"off"``, ``"verify"``.
    :param counters: Statistics of the outermost model.
    :param key: Key of the outermost model in :py:attr:`frames`.
    """

    __slots__ = (
        "role", "mode", "counters", "frames", "positions", "shared", "handed_out", "running_units", "transparent",
        "has_glue",
    )  # fmt: skip

    def __init__(self, role: Hashable, mode: str, counters: Counters, key: int) -> None:
        self.role = role
        self.mode = mode
        self.counters = counters
        self.frames: dict[int, Frame | None] = {key: None}  # `_shared_output` of each model that computes
        self.positions: dict[Memo, int] = {}  # number of calls of each trunk so far
        self.shared: list[torch.Tensor] = []  # what memos hold, or handed out, in this session
        self.handed_out: list[tuple[Memo, torch.Tensor, int]] = []  # from another role's pass; with the version
        self.running_units = 0  # memoized trunks that run now, one inside another
        self.transparent = 0  # above zero, every call passes through: mode off, replays
        self.has_glue = False  # a shared module got a new tensor that requires grad

    def hand_out(self, memo: Memo, output: Any) -> None:
        """Note features that a role gets from another role's pass, or will get so after probation.

        :param memo: Where they come from.
        :param output: Nested tensors.
        """
        if type(output) is torch.Tensor:
            self.handed_out.append((memo, output, output._version))
        else:
            tensors: list[torch.Tensor] = []
            flatten(output, tensors)
            self.handed_out.extend((memo, tensor, tensor._version) for tensor in tensors)

    def own_copy(self, result: Any) -> Any:
        """Copy those tensors of a result that lie in shared memory, so that the caller may write into them.

        :param result: What compute returns.

        :return: The result, with clones in their place.
        """
        storages = [tensor.untyped_storage()._cdata for tensor in self.shared]
        for value in result if type(result) is tuple else (result,):
            if type(value) is torch.Tensor and value.layout is torch.strided:
                if value.untyped_storage()._cdata in storages:
                    return _copy_from(storages, result)
            elif _holds(value, storages):
                return _copy_from(storages, result)
        return result

    def end(self) -> None:
        """Look whether a role wrote into the features that it was given."""
        for memo, tensor, version in self.handed_out:
            if tensor._version != version:
                memo.refuse(
                    f"role {self.role!r} writes in place into what it returns",
                    "Write `relu(x)` instead of `relu_(x)` (or `inplace=False`) in the first layer after it.",
                )


def _is_in(tensor: torch.Tensor, storages: list[int]) -> bool:
    return tensor.layout is torch.strided and tensor.untyped_storage()._cdata in storages


def _holds(value: Any, storages: list[int]) -> bool:
    if isinstance(value, torch.Tensor):
        return _is_in(value, storages)
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return False
    for item in value:
        if _holds(item, storages):
            return True
    return False


def _copy_from(storages: list[int], result: Any) -> Any:
    return map_tensors(result, lambda tensor: tensor.clone() if _is_in(tensor, storages) else tensor)


class _Active(threading.local):
    session: Session | None = None


active = _Active()
