"""The benchmark of the snake, in a form that is too short to say anything."""

from __future__ import annotations

from pathlib import Path

import pytest

import snake_speed
from tests.skrl_vec_envs.snake.backends import needs_numba


@needs_numba
def test_it_prints_all_lines_with_their_share_of_the_limit_and_saves_the_plot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2] / "envs"))
    plot = tmp_path / "speed.png"
    snake_speed.main(["--num-envs", "8", "--threads", "1", "--seconds", "0", "--peers", "--output", str(plot)])
    printed = capsys.readouterr().out
    for line in ("numba, float32 | random", "numba, uint8 | greedy", "torch, uint8 | random", "limit: zeroing float32"):
        assert f"| {line}" in printed
    assert plot.stat().st_size > 0
