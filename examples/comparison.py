"""What two interleaved trainings have in common, and what not: figures, a table, and what follows from them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from statistics import fmean, median, quantiles, stdev

from timed_run import Iteration

SAME_STEP = 1e-6
"""Largest difference between float32 parameters after one update that a different order of summation may leave."""
SEEDS = 3
STUDENT_T = 2.776
"""97.5 % quantile of Student's t distribution with 2 * (SEEDS - 1) degrees of freedom."""


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A mean and its standard error."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.error:.2f}"


@dataclasses.dataclass(frozen=True)
class Run:
    """A finished training."""

    iterations: Sequence[Iteration]
    trunk_passes: int
    policy_calls: int
    value_calls: int
    first_update: Sequence[float]
    """Parameters after the first update."""

    @property
    def final_return(self) -> float:
        """Mean return of the episodes that ended in the last fifth of the training; NaN when none did."""
        last = self.iterations[-max(1, len(self.iterations) // 5) :]
        returns = [x for iteration in last for x in iteration.returns]
        return fmean(returns) if returns else math.nan


@dataclasses.dataclass(frozen=True)
class Runs:
    """The finished trainings of a model, one per seed."""

    name: str
    runs: Sequence[Run]

    @property
    def iterations(self) -> list[Iteration]:
        """All iterations of all runs."""
        return [iteration for run in self.runs for iteration in run.iterations]

    @property
    def trunk_passes(self) -> int:
        """Trunk passes of all runs."""
        return sum(run.trunk_passes for run in self.runs)

    @property
    def passes_per_pair(self) -> float:
        """Trunk passes per policy/value pair. A value call without a partner, one per update, is not counted."""
        pairs = sum(run.policy_calls for run in self.runs)
        return (self.trunk_passes - sum(run.value_calls for run in self.runs) + pairs) / pairs

    @property
    def final_return(self) -> Estimate:
        """Mean final return of the seeds, with its error from their spread; NaN when a seed has none."""
        returns = [run.final_return for run in self.runs]
        if any(map(math.isnan, returns)):
            return Estimate(math.nan, math.nan)
        return Estimate(fmean(returns), stdev(returns) / math.sqrt(len(returns)))

    def median_ms(self, phase: str) -> float:
        """Return the median time of a phase of an iteration: ``"rollout"``, ``"update"``, ``"total"`` or ``"cpu"``."""
        return 1e3 * median(self._times(phase))

    def seconds(self, phase: str) -> float:
        """Return the time of a phase in all iterations."""
        return sum(self._times(phase))

    def _times(self, phase: str) -> list[float]:
        return [getattr(iteration, phase) for iteration in self.iterations]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Trainings from the same seeds that took turns: the plain model's, and the cached one's."""

    plain: Runs
    cached: Runs

    @property
    def speedups(self) -> list[float]:
        """How much faster each iteration of a cached run was than its neighbour of the plain run."""
        pairs = zip(self.plain.iterations, self.cached.iterations, strict=True)
        return [plain.total / cached.total for plain, cached in pairs]

    @property
    def first_update_difference(self) -> float:
        """Largest absolute difference between the parameters after the first update, of all seeds."""
        return max(
            abs(a - b)
            for plain, cached in self._pairs()
            for a, b in zip(plain.first_update, cached.first_update, strict=True)
        )

    @property
    def same_rollouts(self) -> list[int]:
        """Number of rollouts of each seed, from the first one on, whose episodes ended with the same returns."""
        return [
            sum(1 for _ in takewhile(bool, map(_same_returns, plain.iterations, cached.iterations)))
            for plain, cached in self._pairs()
        ]

    @property
    def final_return_difference(self) -> Estimate:
        """Final return of the cached runs minus the plain ones'."""
        plain, cached = self.plain.final_return, self.cached.final_return
        return Estimate(cached.mean - plain.mean, math.hypot(plain.error, cached.error))

    def table(self) -> str:
        """Return the figures as a Markdown table."""
        plain, cached = self.plain, self.cached

        def row(title: str, figure: Callable[[Runs], float], form: str) -> tuple[str, ...]:
            a, b = figure(plain), figure(cached)
            return title, form.format(a), form.format(b), f"{b / a:.2f}"

        rows = [
            ("", plain.name, cached.name, "ratio"),
            row("rollout (median)", lambda runs: runs.median_ms("rollout"), "{:.0f} ms"),
            row("update (median)", lambda runs: runs.median_ms("update"), "{:.0f} ms"),
            row("both (median)", lambda runs: runs.median_ms("total"), "{:.0f} ms"),
            row(f"wall time of {len(plain.iterations)} iterations", lambda runs: runs.seconds("total"), "{:.1f} s"),
            row("their CPU time", lambda runs: runs.seconds("cpu"), "{:.1f} s"),
            row("trunk passes", lambda runs: runs.trunk_passes, "{}"),
            row("trunk passes per policy/value pair", lambda runs: runs.passes_per_pair, "{:.2f}"),
            ("final return", str(plain.final_return), str(cached.final_return), ""),
        ]
        widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
        head, *body = ("| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows)
        return "\n".join((head, "|" + "|".join("-" * (width + 2) for width in widths) + "|", *body))

    def verdict(self) -> str:
        """Say what the figures say."""
        lower, middle, upper = quantiles(self.speedups, n=4, method="inclusive")
        speed = (
            f"{self.cached.name} trains {middle:.2f} times as fast as {self.plain.name} "
            f"(median of {len(self.speedups)} interleaved pairs of iterations, quartiles {lower:.2f} and {upper:.2f})"
        )
        if self.first_update_difference > SAME_STEP:
            return (
                f"{speed}, but they do NOT learn the same: after the first update parameters differ by up to "
                f"{self.first_update_difference:.1e}, and rounding explains {SAME_STEP:.0e} at most."
            )
        step = f"after the first update no parameter differs by more than {self.first_update_difference:.1e}"
        difference = self.final_return_difference
        if math.isnan(difference.mean):
            return f"{speed}, and takes the same first step: {step}. No episode ended late enough to compare returns."
        if abs(difference.mean) > STUDENT_T * difference.error:
            return (
                f"{speed}, and takes the same first step: {step}. But the final returns differ by {difference}, more "
                f"than the spread of {SEEDS} seeds explains (Student's t test, 5 %). One comparison in twenty does so "
                f"by chance: try another --seed."
            )
        return (
            f"{speed}, and both learn the same: {step}, and the final returns differ by {difference} over {SEEDS} "
            f"seeds, which is no significant difference (Student's t test, 5 %)."
        )

    @property
    def core_share(self) -> float:
        """CPU time over wall time. On one thread anything below 1 went to other processes, or to waiting."""
        iterations = [*self.plain.iterations, *self.cached.iterations]
        return sum(iteration.cpu for iteration in iterations) / sum(iteration.total for iteration in iterations)

    def _pairs(self) -> Iterator[tuple[Run, Run]]:
        return zip(self.plain.runs, self.cached.runs, strict=True)


def _same_returns(a: Iteration, b: Iteration) -> bool:
    return a.returns == b.returns
