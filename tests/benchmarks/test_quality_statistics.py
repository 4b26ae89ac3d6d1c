"""The statistics of the comparison of what is learned, against plain definitions and what is known of them."""

from __future__ import annotations

import math
from itertools import combinations
from statistics import fmean

import numpy as np
import pytest

from . import conftest  # noqa: F401

pytest.importorskip("scipy", reason="scipy is not installed (extra plots)")

from quality_statistics import band, compare, smallest_p

LOW, HIGH = [1.0, 2.0, 3.0, 4.0, 5.0], [3.0, 4.0, 5.0, 6.0, 7.0]


def plain_p(first: list[float], second: list[float]) -> float:
    """Share of all deals of the pooled values whose means differ by as much."""
    pooled, observed, extreme, deals = first + second, abs(fmean(first) - fmean(second)), 0, 0
    for chosen in combinations(range(len(pooled)), len(first)):
        rest = [pooled[i] for i in range(len(pooled)) if i not in chosen]
        deals += 1
        extreme += abs(fmean([pooled[i] for i in chosen]) - fmean(rest)) >= observed - 1e-9
    return extreme / deals


@pytest.mark.parametrize("seed", range(5))
def test_p_is_the_share_of_all_deals_that_differ_by_as_much(seed: int) -> None:
    random = np.random.default_rng(seed)
    first, second = random.normal(0, 1, 5).tolist(), random.normal(1, 2, 5).tolist()
    assert compare(first, second).p == pytest.approx(plain_p(first, second))


def test_sides_that_change_places_change_the_sign_alone() -> None:
    there, back = compare(LOW, HIGH), compare(HIGH, LOW)
    assert (there.difference, there.cohens_d, there.cliffs_delta) == (-2.0, -back.cohens_d, -back.cliffs_delta)
    assert there.interval == pytest.approx((-back.interval[1], -back.interval[0]))
    assert there.p == back.p


def test_effect_sizes_are_those_of_their_definitions() -> None:
    pair = compare(LOW, HIGH)
    assert pair.cohens_d == pytest.approx(-2.0 / math.sqrt(2.5))  # both variances are 2.5
    assert pair.cliffs_delta == (3 - 19) / 25  # of 25 pairs the first is the larger one in 3, and 3 are equal


def test_the_interval_is_welchs() -> None:
    # of three values each and equal variances: 4 degrees of freedom, whose 97.5 % quantile is 2.776
    low, high = compare([4.0, 5.0, 6.0], [5.0, 6.0, 7.0]).interval
    assert (low, high) == pytest.approx((-1 - 2.776 * math.sqrt(2 / 3), -1 + 2.776 * math.sqrt(2 / 3)), abs=1e-3)


def test_where_nothing_differs_about_one_test_in_twenty_says_otherwise() -> None:
    random = np.random.default_rng(0)
    said = sum(compare(random.normal(size=5).tolist(), random.normal(size=5).tolist()).differs for _ in range(300))
    assert 4 <= said <= 28  # 15 are expected, with a standard deviation of 3.8


def test_returns_without_any_spread_are_compared_all_the_same() -> None:
    assert compare([500.0] * 5, [500.0] * 5) == (0.0, (0.0, 0.0), 1.0, 0.0, 0.0)
    pair = compare([500.0] * 5, [499.0] * 5)
    assert (pair.difference, pair.cohens_d, pair.cliffs_delta) == (1.0, math.inf, 1.0)
    assert pair.p == pytest.approx(smallest_p(5)) == pytest.approx(2 / 252)


@pytest.mark.parametrize("bad", [[1.0], [1.0, math.nan], [1.0, math.inf]])
def test_what_cannot_be_compared_is_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="needs two or more finite returns on each side, got"):
        compare(LOW, bad)


def test_a_band_of_many_curves_is_as_wide_as_the_error_of_their_mean() -> None:
    curves = np.random.default_rng(0).normal(3.0, 2.0, (400, 3))
    mean, low, high = band(curves.tolist())
    assert mean == pytest.approx(curves.mean(axis=0))
    assert high - low == pytest.approx(2 * 1.96 * 2.0 / math.sqrt(400), rel=0.15)


def test_curves_that_are_one_have_no_band() -> None:
    mean, low, high = band([[1.0, 2.0]] * 5)
    assert mean.tolist() == low.tolist() == high.tolist() == [1.0, 2.0]
