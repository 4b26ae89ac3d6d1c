"""Boards set by hand: a drawing of a board becomes the state of an environment."""

from __future__ import annotations

from typing import Any

import torch

from skrl_vec_envs.snake import Snake

UP, DOWN, LEFT, RIGHT = range(4)
_SEGMENTS = "0123456789abcdefghijklmnopqrstuvwxyz"


def snake_on(drawing: str, *, num_envs: int = 1, heading: int | None = None, **parameters: Any) -> Snake:
    """Return an environment whose boards all look like the drawing.

    :param drawing: Rows of the board: ``0`` the head, ``1``, ``2``, ... the segments behind it, ``*`` the food, ``.``
        free cells.
    :param heading: Heading (default: from segment 1 to the head).
    """
    rows = drawing.split()
    height, width, cells = len(rows), len(rows[0]), "".join(rows)
    env = Snake(num_envs, height=height, width=width, start_length=1, **parameters)
    env.reset()
    boards = env.boards
    snake = sorted(
        (i for i, symbol in enumerate(cells) if symbol in _SEGMENTS), key=lambda i: _SEGMENTS.index(cells[i])
    )
    if heading is None:
        heading = {-width: UP, width: DOWN, -1: LEFT, 1: RIGHT}[snake[0] - snake[1]]
    boards.cells[:, :-1] = 0
    boards.clock.fill_(100)
    for i, cell in enumerate(snake):
        boards.cells[:, cell] = 100 + len(snake) - i
    boards.head.fill_(snake[0])
    boards.heading.fill_(heading)
    boards.food.fill_(cells.index("*"))
    boards.length.fill_(len(snake))
    return env


def moved(env: Snake, *actions: int) -> tuple[Any, ...]:
    """Make these moves on all boards, and return what the last step returned."""
    for action in actions:
        result = env.step(torch.full((env.num_envs,), action))
    return result


def drawn(observation: torch.Tensor) -> list[str]:
    """Draw an observation: ``@`` head, ``o`` body, ``*`` food, ``.`` free."""
    head, body, food = observation
    return ["".join(".*o@"[int(symbol)] for symbol in row) for row in (3 * head + 2 * body + food).tolist()]
