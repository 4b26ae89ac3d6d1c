"""What the package raises and warns with."""

from __future__ import annotations


class CacheMismatchError(RuntimeError):
    """In verify mode, a recomputation did not return what the cache was about to return."""


class SharedCacheWarning(UserWarning):
    """The cache is right, but does not help: the message says why, and what to write."""
