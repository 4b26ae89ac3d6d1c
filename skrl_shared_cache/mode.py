"""What, besides its inputs and its parameters, decides what a module returns; and when not to cache at all."""

from __future__ import annotations

from typing import Any

import torch
from torch import is_grad_enabled, is_inference_mode_enabled
from torch._C import (
    _current_graph_task_id,
    _get_tracing_state,
    _is_any_autocast_enabled,
    _len_torch_dispatch_stack,
)
from torch._C._autograd import _top_saved_tensors_default_hooks
from torch._C._functorch import peek_interpreter_stack
from torch.autograd import forward_ad

_HAS_CUDA = torch.backends.cuda.is_built() or torch.version.hip is not None
_AUTOCAST_DEVICES = ("cpu", "cuda", "xpu", "mps")
_PROXY = torch._C._TorchDispatchModeKey.PROXY


def bypass_reason() -> str | None:
    """Why the cache must keep out of the way of the current call.

    :return: A few words, or None if there is no reason.
    """
    if is_inference_mode_enabled():
        return "inference mode"  # its tensors count no versions
    if _get_tracing_state() is not None:
        return "tracing"
    if _current_graph_task_id() != -1:
        return "inside a backward"  # activation checkpointing recomputes here
    if peek_interpreter_stack() is not None:
        return "functorch transform"
    if forward_ad._current_level >= 0:
        return "forward-mode AD"
    if _top_saved_tensors_default_hooks(False) is not None:
        return "saved-tensor hooks"  # activation checkpointing, offloading: they pair each save with a load
    if _len_torch_dispatch_stack() and torch._C._get_dispatch_mode(_PROXY) is not None:
        return "graph tracing"
    return None


def current_mode() -> Any:
    """The part of torch's global state that decides what a call returns.

    :return: Value to compare with ``==``: grad mode, then (only where they matter) autocast and CUDA stream.
    """
    grad = is_grad_enabled()
    has_autocast = _is_any_autocast_enabled()
    has_cuda = _HAS_CUDA and torch.cuda.is_initialized()
    if not has_autocast and not has_cuda:
        return grad
    autocast: Any = None
    if has_autocast:
        autocast = tuple(
            (device, torch.get_autocast_dtype(device))
            for device in _AUTOCAST_DEVICES
            if torch.is_autocast_enabled(device)
        )
    if not has_cuda:
        return grad, autocast
    stream = torch._C._cuda_getCurrentRawStream(torch._C._cuda_getDevice())
    return grad, autocast, stream, torch.cuda.is_current_stream_capturing()


def why_modes_differ(one: Any, other: Any) -> str:
    """Name the first difference between two modes.

    :param one: Mode.
    :param other: Another mode.

    :return: A few words.
    """
    names = ("grad mode", "autocast", "CUDA stream", "CUDA graph capture")
    pairs = zip(names, _parts(one), _parts(other))
    return next((name for name, a, b in pairs if a != b), "CUDA initialization")


def _parts(mode: Any) -> tuple[Any, ...]:
    return mode if isinstance(mode, tuple) else (mode, None)
