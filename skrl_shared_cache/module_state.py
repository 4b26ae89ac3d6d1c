"""The parameters, buffers and training flags of a module, and whether they changed."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn

from skrl_shared_cache.tensors import TensorRecord, is_unchanged, record_tensor
from skrl_shared_cache.trees import Unsupported


_TENSORS = (torch.Tensor, nn.Parameter, getattr(nn, "Buffer", nn.Parameter))


class Snapshot(NamedTuple):
    """Flags of every submodule, children of every submodule, records of every parameter and buffer (None if absent)."""

    flags: list[bool]
    children: list[dict[str, Any]]
    parameters: list[TensorRecord | None]
    buffers: list[TensorRecord | None]


class ModuleState:
    """Reads one module tree again and again.

    The tree is walked once and kept as a list, without the module itself: a model that holds its own state must not
    hold itself.
    """

    def __init__(self) -> None:
        self._submodules: list[nn.Module] | None = None

    def modules(self, module: nn.Module) -> list[nn.Module]:
        """List the tree.

        :param module: Root of the tree.

        :return: The root and its submodules.
        """
        if self._submodules is None:
            self._submodules = list(module.modules())[1:]
        return [module, *self._submodules]

    def snapshot(self, module: nn.Module) -> Snapshot:
        """Record the state before a forward pass.

        :param module: Root of the tree.

        :return: Snapshot.

        :raises Unsupported: If a parameter or buffer is of a type that the cache cannot watch, or not initialized yet.
        :raises RuntimeError: If one is an inference tensor.
        """
        flags: list[bool] = []
        children: list[dict[str, Any]] = []
        parameters: list[TensorRecord | None] = []
        buffers: list[TensorRecord | None] = []
        for item in self.modules(module):
            flags.append(item.training)
            children.append(dict(item._modules))
            for parameter in item._parameters.values():
                parameters.append(None if parameter is None else _record(parameter))
            for buffer in item._buffers.values():
                buffers.append(None if buffer is None else _record(buffer))
        return Snapshot(flags, children, parameters, buffers)

    def after_forward(self, module: nn.Module, snapshot: Snapshot) -> Snapshot:
        """Record the buffers again: batch and spectral normalization write them in the forward pass.

        :param module: Root of the tree.
        :param snapshot: Snapshot that was taken before it.

        :return: Snapshot with the buffers as they are now.
        """
        if not snapshot.buffers:
            return snapshot
        buffers = [
            None if buffer is None else _record(buffer)
            for item in self.modules(module)
            for buffer in item._buffers.values()
        ]
        return snapshot._replace(buffers=buffers)

    def why_changed(self, module: nn.Module, snapshot: Snapshot) -> str | None:
        """Compare the state with a snapshot.

        :param module: Root of the tree.
        :param snapshot: What was recorded for it.

        :return: What changed, in a few words, or None.
        """
        parameters, buffers = iter(snapshot.parameters), iter(snapshot.buffers)
        for item, flag, children in zip(self.modules(module), snapshot.flags, snapshot.children):
            if item.training is not flag:
                return "train/eval mode changed"
            if item._modules != children:
                self._submodules = None
                return "submodules changed"
            for parameter in item._parameters.values():
                if not _is_same(next(parameters, None), parameter):
                    return "parameters changed"
            for buffer in item._buffers.values():
                if not _is_same(next(buffers, None), buffer):
                    return "buffers changed"
        if next(parameters, None) is not None or next(buffers, None) is not None:
            return "parameters changed"
        return None


def _record(tensor: torch.Tensor) -> TensorRecord:
    if type(tensor) not in _TENSORS or tensor.layout is not torch.strided:
        raise Unsupported(f"a parameter or buffer of type {type(tensor).__name__} ({tensor.layout})")
    return record_tensor(tensor)


def _is_same(record: TensorRecord | None, tensor: torch.Tensor | None) -> bool:
    if record is None or tensor is None:
        return record is tensor
    return record.tensor is tensor and is_unchanged(record)
