"""Time rl_games and skrl on the same PPO: a rollout of 16 steps and an update of 4 epochs with 4 minibatches.

The environment costs nothing, the rate is fixed, nothing is normalized, no value is clipped, nothing is truncated, and
torch.compile is off. What is left of the differences is printed below the tables. All rows take turns within one
process, on one thread; a figure is the median over the rounds, a ratio the median of the ratios within a round. Before
each iteration the machine must be idle, or the round is left out; with --ignore-load ratios are of CPU times.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import skrl
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from rl_games_rows import ROWS, Cost, Operators, measure

LIMIT = 0.08
MIXED, BARE, REFERENCE = ", mixed", "bare loop (the limit)", "rl_games, mixed"
NOTES = """\
- rl_games 1.6.5 autocasts on CUDA only: here it is led to the CPU, the GradScaler as well. Mixed means bfloat16.
- rl_games and the bare loop autocast the update alone, skrl the rollout as well.
- rl_games and the bare loop learn from slices, skrl from a new permutation of the rollout in each epoch.
- rl_games and the bare loop use fused Adam, skrl torch's default.
- rl_games clamps and scales its actions, computes the exact divergence in each minibatch and keeps the means.
- Operators are those that torch dispatches per minibatch, waits those for which a GPU would have to be waited for.
"""
TIMES = ("rollout, ms", "update, ms", "total, ms", "CPU, ms")
COLUMNS = ("", *TIMES, "/ rl_games mixed", "/ limit", "trunk passes", "operators", "waits")
# seconds of 3840 steps with [2048, 1024, 1024, 512], on a GPU and with OmniIsaacGymEnvs' simulation in it
PUBLISHED = {"rl_games": 141, REFERENCE: 112, "skrl, two passes, mixed": 199, "skrl, own single pass, mixed": 151}


class Case(NamedTuple):
    """A trunk and a number of environments."""

    name: str
    units: list[int]
    num_envs: int
    rounds: int


QUICK = [
    Case("big", [2048, 1024, 1024, 512], 256, 3),
    Case("small", [512, 256, 256, 128], 512, 3),
    Case("host overhead", [8, 8, 8, 8], 16, 15),
]
FULL = [
    *(case._replace(rounds=3 * case.rounds) for case in QUICK),
    Case("tiny", [64, 64], 512, 30),
    Case("big, many environments", [2048, 1024, 1024, 512], 4096, 3),
]


class Result(NamedTuple):
    """What the rounds of a row came to."""

    rollout: float
    update: float
    total: float
    cpu: float
    trunk_passes: int
    to_rl_games: float
    to_limit: float
    operators: float
    waits: float


def others_share(seconds: float = 0.1) -> float:
    """Measure how much of the machine other processes use; 0 where the system does not say it.

    :param seconds: How long to look.

    :return: Share of all processors.
    """
    try:
        before = _busy_seconds()
        own = time.process_time()
        time.sleep(seconds)
        return max(0.0, _busy_seconds() - before - (time.process_time() - own)) / seconds / (os.cpu_count() or 1)
    except OSError:
        return 0.0


def _busy_seconds() -> float:
    with open("/proc/stat") as file:
        user, nice, system = (int(ticks) for ticks in file.readline().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def compare(case: Case, check_load: bool, wait: float = 2.0) -> dict[str, Result]:
    """Let all rows take turns.

    :param case: Case.
    :param check_load: Whether to leave out the rounds in which other processes use the machine.
    :param wait: Seconds to wait for an idle machine.

    :return: Results by row; none if no round was left.
    """
    rows = {
        f"{name}{MIXED if mixed else ''}": make(case.units, case.num_envs, mixed)
        for mixed in (False, True)
        for name, make in ROWS.items()
    }
    for name, row in rows.items():
        first = measure(row)
        print(f"{case.name}: warm-up of {name}: {1e3 * (first.rollout + first.update):.1f} ms", file=sys.stderr)
    rounds: list[dict[str, Cost]] = []
    for number in range(case.rounds):
        costs = {}
        for name, row in rows.items():
            if check_load and not _is_idle(wait):
                print(f"{case.name}: round {number} left out, other processes are busy", file=sys.stderr)
                break
            costs[name] = measure(row)
        else:
            rounds.append(costs)
    if not rounds:
        return {}
    return {name: _result(name, rounds, check_load, *operators(rows[name])) for name in rows}


def _is_idle(wait: float) -> bool:
    end = time.monotonic() + wait
    while (share := others_share()) > LIMIT and time.monotonic() < end:
        pass
    return share <= LIMIT


def _result(name: str, rounds: list[dict[str, Cost]], is_idle: bool, calls: float, waits: float) -> Result:
    def total(costs: dict[str, Cost], row: str) -> float:
        return costs[row].rollout + costs[row].update

    def spent(costs: dict[str, Cost], row: str) -> float:  # others take wall time, but little of ours on the processor
        return total(costs, row) if is_idle else costs[row].cpu

    bare = BARE + MIXED if name.endswith(MIXED) else BARE
    return Result(
        statistics.median(1e3 * costs[name].rollout for costs in rounds),
        statistics.median(1e3 * costs[name].update for costs in rounds),
        statistics.median(1e3 * total(costs, name) for costs in rounds),
        statistics.median(1e3 * costs[name].cpu for costs in rounds),
        rounds[-1][name].trunk_passes,
        statistics.median(spent(costs, name) / spent(costs, REFERENCE) for costs in rounds),
        statistics.median(spent(costs, name) / spent(costs, bare) for costs in rounds),
        calls,
        waits,
    )


def operators(row: Any) -> tuple[float, float]:
    """Count what is dispatched, and what would wait for a GPU, from one step of the optimizer to the next."""
    seen: list[tuple[int, int]] = []

    def begin(*_: Any) -> None:
        counter.is_in_step = True

    def end(*_: Any) -> None:
        counter.is_in_step = False
        seen.append((counter.calls, counter.waits))

    with Operators() as counter:
        hooks = [register_optimizer_step_pre_hook(begin), register_optimizer_step_post_hook(end)]
        row.iterate()
        for hook in hooks:
            hook.remove()
    calls, waits = ((last - first) / (len(seen) - 1) for first, last in zip(seen[0], seen[-1]))
    return calls, waits


def table(case: Case, results: dict[str, Result]) -> str:
    """Write the results as Markdown."""
    lines = [
        f"### {case.name}: trunk {case.units}, {case.num_envs} environments\n",
        f"| {' | '.join(COLUMNS)} |",
        f"|{'---|' * len(COLUMNS)}",
    ]
    for name, result in results.items():
        times = " | ".join(f"{value:.1f}" for value in result[:4])
        lines.append(
            f"| {name} | {times} | {result.to_rl_games:.2f} | {result.to_limit:.2f} | {result.trunk_passes} | "
            f"{result.operators:.0f} | {result.waits:.2f} |"
        )
    return (
        "\n".join(lines) if results else f"{lines[0]}\nNo round was left: the machine was busy (see --ignore-load).\n"
    )


def published(results: dict[str, Result]) -> str:
    """Write the four published times beside ours, as ratios."""
    lines = [
        "### The published figures beside ours: ratios to rl_games, mixed\n",
        "| | published | here |",
        "|---|---|---|",
    ]
    for name, seconds in PUBLISHED.items():
        lines.append(f"| {name} | {seconds / PUBLISHED[REFERENCE]:.3f} | {results[name].to_rl_games:.3f} |")
    name = "skrl, SharedModel, mixed"
    return "\n".join([*lines, f"| {name} | | {results[name].to_rl_games:.3f} |"])


def draw(everything: dict[str, dict[str, Result]], path: Path) -> None:
    """Draw the ratios to rl_games as bars."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5 * len(everything), 3.6), layout="constrained")
    grid = figure.subplots(1, len(everything), sharey=True, squeeze=False)
    for axes, (case, results) in zip(grid[0], everything.items()):
        names = list(results)[::-1]
        axes.barh(names, [results[name].to_rl_games for name in names])
        axes.axvline(1.0, color="black", linewidth=0.8)
        axes.set(title=case, xlabel="time / rl_games, mixed")
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables, and write them as JSON and PNG."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="more rounds and more cases")
    parser.add_argument("--cases", nargs="+", help="names of the cases to run")
    parser.add_argument("--rounds", type=int, help="rounds of each case")
    parser.add_argument("--output", type=Path, help="folder for the JSON and the PNG file (none: neither)")
    parser.add_argument("--ignore-load", action="store_true", help="time even if other processes use the machine")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    print(f"skrl {skrl.__version__}, torch {torch.__version__}, 1 thread, CPU", end="")
    print("; other processes may have been running, the ratios are of CPU times\n" if args.ignore_load else "\n")
    everything = {}
    for case in FULL if args.full else QUICK:
        if args.cases and case.name not in args.cases:
            continue
        torch.manual_seed(0)
        results = compare(case._replace(rounds=args.rounds or case.rounds), check_load=not args.ignore_load)
        print(table(case, results), end="\n\n", flush=True)
        if results:
            everything[case.name] = results
    if "big" in everything:
        print(published(everything["big"]), end="\n\n")
    print(NOTES, end="")
    if args.output and everything:
        args.output.mkdir(parents=True, exist_ok=True)
        text = {case: {name: row._asdict() for name, row in rows.items()} for case, rows in everything.items()}
        (args.output / "rl_games.json").write_text(json.dumps(text, indent=1))
        draw(everything, args.output / "rl_games.png")


if __name__ == "__main__":
    main()
