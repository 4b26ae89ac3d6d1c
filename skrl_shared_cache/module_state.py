"""The parameters, buffers, training flags and structure of a module, and whether they changed.

They are read twice per policy/value pair, so all loops over them are left to ``map``.
"""

from __future__ import annotations

from itertools import chain
from operator import attrgetter, is_
from typing import Any, NamedTuple

import torch
from torch import nn

from skrl_shared_cache.trees import Unsupported

_TYPES = {torch.Tensor, nn.Parameter, getattr(nn, "Buffer", nn.Parameter)}
_values = dict.values
_training = attrgetter("training")
_version = attrgetter("_version")
_requires_grad = attrgetter("requires_grad")
_address = torch.Tensor.data_ptr
_numel = torch.Tensor.numel
_strides = torch.Tensor.stride
_storage = torch.Tensor.untyped_storage


class Held(NamedTuple):
    """What some dictionaries of a tree hold. Alive, so that versions and addresses keep their meaning."""

    values: list[Any]
    """Children, parameters or buffers, and None for a bias that is absent."""
    tensors: list[torch.Tensor]
    matrices: list[torch.Tensor]
    """Tensors of several dimensions, of which ``p.data = p.data.t()`` changes nothing but the strides."""
    addresses: list[int]
    storages: list[Any]
    """``p.data = other`` changes nothing but the address, which may be used again unless the storage is held."""


class Snapshot(NamedTuple):
    """A module before a forward pass; its buffers after it."""

    training: list[bool]
    held: Held
    figures: list[Any]
    """Versions, addresses, sizes, strides and, in grad mode, requires_grad of the parameters."""
    buffers: Held | None
    buffer_figures: list[Any]


class _Tree(NamedTuple):
    """A tree without its root: a model that keeps its own state must not keep itself alive."""

    submodules: list[nn.Module]
    dictionaries: list[dict[str, Any]]
    """Live dictionaries of the children and parameters of the root and all submodules."""
    buffers: list[dict[str, Any]]
    empty: list[dict[str, Any]]
    """Those that hold nothing: as long as they do not, they need not be read one by one."""


class ModuleState:
    """Reads one module tree, which it walks once, again and again."""

    def __init__(self) -> None:
        self._tree: _Tree | None = None
        self._held: Held | None = None
        self._buffers: Held | None = None

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
        tree = self._tree or self._walk(root)
        if any(tree.empty):
            tree = self._walk(root)
        values = list(chain.from_iterable(map(_values, tree.dictionaries)))
        last = self._held
        if last is None or not _is_same(values, last):
            last, tree = None, self._walk(root)  # another child has parameters of its own
            values = list(chain.from_iterable(map(_values, tree.dictionaries)))
        training = [root.training, *map(_training, tree.submodules)]
        held, figures = _read(values, last)
        self._held = held
        if not tree.buffers:
            return Snapshot(training, held, figures, None, [])
        buffers, buffer_figures = self._read_buffers(tree)
        return Snapshot(training, held, figures, buffers, buffer_figures)

    def after_forward(self, root: nn.Module, snapshot: Snapshot) -> Snapshot:
        """Record the buffers again: batch and spectral normalization write them in the forward pass.

        :param root: Root of the tree.
        :param snapshot: Snapshot that was taken before it.

        :return: Snapshot with the buffers as they are now.

        :raises Unsupported: As for :py:meth:`snapshot`.
        """
        if snapshot.buffers is None:
            return snapshot
        buffers, figures = self._read_buffers(self._tree or self._walk(root))
        return snapshot._replace(buffers=buffers, buffer_figures=figures)

    def release(self) -> None:
        """Let go of the memory that the last snapshot holds."""
        self._held = self._buffers = None

    def why_changed(self, root: nn.Module, snapshot: Snapshot) -> str | None:
        """Compare the state with a snapshot.

        :param root: Root of the tree.
        :param snapshot: What was recorded for it.

        :return: What changed, in a few words, or None.
        """
        submodules, dictionaries, all_buffers, empty = self._tree or self._walk(root)
        training, held, figures, buffers, buffer_figures = snapshot
        if [root.training, *map(_training, submodules)] != training:
            return "train/eval mode changed"
        if any(empty) or not _is_same(list(chain.from_iterable(map(_values, dictionaries))), held):
            self._tree = None
            return "parameters changed"
        if _figures(held) != figures:
            return "parameters changed"
        if buffers is not None and (
            not _is_same(list(chain.from_iterable(map(_values, all_buffers))), buffers)
            or _figures(buffers) != buffer_figures
        ):
            return "buffers changed"
        return None

    def _read_buffers(self, tree: _Tree) -> tuple[Held, list[Any]]:
        values = list(chain.from_iterable(map(_values, tree.buffers)))
        last = self._buffers
        held, figures = _read(values, last if last is not None and _is_same(values, last) else None)
        self._buffers = held
        return held, figures

    def _walk(self, root: nn.Module) -> _Tree:
        modules = list(root.modules())
        if any(isinstance(module, torch.jit.ScriptModule) for module in modules):
            raise Unsupported("a scripted module")  # its parameters are new objects at each access
        dictionaries = [each for module in modules for each in (module._modules, module._parameters)]
        # hooks on what lies within: one that came or went between two calls has work to do
        dictionaries += [hooks for module in modules[1:] for hooks in _hooks_of(module)]
        buffers = [module._buffers for module in modules]
        self._tree = tree = _Tree(
            modules[1:],
            [each for each in dictionaries if each],
            [each for each in buffers if each],
            [each for each in (*dictionaries, *buffers) if not each],
        )
        return tree


def _hooks_of(module: nn.Module) -> tuple[Any, ...]:
    return module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks


def _read(values: list[Any], last: Held | None) -> tuple[Held, list[Any]]:
    if last is not None:
        figures = _figures(last)
        count = len(last.tensors)
        if figures[count : 2 * count] == last.addresses:
            return last, figures
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    for tensor in tensors:
        if type(tensor) not in _TYPES or tensor.layout is not torch.strided:
            raise Unsupported(f"a parameter or buffer of type {type(tensor).__name__}, {tensor.layout}")
    matrices = [tensor for tensor in tensors if tensor.dim() > 1]
    held = Held(values, tensors, matrices, list(map(_address, tensors)), list(map(_storage, tensors)))
    return held, _figures(held)


def _is_same(values: list[Any], held: Held) -> bool:
    return len(values) == len(held[0]) and all(map(is_, values, held[0]))


def _figures(held: Held) -> list[Any]:
    _, tensors, matrices, _, _ = held
    figures = [*map(_version, tensors), *map(_address, tensors), *map(_numel, tensors), *map(_strides, matrices)]
    if torch.is_grad_enabled():
        figures += map(_requires_grad, tensors)
    return figures
