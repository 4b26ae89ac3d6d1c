"""Train PPO on the snake with skrl's Model and with SharedModel, from the same three seeds, and compare.

The two models take turns, an iteration each, so that whatever else the machine does hits both. Takes about two minutes,
prints a table and what follows from it, and writes return.png, time.png and results.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

import ppo_snake
from comparison import SEEDS, Comparison, Run, Runs
from timed_run import CallCount, TimedRun

NO_LOGS = {"write_interval": 0, "checkpoint_interval": 0}


class Training:
    """PPO on the snake with one of the models and one of the seeds."""

    def __init__(self, base: str, seed: int, args: argparse.Namespace) -> None:
        torch.manual_seed(seed)
        env = ppo_snake.make_env(args.num_envs, args.board, "cpu", seed)
        self.agent = ppo_snake.make_agent(base, env, NO_LOGS)
        model = self.agent.policy
        self._trunk, self._policy, self._value = map(CallCount, (model.net[0], model.policy, model.value))
        self._timed = TimedRun(self.agent, env)
        self._first_update: list[float] = []

    def iterate(self) -> None:
        """Train for one iteration: a rollout, and the update from it."""
        self._timed.iterate()
        if not self._first_update:
            self._first_update = self._timed.parameters().tolist()

    def finished(self) -> Run:
        """Return what came of it."""
        calls = self._trunk.calls, self._policy.calls, self._value.calls
        return Run(self._timed.iterations, *calls, self._first_update)


def train(args: argparse.Namespace) -> list[tuple[Training, Training]]:
    """Train both models from each seed, after a warm-up that is thrown away.

    :return: The plain model's training and the cached one's, by seed.
    """
    for base in ppo_snake.BASES:
        Training(base, args.seed, args).iterate()
    pairs = []
    with tqdm(total=SEEDS * args.iterations, unit="pair of iterations", file=sys.stdout) as progress:
        for seed in range(args.seed, args.seed + SEEDS):
            plain, cached = Training("plain", seed, args), Training("cached", seed, args)
            for i in range(args.iterations):
                for training in (plain, cached) if i % 2 == 0 else (cached, plain):
                    training.iterate()
                progress.update()
            pairs.append((plain, cached))
    return pairs


def machine() -> dict[str, Any]:
    """Name what the times depend on."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "skrl", "numpy")},
    }


def results(args: argparse.Namespace, comparison: Comparison, cache_info: list[dict[str, Any]]) -> dict[str, Any]:
    """Collect what was measured, and on what."""

    def raw(run: Run) -> dict[str, Any]:
        return {name: value for name, value in dataclasses.asdict(run).items() if name != "first_update"}

    return {
        "verdict": comparison.verdict(),
        "machine": machine(),
        "settings": {name: value for name, value in vars(args).items() if name != "output"},
        "first_update_difference": comparison.first_update_difference,
        "same_rollouts": comparison.same_rollouts,
        "final_return_difference": dataclasses.asdict(comparison.final_return_difference),
        "cache_info": cache_info,
        "plain": [raw(run) for run in comparison.plain.runs],
        "cached": [raw(run) for run in comparison.cached.runs],
    }


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--iterations", type=int, default=66, help="rollouts and updates of each training")
    parser.add_argument("--num-envs", type=int, default=128, help="boards that are played together")
    parser.add_argument("--board", type=int, default=8, help="height and width of the board, in cells")
    parser.add_argument(
        "--threads", type=int, default=1, help="threads of torch; more suffer more from other processes"
    )
    parser.add_argument("--seed", type=int, default=0, help=f"first of the {SEEDS} seeds")
    parser.add_argument("--output", type=Path, default="results/demo", help="folder of the pictures and results.json")
    parser.add_argument("--quick", action="store_true", help="3 iterations of 64 boards, to see that all parts work")
    args = parser.parse_args(argv)
    if args.quick:
        args.iterations, args.num_envs = 3, 64
    for name in ("iterations", "num_envs", "threads"):
        if getattr(args, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1, got {getattr(args, name)}")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    """Train, compare, and leave the figures in a folder."""
    args = parse(argv)
    try:
        from demo_plots import plot_returns, plot_times
    except ImportError as error:  # now rather than after two minutes
        sys.exit(f"error: {error}")
    torch.set_num_threads(args.threads)
    args.output.mkdir(parents=True, exist_ok=True)
    print(*(f"{name} {value}" for name, value in machine().items()), sep=", ")
    print(f"after a warm-up that does not count: {SEEDS} seeds, {args.iterations} iterations of each model from each")

    pairs = train(args)
    plain, cached = ([training.finished() for training in trainings] for trainings in zip(*pairs, strict=True))
    comparison = Comparison(Runs("skrl's Model", plain), Runs("SharedModel", cached))
    cache_info = [training.agent.policy.cache_info()._asdict() for _, training in pairs]
    print(f"\n{comparison.table()}\n")
    print(f"cache, all seeds: {sum(i['hits'] for i in cache_info)} hits, {sum(i['misses'] for i in cache_info)} misses")
    print(f"rollouts with the same returns, before rounding makes the runs part: {comparison.same_rollouts}")
    if args.threads == 1 and comparison.core_share < 0.95:
        print(f"other processes took a part of the machine: this one got {comparison.core_share:.0%} of a core")
    print(f"\n{comparison.verdict()}\n")

    plot_returns(comparison, args.num_envs * pairs[0][0].agent.memory.memory_size, args.output / "return.png")
    plot_times(comparison, args.output / "time.png")
    (args.output / "results.json").write_text(json.dumps(results(args, comparison, cache_info), indent=1))
    print(f"return.png, time.png and results.json: {args.output.resolve()}")


if __name__ == "__main__":
    main()
