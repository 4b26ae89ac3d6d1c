"""What is kept of a training, and which trainings count as done."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from quality_records import POINTS, Plan, Record, Records, summarize
from quality_tasks import TASKS

from . import conftest  # noqa: F401

PLAN = Plan("cartpole", "skrl", 1, 640, "skrl 2")
RECORD = Record(4.0, 3.0, [None, 2.0, 4.0], 17, 1.5)


def test_a_curve_holds_the_mean_return_of_the_episodes_that_ended_in_each_part() -> None:
    record = summarize([(3, 1.0), (3, 5.0), (4, 9.0), (5, 7.0), (4 * POINTS, 0.0)], 4 * POINTS, 1.0)
    assert record.curve[:3] == [5.0, 7.0, 7.0]  # none ended in the third part
    assert record.curve[-1] == 0.0
    assert record.episodes == 5


def test_a_curve_begins_where_the_first_episode_ends() -> None:
    record = summarize([(5, 2.0), (4 * POINTS, 4.0)], 4 * POINTS, 1.0)
    assert record.curve[:2] == [None, 2.0]
    assert record.mean_return == pytest.approx((2.0 * (POINTS - 2) + 4.0) / (POINTS - 1))


def test_the_final_return_is_that_of_the_episodes_of_the_last_fifth() -> None:
    assert summarize([(10, 100.0), (80, 100.0), (81, 1.0), (100, 2.0)], 100, 1.0).final_return == 1.5


def test_a_training_without_an_episode_at_its_end_is_refused() -> None:
    with pytest.raises(ValueError, match="too short: no episode ended in the last fifth of its 100 steps"):
        summarize([(80, 1.0)], 100, 1.0)


def test_a_record_is_found_again_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "quality.json"
    Records(path).add(PLAN, RECORD)
    again = Records(path)
    assert PLAN in again
    assert again[PLAN] == RECORD
    assert [file.name for file in path.parent.iterdir()] == ["quality.json"]


@pytest.mark.parametrize(
    "change", [{"task": "snake"}, {"library": "rl_games"}, {"seed": 2}, {"steps": 672}, {"versions": "skrl 1.4"}]
)
def test_another_training_is_not_taken_for_a_finished_one(tmp_path: Path, change: dict[str, object]) -> None:
    records = Records(tmp_path / "quality.json")
    records.add(PLAN, RECORD)
    other = dataclasses.replace(PLAN, **change)  # type: ignore[arg-type]
    assert other not in records
    records.add(other, RECORD)
    assert len(Records(records.path)) == 2  # the first one is still there


@pytest.mark.parametrize("change", [{"learning_rate": 2e-3}, {"settings": {"maxEpisodeLength": 400}}])
def test_a_training_with_other_hyperparameters_is_not_taken_for_a_finished_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    records = Records(tmp_path / "quality.json")
    records.add(PLAN, RECORD)
    changed = TASKS["cartpole"]._replace(**change)
    monkeypatch.setitem(TASKS, "cartpole", changed)
    assert PLAN not in records
