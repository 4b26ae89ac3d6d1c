"""The comparison with rl_games: that it counts what it says, and what it says where it cannot be run."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from . import conftest  # noqa: F401

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import rl_games_table as script
    from rl_games_rows import ROWS, measure

TINY = script.Case("tiny", [4, 4], 4, 2)


@pytest.fixture
def rl_games() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it uses what torch and NumPy have deprecated since
        pytest.importorskip("rl_games", reason="rl_games is not installed (extra rl-games)")


def result(ratio: float) -> Any:
    return script.Result(1.0, 2.0, 3.0, 3.0, 33, ratio, 2 * ratio, 150.0, 0.25)


@pytest.mark.parametrize("mixed", [False, True], ids=["float32", "mixed"])
@pytest.mark.parametrize("name", ROWS)
def test_a_row_runs_its_trunk_once_or_twice_per_step_and_minibatch(name: str, mixed: bool, request: Any) -> None:
    if name == "rl_games":
        request.getfixturevalue("rl_games")
    row = ROWS[name]([4, 4], 4, mixed)
    for _ in range(2):
        measure(row)
    # 16 steps and 16 minibatches, and the value of the last observations
    assert measure(row).trunk_passes == (65 if name == "skrl, two passes" else 33)


def test_the_bare_loop_dispatches_least_and_waits_for_nothing() -> None:
    counts = {name: script.operators(ROWS[name]([4, 4], 4, False)) for name in ROWS if name != "rl_games"}
    assert min(counts, key=lambda name: counts[name][0]) == script.BARE
    assert counts[script.BARE][1] == 0
    assert counts["skrl, two passes"][1] >= 2  # the losses that skrl logs


@pytest.mark.usefixtures("rl_games")
def test_the_script_writes_tables_numbers_and_a_picture(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(script, "QUICK", [TINY, TINY._replace(name="big")])
    script.main(["--ignore-load", "--output", str(tmp_path)])
    text = capsys.readouterr().out
    assert text.count("| skrl, SharedModel, mixed |") == 3  # the last time beside the published figures
    written = json.loads((tmp_path / "rl_games.json").read_text())
    assert written["big"]["rl_games, mixed"]["to_rl_games"] == 1.0
    assert (tmp_path / "rl_games.png").read_bytes().startswith(b"\x89PNG")


def test_the_published_figures_stand_beside_ours_as_ratios() -> None:
    names = [*script.PUBLISHED, "skrl, SharedModel, mixed"]
    lines = script.published({name: result(1.5) for name in names}).splitlines()
    assert "| skrl, two passes, mixed | 1.777 | 1.500 |" in lines
    assert lines[-1] == "| skrl, SharedModel, mixed | | 1.500 |"


def test_on_a_busy_machine_nothing_is_timed(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(script, "ROWS", {script.BARE: ROWS[script.BARE]})
    monkeypatch.setattr(script, "others_share", lambda: 0.5)
    assert script.compare(TINY, check_load=True, wait=0.0) == {}
    assert "round 1 left out, other processes are busy" in capsys.readouterr().err
    assert "No round was left" in script.table(TINY, {})


def test_an_idle_machine_is_told_from_a_busy_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([100.0, 100.05])
    monkeypatch.setattr(script, "_busy_seconds", lambda: next(ticks))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("time.process_time", lambda: 0.0)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    assert script.others_share(0.1) == pytest.approx(0.25)
