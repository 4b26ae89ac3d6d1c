"""The state of a module that a pass depends on: structure, training flags, parameters and buffers.

It is read twice per policy/value pair, so all loops over it are left to ``map``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter, is_
from typing import Any, NamedTuple

import torch
from torch import is_grad_enabled, nn

from skrl_shared_cache.entries import Entry
from skrl_shared_cache.trees import Unsupported

_TYPES = {torch.Tensor, nn.Parameter, getattr(nn, "Buffer", nn.Parameter)}
_values = dict.values
training_of = attrgetter("training")
version_of = attrgetter("_version")
requires_grad_of = attrgetter("requires_grad")
grad_fn_of = attrgetter("grad_fn")
address_of = torch.Tensor.data_ptr
_storage_of = torch.Tensor.untyped_storage


class Held(NamedTuple):
    """What some dictionaries hold. Alive, so that versions and addresses keep their meaning."""

    copies: list[dict[Any, Any]]
    """Copies of the dictionaries: of children, parameters or buffers by name, and None for a bias that is absent."""
    scalars: list[Any]
    """Those tensors of them that have one element or none: equal is not the same, and ``==`` would not tell."""
    tensors: list[torch.Tensor]
    addresses: list[int]
    storages: list[Any]
    """``p.data = other`` changes nothing but the address, which may be used again unless the storage is held."""


class Tree(NamedTuple):
    """A tree without its root: a model that keeps its own state must not keep itself alive."""

    submodules: list[nn.Module]
    dictionaries: list[dict[Any, Any]]
    """Live dictionaries of the children and parameters of the root and all submodules."""
    buffers: list[dict[Any, Any]]
    empty: list[dict[Any, Any]]
    """Those that hold nothing: as long as they do not, they need not be read one by one."""


class ModuleState:
    """Reads one module tree, which it walks once, again and again."""

    def __init__(self) -> None:
        self.tree: Tree | None = None
        self._held: Held | None = None

    def modules(self, root: nn.Module) -> list[nn.Module]:
        """List the tree.

        :param root: Root of the tree.

        :return: The root and its submodules.
        """
        return [root, *(self.tree or self.walk(root)).submodules]

    def begin(self, root: nn.Module, structure: Any, inputs: Sequence[torch.Tensor]) -> Entry:
        """Record what a pass depends on, before it runs.

        :param root: Root of the tree.
        :param structure: Arguments of the pass without their tensors.
        :param inputs: Those tensors.

        :return: Entry of the pass.

        :raises Unsupported: If a parameter or buffer is of a type that the cache cannot watch, or not initialized yet.
        :raises RuntimeError: If a tensor is an inference tensor, or not strided.
        """
        tree, held = self.tree or self.walk(root), self._held
        if any(tree.empty) or held is None or have_changed(tree.dictionaries, held):
            tree = self.walk(root)  # another child has parameters of its own
            held = self._held = _hold(tree.dictionaries)
        entry = Entry()
        entry.structure, entry.inputs = structure, inputs
        entry.training = [root.training, *map(training_of, tree.submodules)]
        entry.tensors = tensors = [*inputs, *held.tensors]
        entry.versions = [*map(version_of, tensors)]
        entry.addresses = addresses = [*map(address_of, tensors)]
        if addresses[len(inputs) :] != held.addresses:
            held = self._held = _hold(tree.dictionaries)
        entry.held = held
        entry.storages = [*map(_storage_of, inputs)]
        entry.trial = root.training, is_grad_enabled()
        entry.requires_grad = None
        if is_grad_enabled():
            entry.requires_grad = [*map(requires_grad_of, tensors)]
            entry.grad_fns = [*map(grad_fn_of, inputs)]
        if tree.buffers:
            _tensors_of(tree.buffers)  # to refuse them now, not after the pass
        return entry

    def complete(self, root: nn.Module, entry: Entry, outputs: Sequence[torch.Tensor]) -> None:
        """Record what a pass returned, and the buffers: batch and spectral normalization write them in it.

        :param root: Root of the tree.
        :param entry: Entry of the pass.
        :param outputs: Tensors that it returned.

        :raises Unsupported: As for :py:meth:`begin`, and if they require grad though it ran without grad mode.
        """
        for output in outputs:
            entry.tensors.append(output)
            entry.versions.append(output._version)
            entry.addresses.append(output.data_ptr())
            if entry.requires_grad is not None:
                entry.requires_grad.append(output.requires_grad)
                entry.grad_fns.append(output.grad_fn)
            elif output.requires_grad:
                raise Unsupported("grad mode enabled within the trunk")
        entry.outputs = outputs
        entry.buffers = None
        tree = self.tree or self.walk(root)
        if tree.buffers:
            entry.buffers = _hold(tree.buffers)
            entry.buffer_figures = figures_of(entry.buffers)

    def forget(self) -> None:
        """Let go of the tree and of its memory."""
        self.tree = self._held = None

    def walk(self, root: nn.Module) -> Tree:
        """Walk the tree.

        :param root: Root of the tree.

        :return: The tree.

        :raises Unsupported: If it holds a scripted module, or one that cannot be told from another one.
        """
        modules = list(root.modules())
        for module in modules:
            if isinstance(module, torch.jit.ScriptModule):
                raise Unsupported("a scripted module")  # its parameters are new objects at each access
            if type(module).__eq__ is not object.__eq__:
                raise Unsupported("a module that defines __eq__")  # it is compared by it
        dictionaries: list[dict[Any, Any]] = []
        for module in modules:
            dictionaries += module._modules, module._parameters
        # hooks on what lies within: one that came or went between two calls has work to do
        dictionaries += [hooks for module in modules[1:] for hooks in hooks_of(module)]
        buffers = [module._buffers for module in modules]
        self.tree = tree = Tree(
            modules[1:],
            [each for each in dictionaries if each],
            [each for each in buffers if each],
            [each for each in (*dictionaries, *buffers) if not each],
        )
        return tree


def hooks_of(module: nn.Module) -> tuple[dict[int, Any], ...]:
    """List what runs around the forward of a module.

    :param module: Module.

    :return: Live dictionaries of its hooks.
    """
    return module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks


def have_changed(dictionaries: list[dict[Any, Any]], held: Held) -> bool:
    """Compare what some dictionaries hold with what they held.

    :param dictionaries: Live dictionaries.
    :param held: What they held.

    :return: False if it is the very same.
    """
    try:
        # the same objects are equal without being asked, and different tensors of several elements refuse to answer
        if dictionaries != held.copies:
            return True
    except Exception:
        return True
    return bool(held.scalars) and not all(map(is_, _scalars_of(dictionaries), held.scalars))


def _scalars_of(dictionaries: list[dict[Any, Any]]) -> list[torch.Tensor]:
    values = chain.from_iterable(map(_values, dictionaries))
    return [value for value in values if isinstance(value, torch.Tensor) and value.numel() < 2]


def figures_of(held: Held) -> tuple[Any, ...]:
    """Read what shows that tensors were written or exchanged.

    :param held: Tensors.

    :return: Versions, addresses and flags.
    """
    tensors = held.tensors
    return (
        [*map(version_of, tensors)],
        [*map(address_of, tensors)],
        [*map(requires_grad_of, tensors)],
    )


def _tensors_of(dictionaries: list[dict[Any, Any]]) -> list[torch.Tensor]:
    tensors = [value for each in dictionaries for value in each.values() if isinstance(value, torch.Tensor)]
    for tensor in tensors:
        if type(tensor) not in _TYPES or tensor.layout is not torch.strided:
            raise Unsupported(f"a parameter or buffer of type {type(tensor).__name__}, {tensor.layout}")
    return tensors


def _hold(dictionaries: list[dict[Any, Any]]) -> Held:
    tensors = _tensors_of(dictionaries)
    copies = [dict(each) for each in dictionaries]
    return Held(copies, _scalars_of(copies), tensors, [*map(address_of, tensors)], [*map(_storage_of, tensors)])
