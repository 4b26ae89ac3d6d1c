"""Shared actor-critic models for skrl whose trunk runs once per policy/value pair, and never returns a stale value."""

from skrl_shared_cache.requirements import check_requirements

check_requirements()

import importlib  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

from skrl_shared_cache.errors import CacheMismatchError, SharedCacheWarning  # noqa: E402
from skrl_shared_cache.info import CacheInfo  # noqa: E402
from skrl_shared_cache.model import SharedModel  # noqa: E402
from skrl_shared_cache.preprocessors import cached_preprocessor  # noqa: E402

if TYPE_CHECKING:
    from skrl_shared_cache.agent_check import check_agent
    from skrl_shared_cache.instantiator import shared_model
    from skrl_shared_cache.runner import Runner
    from skrl_shared_cache.substitution import use
    from skrl_shared_cache.tracking import track_cache

__all__ = [
    "CacheInfo",
    "CacheMismatchError",
    "Runner",
    "SharedCacheWarning",
    "SharedModel",
    "cached_preprocessor",
    "check_agent",
    "shared_model",
    "track_cache",
    "use",
]
__version__ = "0.1.0"

# imported when they are asked for: they bring in skrl's agents and trainers
_LAZY = {
    "Runner": "runner",
    "check_agent": "agent_check",
    "shared_model": "instantiator",
    "track_cache": "tracking",
    "use": "substitution",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
