"""The compute call that is running on this thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Hashable

import threading

import torch


from skrl_shared_cache.trees import flatten, map_tensors


if TYPE_CHECKING:
    from skrl_shared_cache.info import Counters
    from skrl_shared_cache.memo import Memo
    from skrl_shared_cache.tensors import TensorRecord


class Session:
    """One outermost call of ``compute``, with the calls of other models' ``compute`` inside it.

    :param role: Role of the outermost call.
    :param mode: Either ``"on"`` or ``"verify"``.
    :param counters: Statistics of the outermost model.
    """

    def __init__(self, role: Hashable, mode: str, counters: Counters) -> None:
        self.role = role
        self.mode = mode
        self.counters = counters
        self.positions: dict[Memo, int] = {}
        self.frames: dict[int, Any] = {}
        self.running_units = 0  # memoized trunks that run now, one inside another
        self.transparent = 0  # above zero, every call passes through: replays, and calls of compute inside compute
        self.has_glue = False  # a shared module got a new tensor that requires grad
        self.shared_storages: set[int] = set()  # memory that a memo holds, or handed out, in this call
        self.handed_out: list[tuple[Memo, torch.Tensor, int]] = []  # tensors of another role's pass, with their version

    def next_position(self, memo: Memo) -> int:
        """Number the calls of a trunk within this compute.

        :param memo: Memo of the trunk.

        :return: 0 for the first call.
        """
        position = self.positions.get(memo, 0)
        self.positions[memo] = position + 1
        return position

    def share(self, outputs: list[TensorRecord], inputs: list[TensorRecord]) -> None:
        """Note outputs that other calls of compute get, too.

        :param outputs: Records of a trunk's outputs.
        :param inputs: Records of its inputs: what it only passes on belongs to the caller.
        """
        own = {record.storage._cdata for record in inputs}
        self.shared_storages.update(record.storage._cdata for record in outputs if record.storage._cdata not in own)

    def hand_out(self, memo: Memo, output: Any) -> None:
        """Note features that a role gets from another role's pass, or will get so after probation.

        :param memo: Where they come from.
        :param output: Nested tensors.
        """
        tensors: list[torch.Tensor] = []
        flatten(output, tensors)
        self.handed_out.extend((memo, tensor, tensor._version) for tensor in tensors)

    def own_copy(self, result: Any) -> Any:
        """Copy those tensors of a result that lie in shared memory, so that the caller may write into them.

        :param result: What compute returns.

        :return: The result, with clones in their place.
        """
        if not self.shared_storages:
            return result
        shared = self.shared_storages

        def own(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.layout is torch.strided and tensor.untyped_storage()._cdata in shared:
                return tensor.clone()
            return tensor

        return map_tensors(result, own)

    def end(self) -> None:
        """Look whether a role wrote into the features that it was given."""
        for memo, tensor, version in self.handed_out:
            if tensor._version != version:
                memo.refuse(
                    f"role {self.role!r} writes in place into what it returns",
                    "Write `relu(x)` instead of `relu_(x)` (or `inplace=False`) in the first layer after it.",
                )


class _Active(threading.local):
    session: Session | None = None


active = _Active()
