"""The parameters, buffers, training flags and structure of a module, and whether they changed.

They are read twice per policy/value pair, so the loops over them are left to ``map``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from itertools import chain
from operator import attrgetter, is_

import torch
from torch import nn

from skrl_shared_cache.trees import Unsupported


_TYPES = {torch.Tensor, nn.Parameter, getattr(nn, "Buffer", nn.Parameter)}
_values = dict.values
_training = attrgetter("training")
_version = attrgetter("_version")
_requires_grad = attrgetter("requires_grad")
_address = torch.Tensor.data_ptr
_strides = torch.Tensor.stride
_numel = torch.Tensor.numel

Snapshot = tuple[bool, list[bool], list[Any], "TensorStates", "TensorStates"]
"""A module before a forward pass: its training flag and those of its submodules, all children, parameters; its buffers
after it."""

TensorStates = tuple["_Watched", list[int], list[int], list[int], list[tuple[int, ...]], list[bool] | None]
"""Some tensors; their versions, addresses, numbers of elements (``p.data = p.data[:2]`` moves nothing else), strides
(``p.data = p.data.t()``; not of those with one dimension) and, where grad mode is on, requires_grad."""


class _Watched(NamedTuple):
    """The tensors of some dictionaries, as long as those hold the same ones."""

    values: list[torch.Tensor | None]
    """All values: None stands for a bias that is not there."""
    tensors: list[torch.Tensor]
    matrices: list[torch.Tensor]
    addresses: list[int]
    storages: list[Any]
    """Held, so that an address is not used again: ``p.data = other`` moves no version, only the address."""


class _Tree(NamedTuple):
    """Submodules of a root, and the live dictionaries of what all of them hold.

    Not the root itself: a model that keeps its own state must not keep itself alive.
    """

    submodules: list[nn.Module]
    parameters: list[dict[str, Any]]
    buffers: list[dict[str, Any]]
    children: list[dict[str, Any]]
    empty: list[dict[str, Any]]
    """Those of all three kinds that hold nothing: as long as they do not, they need not be read one by one."""


_NOTHING = _Watched([], [], [], [], [])


class ModuleState:
    """Reads one module tree, which it walks once, again and again."""

    def __init__(self) -> None:
        self._tree: _Tree | None = None
        self._parameters = self._buffers = _NOTHING

    def modules(self, root: nn.Module) -> list[nn.Module]:
        """List the tree.

        :param root: Root of the tree.

        :return: The root and its submodules.
        """
        return [root, *(self._tree or self._walk(root)).submodules]

    def snapshot(self, root: nn.Module) -> Snapshot:
        """Record the state before a forward pass.

        :param root: Root of the tree.

        :return: Snapshot.

        :raises Unsupported: If a parameter or buffer is of a type that the cache cannot watch, or not initialized yet.
        :raises RuntimeError: If one is an inference tensor.
        """
        submodules, parameters, buffers, children, _ = self._tree or self._walk(root)
        watched = self._parameters = _watch(list(chain.from_iterable(map(_values, parameters))), self._parameters)
        return (
            root.training,
            list(map(_training, submodules)),
            list(chain.from_iterable(map(_values, children))),
            _read(watched),
            self._read_buffers(buffers),
        )

    def after_forward(self, root: nn.Module, snapshot: Snapshot) -> Snapshot:
        """Record the buffers again: batch and spectral normalization write them in the forward pass.

        :param root: Root of the tree.
        :param snapshot: Snapshot that was taken before it.

        :return: Snapshot with the buffers as they are now.

        :raises Unsupported: As for :py:meth:`snapshot`.
        """
        buffers = (self._tree or self._walk(root)).buffers
        return (*snapshot[:4], self._read_buffers(buffers)) if buffers else snapshot

    def release(self) -> None:
        """Let go of the storages of the last snapshot."""
        self._parameters = self._buffers = _NOTHING

    def why_changed(self, root: nn.Module, snapshot: Snapshot) -> str | None:
        """Compare the state with a snapshot.

        :param root: Root of the tree.
        :param snapshot: What was recorded for it.

        :return: What changed, in a few words, or None.
        """
        submodules, parameters, buffers, children, empty = self._tree or self._walk(root)
        training, all_training, all_children, parameter_states, buffer_states = snapshot
        if root.training is not training or list(map(_training, submodules)) != all_training:
            return "train/eval mode changed"
        if any(empty) or list(chain.from_iterable(map(_values, children))) != all_children:
            self._tree = None
            return "submodules changed"
        if not _are_unchanged(list(chain.from_iterable(map(_values, parameters))), parameter_states):
            return "parameters changed"
        if buffers and not _are_unchanged(list(chain.from_iterable(map(_values, buffers))), buffer_states):
            return "buffers changed"
        return None

    def _walk(self, root: nn.Module) -> _Tree:
        modules = list(root.modules())
        held = [(module._parameters, module._buffers, module._modules) for module in modules]
        parameters, buffers, children = ([each for each in kind if each] for kind in zip(*held))
        empty = [each for kinds in held for each in kinds if not each]
        self._tree = tree = _Tree(modules[1:], parameters, buffers, children, empty)
        return tree

    def _read_buffers(self, buffers: Sequence[dict[str, Any]]) -> TensorStates:
        if not buffers:
            return _NO_STATES
        self._buffers = _watch(list(chain.from_iterable(map(_values, buffers))), self._buffers)
        return _read(self._buffers)


def _watch(values: list[torch.Tensor | None], last: _Watched) -> _Watched:
    if len(values) == len(last.values) and all(map(is_, values, last.values)):
        tensors = last.tensors
        if list(map(_address, tensors)) == last.addresses:
            return last
    tensors = [value for value in values if value is not None]
    for tensor in tensors:
        if type(tensor) not in _TYPES or tensor.layout is not torch.strided:
            raise Unsupported(f"a parameter or buffer of type {type(tensor).__name__}")
    return _Watched(
        values,
        tensors,
        [tensor for tensor in tensors if tensor.dim() > 1],
        list(map(_address, tensors)),
        list(map(torch.Tensor.untyped_storage, tensors)),
    )


def _read(watched: _Watched) -> TensorStates:
    tensors = watched.tensors
    return (
        watched,
        list(map(_version, tensors)),
        watched.addresses,
        list(map(_numel, tensors)),
        list(map(_strides, watched.matrices)),
        list(map(_requires_grad, tensors)) if torch.is_grad_enabled() else None,
    )


def _are_unchanged(values: list[torch.Tensor | None], states: TensorStates) -> bool:
    (known, tensors, matrices, _, _), versions, addresses, sizes, strides, flags = states
    return (
        len(values) == len(known)
        and all(map(is_, values, known))
        and list(map(_version, tensors)) == versions
        and list(map(_address, tensors)) == addresses
        and list(map(_numel, tensors)) == sizes
        and list(map(_strides, matrices)) == strides
        and (flags is None or list(map(_requires_grad, tensors)) == flags)
    )


_NO_STATES: TensorStates = (_NOTHING, [], [], [], [], None)
