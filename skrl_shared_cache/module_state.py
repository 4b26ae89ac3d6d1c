"""What a pass depends on: inputs, parameters, buffers, training flags and structure; and whether they changed.

They are read twice per policy/value pair, so all loops over them are left to ``map``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter, is_
from typing import Any, NamedTuple

import torch
from torch import nn

from skrl_shared_cache.trees import Unsupported

WRITTEN = "inputs were written"

_TYPES = {torch.Tensor, nn.Parameter, getattr(nn, "Buffer", nn.Parameter)}
_values = dict.values
_training = attrgetter("training")
_version = attrgetter("_version")
_requires_grad = attrgetter("requires_grad")
_grad_fn = attrgetter("grad_fn")
_shape = attrgetter("shape")
_address = torch.Tensor.data_ptr
_numel = torch.Tensor.numel
_strides = torch.Tensor.stride
_storage = torch.Tensor.untyped_storage


_END = object()


class Held(NamedTuple):
    """What some dictionaries of a tree hold. Alive, so that versions and addresses keep their meaning."""

    values: list[Any]
    """Children, parameters or buffers, None for a bias that is absent, and a mark at the end."""
    tensors: list[torch.Tensor]
    matrices: list[torch.Tensor]
    """Tensors of several dimensions, of which ``p.data = p.data.t()`` changes nothing but the strides."""
    addresses: list[int]
    storages: list[Any]
    """``p.data = other`` changes nothing but the address, which may be used again unless the storage is held."""
    numels: list[int]
    strides: list[tuple[int, ...]]


class Snapshot:
    """The inputs and the module as they are before a pass; its buffers and its outputs after it."""

    outputs: Sequence[torch.Tensor] = ()
    buffers: Held | None = None
    buffer_figures: Any = None
    requires_grad: list[bool] | None = None  # nobody asks without grad mode
    grad_fns: list[Any]

    def __init__(self, inputs: Sequence[torch.Tensor], training: list[bool], held: Held) -> None:
        self.inputs = inputs
        self.training = training
        self.held = held
        self.tensors = tensors = [*inputs, *held.tensors]  # and the outputs, later; the figures follow this order
        self.versions = [*map(_version, tensors)]
        self.addresses = [*map(_address, tensors)]
        self.shapes = [*map(_shape, inputs)]
        self.strides = [*map(_strides, inputs)]
        if torch.is_grad_enabled():
            self.requires_grad = [*map(_requires_grad, tensors)]
            self.grad_fns = [*map(_grad_fn, inputs)]

    def add_outputs(self, outputs: Sequence[torch.Tensor]) -> None:
        """Watch what the pass returned, too.

        :param outputs: Tensors.

        :raises Unsupported: If they require grad though the pass ran without grad mode.
        """
        self.outputs = outputs
        for output in outputs:
            self.tensors.append(output)
            self.versions.append(output._version)
            self.addresses.append(output.data_ptr())
            if self.requires_grad is not None:
                self.requires_grad.append(output.requires_grad)
                self.grad_fns.append(output.grad_fn)
            elif output.requires_grad:
                raise Unsupported("grad mode enabled within the trunk")

    def why_changed(self) -> str | None:
        """Compare the tensors with what they were.

        :return: What changed, in a few words, or None.
        """
        tensors, inputs, held = self.tensors, self.inputs, self.held
        versions = [*map(_version, tensors)]
        addresses = [*map(_address, tensors)]
        if (
            versions == self.versions
            and addresses == self.addresses
            and [*map(_shape, inputs)] == self.shapes
            and [*map(_strides, inputs)] == self.strides
            and [*map(_numel, held.tensors)] == held.numels
            and [*map(_strides, held.matrices)] == held.strides
        ):
            if self.requires_grad is None:
                return "output was written" if any(map(_requires_grad, self.outputs)) else None
            # the versions first: of a view whose base was written, torch may refuse to tell the grad_fn
            grad_fns = map(_grad_fn, chain(inputs, self.outputs))
            if [*map(_requires_grad, tensors)] == self.requires_grad and all(map(is_, grad_fns, self.grad_fns)):
                return None
        return self._name_of_first_change(versions, addresses)

    def _name_of_first_change(self, versions: list[int], addresses: list[int]) -> str:
        figures = zip(versions, self.versions, addresses, self.addresses, self.requires_grad or self.versions)
        has_changed = [
            version != old_version
            or address != old_address
            or (self.requires_grad is not None and tensor.requires_grad is not old_requires_grad)
            for tensor, (version, old_version, address, old_address, old_requires_grad) in zip(self.tensors, figures)
        ]
        end = len(self.inputs)
        layouts = [*map(_shape, self.inputs)], [*map(_strides, self.inputs)]
        if any(has_changed[:end]) or layouts != (self.shapes, self.strides):
            return WRITTEN
        begin = end + len(self.held.tensors)
        if any(has_changed[end:begin]):
            return "parameters changed"
        if any(has_changed[begin:]):
            return "output was written"
        if self.requires_grad is not None and any(
            now is not old for now, old in zip(map(_grad_fn, self.inputs), self.grad_fns)
        ):
            return WRITTEN
        if self.requires_grad is not None and any(
            now is not old for now, old in zip(map(_grad_fn, self.outputs), self.grad_fns[end:])
        ):
            return "output was written"
        return "parameters changed"  # their sizes or strides


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

    def snapshot(self, root: nn.Module, inputs: Sequence[torch.Tensor]) -> Snapshot:
        """Record the state before a forward pass.

        :param root: Root of the tree.
        :param inputs: Tensors that the pass gets.

        :return: Snapshot.

        :raises Unsupported: If a parameter or buffer is of a type that the cache cannot watch, or not initialized yet.
        :raises RuntimeError: If one is an inference tensor.
        """
        tree, held = self._tree or self._walk(root), self._held
        if any(tree.empty) or held is None or not _is_same(tree.dictionaries, held):
            tree = self._walk(root)  # another child has parameters of its own
            held = _hold(tree.dictionaries)
        snapshot = Snapshot(inputs, [root.training, *map(_training, tree.submodules)], held)
        if snapshot.addresses[len(inputs) :] != held.addresses:
            snapshot.held = held = _hold(tree.dictionaries)
        self._held = held
        if tree.buffers:
            self._read_buffers(tree, snapshot)
        return snapshot

    def complete(self, root: nn.Module, snapshot: Snapshot, outputs: Sequence[torch.Tensor]) -> None:
        """Record what a pass returned, and the buffers again: batch and spectral normalization write them in it.

        :param root: Root of the tree.
        :param snapshot: Snapshot that was taken before it.
        :param outputs: Tensors that it returned.

        :raises Unsupported: As for :py:meth:`snapshot`, and if they require grad though it ran without grad mode.
        """
        snapshot.add_outputs(outputs)
        if snapshot.buffers is not None:
            self._read_buffers(self._tree or self._walk(root), snapshot)

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
        if [root.training, *map(_training, submodules)] != snapshot.training:
            return "train/eval mode changed"
        changed = snapshot.why_changed()
        if changed is not None:
            self._held = None
            return changed
        if any(empty) or not _is_same(dictionaries, snapshot.held):
            self._tree = None
            return "parameters changed"
        buffers = snapshot.buffers
        if buffers is not None and (
            not _is_same(all_buffers, buffers) or _figures(buffers) != snapshot.buffer_figures
        ):
            return "buffers changed"
        return None

    def _read_buffers(self, tree: _Tree, snapshot: Snapshot) -> None:
        held = self._buffers
        if held is None or not _is_same(tree.buffers, held) or [*map(_address, held.tensors)] != held.addresses:
            held = self._buffers = _hold(tree.buffers)
        snapshot.buffers, snapshot.buffer_figures = held, _figures(held)

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


def _hold(dictionaries: list[dict[str, Any]]) -> Held:
    values = [*chain.from_iterable(map(_values, dictionaries))]
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    for tensor in tensors:
        if type(tensor) not in _TYPES or tensor.layout is not torch.strided:
            raise Unsupported(f"a parameter or buffer of type {type(tensor).__name__}, {tensor.layout}")
    matrices = [tensor for tensor in tensors if tensor.dim() > 1]
    return Held(
        [*values, _END],
        tensors,
        matrices,
        [*map(_address, tensors)],
        [*map(_storage, tensors)],
        [*map(_numel, tensors)],
        [*map(_strides, matrices)],
    )


def _is_same(dictionaries: list[dict[str, Any]], held: Held) -> bool:
    return all(map(is_, chain(chain.from_iterable(map(_values, dictionaries)), (_END,)), held[0]))


def _figures(held: Held) -> tuple[Any, ...]:
    tensors = held.tensors
    return (
        [*map(_version, tensors)],
        [*map(_address, tensors)],
        [*map(_numel, tensors)],
        [*map(_strides, held.matrices)],
        [*map(_requires_grad, tensors)],
    )
