"""The benchmark of the views, in a form that is too short to say anything."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import omni_views
from tests.skrl_vec_envs.rl_games_or_skip import rl_games_view


def test_it_reports_every_view_and_the_times_of_the_threads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rl_games_view()
    figures = tmp_path / "figures.json"
    sizes = ["--num-envs", "2", "3", "--tasks", "cartpole", "snake"]
    omni_views.main(["--blocks", "1", "--steps", "2", *sizes, "--json", str(figures)])
    printed = capsys.readouterr().out
    for task in ("cartpole", "snake"):
        for view in ("env", "skrl", "rl_games", "gymnasium", "isaaclab"):
            assert re.search(rf"\| {task} \| 3 \| {view} \| \d+ us \| \d+ us \| -?\d+ us \|", printed)
    assert re.search(r"N = 3\nTotal send: \d+ ms\nTotal wait: \d+ ms\nTotal collect: \d+ ms", printed)
    assert set(json.loads(figures.read_text())["threads"]) == {"1", "2", "3"}


def test_the_limit_stands_beside_the_views_that_have_one() -> None:
    figures = {"bare": 100.0, "view": 150.0, "overhead": 50.0}
    views = {"pendulum": {"4096": {"skrl": figures, "isaaclab": figures}}}
    lines = omni_views.report({"views": views, "threads": {}}).splitlines()
    assert lines[2] == "| pendulum | 4096 | skrl | 100 us | 150 us | 50 us (limit 60) |"
    assert lines[3] == "| pendulum | 4096 | isaaclab | 100 us | 150 us | 50 us |"


def test_a_block_counts_its_steps_and_repeats_the_actions() -> None:
    made: list[int] = []
    assert omni_views.block(made.append, 20) > 0
    assert made == [*range(16), *range(4)]
