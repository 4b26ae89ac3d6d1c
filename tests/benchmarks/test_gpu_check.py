"""The check for GPUs, where there is none: that it says so, and that its code runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ..processes import python
from .conftest import BENCHMARKS

SCRIPT = BENCHMARKS / "gpu_check.py"


@pytest.fixture(autouse=True)
def _path_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


def test_without_a_gpu_it_says_so_and_is_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert python(str(SCRIPT)) == "no CUDA device here: nothing was checked\n"


def test_on_the_cpu_it_runs_its_tests_and_times_the_updates_of_three_models(tmp_path: Path) -> None:
    text = python(str(SCRIPT), "--device", "cpu", "--quick", cwd=tmp_path)
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert "| devices: gradients are those of the model without the cache | 3 passed |" in text
    updates = [line for line in table if "PPO update" in line]
    assert len(updates) == 9
    for line in updates:
        # two for each minibatch, or one, and one for the last value
        passes = 17 if ", skrl's Model |" in line else 9
        assert f"| {passes} trunk passes, " in line
    assert text.endswith("\nall tests passed\n")
    assert not list(tmp_path.iterdir())


def test_a_failed_test_is_counted_and_fails_the_check(tmp_path: Path) -> None:
    (tmp_path / "test_naive.py").write_text("def test_on_cpu(): assert False\ndef test_on_cpu_too(): pass")
    text = python("-c", f"import gpu_check as g; g.TESTS = {[str(tmp_path)]}; print(g.run_tests('cpu', is_quick=True))")
    assert "('naive: on cpu', '1 failed', " in text
    assert "('naive: on cpu too', '1 passed', " in text
    assert text.endswith("], False)\n")
