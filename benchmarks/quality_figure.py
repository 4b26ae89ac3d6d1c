"""The curves of the comparison of what is learned. Needs matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from quality_records import POINTS, Record
from quality_statistics import band
from quality_tasks import NUM_ENVS, SHUFFLED

try:
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError(
        'the picture needs matplotlib: pip install matplotlib, or this project\'s extra "plots"'
    ) from error

# distinct for the colour-blind (Okabe and Ito); the cached curve lies on the plain one for a while
STYLES = {
    "skrl": {"color": "#E69F00", "linewidth": 3.5},
    "SharedModel": {"color": "#0072B2", "linewidth": 1.5},
    "rl_games": {"color": "#009E73", "linewidth": 1.5, "linestyle": "--"},
    SHUFFLED: {"color": "#CC79A7", "linewidth": 2.2, "linestyle": ":"},
}


def draw(results: Mapping[str, Mapping[str, Sequence[Record]]], steps: Mapping[str, int], path: Path) -> None:
    """Draw the mean curves of the libraries with their confidence bands, a panel for each task.

    :param results: Records by task and library.
    :param steps: Steps of each environment by task.
    :param path: File to write.
    """
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    panels = figure.subplots(1, len(results), squeeze=False)[0]
    for axes, (task, libraries) in zip(panels, results.items()):
        unit = 1e-3 * NUM_ENVS * steps[task] / POINTS
        for library, records in libraries.items():
            curves = [[math.nan if point is None else point for point in record.curve] for record in records]
            first = max(sum(map(math.isnan, curve)) for curve in curves)
            mean, low, high = band([curve[first:] for curve in curves])
            x = [unit * (i + 1) for i in range(first, POINTS)]
            axes.plot(x, mean, label=library, **STYLES[library])
            axes.fill_between(x, low, high, color=STYLES[library]["color"], alpha=0.25, linewidth=0)
        axes.set(title=task, xlabel="environment steps (thousands)")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
    seeds = min(len(records) for libraries in results.values() for records in libraries.values())
    panels[0].set_ylabel("return of an episode")
    lines, names = panels[0].get_legend_handles_labels()
    title = f"means of {seeds} seeds with 95 % bootstrap bands"
    figure.legend(
        lines, names, title=title, loc="outside upper left", alignment="left", ncols=len(names), frameon=False
    )
    figure.savefig(path, dpi=150)
