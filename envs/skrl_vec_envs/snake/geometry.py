"""Tables of a board, in plain Python: where a move leads, what an action turns to, how a snake may start.

Cells are numbered row by row from the top left corner; headings are 0 up, 1 down, 2 left, 3 right.
"""

from __future__ import annotations

UP, DOWN, LEFT, RIGHT = range(4)
_ROW_STEP = (-1, 1, 0, 0)
_COLUMN_STEP = (0, 0, -1, 1)
_LEFT_OF = (LEFT, RIGHT, DOWN, UP)
_RIGHT_OF = (RIGHT, LEFT, UP, DOWN)


def neighbours(height: int, width: int) -> list[list[int]]:
    """List the cell that lies next to each cell in each heading.

    :return: Cells, ``height * width`` where there is none but the wall. Shape: (height * width, 4).
    """
    wall = height * width

    def cell(row: int, column: int) -> int:
        return row * width + column if 0 <= row < height and 0 <= column < width else wall

    return [
        [cell(row + _ROW_STEP[heading], column + _COLUMN_STEP[heading]) for heading in range(4)]
        for row in range(height)
        for column in range(width)
    ]


def turns(actions: str, reversing: str = "straight") -> list[list[int]]:
    """List the heading that each action leads to from each heading.

    :param actions: ``"absolute"`` (an action is the new heading) or ``"relative"`` (left, straight on, right).
    :param reversing: ``"straight"`` (an absolute action opposite to the heading goes straight on) or ``"kills"``.

    :return: Headings. Shape: (4, number of actions).
    """
    if actions == "relative":
        return [[_LEFT_OF[heading], heading, _RIGHT_OF[heading]] for heading in range(4)]
    if reversing == "kills":
        return [[UP, DOWN, LEFT, RIGHT] for _ in range(4)]
    return [[heading if action == heading ^ 1 else action for action in range(4)] for heading in range(4)]


def start_poses(height: int, width: int, length: int) -> tuple[list[list[int]], list[int]]:
    """List the ways in which a snake may lie when a game starts.

    These are all straight ones with a cell of the board straight ahead of the head, by heading and then by cell of the
    head. A board too small for any of them has bent ones: all stretches of the path that goes through all cells row by
    row, back and forth, and then of the same path backwards. Their heading is the one from the second segment to the
    head, and the next cell of the path is free.

    :return: Cells of the snake, head first, shape: (poses, length); headings, shape: (poses,).
    """
    table = neighbours(height, width)
    bodies, headings = [], []
    for heading in range(4):
        for head in range(height * width):
            body = _straight(table, head, heading, length)
            if body is not None:
                bodies.append(body)
                headings.append(heading)
    if bodies:
        return bodies, headings
    there = path(height, width)
    for way in (there, there[::-1]):
        for start in range(height * width - length):
            bodies.append(way[start : start + length][::-1])
            headings.append(table[bodies[-1][1]].index(bodies[-1][0]))
    return bodies, headings


def path(height: int, width: int) -> list[int]:
    """List all cells on a way row by row, back and forth, on which each is next to the one before."""
    return [
        row * width + (column if row % 2 == 0 else width - 1 - column)
        for row in range(height)
        for column in range(width)
    ]


def _straight(table: list[list[int]], head: int, heading: int, length: int) -> list[int] | None:
    wall = len(table)
    if table[head][heading] == wall:
        return None
    body = [head]
    while len(body) < length:
        body.append(table[body[-1]][heading ^ 1])
        if body[-1] == wall:
            return None
    return body
