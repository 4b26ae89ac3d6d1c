"""The checks that need a GPU: the suite's tests on CUDA, and how long skrl's PPO takes to learn there.

Takes less than five minutes and prints one table; where there is no GPU it says so. ``--device cpu`` tries out the
script.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest
import skrl
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the folder of tests there, not another package of that name

from gpu_updates import Sizes, measure  # noqa: E402

TESTS = (
    "tests/skrl_shared_cache/test_devices.py",
    "tests/skrl_shared_cache/test_cuda.py",
    "tests/skrl_shared_cache/test_precision.py",
    "tests/skrl_shared_cache/test_compiled.py",
    "tests/skrl_vec_envs/snake/test_env_cuda.py",
)
QUICK = Sizes(units=(32, 32), num_envs=16, updates=2)


class Outcomes:
    """A pytest plugin that counts, for each test function, how its cases ended."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one phase of one case: its call, or what went wrong before or after."""
        path, _, name = report.nodeid.partition("[")[0].partition("::test_")
        name = f"{Path(path).stem.removeprefix('test_')}: {name.replace('_', ' ')}"
        if report.when == "call" or not report.passed:
            self.counts[name][report.outcome] += 1
        self.seconds[name] += report.duration  # type: ignore[assignment]

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the title, the outcome and the time of each test function."""
        return [
            (name, ", ".join(f"{count} {outcome}" for outcome, count in counts.items()), f"{self.seconds[name]:.1f} s")
            for name, counts in self.counts.items()
        ]


def run_tests(device: str, is_quick: bool) -> tuple[list[tuple[str, str, str]], bool]:
    """Run the tests for devices.

    :param device: ``"cuda"`` or ``"cpu"``.
    :param is_quick: Whether to run a few of them only.

    :return: Rows of the table, and whether all tests passed.
    """
    outcomes = Outcomes()
    options = ["--quiet", "--no-header", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    selection = f"{device} and naive" if is_quick else device
    code = pytest.main([*options, "-k", selection, *(str(ROOT / path) for path in TESTS)], plugins=[outcomes])
    return outcomes.rows(), code == pytest.ExitCode.OK


def time_updates(device: str, sizes: Sizes) -> list[tuple[str, str, str]]:
    """Time PPO.

    :param device: ``"cuda"`` or ``"cpu"``.
    :param sizes: Sizes.

    :return: Rows of the table.
    """
    title = f"PPO update, trunk {list(sizes.units)}, minibatches of {2 * sizes.num_envs}"
    return [
        (
            f"{title}, {row.precision}, {row.model}",
            f"{row.trunk_passes} trunk passes, parameters within {row.difference:.0e} of skrl's Model",
            f"{row.milliseconds:.1f} ms",
        )
        for row in measure(device, sizes)
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Check, and print the table.

    :param argv: Command line.

    :return: Exit status.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="where to check")
    parser.add_argument("--quick", action="store_true", help="a few tests and a small trunk, to see that it runs")
    args = parser.parse_args(argv)
    if args.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device here: nothing was checked")
        return 0
    name = torch.cuda.get_device_name() if args.device == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}, skrl {skrl.__version__}")
    rows, passed = run_tests(args.device, args.quick)
    rows += time_updates(args.device, QUICK if args.quick else Sizes())
    print("\n| check | outcome | time |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print("\nall tests passed" if passed else "\nNOT ALL TESTS PASSED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
