"""The counter-based random numbers: the definition, and whether they look random."""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from skrl_vec_envs import counter_rng
from tests.skrl_vec_envs.plain_random import plain_draw

SIZE = 2**16
BINS = 256
CHI_SQUARE_255 = 330.5  # quantile at p = 0.001 with 255 degrees of freedom


def over_streams() -> tuple[torch.Tensor, torch.Tensor]:
    return counter_rng.draw(counter_rng.stream_keys(0, torch.arange(SIZE)), torch.tensor(0))


def over_counters() -> tuple[torch.Tensor, torch.Tensor]:
    return counter_rng.draw(counter_rng.stream_keys(0, torch.tensor([0])), torch.arange(SIZE))


def over_seeds() -> tuple[torch.Tensor, torch.Tensor]:
    keys = torch.cat([counter_rng.stream_keys(seed, torch.tensor([0])) for seed in range(SIZE // 8)])
    return counter_rng.draw(keys, torch.tensor(0))


def chi_square(values: torch.Tensor) -> float:
    """Return the statistic of values from 0 to BINS - 1 against the uniform distribution."""
    expected = len(values) / BINS
    return float(((values.bincount(minlength=BINS) - expected) ** 2 / expected).sum())


@given(seed=st.integers(0, 2**63 - 1), first=st.integers(0, 2**62), counter=st.integers(0, 2**40))
def test_numbers_are_those_of_the_definition_in_python_integers(seed: int, first: int, counter: int) -> None:
    low, high = counter_rng.draw(
        counter_rng.stream_keys(seed, first + torch.arange(20)), torch.tensor(counter, dtype=torch.int64)
    )
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == [
        plain_draw(seed, first + i, counter) for i in range(20)
    ]


@pytest.mark.parametrize("numbers", [over_streams, over_counters, over_seeds])
def test_numbers_are_uniform_along_every_axis(numbers: Callable[[], tuple[torch.Tensor, torch.Tensor]]) -> None:
    for bits in numbers():
        assert chi_square(counter_rng.below(bits, BINS)) < CHI_SQUARE_255
        assert chi_square(bits % BINS) < CHI_SQUARE_255


@pytest.mark.parametrize("numbers", [over_streams, over_counters, over_seeds])
def test_neighbours_and_the_two_halves_of_a_draw_are_independent(
    numbers: Callable[[], tuple[torch.Tensor, torch.Tensor]],
) -> None:
    low, high = (counter_rng.below(bits, 16) for bits in numbers())
    for left, right in ((low, high), (low[:-1], low[1:]), (high[:-1], high[1:])):
        assert chi_square(left * 16 + right) < CHI_SQUARE_255


def test_each_bit_of_the_counter_flips_half_of_the_bits() -> None:
    keys = counter_rng.stream_keys(0, torch.arange(4096))
    low, high = counter_rng.draw(keys, torch.tensor(1000))
    for place in range(32):
        other_low, other_high = counter_rng.draw(keys, torch.tensor(1000 ^ 1 << place))
        for flips in (low ^ other_low, high ^ other_high):
            shares = torch.stack([(flips >> bit & 1).double().mean() for bit in range(31)])
            assert (shares - 0.5).abs().max() < 0.04  # five standard deviations of a share of 4096


def test_scaled_numbers_cover_zero_to_the_bound_excluded() -> None:
    bits = torch.tensor([0, 2**30 - 1, 2**30, 2**31 - 1])
    assert counter_rng.below(bits, 2).tolist() == [0, 0, 1, 1]
    assert counter_rng.below(bits, torch.tensor([3, 1, 4, 2**32 - 1])).tolist() == [0, 0, 2, 2**32 - 3]
    assert counter_rng.below(bits, 0).tolist() == [0, 0, 0, 0]
