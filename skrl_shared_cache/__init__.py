"""Shared actor-critic models for skrl whose trunk runs once per policy/value pair, and never returns a stale value."""

from skrl_shared_cache.requirements import check_requirements

check_requirements()

from skrl_shared_cache.errors import CacheMismatchError, SharedCacheWarning  # noqa: E402
from skrl_shared_cache.info import CacheInfo  # noqa: E402
from skrl_shared_cache.model import SharedModel  # noqa: E402
from skrl_shared_cache.preprocessors import cached_preprocessor  # noqa: E402

__all__ = ["CacheInfo", "CacheMismatchError", "SharedCacheWarning", "SharedModel", "cached_preprocessor"]
__version__ = "0.1.0"
