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

from skrl_shared_cache.trees import Unsupported

_HAS_CUDA = torch.backends.cuda.is_built() or torch.version.hip is not None
_AUTOCAST_DEVICES = ("cpu", "cuda", "xpu", "mps")
_PROXY = torch._C._TorchDispatchModeKey.PROXY


def current_mode() -> Any:
    """The part of torch's global state that decides what a call returns.

    :return: Value to compare with ``==``: grad mode, then (only where they matter) autocast and CUDA stream.

    :raises Unsupported: If the cache must keep out of the way of the current call.
    """
    if (
        is_inference_mode_enabled()
        or _is_any_autocast_enabled()
        or _len_torch_dispatch_stack()
        or _get_tracing_state() is not None
        or peek_interpreter_stack() is not None
        or _top_saved_tensors_default_hooks(False) is not None
        or _current_graph_task_id() != -1
        or forward_ad._current_level >= 0
        or (_HAS_CUDA and torch.cuda.is_initialized())
    ):
        return _unusual_mode()
    return is_grad_enabled()


def _unusual_mode() -> Any:
    if is_inference_mode_enabled():
        raise Unsupported("inference mode")  # its tensors count no versions
    if _get_tracing_state() is not None:
        raise Unsupported("tracing")
    if _current_graph_task_id() != -1:
        raise Unsupported("inside a backward")  # activation checkpointing recomputes here
    if peek_interpreter_stack() is not None:
        raise Unsupported("functorch transform")
    if forward_ad._current_level >= 0:
        raise Unsupported("forward-mode AD")
    if _top_saved_tensors_default_hooks(False) is not None:
        # activation checkpointing, offloading: they pair each save with a load
        raise Unsupported("saved-tensor hooks")
    if _len_torch_dispatch_stack() and torch._C._get_dispatch_mode(_PROXY) is not None:
        raise Unsupported("graph tracing")
    autocast: Any = None
    if _is_any_autocast_enabled():
        autocast = tuple(
            (device, torch.get_autocast_dtype(device))
            for device in _AUTOCAST_DEVICES
            if torch.is_autocast_enabled(device)
        )
    if not _HAS_CUDA or not torch.cuda.is_initialized():
        return (is_grad_enabled(), autocast) if autocast else is_grad_enabled()
    stream = torch._C._cuda_getCurrentRawStream(torch._C._cuda_getDevice())
    return is_grad_enabled(), autocast, stream, torch.cuda.is_current_stream_capturing()


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
