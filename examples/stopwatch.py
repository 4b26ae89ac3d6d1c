"""How long some methods take, while a script that knows nothing of it calls them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch


class Stopwatch:
    """Sums up the wall time that is spent in methods.

    On a GPU it waits for the device around each call, so that work counts where it was asked for.

    :param device: Device that the methods use.
    """

    def __init__(self, device: str | torch.device) -> None:
        self.seconds: dict[str, float] = {}
        self._waits = torch.device(device).type == "cuda"
        self._start = self._now()

    def watch(self, name: str, owner: Any, method: str) -> None:
        """Put a method that is timed in the place of one that is not.

        :param name: What to call the sum. Methods under one name must not call each other.
        :param owner: Object that has the method.
        :param method: Name of the method.
        """
        plain: Callable[..., Any] = getattr(owner, method)
        self.seconds[name] = 0.0

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = self._now()
            try:
                return plain(*args, **kwargs)
            finally:
                self.seconds[name] += self._now() - start

        setattr(owner, method, timed)

    def total(self) -> float:
        """Read the watch.

        :return: Seconds since it was made.
        """
        return self._now() - self._start

    def _now(self) -> float:
        if self._waits:
            torch.cuda.synchronize()
        return time.perf_counter()
