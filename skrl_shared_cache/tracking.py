"""The figures of the cache beside skrl's own, in TensorBoard and whatever else skrl's writer feeds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skrl_shared_cache.model import SharedModel

_TRACKED = "_tracks_shared_cache"


def track_cache(agent: Any) -> None:
    """Let an agent write the statistics of its models' caches whenever it writes its own.

    ``Cache / Trunk passes per pair`` is 1.0 at best, and 2.0 without a cache. ``Cache / Not shared: ...`` counts the
    lookups since the last time that were refused or bypassed, by reason.

    :py:class:`~skrl_shared_cache.Runner` and :py:func:`~skrl_shared_cache.use` do it by themselves; a script that
    builds its agent by hand calls it before the training. Models of other kinds are left alone.

    :param agent: Agent of skrl, or several in one (IPPO, MAPPO).

    :raises TypeError: If it is no agent.
    """
    if not hasattr(agent, "write_tracking_data") or not hasattr(agent, "track_data"):
        raise TypeError(f"track_cache takes an agent of skrl, not an object of type {type(agent).__name__}")
    models = list(_shared_models(getattr(agent, "models", None)))
    if not models or getattr(agent, _TRACKED, False):
        return
    write = agent.write_tracking_data
    seen = [model.cache_info() for model in models]

    def write_with_cache(*args: Any, **kwargs: Any) -> Any:
        infos = [model.cache_info() for model in models]
        hits = sum(now.hits - before.hits for now, before in zip(infos, seen))
        misses = sum(now.misses - before.misses for now, before in zip(infos, seen))
        if hits + misses:
            agent.track_data("Cache / Trunk passes per pair", 2.0 * misses / (hits + misses))
        for reason in sorted({reason for info in infos for reason in info.reasons}):
            count = sum(now.reasons.get(reason, 0) - before.reasons.get(reason, 0) for now, before in zip(infos, seen))
            agent.track_data(f"Cache / Not shared: {reason}", count)
        seen[:] = infos
        return write(*args, **kwargs)

    agent.write_tracking_data = write_with_cache
    setattr(agent, _TRACKED, True)


def _shared_models(models: Any) -> Iterator[SharedModel]:
    found: dict[int, SharedModel] = {}
    for model in models.values() if isinstance(models, dict) else ():
        for each in _shared_models(model) if isinstance(model, dict) else (model,):
            if isinstance(each, SharedModel):
                found[id(each)] = each
    yield from found.values()
