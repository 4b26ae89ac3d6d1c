"""The cache of one model: which of its modules to watch and to memoize, and what happens around each compute."""

from __future__ import annotations

import functools
import os
import types
import weakref
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from torch import compiler, nn
from torch.compiler import is_dynamo_compiling

from skrl_shared_cache.candidates import find_candidates, named_modules
from skrl_shared_cache.errors import warn
from skrl_shared_cache.explanation import Trunk, explain
from skrl_shared_cache.info import CacheInfo, Counters
from skrl_shared_cache.interception import PLACE, Shim, call_unit, shim_of
from skrl_shared_cache.memo import PAIRS_BEFORE_WARNING, Memo
from skrl_shared_cache.session import Session, active
from skrl_shared_cache.shared_output import Frame, SharedOutput

if TYPE_CHECKING:
    from skrl_shared_cache.model import SharedModel

MODES = ("on", "off", "verify")
ENVIRONMENT_VARIABLE = "SKRL_SHARED_CACHE"
WATCHED_COMPUTES = 4  # of each role: afterwards only the modules that two roles called are intercepted
_READS_WITHOUT_COMPUTING = (
    "{}.compute(role={!r}) failed on a None, and has read `_shared_output`, which is None here. The features of the "
    "role before are not always those of the current inputs, so every role must be able to compute them: write "
    "`features = self.net(...) if self._shared_output is None else self._shared_output`, or simply `self.net(...)`."
)


def check_mode(mode: str, source: str) -> str:
    """Check the name of a mode.

    :param mode: Name.
    :param source: Where it comes from, for the message.

    :return: The name.

    :raises ValueError: If there is no such mode.
    """
    if mode not in MODES:
        raise ValueError(f"{source} must be one of {', '.join(map(repr, MODES))}, not {mode!r}")
    return mode


class ModelCache:
    """What a :py:class:`~skrl_shared_cache.SharedModel` keeps besides its modules. Copies of it are empty."""

    def __init__(self) -> None:
        environment = os.environ.get(ENVIRONMENT_VARIABLE, "")
        self._mode = (
            check_mode(environment, f"the environment variable {ENVIRONMENT_VARIABLE}") if environment else "on"
        )
        self.compiled_output: Any = None  # `_shared_output` where no frame holds it: outside compute, and compiled
        self._counters = Counters()
        self._shared_output = SharedOutput()
        self._owner: Callable[[], SharedModel | None] = _no_model
        self._units: dict[Any, Memo] = {}
        self._functions: weakref.WeakKeyDictionary[Any, dict[Any, Memo]] = weakref.WeakKeyDictionary()
        self._codes: set[Any] = set()  # of those functions, to tell a function that is made anew from another one
        self._shims: dict[nn.Module, Shim] = {}
        self._candidates: list[Shim] = []
        self._shared: list[Shim] = []
        self._dictionaries: list[dict[str, nn.Module | None]] = []  # that the candidates were found in
        self._children: list[dict[str, nn.Module | None]] = []  # copies of them
        self._seen_changes = -1
        self._computes: dict[Hashable, int] = {}
        self._plans: dict[Hashable, list[Shim]] = {}  # of the roles that need not be watched any more
        self._has_warned = False

    def __deepcopy__(self, copies: Any) -> ModelCache:
        return ModelCache()

    def __reduce__(self) -> Any:
        return ModelCache, ()

    def run(
        self, model: SharedModel, compute: Callable[..., Any], args: tuple[Any, ...], kwargs: Any, role: Hashable
    ) -> Any:
        """Run compute with the shared modules intercepted, whatever the circumstances.

        :param model: Model that has this cache.
        :param compute: Its compute, as the plain function.
        :param args: Arguments of compute after the model: usually inputs and role.
        :param kwargs: Keyword arguments of compute.
        :param role: Role.

        :return: What compute returns.
        """
        if self._owner() is not model:
            return self._cache_of(model).run(model, compute, args, kwargs, role)
        mode = self._mode if model.shared_cache_mode is None else model.shared_cache_mode
        key, outer = id(self), active.session
        if outer is None:
            session = Session(role, self._counters, key)
            if mode != "on" or type(role) is not str:
                session.mode = check_mode(mode, f"{type(model).__name__}.shared_cache_mode")
                session.transparent = int(mode == "off" or not _is_hashable(role))
        elif key in outer.frames:
            return self._run_again(outer, model, compute, args, kwargs)
        else:
            session = outer
            session.transparent += mode == "off"
            session.frames[key] = None
        if mode == "off":
            self.drop("mode off")  # what was left over then serves nobody afterwards
        shims = () if session.transparent else self._shims_for(model, session.role)
        try:
            active.session = session
            for shim in shims:
                shim.install()
            if self._shared_output.is_used:
                result = self._shared_output.run(session, key, model, compute, args, kwargs)
            else:
                result = compute(model, *args, **kwargs)
        except BaseException as error:
            self.drop("exception in compute")
            frame = session.frames[key]
            if frame is not None and frame.explains(error):
                # of the same type: whoever catches it, goes on to
                raise type(error)(_READS_WITHOUT_COMPUTING.format(type(model).__name__, session.role)) from error
            raise
        finally:
            active.session = outer
            for shim in shims:
                shim.remove()
            if outer is not None:
                del outer.frames[key]
                outer.transparent -= mode == "off"
        return session.end(result) if outer is None and session.features else result

    def _cache_of(self, model: SharedModel) -> ModelCache:
        cache = self
        if self._owner() is not None:  # the model is a shallow copy
            model.__dict__["_shared_cache"] = cache = ModelCache()
        cache._owner = weakref.ref(model)
        return cache

    def _run_again(
        self, session: Session, model: SharedModel, compute: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        if self._shared_output.is_used:
            return self._shared_output.run_inside(session, id(self), model, compute, args, kwargs)
        return compute(model, *args, **kwargs)  # a class that calls the compute of its parent

    def frame(self) -> Frame | None:
        """Find the frame that holds ``_shared_output`` now.

        :return: Frame of the compute that runs on this thread, or None outside of one.
        """
        session, key = active.session, id(self)
        if session is None or key not in session.frames:
            return None
        frame = session.frames[key]
        if frame is None:
            self._shared_output.is_used = True
            self._plans.clear()
            frame = session.frames[key] = Frame()
        return frame

    def call_method(self, model: SharedModel, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a method of the model that ``shared_modules`` names.

        :param model: Model.
        :param method: Its method, as the plain function.
        :param args: Arguments after the model.
        :param kwargs: Keyword arguments.

        :return: What the method returns.
        """
        memo = self._units.get(method)
        if memo is None:
            memo = self._units[method] = Memo(method.__name__, is_named=True)
        return call_unit(memo, model, types.MethodType(method, model), args, kwargs)

    def call_function(self, model: SharedModel, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call any function as a trunk.

        :param model: Model.
        :param function: Function.
        :param args: Its arguments.
        :param kwargs: Its keyword arguments.

        :return: What it returns.
        """
        # a method is a new object at each access: what lasts is the object that it belongs to
        owner: Any = function
        key: Any = None
        if isinstance(function, types.MethodType):
            owner, key = function.__self__, function.__func__
        try:
            memos = self._functions.setdefault(owner, {}) if callable(function) else None
        except TypeError:
            memos = None
        if memos is None:  # nothing can refer to it weakly, or call it
            self._counters.bypass(f"a function of type {type(function).__name__}")
            return function(*args, **kwargs)
        memo = memos.get(key)
        if memo is None:
            name = getattr(function, "__name__" if key else "__qualname__", repr(function))
            memo = memos[key] = Memo(name, is_named=True)
            code = getattr(function, "__code__", type(function))
            if code in self._codes:
                self._counters.refuse("function differs (a lambda, a partial or a module that is made at each call?)")
            self._codes.add(code)
        return call_unit(memo, model, function, args, kwargs)

    def drop(self, reason: str) -> None:
        """Forget every entry.

        :param reason: A few words.
        """
        shims = list(self._shims.values())
        for shim in shims:
            shim.look_for_hooks()
        functions = [memo for memos in list(self._functions.values()) for memo in memos.values()]
        for memo in [*(shim.memo for shim in shims), *self._units.values(), *functions, self._shared_output.memo]:
            memo.drop(reason)
            memo.release()

    def info(self) -> CacheInfo:
        """Read the statistics.

        :return: Statistics.
        """
        return self._counters.info()

    def explanation(self, model: SharedModel) -> str:
        """Say in words what happened in the last pair.

        :param model: Model that has this cache.

        :return: Text of several lines.
        """
        trunks = [
            Trunk(shim.memo, f"child module {type(module).__name__}", module) for module, shim in self._shims.items()
        ]
        trunks += [Trunk(memo, "method", model) for memo in self._units.values()]
        trunks += [Trunk(memo, "function", model) for memos in self._functions.values() for memo in memos.values()]
        if self._shared_output.is_offered:
            trunks.append(Trunk(self._shared_output.memo, "attribute", model))
        mode = self._mode if model.shared_cache_mode is None else model.shared_cache_mode
        return explain(f"{type(model).__name__}, cache {mode!r}", self.info(), trunks)

    def _shims_for(self, model: SharedModel, role: Hashable) -> list[Shim]:
        if self._dictionaries != self._children or self._seen_changes != Memo.changes:
            self._rebuild(model)
        shims = self._plans.get(role)
        if shims is not None:
            return shims
        computes = self._computes[role] = self._computes.get(role, 0) + 1
        if computes <= WATCHED_COMPUTES:
            return self._candidates
        if computes == PAIRS_BEFORE_WARNING:
            self._warn_if_in_vain(model)
        if self._shared and not self._shared_output.is_used:
            self._plans[role] = self._shared
        return self._shared

    def _rebuild(self, model: SharedModel) -> None:
        named = named_modules(model)
        self._counters.has_names = bool(model.shared_modules)
        changes = Memo.changes
        self._dictionaries, candidates = find_candidates(model)
        children = [dict(each) for each in self._dictionaries]
        # what contains a named module would hide it
        candidates = {each: name for each, name in candidates.items() if named.keys().isdisjoint(each.modules())}
        shims = {module: shim_of(module, name) for module, name in {**candidates, **named}.items()}
        if shims.keys() != self._shims.keys():
            self._computes.clear()  # watch again
        self._shims = shims
        self._plans.clear()
        for module in named:
            self._shims[module].memo.name_it()
        self._candidates = [shim for shim in self._shims.values() if not shim.memo.is_refused]
        self._shared = [shim for shim in self._candidates if shim.memo.is_shared]
        self._seen_changes, self._children = changes, children

    def _warn_if_in_vain(self, model: SharedModel) -> None:
        roles = [role for role, computes in self._computes.items() if computes >= PAIRS_BEFORE_WARNING]
        was_shared = any(shim.memo.is_shared for shim in self._shims.values())
        helps = was_shared or self._units or self._functions or self._shared_output.is_offered
        if len(roles) < 2 or helps or self._has_warned:
            return
        self._has_warned = True
        warn(
            f"The shared cache does not help {type(model).__name__}: after {PAIRS_BEFORE_WARNING} computes of the "
            f"roles {', '.join(map(repr, roles))}, no child module was called in two of them, so no pass is shared. "
            "Separate networks for each role are right, but gain nothing from SharedModel. If there is a trunk, "
            'compute it in one method of the model and name it: `shared_modules = ("trunk",)`.',
        )


def guard(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a compute, so that the shared modules are intercepted while it runs.

    :param compute: Plain function.

    :return: Function.
    """

    @functools.wraps(compute)
    def guarded(model: SharedModel, *args: Any, **kwargs: Any) -> Any:
        cache = model._shared_cache
        if is_dynamo_compiling() or compiler._is_compiling_flag:
            if cache.compiled_output is not None:  # a write would be a side effect that export warns about
                cache.compiled_output = None
            result = compute(model, *args, **kwargs)
            if cache.compiled_output is not None:  # or the next call would find a tensor, and be compiled anew
                cache.compiled_output = None
            return result
        role: Hashable = args[1] if len(args) > 1 else kwargs.get("role", "")
        shims = cache._plans.get(role) if type(role) is str else None
        if (
            shims is None
            or active.session is not None
            or (cache._mode if model.shared_cache_mode is None else model.shared_cache_mode) != "on"
            or cache._owner() is not model
            or cache._seen_changes != Memo.changes
            or cache._dictionaries != cache._children
        ):
            return cache.run(model, compute, args, kwargs, role)
        # what follows is `run` for the most usual case: time is short where the trunk is small
        active.session = session = Session(role, cache._counters, id(cache))
        try:
            for shim in shims:
                if shim.original is not None or shim.place.setdefault(PLACE, shim) is not shim:
                    shim.install()
            result = compute(model, *args, **kwargs)
        except BaseException:
            cache.drop("exception in compute")
            raise
        finally:
            active.session = None
            for shim in shims:
                if shim.original is not None or shim.place.get(PLACE) is not shim:
                    shim.remove()
                else:
                    shim.place.pop(PLACE, None)
        return session.end(result) if session.features else result

    return guarded


def _no_model() -> None:
    return None


def _is_hashable(role: Any) -> bool:
    try:
        hash(role)
    except TypeError:
        return False
    return True
