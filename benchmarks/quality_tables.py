"""The tables of the comparison of what is learned, and what is to be said about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean, stdev

from quality_records import Record
from quality_statistics import LEVEL, Comparison, compare, smallest_p
from quality_tasks import TASKS, rl_games_config
from skrl_shared_cache.rl_games import convert

MEASURES = {"final_return": "final return", "mean_return": "mean return over the training"}
ALIGNED = """\
Aligned: skrl's configuration is converted from rl_games' one, which clips no values, keeps the learning rate fixed, has
no loss on bounds and does not normalize observations; float32, one thread, torch.compile off. The environment is the
same object: it clips actions to -1..1, as rl_games does, and measures the returns. Minibatches are also aligned in the
row "rl_games, shuffled", by code that rl_games has and none of its options calls. What differs all the same:
"""


def summary(task: str, libraries: Mapping[str, Sequence[Record]]) -> str:
    """Write what each library came to as Markdown.

    :param task: Name of the task.
    :param libraries: Records by library.

    :return: Table, and whether each run reached the task's goal.
    """
    lines = [
        f"| {task} | final return, mean ± standard deviation | lowest .. highest | mean return over the training |",
        "|---|---|---|---|",
    ]
    for library, records in libraries.items():
        final = [record.final_return for record in records]
        mean = [record.mean_return for record in records]
        lines.append(
            f"| {library} | {fmean(final):.2f} ± {stdev(final):.2f} | {min(final):.2f} .. {max(final):.2f} | "
            f"{fmean(mean):.2f} ± {stdev(mean):.2f} |"
        )
    goal = TASKS[task].goal
    if goal is not None:
        below = [
            f"{library} with {sum(record.final_return < goal for record in records)} of {len(records)} seeds"
            for library, records in libraries.items()
            if any(record.final_return < goal for record in records)
        ]
        lines.append(
            f"\n90 % of the maximal return ({goal:g}): {'MISSED by ' + ', '.join(below) if below else 'all runs'}."
        )
    return "\n".join(lines)


def comparisons(libraries: Mapping[str, Sequence[Record]]) -> dict[tuple[str, str, str], Comparison]:
    """Compare each pair of libraries.

    :param libraries: Records by library.

    :return: Comparisons by measure and the two names.
    """
    return {
        (measure, a, b): compare(*([getattr(record, measure) for record in libraries[name]] for name in (a, b)))
        for measure in MEASURES
        for a, b in combinations(libraries, 2)
    }


def tests(task: str, pairs: Mapping[tuple[str, str, str], Comparison]) -> str:
    """Write comparisons as Markdown.

    :param task: Name of the task.
    :param pairs: Comparisons by measure and the two names.

    :return: Table.
    """
    lines = [
        f"| {task} | difference | 95 % interval | p | Cohen's d | Cliff's delta | at {LEVEL:.0%} |",
        "|---|---|---|---|---|---|---|",
    ]
    for (measure, a, b), pair in pairs.items():
        low, high = pair.interval
        higher = a if pair.difference > 0 else b
        lines.append(
            f"| {MEASURES[measure]}: {a} - {b} | {pair.difference:+.2f} | {low:+.2f} .. {high:+.2f} | {pair.p:.2g} | "
            f"{pair.cohens_d:+.2f} | {pair.cliffs_delta:+.2f} | "
            f"{f'DIFFERENT, {higher} is higher' if pair.differs else 'no significant difference'} |"
        )
    return "\n".join(lines)


def caveats(seeds: int, count: int) -> str:
    """Say what is to be known about the tests.

    :param seeds: Seeds of each library.
    :param count: Number of tests.

    :return: Text.
    """
    text = (
        f"Two-sided permutation tests of the difference of the means, {seeds} seeds on each side, at {LEVEL:.0%}; "
        f"{count} tests without a correction, of which {LEVEL * count:.1f} differ by chance where nothing does. No "
        "significant difference is no proof of equality: any difference in the 95 % interval fits these runs."
    )
    lowest = smallest_p(seeds)
    return (
        text if lowest < LEVEL else f"{text} With so few seeds p cannot be below {lowest:.2g}: they tell nothing apart."
    )


def differences(tasks: Sequence[str]) -> str:
    """Say what is aligned, and list what is not: the notes of the conversion.

    :param tasks: Names of the tasks.

    :return: Text.
    """
    notes: dict[str, None] = {}
    for task in tasks:
        found = convert(rl_games_config(task, 1, 32)).notes
        notes.update(dict.fromkeys([*found.not_mapped, *found.different]))
    return ALIGNED + "\n".join(f"- {note}" for note in notes if ".clip_actions " not in note)
