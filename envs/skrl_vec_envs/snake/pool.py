"""Memory for large tensors that is used again as soon as nobody holds the old tensor any more.

Memory that is new to the process comes page by page, each of them filled with zeros first by the operating system: for
observations of some megabytes that takes ten times as long as writing them.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from typing import Any

import numpy as np
import torch

_ALIGNMENT = 64  # bytes, a cache line and the widest vector
_KEPT = 6


class Pool:
    """Hands out uninitialized CPU tensors of one shape and dtype. Each is the only one on its memory.

    :param shape: Shape of the tensors.
    :param dtype: ``torch.float32`` or ``torch.uint8``.
    """

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self._shape, self._dtype = shape, dtype
        self._kept: deque[np.ndarray[Any, Any]] = deque(maxlen=_KEPT)

    def take(self) -> torch.Tensor:
        """Return a tensor that nobody else has."""
        return torch.from_numpy(self.take_array())

    def take_array(self) -> np.ndarray[Any, Any]:
        """Return an array that nobody else has, to make a tensor of.

        A storage made from an array holds a reference to it, whatever tensors and views there are of the storage: an
        array to which only the pool refers is free.
        """
        for number in range(len(self._kept)):  # always in this order: what was used last is in the processor's caches
            memory = self._kept[number]
            if sys.getrefcount(memory) == _FREE:
                return memory
        memory = self._new()
        self._kept.append(memory)
        return memory

    def _new(self) -> np.ndarray[Any, Any]:
        size = math.prod(self._shape) * self._dtype.itemsize
        memory = np.empty(size + _ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % _ALIGNMENT
        dtype = np.uint8 if self._dtype == torch.uint8 else np.float32
        return memory[start : start + size].view(dtype).reshape(self._shape)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_kept": deque(maxlen=_KEPT)}


def _references_when_free() -> int:
    """Count as :meth:`Pool.take` does where only the pool refers to an array; interpreters differ by one."""
    kept: deque[object] = deque([object()])
    memory = kept[0]
    return sys.getrefcount(memory)


_FREE = _references_when_free()
