"""The long training of the snake, kept short."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import train_snake
from skrl_vec_envs.snake.__main__ import main as snake


@pytest.mark.parametrize("window", [5, 0])
def test_it_trains_evaluates_and_saves_a_policy_that_can_be_watched(
    window: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    sizes = ["--num-envs", "16", "--rollouts", "8", "--board", "5", "--units", "8", "--episodes", "4"]
    train_snake.main(["--minutes", "0", "--window", str(window), *sizes, "--output", str(tmp_path)])
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["samples"] % (16 * 8) == 0 < results["samples"]
    assert results["mean_length"] >= 3
    assert sum(results[f"share_{part}"] for part in ("env", "inference", "update")) == pytest.approx(1.0)
    assert (tmp_path / "learning_curve.png").stat().st_size > 0
    snake(["watch", str(tmp_path / "policy.pt"), "--steps", "3", "--delay", "0"])
    assert "step 2, length" in capsys.readouterr().out
