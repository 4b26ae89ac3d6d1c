"""Make skrl's own Runner and instantiator produce cached models, for scripts that cannot be edited.

What is exchanged lies within skrl's function and classes, not in the modules that hold them: scripts have often
imported these before.
"""

from __future__ import annotations

import functools
from typing import Any

from skrl.agents.torch import Agent
from skrl.multi_agents.torch import MultiAgent
from skrl.utils.model_instantiators.torch import shared_model as skrl_shared_model
from skrl.utils.runner.torch import Runner as SkrlRunner

from skrl_shared_cache.agent_check import check_agent
from skrl_shared_cache.runner import cache_scalers  # and with it the instantiator, which keeps skrl's own code
from skrl_shared_cache.tracking import track_cache

_in_use = 0
_originals: list[tuple[Any, str, Any]] = []


class Substitution:
    """What :py:func:`use` returns: undone by :py:meth:`undo`, or at the end of a ``with`` block."""

    def __init__(self) -> None:
        self._is_active = True
        _begin()

    def undo(self) -> None:
        """End it. skrl is as it was when every call of :py:func:`use` has been undone, in any order."""
        if self._is_active:
            self._is_active = False
            _end()

    def __enter__(self) -> Substitution:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()


def use() -> Substitution:
    """Let skrl's Runner and ``shared_model`` produce cached models, from now on or within a ``with`` block.

    They then do what :py:class:`~skrl_shared_cache.Runner` and :py:func:`~skrl_shared_cache.shared_model` do, wherever
    and however early they have been imported. Every agent is looked at as by :py:func:`~skrl_shared_cache.check_agent`
    when its trainer is built, and writes the statistics of the cache beside its own, as with
    :py:func:`~skrl_shared_cache.track_cache`. Models that a script defines itself keep their base class.

    :return: Object with a method ``undo``, and a context manager.

    Example::

        with use():
            runner = Runner(env, cfg)
    """
    return Substitution()


def _begin() -> None:
    global _in_use
    _in_use += 1
    if _in_use > 1:
        return
    process_cfg = SkrlRunner._process_cfg

    @functools.wraps(process_cfg)
    def process_cfg_with_cached_scalers(self: Any, cfg: dict[str, Any]) -> dict[str, Any]:
        processed: dict[str, Any] = process_cfg(self, cfg)
        cache_scalers(processed, self._cfg.get("models") or {})
        return processed

    _exchange(SkrlRunner, "_process_cfg", process_cfg_with_cached_scalers)
    _exchange(skrl_shared_model, "__code__", _cached_shared_model.__code__)
    for kind in (Agent, MultiAgent):
        _exchange(kind, "init", _checked(kind.init))


def _end() -> None:
    global _in_use
    _in_use -= 1
    while not _in_use and _originals:
        setattr(*_originals.pop())


def _exchange(owner: Any, name: str, value: Any) -> None:
    _originals.append((owner, name, getattr(owner, name)))
    setattr(owner, name, value)


def _checked(init: Any) -> Any:
    @functools.wraps(init)
    def init_checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        check_agent(self)
        track_cache(self)
        return init(self, *args, **kwargs)

    return init_checked


def _cached_shared_model(*args: Any, **kwargs: Any) -> Any:
    # this becomes the body of skrl's function, which has the globals of skrl's module
    from skrl_shared_cache.instantiator import shared_model

    return shared_model(*args, **kwargs)
