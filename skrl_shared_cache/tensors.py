"""When is a tensor the one that was seen before?"""

from __future__ import annotations

import gc
import types
from collections.abc import Callable
from typing import Any

import torch

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
# an attribute of tensors: of two with the same mark, it is known that they differ (see cached_preprocessor)
DISTINCT = "_skrl_shared_cache_distinct"


def is_alias(seen: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Whether a tensor is another view of the memory of a seen one, under the same version counter.

    Tensors that ``detach``, ``.data``, NumPy or DLPack made of the same memory are not: writes through them are not
    counted where it would be seen.

    :param seen: Tensor that nobody wrote into since it was seen.
    :param tensor: Another tensor.

    :return: True if both views show the same elements in the same way.
    """
    base, seen_base = tensor._base, seen._base
    if base is None and seen_base is None:
        return False
    if base is not seen_base and base is not seen and seen_base is not tensor:
        return False
    if tensor.data_ptr() != seen.data_ptr() or tensor._version != seen._version or not _looks_like(seen, tensor):
        return False
    return not tensor.requires_grad and not seen.requires_grad


def may_equal(seen: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Whether it makes sense to compare the elements of a tensor with those of a seen one.

    Not if either requires grad (gradients would flow to the wrong tensor), if it is an inference tensor (autograd may
    refuse it), if their memory overlaps (it would be compared with itself, after a write that is not counted), or if
    they are aligned differently (kernels may then round differently).

    :param seen: Tensor that nobody wrote into since it was seen.
    :param tensor: Another tensor, that is no alias of it.

    :return: True if :py:func:`equals` decides.
    """
    if tensor.requires_grad or seen.requires_grad or tensor.is_inference() or not _looks_like(seen, tensor):
        return False
    if (tensor.data_ptr() ^ seen.data_ptr()) % 64:
        return False
    mark = getattr(seen, DISTINCT, None)
    if mark is not None and mark is getattr(tensor, DISTINCT, None):
        return False
    storage, seen_storage = tensor.untyped_storage(), seen.untyped_storage()
    start, seen_start = storage.data_ptr(), seen_storage.data_ptr()
    return bool(start >= seen_start + seen_storage.nbytes() or seen_start >= start + storage.nbytes())


def equals(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors hold the same bits: -0.0 differs from 0.0, and a NaN is itself. Waits for the device.

    :param a: Tensor.
    :param b: Tensor of the same shape, dtype and device.

    :return: True if they do.
    """
    return torch.equal(_bits(a), _bits(b))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.view(_INTEGERS[tensor.element_size()]) if tensor.is_floating_point() else tensor


def _looks_like(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (
        a.shape == b.shape
        and a.stride() == b.stride()
        and a.dtype is b.dtype
        and a.device == b.device
        and a.is_conj() == b.is_conj()
        and a.is_neg() == b.is_neg()
    )


def has_hooks(tensor: torch.Tensor) -> bool:
    """Whether a backward does something with the gradient of a tensor besides passing it on.

    :param tensor: Tensor.

    :return: True if it has a hook, or retains its gradient.
    """
    return bool(tensor._backward_hooks) or (tensor.retains_grad and tensor.grad_fn is not None)


def share_memory_with(tensor: torch.Tensor) -> Callable[[torch.Tensor], bool]:
    """Make a function that tells whether tensors lie in the memory of a given one.

    :param tensor: Strided tensor.

    :return: Function.
    """
    storage = tensor.untyped_storage()._cdata
    return lambda other: other.layout is torch.strided and other.untyped_storage()._cdata == storage


def holds_memory_of(tensor: torch.Tensor, value: Any) -> bool:
    """Whether an object of any kind leads to the memory of a tensor.

    :param tensor: Strided tensor.
    :param value: Object: what it refers to is looked through, classes, functions and torch modules are not.

    :return: True if a tensor or an array in it lies in that memory.
    """
    storage = tensor.untyped_storage()
    memory = range(storage.data_ptr(), storage.data_ptr() + storage.nbytes())
    seen = {id(value): value}
    for each in (queue := [value]):
        if isinstance(each, torch.Tensor):
            if share_memory_with(tensor)(each):
                return True
            continue
        array = getattr(each, "__array_interface__", None)
        if isinstance(array, dict) and array["data"][0] in memory:
            return True
        for other in gc.get_referents(each):
            if id(other) not in seen and not isinstance(other, _OPAQUE):
                seen[id(other)] = other
                queue.append(other)
    return False


_OPAQUE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, torch.nn.Module)
