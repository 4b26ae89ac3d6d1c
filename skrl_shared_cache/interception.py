"""Stand between a module and its callers, only while a compute runs.

``torch.nn.Module.__call__`` looks for ``_compiled_call_impl`` in the module before it calls ``forward``; it is where
``module.compile()`` puts its result. A :py:class:`Shim` takes that place for the time of a compute. torch never copies
or pickles what is there, so a copy that another thread takes meanwhile comes out clean.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import Any

from torch import nn
from torch.compiler import is_dynamo_compiling
from torch.nn.modules import module as torch_module

from skrl_shared_cache.memo import Memo
from skrl_shared_cache.module_state import hooks_of
from skrl_shared_cache.session import Session, active

PLACE = "_compiled_call_impl"
GLOBAL_HOOKS = (
    torch_module._global_forward_pre_hooks,
    torch_module._global_forward_hooks,
    torch_module._global_backward_pre_hooks,
    torch_module._global_backward_hooks,
)


class Shim:
    """What is called in place of a module. There is one for each memo, or else ``torch.compile`` would see changes.

    :param module: Module to stand for.
    :param memo: Its memory.
    """

    def __init__(self, module: nn.Module, memo: Memo) -> None:
        self.memo = memo
        self.module = module
        self.place = module.__dict__
        self.original: Callable[..., Any] | None = None  # what was found in the place
        self._plain = module._call_impl
        self.look_for_hooks()
        self._forward = _Forward(module, memo)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        session = None if is_dynamo_compiling() else active.session
        memo, run = self.memo, self.original or self._plain
        if session is None or session.transparent:
            return run(*args, **kwargs)
        if session.running_units or session.role not in memo.ready or any(self._hooks):
            return self._call(session, run, args, kwargs)
        return memo.call(session, self.module, run, args, kwargs)

    def _call(self, session: Session, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        memo, module = self.memo, self.module
        if session.running_units and not memo.is_named:
            return run(*args, **kwargs)  # within a trunk that is memoized as a whole
        if memo.is_refused or any(GLOBAL_HOOKS):
            memo.pass_by(session)
            return run(*args, **kwargs)
        if session.role not in memo.ready:
            was_shared = memo.is_shared
            memo.watch(session.role)
            if not was_shared:
                return run(*args, **kwargs)
        if any(hooks_of(module)):
            return self._call_with_hooks(session, run, args, kwargs)
        return memo.call(session, module, run, args, kwargs)

    def look_for_hooks(self) -> None:
        """Find the dictionaries of the hooks: those who remove all of them at once may have exchanged them."""
        self._hooks = (*GLOBAL_HOOKS, *hooks_of(self.module))

    def install(self) -> None:
        """Take the place.

        No lock and no count: where two threads get in each other's way, some calls are not intercepted, and so slower.
        """
        found = self.place.get(PLACE)
        if found is not self:
            if found is not self.original:
                self.memo.drop("compiled anew")
            self.original = found
            self.place[PLACE] = self

    def remove(self) -> None:
        """Leave the place as it was found."""
        if self.place.get(PLACE) is self:  # or else the module was compiled meanwhile
            self.place.pop(PLACE, None)
            if self.original is not None:
                self.place[PLACE] = self.original

    def __deepcopy__(self, copies: Any) -> None:
        return None

    def __reduce__(self) -> Any:
        return type(None), ()

    def _call_with_hooks(
        self, session: Session, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        # the user's hooks run around every call, as they would without the cache; only the forward is memoized
        module = self.module
        if self.original is not None or "forward" in module.__dict__:
            self.memo.pass_by(session)
            return run(*args, **kwargs)
        module.__dict__["forward"] = self._forward
        try:
            return module._call_impl(*args, **kwargs)
        finally:
            module.__dict__.pop("forward", None)


_shims: weakref.WeakValueDictionary[int, Shim] = weakref.WeakValueDictionary()


def shim_of(module: nn.Module, name: str) -> Shim:
    """Find the shim of a module, which all models that hold the module share.

    :param module: Module.
    :param name: Name for messages, if there is no shim yet.

    :return: Shim. It lives as long as a model keeps it.
    """
    shim = _shims.get(id(module))
    if shim is None:
        shim = _shims[id(module)] = Shim(module, Memo(name, is_named=False))
    return shim


class _Forward:
    """The forward of a module with hooks."""

    def __init__(self, module: nn.Module, memo: Memo) -> None:
        self._module = module
        self._memo = memo

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module = self._module
        run = types.MethodType(type(module).forward, module)
        session = active.session
        if session is None or session.transparent:
            return run(*args, **kwargs)
        return self._memo.call(session, module, run, args, kwargs)

    def __deepcopy__(self, copies: dict[int, Any]) -> Any:
        module = copies.get(id(self._module), self._module)
        return types.MethodType(type(module).forward, module)

    def __reduce__(self) -> Any:
        return getattr, (self._module, "forward")


def call_unit(
    memo: Memo, model: nn.Module, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a function or method of a model as a trunk.

    :param memo: Its memory.
    :param model: Model, on all of whose parameters and buffers it may depend.
    :param run: Function.
    :param args: Its arguments.
    :param kwargs: Its keyword arguments.

    :return: What it returns.
    """
    session: Session | None = active.session
    if session is None or session.transparent or memo.is_refused:
        return run(*args, **kwargs)
    if session.role not in memo.roles:
        memo.watch(session.role)
    return memo.call(session, model, run, args, kwargs)
