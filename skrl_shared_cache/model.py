"""The base class that users swap in."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import torch
from skrl.models.torch import Model

from skrl_shared_cache import live
from skrl_shared_cache.info import CacheInfo
from skrl_shared_cache.model_cache import ModelCache, guard
from skrl_shared_cache.session import active

T = TypeVar("T")
_GUARDED = "_is_guarded_compute"


class SharedModel(Model):
    """Base class for models that are policy and value at once: the trunk runs once per pair of calls.

    It takes the place of :py:class:`skrl.models.torch.Model`, and its constructor takes the same arguments. Every
    call returns, bit for bit, what the model would return without the cache, in any order of calls.

    While :py:meth:`compute` runs, the calls of the model's child modules are intercepted. A child that was called in
    two roles is memoized: when the other role calls it with the same inputs, and neither its parameters, buffers and
    training flags nor the mode (grad, autocast, thread, stream) changed, it gets the tensors of the pass before. In
    doubt it runs again. Cached tensors are dropped when every role has got them, at the first backward, at an optimizer
    step, at :py:meth:`train`, and by all methods here that change the model.

    Not noticed are writes that move no version counter of torch: through NumPy, DLPack, ``.data`` or a simulator, into
    the same observation or parameter object, between the call of one role and that of the other. After such a write
    call :py:meth:`clear_cache`.

    Example::

        class Shared(GaussianMixin, DeterministicMixin, SharedModel):  # it was: Model
            ...
    """

    shared_modules: ClassVar[tuple[str, ...]] = ()
    """Names of child modules, submodules (dotted) and methods to memoize without waiting until two roles call them."""

    shared_cache_mode: str | None = None
    """``"on"``, ``"off"`` or ``"verify"``; None for what ``SKRL_SHARED_CACHE`` said when the model was built."""

    _shared_cache: ModelCache

    def __new__(cls, *args: Any, **kwargs: Any) -> SharedModel:
        _guard(cls)
        self: SharedModel = super().__new__(cls)
        # not in __init__: existing code calls Model.__init__
        self.__dict__["_shared_cache"] = ModelCache()
        return self

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _guard(cls)

    @property
    def _shared_output(self) -> Any:
        if torch.compiler.is_compiling():
            return self._shared_cache.compiled_output
        frame = self._shared_cache.frame()
        return self._shared_cache.compiled_output if frame is None else frame.get()

    @_shared_output.setter
    def _shared_output(self, value: Any) -> None:
        frame = None if torch.compiler.is_compiling() else self._shared_cache.frame()
        if frame is None:
            self._shared_cache.compiled_output = value
        else:
            frame.put(value)

    @_shared_output.deleter
    def _shared_output(self) -> None:
        self._shared_output = None

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        """Define the computation performed by the model. To be implemented by subclasses, as for skrl's ``Model``.

        :raises NotImplementedError: This method must be implemented by subclasses.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define compute(self, inputs, role): neither it nor a class that it inherits "
            "from (before SharedModel) does"
        )

    def shared(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a trunk that is not a child module, from within :py:meth:`compute`.

        :param function: Trunk. It may depend on its arguments and on all parameters and buffers of the model. Calls
            belong together if their functions are equal: a method, or a function that is made once.
        :param args: Arguments: tensors, constants and nested tuples, lists and dicts of them.
        :param kwargs: Keyword arguments.

        :return: What the function returns.
        """
        if torch.compiler.is_compiling() or active.session is None:
            return function(*args, **kwargs)
        output: T = self._shared_cache.call_function(self, function, args, kwargs)
        return output

    def cache_info(self) -> CacheInfo:
        """Read the statistics of the cache.

        :return: Named tuple with the fields ``hits``, ``misses``, ``bypasses``, ``last_miss`` and ``reasons``, and the
            property ``trunk_passes_per_pair``.
        """
        return self._shared_cache.info()

    def explain_cache(self) -> None:
        """Print what the cache did for the last pair: what was compared, and why the trunk ran or did not.

        Paste it into a report of what looks like a fault of the cache.
        """
        print(self._shared_cache.explanation(self))

    def clear_cache(self) -> None:
        """Forget what is cached. It is the remedy after writes that torch does not see."""
        self._shared_cache.drop("cleared")

    def train(self, mode: bool = True) -> SharedModel:
        # the flags are compared at each lookup; a graph that nobody used must not outlive an update
        self._shared_cache.drop("train/eval mode changed")
        super().train(mode)
        return self

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        # parameters and buffers are compared at each lookup; what `set_extra_state` writes is not
        self._shared_cache.drop("state loaded")
        return super().load_state_dict(*args, **kwargs)

    def update_parameters(self, model: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        super().update_parameters(model, *args, **kwargs)
        # it writes through `.data`, which moves no version counter; another model may hold the same parameters
        self._shared_cache.drop("parameters changed")
        live.drop("parameters changed")

    def _apply(self, *args: Any, **kwargs: Any) -> SharedModel:
        # parameters on another device are noticed; those on this one must not be held
        self._shared_cache.drop("parameters changed")
        super()._apply(*args, **kwargs)
        return self


_SHARED_OUTPUT = vars(SharedModel)["_shared_output"]


def _guard(cls: type[SharedModel]) -> None:
    if inspect.getattr_static(cls, "_shared_output") is not _SHARED_OUTPUT:
        cls._shared_output = _SHARED_OUTPUT  # type: ignore[method-assign]  # a class attribute: the first value was None
    _guard_compute(cls)


def _guard_compute(cls: type[SharedModel]) -> None:
    compute = cls.compute
    if cls is SharedModel or hasattr(compute, _GUARDED) or getattr(compute, "__isabstractmethod__", False):
        return

    guarded = guard(compute)
    setattr(guarded, _GUARDED, True)
    cls.compute = guarded  # type: ignore[method-assign]
