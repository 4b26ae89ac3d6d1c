"""The game in the terminal."""

from __future__ import annotations

import re
import sys

import pytest

from skrl_vec_envs.snake.__main__ import main
from tests.processes import python


def lengths(output: str) -> list[int]:
    """List the lengths of the snakes of the games that ended."""
    return [int(length) for length in re.findall(r"(?:game over|out of time): length (\d+)", output)]


def test_the_module_runs_and_explains_itself() -> None:
    program = f"import runpy, sys; sys.path[:] = {sys.path!r}; sys.argv[1:] = ['--help']"
    output = python("-c", f"{program}; runpy.run_module('skrl_vec_envs.snake', run_name='__main__')")
    assert "usage: python -m skrl_vec_envs.snake" in output
    assert "--policy {greedy,random}" in output


def test_every_step_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--steps", "5", "--delay", "0", "--height", "4", "--width", "7"])
    output = capsys.readouterr().out
    assert re.findall(r"step (\d+), length", output) == ["0", "1", "2", "3", "4"]
    assert output.count("+-------+") == 10
    assert output.count("@") == 5


def test_the_greedy_policy_plays_far_better_than_the_random_one(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--steps", "600", "--delay", "0", "--policy", "greedy"])
    greedy = lengths(capsys.readouterr().out)
    main(["--steps", "600", "--delay", "0", "--policy", "random"])
    by_chance = lengths(capsys.readouterr().out)
    assert greedy
    assert by_chance
    assert min(greedy) > 10 > max(by_chance)


def test_a_board_that_is_too_small_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--height", "1", "--width", "3"])
    assert "error: the board is too small: num_snakes=1 with start_length=3" in capsys.readouterr().err
