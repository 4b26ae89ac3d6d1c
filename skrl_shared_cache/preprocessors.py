"""A preprocessor that hands out the same object again for the same batch.

skrl 1.4 and the recurrent agents of 2.x preprocess the observations anew for the value call. The result is a new
tensor, in which only a comparison of all elements would recognize the batch: it waits for the device.
"""

from __future__ import annotations

import copyreg
import functools
import itertools
from typing import Any, TypeVar

import torch
from torch import nn

from skrl_shared_cache import live
from skrl_shared_cache.conditions import why_refused
from skrl_shared_cache.entries import Entry
from skrl_shared_cache.interception import GLOBAL_HOOKS
from skrl_shared_cache.mode import current_mode
from skrl_shared_cache.module_state import ModuleState, hooks_of
from skrl_shared_cache.tensors import DISTINCT
from skrl_shared_cache.trees import Unsupported, flatten

Preprocessor = TypeVar("Preprocessor", bound=nn.Module)


_marks = itertools.count()


class _Memory:
    """The last call of one preprocessor. Copies of it are empty."""

    def __init__(self) -> None:
        self.last: Entry | None = None
        self.reference = live.reference_to(self)
        self.state = ModuleState()
        self.mark = next(_marks)

    def drop(self, reason: str) -> None:
        self.last = None

    def __deepcopy__(self, copies: Any) -> _Memory:
        return _Memory()

    def __reduce__(self) -> Any:
        return _Memory, ()


class _Type(type):
    """Classes that pickle as the call that makes them."""


class _CachedPreprocessor(nn.Module):
    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        self = super().__new__(cls)
        self.__dict__["_memory"] = _Memory()
        return self

    def __call__(self, x: torch.Tensor | None, *args: Any, **kwargs: Any) -> Any:
        if x is None:
            return None
        memory: _Memory = self.__dict__["_memory"]
        if args or kwargs.get("train") or type(x) is not torch.Tensor or torch.compiler.is_compiling():
            memory.last = None
            return super().__call__(x, *args, **kwargs)
        if x.is_inference() or x.layout is not torch.strided or any(hooks_of(self)) or any(GLOBAL_HOOKS):
            return super().__call__(x, **kwargs)
        try:
            mode, arguments = current_mode(), _constants(kwargs)
        except Unsupported:
            return super().__call__(x, **kwargs)
        last, state = memory.last, memory.state
        if last is not None and last.inputs[0] is not x:
            last = None
        if last is not None and why_refused(last, mode, self, state, arguments, (x,)) is None:
            return last.output
        memory.last = None
        try:
            entry = state.begin(self, arguments, (x,))
        except (Unsupported, RuntimeError):  # parameters that count no writes: inference tensors
            return super().__call__(x, **kwargs)
        entry.mode = mode
        entry.output = output = super().__call__(x, **kwargs)
        if type(output) is torch.Tensor and not output.requires_grad and output is not x:
            try:
                state.complete(self, entry, (output,))
            except (Unsupported, RuntimeError):  # the output, or buffers that count no writes
                return output
            memory.last = entry
            live.memos[id(memory)] = memory.reference
            setattr(output, DISTINCT, memory.mark)
        return output


def _constants(kwargs: dict[str, Any]) -> Any:
    tensors: list[torch.Tensor] = []
    constants = flatten(kwargs, tensors) if kwargs else None
    if tensors:
        raise Unsupported("a tensor among the keyword arguments")
    return constants


def cached_preprocessor(preprocessor: type[Preprocessor]) -> type[Preprocessor]:
    """Make a preprocessor class that returns the same tensor object when it is asked again about the same batch.

    Use it in the agent's configuration in place of the class, with the same keyword arguments. The same batch is: the
    same tensor object, not written since, with the same keyword arguments, unchanged statistics, without ``train``, and
    a result that nobody wrote into. Otherwise, and for ``None``, it does what the class does. Its checkpoints are those
    of the class.

    :param preprocessor: Class of a preprocessor, such as ``RunningStandardScaler``.

    :return: Class, the same for the same argument.

    :raises TypeError: If the argument is not a class of modules.

    Example::

        cfg["state_preprocessor"] = cached_preprocessor(RunningStandardScaler)  # observation_preprocessor in skrl 2
    """
    if not (isinstance(preprocessor, type) and issubclass(preprocessor, nn.Module)):
        raise TypeError(
            f"cached_preprocessor takes a class that inherits from torch.nn.Module, not {preprocessor!r}: "
            "pass the class itself, not an instance of it"
        )
    if issubclass(preprocessor, _CachedPreprocessor):
        return preprocessor
    cached: type[Preprocessor] = _make_class(preprocessor)  # type: ignore[arg-type]
    return cached


@functools.cache
def _make_class(preprocessor: Any) -> Any:
    kind = type("_Type", (_Type, type(preprocessor)), {}) if type(preprocessor) is not type else _Type
    return kind(
        f"Cached{preprocessor.__name__}",
        (_CachedPreprocessor, preprocessor),
        {"__doc__": preprocessor.__doc__, "__module__": preprocessor.__module__, "_wraps": preprocessor},
    )


def _reduce(kind: Any) -> Any:
    if "_wraps" not in vars(kind):  # a class of the user's that inherits from a cached one
        return kind.__qualname__
    return cached_preprocessor, (kind._wraps,)


copyreg.pickle(_Type, _reduce)
