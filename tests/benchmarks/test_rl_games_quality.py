"""The comparison of what is learned: which runs it makes, what it writes, and what it dares to say."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from . import conftest  # noqa: F401

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import rl_games_quality as script
from quality_records import POINTS, Plan, Record, Records
from quality_tasks import LIBRARIES, TASKS

Runs = list[Plan]


def record(final: float) -> Record:
    return Record(final, final / 2, [None, *[final] * (POINTS - 1)], 10, 1.0)


@pytest.fixture
def scipy() -> None:
    for name in ("scipy", "matplotlib"):
        pytest.importorskip(name, reason=f"{name} is not installed (extra plots)")


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """What was trained, by a run that takes no time. Returns of rl_games are ten higher than the others'."""
    plans: Runs = []

    def run(plan: Plan) -> Record:
        plans.append(plan)
        return record(450.0 + plan.seed + 10.0 * (plan.library == "rl_games"))

    monkeypatch.setattr(script, "run", run)
    monkeypatch.setattr(script, "check_installed", lambda: None)
    monkeypatch.setattr(script, "version", lambda name: "1.0")
    return plans


@pytest.fixture
def compare(tmp_path: Path, trained: Runs, scipy: None, capsys: Any) -> Callable[..., str]:
    """The command in an own folder; returns what it printed."""

    def run(*arguments: str) -> str:
        script.main([*arguments, "--output", str(tmp_path)])
        return str(capsys.readouterr().out)

    return run


def test_it_trains_each_library_with_each_seed_on_each_task(compare: Callable[..., str], trained: Runs) -> None:
    compare("--seeds", "3")
    assert sorted((plan.task, plan.library, plan.seed) for plan in trained) == sorted(
        (task, library, seed) for task in TASKS for library in LIBRARIES for seed in (1, 2, 3)
    )


def test_it_repeats_no_finished_run_and_says_so(compare: Callable[..., str], trained: Runs) -> None:
    compare("--tasks", "snake", "--seeds", "2")
    text = compare("--tasks", "snake", "--seeds", "3")
    assert "8 of 12 runs are in" in text
    assert "[12/12] snake" in text
    assert [plan.seed for plan in trained[8:]] == [3, 3, 3, 3]


def test_it_goes_on_where_a_failure_has_stopped_it(
    compare: Callable[..., str], trained: Runs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = script.run

    def fails(plan: Plan) -> Record:
        if plan.seed == 2:
            raise RuntimeError(f"{plan} failed:\nno memory")
        return fake(plan)

    monkeypatch.setattr(script, "run", fails)
    arguments = ("--tasks", "cartpole", "--seeds", "2", "--jobs", "1")
    with pytest.raises(RuntimeError, match="cartpole, skrl, seed 2 failed:\nno memory"):
        compare(*arguments)
    assert len(Records(tmp_path / "quality.json")) == 4
    monkeypatch.setattr(script, "run", fake)
    assert "4 of 8 runs are in" in compare(*arguments)


def test_the_quick_form_is_shorter_and_its_runs_are_kept_apart(compare: Callable[..., str], trained: Runs) -> None:
    compare("--quick", "--tasks", "cartpole")
    assert {plan.seed for plan in trained} == {1, 2, 3, 4, 5}
    assert {plan.steps for plan in trained} == {576}
    assert "runs are in" not in compare("--tasks", "cartpole", "--seeds", "2")


def test_it_says_what_differs_and_that_no_difference_is_no_proof(compare: Callable[..., str], tmp_path: Path) -> None:
    text = compare("--tasks", "cartpole", "--seeds", "5")
    rows = {row[0]: row[1:] for row in (line[2:-2].split(" | ") for line in text.splitlines() if line[:2] == "| ")}
    same, other = rows["final return: skrl - SharedModel"], rows["final return: SharedModel - rl_games"]
    assert (same[0], same[2], same[-1]) == ("+0.00", "1", "no significant difference")
    assert (other[0], other[2], other[-1]) == ("-10.00", "0.0079", "DIFFERENT, rl_games is higher")
    assert "No significant difference is no proof of equality" in text
    assert (tmp_path / "quality.md").read_text() in text
    assert (tmp_path / "quality.png").read_bytes().startswith(b"\x89PNG")


def test_it_lists_what_could_not_be_aligned(compare: Callable[..., str]) -> None:
    text = compare("--seeds", "2").partition("What differs all the same:")[2]
    assert "skrl shuffles the minibatches, rl_games does not" in text
    assert text.count("params.config.horizon_length") == 1  # once for both tasks


def test_it_says_when_the_seeds_are_too_few_to_tell_anything_apart(compare: Callable[..., str]) -> None:
    assert "With so few seeds p cannot be below 0.1" in compare("--seeds", "3", "--tasks", "snake")
    assert "so few seeds" not in compare("--seeds", "4", "--tasks", "snake")


def test_it_says_who_missed_the_goal(
    compare: Callable[..., str], trained: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "90 % of the maximal return (450): all runs." in compare("--tasks", "cartpole", "--seeds", "2")
    fake = script.run
    monkeypatch.setattr(script, "run", lambda plan: record(449.0) if plan.library == "skrl" else fake(plan))
    text = compare("--tasks", "cartpole", "--seeds", "2", "--quick")
    assert "90 % of the maximal return (450): MISSED by skrl with 2 of 2 seeds." in text


@pytest.mark.parametrize(("name", "extra"), [("rl_games", "rl-games"), ("scipy", "plots"), ("matplotlib", "plots")])
def test_it_names_the_extra_that_is_missing_before_it_trains(
    name: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda wanted: None if wanted == name else object())
    with pytest.raises(SystemExit, match=rf"{name} is not installed: pip install '\.\[{extra}\]'"):
        script.main([])


@pytest.mark.parametrize(("option", "value", "least"), [("seeds", "1", 2), ("jobs", "0", 1)])
def test_too_small_a_number_is_an_error(option: str, value: str, least: int, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        script.main([f"--{option}", value])
    assert f"--{option} must be {least} or more, got {value}" in capsys.readouterr().err


def test_a_run_is_a_process_whose_episodes_are_recorded() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it uses what torch and NumPy have deprecated since
        pytest.importorskip("rl_games", reason="rl_games is not installed (extra rl-games)")
    result = script.run(Plan("snake", "rl_games", 1, 64, ""))
    assert result.episodes > 50
    assert -1.0 <= result.final_return < 0.0  # nothing has been learned, and snakes die


def test_what_a_failed_process_said_is_in_the_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "quality_run.py").write_text("import sys; sys.exit('no memory for ' + ' '.join(sys.argv[1:]))")
    monkeypatch.setattr(script, "__file__", str(tmp_path / "rl_games_quality.py"))
    with pytest.raises(RuntimeError, match="snake, skrl, seed 1 failed:\nno memory for snake skrl 1 64"):
        script.run(Plan("snake", "skrl", 1, 64, ""))
