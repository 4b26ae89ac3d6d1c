"""The game in the terminal."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
import torch

from skrl_vec_envs.snake.__main__ import main
from skrl_vec_envs.snake.players import save_checkpoint, trunk
from tests.processes import python


def lengths(output: str) -> list[int]:
    """List the lengths of the snakes of the games that ended."""
    return [int(length) for length in re.findall(r"(?:game over|out of time): length (\d+)", output)]


def test_the_module_runs_and_explains_itself() -> None:
    program = f"import runpy, sys; sys.path[:] = {sys.path!r}; sys.argv[1:] = ['--help']"
    output = python("-c", f"{program}; runpy.run_module('skrl_vec_envs.snake', run_name='__main__')")
    assert "usage: python -m skrl_vec_envs.snake" in output
    assert "{play,watch}" in output


def test_every_step_of_every_board_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    main(["watch", "greedy", "--boards", "2", "--steps", "5", "--delay", "0", "--height", "4", "--width", "7"])
    output = capsys.readouterr().out
    assert re.findall(r"step (\d+), length \d+, \d+", output) == ["0", "1", "2", "3", "4"]
    assert output.count("+-------+  +-------+") == 10
    assert output.count("@") == 10


def test_the_greedy_player_plays_far_better_than_the_random_one(capsys: pytest.CaptureFixture[str]) -> None:
    main(["watch", "greedy", "--steps", "400", "--delay", "0"])
    greedy = lengths(capsys.readouterr().out)
    main(["watch", "random", "--steps", "100", "--delay", "0"])
    by_chance = lengths(capsys.readouterr().out)
    assert greedy
    assert by_chance
    assert sum(greedy) / len(greedy) > 10 > max(by_chance)


def test_a_film_shows_all_boards_and_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    main(["watch", "greedy", "--steps", "6", "--boards", "3", "--gif", str(tmp_path / "out.gif")])
    assert "film: " in capsys.readouterr().out
    with image.open(tmp_path / "out.gif") as film:
        assert film.n_frames == 6
        assert film.size == (2 * 166 + 6, 2 * 180 + 6)


def test_a_checkpoint_brings_its_environment_along(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, head = trunk((3, 3, 3), 8), torch.nn.Linear(8, 3)
    torch.nn.init.zeros_(head.weight)
    head.bias.data = torch.tensor([0.0, 1.0, 0.0])  # straight on
    environment = {"observation": "window", "window": 3, "actions": "relative"}
    save_checkpoint(tmp_path / "policy.pt", net, head, 8, environment)
    main(["watch", str(tmp_path / "policy.pt"), "--steps", "40", "--delay", "0"])
    assert "game over: length 3" in capsys.readouterr().out


def test_a_checkpoint_that_does_not_exist_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["watch", "nothing.pt"])
    assert "must be 'greedy', 'random' or a checkpoint's file, got 'nothing.pt'" in capsys.readouterr().err


def test_playing_needs_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(SystemExit, match="2"):
        main(["play"])
    assert "play needs a terminal with a keyboard" in capsys.readouterr().err


def test_a_board_that_is_too_small_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["watch", "greedy", "--height", "1", "--width", "3"])
    assert "error: the board is too small: num_snakes=1 with start_length=3" in capsys.readouterr().err
