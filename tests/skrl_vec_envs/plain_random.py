"""The random numbers of a board, with Python's integers."""

from __future__ import annotations

_WORD = 2**64
_GOLDEN = 0x9E3779B97F4A7C15


def mix(x: int) -> int:
    """Scramble an integer, modulo 2**64."""
    x %= _WORD
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % _WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB % _WORD
    return x ^ x >> 31


def plain_draw(seed: int, stream: int, counter: int) -> tuple[int, int]:
    """Return the two 31-bit numbers of one draw: the lowest bits and the highest ones."""
    key = mix(mix(seed) + stream * _GOLDEN)
    bits = mix(key + counter * _GOLDEN)
    return bits % 2**31, bits >> 33
