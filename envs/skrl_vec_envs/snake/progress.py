"""Says on stderr what takes long, and nothing where it does not."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

_LONG = 1.5  # seconds; loading from the cache takes less


class Progress:
    """Runs the parts of a work, and tells of each as soon as the whole has taken long.

    :param title: What is being done.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._timer = threading.Timer(_LONG, self._announce)
        self._timer.daemon = True
        self._announced = False

    def __enter__(self) -> Progress:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()

    def run(self, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Run one part.

        :param name: What it is.
        :param function: Function to call with the arguments.
        """
        start = time.perf_counter()
        function(*arguments)
        if self._announced:
            print(f"  {name}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)

    def _announce(self) -> None:
        self._announced = True
        print(f"{self._title} ...", file=sys.stderr, flush=True)
