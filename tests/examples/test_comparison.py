"""What is said about two trainings follows from their figures."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import pytest

from comparison import SEEDS, STUDENT_T, Comparison, Run, Runs
from timed_run import Iteration


def run(final: float, times: Sequence[float] = (3.0, 1.0, 2.0, 4.0, 5.0), **changes: object) -> Run:
    """A run of five iterations with this final return."""
    iterations = [Iteration(0.25 * time, 0.75 * time, time, [0.0]) for time in times[:-1]]
    iterations.append(Iteration(0.25 * times[-1], 0.75 * times[-1], times[-1], [final - 1, final + 1]))
    run = Run(iterations, trunk_passes=202, policy_calls=100, value_calls=102, first_update=[1.0, 2.0])
    return dataclasses.replace(run, **changes)  # type: ignore[arg-type]


def comparison(plain: Sequence[Run], cached: Sequence[Run]) -> Comparison:
    return Comparison(Runs("Plain", plain), Runs("Cached", cached))


def test_the_speedup_is_that_of_the_middle_pair_of_neighbours() -> None:
    fast = [run(final, times=(1.0, 1.0, 1.0, 1.0, 1.0)) for final in (4.0, 5.0, 6.0)]
    text = comparison([run(final) for final in (4.0, 5.0, 6.0)], fast).verdict()
    assert text.startswith("Cached trains 3.00 times as fast as Plain (median of 15 interleaved pairs")


def test_final_returns_are_those_of_the_last_fifth_averaged_over_the_seeds() -> None:
    estimate = Runs("Plain", [run(4.0), run(5.0), run(6.0)]).final_return
    assert estimate.mean == 5.0
    assert estimate.error == pytest.approx(1 / math.sqrt(3))


def test_a_value_without_a_partner_is_no_part_of_a_pair() -> None:
    plain, cached = run(0.0), run(0.0, trunk_passes=102)
    assert Runs("Plain", [plain, plain]).passes_per_pair == 2.0
    assert Runs("Cached", [cached, cached]).passes_per_pair == 1.0


def test_rollouts_count_as_the_same_up_to_the_first_that_differs() -> None:
    parted = run(4.0)
    iterations = list(parted.iterations)
    iterations[2] = dataclasses.replace(iterations[2], returns=[0.5])
    parted = dataclasses.replace(parted, iterations=iterations)
    assert comparison([run(4.0), run(4.0)], [run(4.0), parted]).same_rollouts == [5, 2]


def test_equal_steps_and_close_returns_are_called_the_same() -> None:
    plain, cached = [run(final) for final in (4.0, 5.0, 6.0)], [run(final) for final in (5.0, 6.0, 7.0)]
    text = comparison(plain, cached).verdict()
    assert "both learn the same" in text
    assert "differ by 1.00 ± 0.82 over 3 seeds" in text


def test_returns_that_differ_by_more_than_the_seeds_do_are_not_called_the_same() -> None:
    plain, cached = [run(final) for final in (4.0, 5.0, 6.0)], [run(final) for final in (7.0, 8.0, 9.0)]
    text = comparison(plain, cached).verdict()
    assert "learn the same" not in text
    assert "final returns differ by 3.00 ± 0.82" in text


def test_another_first_step_is_called_so_whatever_the_returns() -> None:
    plain = [run(final) for final in (4.0, 5.0, 6.0)]
    cached = [dataclasses.replace(same, first_update=[1.0, 2.0 - 1e-4]) for same in plain]
    assert (
        "do NOT learn the same: after the first update parameters differ by up to 1.0e-04"
        in comparison(plain, cached).verdict()
    )


def test_runs_without_an_ended_episode_have_no_returns_to_compare() -> None:
    silent = [dataclasses.replace(run(0.0), iterations=[Iteration(1.0, 1.0, 2.0, [])])] * 3
    assert comparison(silent, silent).verdict().endswith("No episode ended late enough to compare returns.")


def test_the_significance_level_is_five_percent() -> None:
    assert SEEDS == 3
    x = STUDENT_T**2 / 4  # the distribution function of Student's t has a closed form for 4 degrees of freedom
    upper = 0.5 + 0.375 * STUDENT_T / math.sqrt(1 + x) * (1 - x / 3 / (1 + x))
    assert upper == pytest.approx(0.975, abs=1e-4)


def test_the_table_sets_both_side_by_side() -> None:
    table = comparison([run(4.0), run(5.0)], [run(4.0, trunk_passes=102), run(5.0, trunk_passes=102)]).table()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert rows[0] == ["", "Plain", "Cached", "ratio"]
    assert ["update (median)", "2250 ms", "2250 ms", "1.00"] in rows
    assert ["wall time of 10 iterations", "30.0 s", "30.0 s", "1.00"] in rows
    assert ["trunk passes", "404", "204", "0.50"] in rows
    assert ["final return", "4.50 ± 0.50", "4.50 ± 0.50", ""] in rows
