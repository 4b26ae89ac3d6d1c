"""Run a module once more as if it had not run before: what verify mode and probation compare with."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from skrl_shared_cache.tensors import equals
from skrl_shared_cache.trees import Unsupported, flatten

_numpy: Any = sys.modules.get("numpy.random")


class Before(NamedTuple):
    """The generators and the buffers as they were before a forward pass."""

    generators: list[Any]
    buffers: list[tuple[nn.Module, str, torch.Tensor]]


def read_before(modules: list[nn.Module]) -> Before:
    """Copy what a forward pass of some modules may read and then change.

    :param modules: Modules whose buffers are copied.

    :return: Copies.
    """
    buffers = [
        (module, name, buffer.detach().clone())
        for module in modules
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    return Before(_read_generators(), buffers)


def replay(before: Before, run: Callable[[], Any]) -> Any:
    """Run a function from the generators and buffers of an earlier time, and leave those of now untouched.

    The buffers are exchanged, not written: no version counter moves.

    :param before: Generators and buffers to start from.
    :param run: Function without arguments.

    :return: What it returns.
    """
    with _exchanged_buffers(before.buffers), _restored_generators():
        _write_generators(before.generators)
        return run()


def difference(one: Any, other: Any) -> str | None:
    """Compare two outputs bit by bit.

    :param one: Output: nested tuples, lists and dicts of tensors.
    :param other: Another output.

    :return: None if they are the same in structure, dtype, shape, requires_grad and bits; else what differs.
    """
    tensors: list[torch.Tensor] = []
    others: list[torch.Tensor] = []
    try:
        if flatten(one, tensors) != flatten(other, others):
            return "another structure"
    except Unsupported as error:
        return f"something that cannot be compared ({error})"
    largest = 0.0
    for a, b in zip(tensors, others):
        if a.dtype is not b.dtype or a.shape != b.shape or a.device != b.device:
            return f"{a.dtype} {tuple(a.shape)} on {a.device} against {b.dtype} {tuple(b.shape)} on {b.device}"
        if a.requires_grad is not b.requires_grad:
            return f"requires_grad={a.requires_grad} against {b.requires_grad}"
        if not equals(a, b):
            wide = torch.complex128 if a.is_complex() else torch.float64
            gap = (a.detach().to(wide) - b.detach().to(wide)).abs().max().item()
            largest = max(largest, gap) if gap == gap else gap
            if largest != largest:
                break
            if not largest:
                largest = 5e-324  # the values agree and the bits do not: zeros of either sign
    return f"largest difference {largest:.6g}" if largest else None


def _device_modules() -> list[Any]:
    return [torch.cuda] if torch.cuda.is_available() and torch.cuda.is_initialized() else []


def _read_generators() -> list[Any]:
    devices = [device.get_rng_state_all() for device in _device_modules()]
    return [torch.get_rng_state(), random.getstate(), _numpy and _numpy.get_state(), *devices]


def _write_generators(states: list[Any]) -> None:
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    if _numpy:
        _numpy.set_state(states[2])
    for device, device_states in zip(_device_modules(), states[3:]):
        device.set_rng_state_all(device_states)


@contextlib.contextmanager
def _restored_generators() -> Iterator[None]:
    states = _read_generators()
    try:
        yield
    finally:
        _write_generators(states)


@contextlib.contextmanager
def restored_attributes(modules: list[nn.Module]) -> Iterator[None]:
    """Undo what is done to the plain attributes of modules: counters, schedules, running means.

    :param modules: Modules.
    """
    saved = [(module.__dict__, dict(module.__dict__)) for module in modules]
    try:
        yield
    finally:
        for attributes, before in saved:
            for name in attributes.keys() - before.keys():
                del attributes[name]
            attributes.update({name: value for name, value in before.items() if attributes.get(name) is not value})


@contextlib.contextmanager
def _exchanged_buffers(buffers: list[tuple[nn.Module, str, torch.Tensor]]) -> Iterator[None]:
    now = [(module, name, module._buffers.get(name)) for module, name, _ in buffers]
    try:
        for module, name, copy in buffers:
            module._buffers[name] = copy.clone()
        yield
    finally:
        for module, name, buffer in now:
            module._buffers[name] = buffer
