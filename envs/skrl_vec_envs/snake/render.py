"""A board as text, and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skrl_vec_envs.snake.boards import FOOD

Array = np.ndarray[Any, np.dtype[Any]]
CELL = 16
"""Pixels per cell."""
_HEADS, _BODIES = "@ABCDEFGHIJKLMNPQRSTUVWXYZ", "oabcdefghijklmnpqrstuvwxyz"
_BACKGROUND, _LINES, _ANY_FOOD = (24, 26, 32), (36, 39, 48), (235, 80, 70)
_SNAKES = ((88, 196, 102), (82, 148, 226), (232, 176, 60), (190, 110, 220), (70, 200, 200), (230, 130, 170))


def text(grid: Array, heads: Sequence[int]) -> str:
    """Draw a board row by row, in a frame.

    :param grid: Codes of the cells. Shape: (height, width), dtype: uint8.
    :param heads: Cells of the heads.

    :return: Lines of text.
    """

    def symbol(cell: int, code: int) -> str:
        if code == 0:
            return "."
        if code >= FOOD:
            return "*"
        return (_HEADS if heads[code - 1] == cell else _BODIES)[(code - 1) % len(_HEADS)]

    width = grid.shape[1]
    cells = "".join(symbol(cell, code) for cell, code in enumerate(grid.ravel().tolist()))
    edge = f"+{'-' * width}+"
    rows = (f"|{cells[start : start + width]}|" for start in range(0, len(cells), width))
    return "\n".join((edge, *rows, edge))


def picture(grid: Array, heads: Sequence[int], food_of: Sequence[int]) -> Array:
    """Draw a board in colours.

    :param grid: Codes of the cells. Shape: (height, width), dtype: uint8.
    :param heads: Cells of the heads.
    :param food_of: Snake whose colour each piece of food has, -1 for food that is everyone's.

    :return: Picture. Shape: (CELL * height, CELL * width, 3), dtype: uint8.
    """
    height, width = grid.shape
    drawn = np.empty((height * CELL, width * CELL, 3), np.uint8)
    drawn[:] = _LINES
    for cell, code in enumerate(grid.ravel().tolist()):
        row, column = divmod(cell, width)
        tile = drawn[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL]
        tile[1:, 1:] = _BACKGROUND
        if code >= FOOD:
            owner = food_of[code - FOOD]
            tile[4:-3, 4:-3] = _ANY_FOOD if owner < 0 else _SNAKES[owner % len(_SNAKES)]
        elif code:
            colour = np.array(_SNAKES[(code - 1) % len(_SNAKES)])
            is_head = heads[code - 1] == cell
            tile[1:, 1:] = colour if is_head else colour * 0.7
            if is_head:
                tile[5:-4, 5:-4] = _BACKGROUND
    return drawn
