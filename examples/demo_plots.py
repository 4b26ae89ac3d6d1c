"""The demo's two pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Literal

from comparison import Comparison, Run

try:
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError('the plots need matplotlib: pip install matplotlib, or this project\'s extra "plots"') from error

ORANGE, BLUE, SKY_BLUE = "#E69F00", "#0072B2", "#56B4E9"  # distinct for the colour-blind (Okabe and Ito)
STYLES = ({"color": ORANGE, "linewidth": 4.0}, {"color": BLUE, "linewidth": 1.6})
SMOOTHING = 5


def plot_returns(comparison: Comparison, steps_per_iteration: int, path: Path) -> None:
    """Draw the returns over the steps of the environments, where the models' lie on each other, and over time.

    :param comparison: The runs.
    :param steps_per_iteration: Steps of all environments together in an iteration.
    :param path: File to write.
    """
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    by_steps, by_time = figure.subplots(1, 2, sharey=True)
    for runs, style in zip((comparison.plain, comparison.cached), STYLES):
        curves = list(zip(*(smoothed_returns(run) for run in runs.runs), strict=True))
        iterations = range(1, len(curves) + 1)
        seconds = 1e-3 * runs.median_ms("total")  # the sum would show when other processes took the machine
        for axes, unit in ((by_steps, 1e-3 * steps_per_iteration), (by_time, seconds)):
            x = [unit * i for i in iterations]
            axes.plot(x, [fmean(seeds) for seeds in curves], label=runs.name, **style)
            axes.fill_between(x, [min(s) for s in curves], [max(s) for s in curves], color=style["color"], alpha=0.25)
    by_steps.set(xlabel="environment steps (thousands)", ylabel="return of an episode", title="by environment steps")
    by_time.set(xlabel="training time (s), iterations at their median", title="by time")
    by_steps.legend(title=f"mean and range of {len(comparison.plain.runs)} seeds", loc="upper left", frameon=False)
    _save(figure, path)


def plot_times(comparison: Comparison, path: Path) -> None:
    """Draw the median times of a rollout and an update as two stacked bars.

    :param comparison: The runs.
    :param path: File to write.
    """
    runs = (comparison.cached, comparison.plain)  # the first bar is the lowest
    names = [run.name for run in runs]
    rollout, update, both = ([run.median_ms(phase) for run in runs] for phase in ("rollout", "update", "total"))
    figure = Figure(figsize=(9.0, 2.4), layout="constrained")
    axes = figure.subplots()
    for phase, times, left, color, text in (
        ("rollout", rollout, [0.0, 0.0], SKY_BLUE, "black"),
        ("update", update, rollout, BLUE, "white"),
    ):
        bars = axes.barh(names, times, left=left, color=color, label=phase)
        axes.bar_label(bars, fmt="%.0f ms", label_type="center", color=text)
    for name, time in zip(names, both):
        axes.annotate(f"{time:.0f} ms", (time, name), (5, 0), textcoords="offset points", va="center", weight="bold")
    axes.set(xlabel=f"median time of {len(runs[0].iterations)} iterations (ms)", xlim=(0, 1.1 * max(both)))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    _save(figure, path, grid="x")


def smoothed_returns(run: Run) -> list[float]:
    """Average the returns of the episodes of the last few iterations, for each iteration; NaN where none has ended.

    :param run: A run.
    """
    by_iteration: Sequence[Sequence[float]] = [iteration.returns for iteration in run.iterations]
    windows = (by_iteration[max(0, i + 1 - SMOOTHING) : i + 1] for i in range(len(by_iteration)))
    return [
        fmean(episodes) if (episodes := [x for part in window for x in part]) else float("nan") for window in windows
    ]


def _save(figure: Figure, path: Path, grid: Literal["both", "x"] = "both") -> None:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis=grid, alpha=0.3)
        axes.set_axisbelow(True)
    figure.savefig(path, dpi=150)
