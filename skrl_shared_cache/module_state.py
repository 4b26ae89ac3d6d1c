"""The parameters, buffers, training flags and structure of a module, and whether they changed.

They are read twice per policy/value pair, so the loops over them are left to ``map``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from itertools import chain
from operator import attrgetter, is_

import torch
from torch import nn

from skrl_shared_cache.trees import Unsupported


_TYPES = {torch.Tensor, nn.Parameter, getattr(nn, "Buffer", nn.Parameter)}
_training = attrgetter("training")
_version = attrgetter("_version")
_requires_grad = attrgetter("requires_grad")
_address = torch.Tensor.data_ptr
_strides = torch.Tensor.stride
_storage = torch.Tensor.untyped_storage


class TensorStates(NamedTuple):
    """Tensors, with all that shows a change of one of them."""

    values: list[torch.Tensor | None]
    """What the dictionaries hold: None for a bias that is not there."""
    tensors: list[torch.Tensor]
    versions: list[int]
    addresses: list[int]
    matrices: list[torch.Tensor]
    """Those with several dimensions, whose strides may change without their address: ``p.data = p.data.t()``."""
    strides: list[tuple[int, ...]]
    requires_grad: list[bool] | None
    """Only where grad mode is on: elsewhere it changes nothing."""
    storages: list[Any]
    """Held, so that an address is not used again: ``p.data = other`` moves no version, only the address."""


class Snapshot(NamedTuple):
    """A module before a forward pass; its buffers after it."""

    training: list[bool]
    children: list[nn.Module | None]
    parameters: TensorStates
    buffers: TensorStates


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


class ModuleState:
    """Reads one module tree, which it walks once, again and again."""

    def __init__(self) -> None:
        self._tree: _Tree | None = None
        self._last: Snapshot | None = None

    def modules(self, root: nn.Module) -> list[nn.Module]:
        """List the tree.

        :param root: Root of the tree.

        :return: The root and its submodules.
        """
        return [root, *self._walk(root).submodules]

    def snapshot(self, root: nn.Module) -> Snapshot:
        """Record the state before a forward pass.

        :param root: Root of the tree.

        :return: Snapshot. It is the last one as long as nothing changes, as in a rollout.

        :raises Unsupported: If a parameter or buffer is of a type that the cache cannot watch, or not initialized yet.
        :raises RuntimeError: If one is an inference tensor.
        """
        last = self._last
        if last is not None and self.why_changed(root, last) is None and _has_flags(last) is torch.is_grad_enabled():
            return last
        tree = self._walk(root)
        if any(tree.empty):
            self._tree = None
            tree = self._walk(root)
        self._last = snapshot = Snapshot(
            list(map(_training, [root, *tree.submodules])),
            _values(tree.children),
            _states(_values(tree.parameters), last and last.parameters),
            _states(_values(tree.buffers), last and last.buffers),
        )
        return snapshot

    def after_forward(self, root: nn.Module, snapshot: Snapshot) -> Snapshot:
        """Record the buffers again: batch and spectral normalization write them in the forward pass.

        :param root: Root of the tree.
        :param snapshot: Snapshot that was taken before it.

        :return: Snapshot with the buffers as they are now.

        :raises Unsupported: As for :py:meth:`snapshot`.
        """
        tree = self._walk(root)
        if not tree.buffers or _are_unchanged(_values(tree.buffers), snapshot.buffers):
            return snapshot
        self._last = after = snapshot._replace(buffers=_states(_values(tree.buffers), snapshot.buffers))
        return after

    def release(self) -> None:
        """Let go of what the last snapshot holds."""
        self._last = None

    def why_changed(self, root: nn.Module, snapshot: Snapshot) -> str | None:
        """Compare the state with a snapshot.

        :param root: Root of the tree.
        :param snapshot: What was recorded for it.

        :return: What changed, in a few words, or None.
        """
        submodules, parameters, buffers, children, empty = self._tree or self._walk(root)
        training, known_children, known_parameters, known_buffers = snapshot
        if root.training is not training[0] or list(map(_training, submodules)) != training[1:]:
            return "train/eval mode changed"
        if any(empty) or _values(children) != known_children:
            self._tree = None
            return "submodules changed"
        if not _are_unchanged(_values(parameters), known_parameters):
            return "parameters changed"
        if buffers and not _are_unchanged(_values(buffers), known_buffers):
            return "buffers changed"
        return None

    def _walk(self, root: nn.Module) -> _Tree:
        tree = self._tree
        if tree is None:
            modules = list(root.modules())
            held = [(module._parameters, module._buffers, module._modules) for module in modules]
            parameters, buffers, children = ([each for each in kind if each] for kind in zip(*held))
            empty = [each for kinds in held for each in kinds if not each]
            self._tree = tree = _Tree(modules[1:], parameters, buffers, children, empty)
        return tree


def _has_flags(snapshot: Snapshot) -> bool:
    return snapshot.parameters.requires_grad is not None


def _values(dictionaries: list[dict[str, Any]]) -> list[Any]:
    return list(chain.from_iterable(map(dict.values, dictionaries)))


def _states(values: list[torch.Tensor | None], last: TensorStates | None) -> TensorStates:
    if last is not None and _are_same(values, last.values):
        tensors = last.tensors
    else:
        last = None
        tensors = [value for value in values if value is not None]
        for tensor in tensors:
            if type(tensor) not in _TYPES or tensor.layout is not torch.strided:
                raise Unsupported(f"a parameter or buffer of type {type(tensor).__name__}")
    addresses = list(map(_address, tensors))
    matrices = [tensor for tensor in tensors if tensor.dim() > 1]
    return TensorStates(
        values,
        tensors,
        list(map(_version, tensors)),
        addresses,
        matrices,
        list(map(_strides, matrices)),
        list(map(_requires_grad, tensors)) if torch.is_grad_enabled() else None,
        last.storages if last is not None and addresses == last.addresses else list(map(_storage, tensors)),
    )


def _are_unchanged(values: list[torch.Tensor | None], states: TensorStates) -> bool:
    known, tensors, versions, addresses, matrices, strides, requires_grad, _ = states
    return (
        len(values) == len(known)
        and all(map(is_, values, known))
        and list(map(_version, tensors)) == versions
        and list(map(_address, tensors)) == addresses
        and list(map(_strides, matrices)) == strides
        # where grad mode is off now, or was, it is the mode that differs
        and (requires_grad is None or list(map(_requires_grad, tensors)) == requires_grad)
    )


def _are_same(some: list[torch.Tensor | None], others: list[torch.Tensor | None]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))
