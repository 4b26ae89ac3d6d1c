"""The figures that tell a user whether the cache helps."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple


class CacheInfo(NamedTuple):
    """Statistics of a model's cache, in the manner of :py:func:`functools.lru_cache`.

    A *lookup* is one call of a shared trunk while ``compute`` runs.
    """

    hits: int
    """Lookups that were answered without running the trunk."""
    misses: int
    """Lookups that ran the trunk: the first call of each pair, refused lookups, and those on probation."""
    bypasses: int
    """Calls in which the cache kept out of the way (inference mode, tracing, activation checkpointing, ...)."""
    last_miss: str | None
    """Why the last *refused* lookup was refused, e.g. ``"parameters changed"``; None if none was."""
    reasons: dict[str, int]
    """Number of refused and bypassed lookups by reason."""

    @property
    def trunk_passes_per_pair(self) -> float:
        """Trunk passes per policy/value pair: 1.0 is the best, 2.0 the plain model's; NaN before the first pair."""
        lookups = self.hits + self.misses
        return 2.0 * self.misses / lookups if lookups else float("nan")


class Counters:
    """The counts behind :py:class:`CacheInfo`."""

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0
        self.bypasses = 0
        self.last_miss: str | None = None
        self.reasons: Counter[str] = Counter()
        self.has_names = False  # the user has named what to memoize: no advice about anything else

    def refuse(self, reason: str) -> None:
        """Count the reason of a refused lookup.

        :param reason: A few words.
        """
        self.last_miss = reason
        self.reasons[reason] += 1

    def bypass(self, reason: str) -> None:
        """Count a call that bypassed the cache.

        :param reason: A few words.
        """
        self.bypasses += 1
        self.reasons[reason] += 1

    def info(self) -> CacheInfo:
        """Read the counts.

        :return: Statistics.
        """
        return CacheInfo(self.hits, self.misses, self.bypasses, self.last_miss, dict(self.reasons))
