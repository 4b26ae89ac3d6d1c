"""Compare what skrl, skrl with SharedModel and rl_games learn from one configuration: PPO on cartpole and snake.

The fourth row is rl_games with shuffled minibatches, which differ most from skrl's and cannot be had by an option.
Each run is a process with one thread; two of them run at a time. Returns are measured in the environment, over the same
number of steps. Finished runs are kept in quality.json in the output folder: called again, the command goes on where it
was stopped, and with more seeds it runs only those that are new. Writes quality.json, quality.md and quality.png. Needs
the extras envs, plots and rl-games.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path

from quality_records import Plan, Record, Records, summarize
from quality_tasks import HORIZON, LIBRARIES, NUM_ENVS, TASKS

EXTRAS = {"rl_games": "rl-games", "scipy": "plots", "matplotlib": "plots"}
QUICK = 8
"""By how much the quick form is shorter."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


def check_installed() -> None:
    """Check that everything is there before hours are spent.

    :raises SystemExit: If a library is missing.
    """
    for name, extra in EXTRAS.items():
        if importlib.util.find_spec(name) is None:
            raise SystemExit(f"error: {name} is not installed: pip install '.[{extra}]', or run `make bench-quality`")


def run(plan: Plan) -> Record:
    """Train in a process of its own.

    :param plan: What to train.

    :return: Record.

    :raises RuntimeError: If the process failed.
    """
    script = Path(__file__).with_name("quality_run.py")
    command = [sys.executable, "-W", "ignore", str(script), plan.task, plan.library, str(plan.seed), str(plan.steps)]
    start = time.monotonic()
    result = subprocess.run(command, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f"{plan} failed:\n{result.stderr[-2000:]}")
    return summarize(json.loads(result.stdout), plan.steps, time.monotonic() - start)


def run_all(plans: Sequence[Plan], records: Records, jobs: int) -> None:
    """Do the trainings that are not recorded yet, and record each as soon as it is finished.

    :param plans: What to train.
    :param records: Where to look and to record.
    :param jobs: Processes at a time.
    """
    missing = [plan for plan in plans if plan not in records]
    done = len(plans) - len(missing)
    if done:
        print(f"{done} of {len(plans)} runs are in {records.path} and are not repeated", flush=True)
    pool = ThreadPoolExecutor(jobs)
    try:
        futures: dict[Future[Record], Plan] = {pool.submit(run, plan): plan for plan in missing}
        for number, future in enumerate(as_completed(futures), done + 1):
            plan, record = futures[future], future.result()
            records.add(plan, record)
            final = f"final return {record.final_return:.2f}, {record.episodes} episodes, {record.seconds:.0f} s"
            print(f"[{number}/{len(plans)}] {plan}: {final}", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)


def report(plans: Sequence[Plan], records: Records) -> str:
    """Write the tables and the picture.

    :param plans: Finished trainings.
    :param records: What came of them.

    :return: The tables, and what they say.
    """
    # what they need was checked before
    from quality_figure import draw
    from quality_tables import caveats, comparisons, differences, summary, tests

    results: dict[str, dict[str, list[Record]]] = {}
    for plan in plans:
        results.setdefault(plan.task, {}).setdefault(plan.library, []).append(records[plan])
    steps = {plan.task: plan.steps for plan in plans}
    seeds = len({plan.seed for plan in plans})
    sizes = "; ".join(f"{task}: {NUM_ENVS} environments x {steps[task]} steps" for task in results)
    pairs = {task: comparisons(libraries) for task, libraries in results.items()}
    parts = [f"{plans[0].versions}. {seeds} seeds each. {sizes}."]
    for task, libraries in results.items():
        parts += [summary(task, libraries), tests(task, pairs[task])]
    parts += [caveats(seeds, sum(map(len, pairs.values()))), differences(list(results))]
    text = "\n\n".join(parts) + "\n"
    (records.path.with_suffix(".md")).write_text(text)
    draw(results, steps, records.path.with_suffix(".png"))
    return text


def main(argv: Sequence[str] | None = None) -> None:
    """Train what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="tasks (default: all)")
    parser.add_argument("--seeds", type=int, default=10, help="seeds of each library on each task (default: 10)")
    parser.add_argument(
        "--quick", action="store_true", help=f"5 seeds, 1/{QUICK} of the steps: shows that it runs only"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default: 2)")
    parser.add_argument("--output", type=Path, default=Path("results/rl-games-quality"), help="folder to write to")
    args = parser.parse_args(argv)
    for option, least in ("seeds", 2), ("jobs", 1):
        if getattr(args, option) < least:
            parser.error(f"--{option} must be {least} or more, got {getattr(args, option)}")
    check_installed()
    versions = ", ".join(f"{name} {version(name)}" for name in ("skrl", "rl-games", "torch"))
    plans = [
        Plan(task, library, seed, TASKS[task].steps // (QUICK if args.quick else 1) // HORIZON * HORIZON, versions)
        for task in args.tasks
        for seed in range(1, min(args.seeds, 5 if args.quick else args.seeds) + 1)
        for library in LIBRARIES
    ]
    records = Records(args.output / "quality.json")
    run_all(plans, records, args.jobs)
    print(f"\n{report(plans, records)}", end="")
    print(f"\nwritten: {args.output}/quality.json, quality.md, quality.png")


if __name__ == "__main__":
    main()
