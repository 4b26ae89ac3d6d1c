"""A stopwatch sums up what methods take, and changes nothing else."""

from __future__ import annotations

import pytest

from stopwatch import Stopwatch


class Clock:
    """Work that takes as many seconds as it is told to, by a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("stopwatch.time.perf_counter", lambda: self.now)

    def work(self, seconds: float) -> str:
        self.now += seconds
        if seconds > 100.0:
            raise RuntimeError("too long")
        return "done"


def test_it_sums_up_the_calls_and_returns_what_they_return(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    watch = Stopwatch("cpu")
    watch.watch("work", clock, "work")
    clock.now += 1.0
    assert [clock.work(2.0), clock.work(3.0)] == ["done", "done"]
    assert watch.seconds == {"work": 5.0}
    assert watch.total() == 6.0


def test_a_call_that_raises_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    watch = Stopwatch("cpu")
    watch.watch("work", clock, "work")
    with pytest.raises(RuntimeError, match="too long"):
        clock.work(101.0)
    assert watch.seconds == {"work": 101.0}
