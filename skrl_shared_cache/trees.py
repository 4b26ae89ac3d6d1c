"""Nested arguments and results as a flat list of tensors and a comparable structure."""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

_CONSTANTS = (type(None), bool, int, str, bytes, torch.dtype, torch.device, torch.Size)
_TENSORS = (torch.Tensor, torch.nn.Parameter)


class Unsupported(Exception):
    """A value that the cache does not know how to compare: the call must bypass it."""


def flatten(value: Any, tensors: list[torch.Tensor]) -> Any:
    """Append the tensors of a nested value to a list and return the rest of it as a comparable structure.

    :param value: Tensor, constant (None, bool, int, float, str, bytes, dtype, device, Size, Enum) or a nested
        tuple, named tuple, list or dict of them.
    :param tensors: List that receives the tensors, in order.

    :return: Structure: equal for two values if and only if they differ in nothing but their tensors.

    :raises Unsupported: If the value holds anything else (tensor subclasses and sparse tensors included).
    """
    kind = type(value)
    if kind in _TENSORS:
        if value.layout is not torch.strided or value.is_nested:
            raise Unsupported(f"a tensor of layout {value.layout}")
        tensors.append(value)
        return torch.Tensor
    if kind in _CONSTANTS or isinstance(value, enum.Enum):
        return kind, value
    if kind is float:
        return kind, value.hex()  # tells -0.0 from 0.0
    if kind is tuple or kind is list or _is_named_tuple(value):
        return kind, tuple(flatten(item, tensors) for item in value)
    if kind is dict or kind is OrderedDict:
        return kind, tuple((flatten(key, tensors), flatten(item, tensors)) for key, item in value.items())
    raise Unsupported(f"a value of type {kind.__module__}.{kind.__qualname__}")


def map_tensors(value: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Rebuild a nested value with a function applied to each of its tensors.

    Containers are new objects, what is neither a tensor nor a known container stays as it is.

    :param value: Nested value.
    :param function: Function from tensor to tensor.

    :return: Nested value of the same structure.
    """
    kind = type(value)
    if isinstance(value, torch.Tensor):
        return function(value)
    if kind is tuple or kind is list:
        return kind(map_tensors(item, function) for item in value)
    if kind is dict or kind is OrderedDict:
        return kind((key, map_tensors(item, function)) for key, item in value.items())
    if _is_named_tuple(value):
        return tuple.__new__(
            kind, (map_tensors(item, function) for item in value)
        )  # it may have a constructor of its own
    return value


def _is_named_tuple(value: Any) -> bool:
    # not with attributes besides its fields, which a copy would lack
    return isinstance(value, tuple) and hasattr(value, "_fields") and not getattr(value, "__dict__", None)


def tensors_of(value: Any) -> list[torch.Tensor]:
    """List the tensors of a nested value.

    :param value: Nested value. What is neither a tensor nor a known container is left out.

    :return: Tensors.
    """
    tensors: list[torch.Tensor] = []

    def add(tensor: torch.Tensor) -> torch.Tensor:
        tensors.append(tensor)
        return tensor

    map_tensors(value, add)
    return tensors


def copy_containers(value: Any) -> Any:
    """Copy the containers of a nested value, and none of its tensors.

    :param value: Nested value.

    :return: The same tensors in containers that nobody else holds.
    """
    return value if isinstance(value, torch.Tensor) else map_tensors(value, lambda tensor: tensor)


def versions_of(value: Any) -> list[tuple[torch.Tensor, int]]:
    """List the tensors of a nested value with their versions.

    :param value: Nested value.

    :return: Pairs of tensor and version; none if the value holds what cannot be compared.
    """
    tensors: list[torch.Tensor] = []
    try:
        flatten(value, tensors)
    except Unsupported:
        return []
    return [(tensor, tensor._version) for tensor in tensors if not tensor.is_inference()]
