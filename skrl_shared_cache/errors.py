"""What the package raises and warns with."""

from __future__ import annotations

import sys
import warnings

_OURS = ("skrl_shared_cache", "skrl", "torch")


class CacheMismatchError(RuntimeError):
    """In verify mode, a recomputation did not return what the cache was about to return."""


class SharedCacheWarning(UserWarning):
    """The cache is right, but does not help: the message says why, and what to write."""


def warn(message: str) -> None:
    """Warn at the line of the user's that is running now.

    :param message: Message.
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, SharedCacheWarning, stacklevel=level - 1)
