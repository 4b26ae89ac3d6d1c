"""Counter-based random numbers: each is a pure function of (seed, stream, counter).

Nothing is drawn from a shared generator, so a board plays the same game on any device, in any split of the batch and
whether or not other boards draw. The mixer is the finalizer of SplitMix64 (Steele, Lea, Flood: "Fast Splittable
Pseudorandom Number Generators", OOPSLA 2014, variant 13 of Stafford), in int64 arithmetic, which wraps alike on CPUs
and CUDA devices. ``N`` is the number of streams.
"""

from __future__ import annotations

import torch

_GOLDEN = 0x9E3779B97F4A7C15 - 2**64  # the odd integer nearest to 2**64 / golden ratio, as a signed one
_MULTIPLIERS = (0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64)
_BITS = 31  # a 31-bit draw times a bound below 2**32 fits an int64


def stream_keys(seed: int, streams: torch.Tensor) -> torch.Tensor:
    """Turn the numbers of streams into the keys that :func:`draw` takes.

    :param seed: Seed, from 0 to 2**63 - 1.
    :param streams: Numbers of the streams. Shape: (N,), dtype: int64.

    :return: Keys, all different. Shape: (N,), dtype: int64.
    """
    return _mix(_mix(torch.full_like(streams, seed)).add_(streams * _GOLDEN))


def draw(keys: torch.Tensor, counter: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw two independent 31-bit numbers per stream.

    :param keys: Keys of the streams, see :func:`stream_keys`. Shape: (N,), or any other, dtype: int64.
    :param counter: Number of the draw, the same for all streams, or any numbers that broadcast with the keys. Shape:
        (), dtype: int64.

    :return: Two tensors of integers from 0 to 2**31 - 1. Shape: (N,), dtype: int64.
    """
    bits = _mix(keys + counter * _GOLDEN)
    return bits & (2**_BITS - 1), _shift_right(bits, 64 - _BITS)


def below(bits: torch.Tensor, bounds: torch.Tensor | int) -> torch.Tensor:
    """Scale 31-bit numbers to ``0 .. bounds - 1``, each as likely as the others within ``bounds / 2**31``.

    :param bits: Numbers of :func:`draw`. Shape: (N,), dtype: int64.
    :param bounds: Upper bounds (excluded), below 2**32. Shape: (N,) or a single integer.

    :return: Integers, 0 where the bound is 0. Shape: (N,), dtype: int64.
    """
    return (bits * bounds) >> _BITS


def _mix(x: torch.Tensor) -> torch.Tensor:
    x = (x ^ _shift_right(x, 30)).mul_(_MULTIPLIERS[0])
    x ^= _shift_right(x, 27)
    x *= _MULTIPLIERS[1]
    x ^= _shift_right(x, 31)
    return x


def _shift_right(x: torch.Tensor, places: int) -> torch.Tensor:
    return (x >> places).bitwise_and_(2 ** (64 - places) - 1)  # torch's own shift repeats the sign bit
