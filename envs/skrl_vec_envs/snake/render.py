"""A board as text."""

from __future__ import annotations

_SYMBOLS = (".", "*", "o", "@")


def text(head: list[float], body: list[float], food: list[float], width: int) -> str:
    """Draw the three planes of a board, row by row, in a frame.

    :param head: Plane of the head. Shape: (height * width,).
    :param body: Plane of the body. Shape: (height * width,).
    :param food: Plane of the food. Shape: (height * width,).
    :param width: Columns of the board.

    :return: Lines of text.
    """
    cells = "".join(_SYMBOLS[int(3 * h + 2 * b + f)] for h, b, f in zip(head, body, food, strict=True))
    edge = f"+{'-' * width}+"
    rows = (f"|{cells[start : start + width]}|" for start in range(0, len(cells), width))
    return "\n".join((edge, *rows, edge))
