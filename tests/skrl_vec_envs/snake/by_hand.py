"""Boards set by hand: a drawing of a board becomes the state of an environment."""

from __future__ import annotations

from typing import Any

import torch

from skrl_vec_envs.snake import Snake
from skrl_vec_envs.snake.boards import FOOD

UP, DOWN, LEFT, RIGHT = range(4)
_SEGMENTS = ("0123456789", "abcdefghij", "ABCDEFGHIJ")
_FOOD = "*+"


def snake_on(drawing: str, *, num_envs: int = 1, heading: int | None = None, **parameters: Any) -> Snake:
    """Return an environment whose boards all look like the drawing.

    :param drawing: Rows of the board: ``0`` the head of snake 0, ``1``, ``2``, ... the segments behind it; ``a``,
        ``b``, ... snake 1; ``A``, ``B``, ... snake 2; ``*`` the first food, ``+`` the second; ``.`` free cells.
    :param heading: Heading of the snakes (default: from the second segment to the head).
    """
    rows = drawing.split()
    height, width, cells = len(rows), len(rows[0]), "".join(rows)
    snakes = [[cells.index(symbol) for symbol in symbols if symbol in cells] for symbols in _SEGMENTS]
    snakes = [snake for snake in snakes if snake]
    chosen: dict[str, Any] = {"start_length": 1, "num_snakes": len(snakes), "backend": "torch"} | parameters
    env = Snake(num_envs, height=height, width=width, **chosen)
    env.reset()
    boards = env.boards
    boards.grid[:, :-1] = 0
    boards.food.fill_(height * width)
    for s, snake in enumerate(snakes):
        way = heading
        for i, cell in enumerate(snake):
            boards.grid[:, cell] = 1 + s
            if i:
                step = {-width: UP, width: DOWN, -1: LEFT, 1: RIGHT}[snake[i - 1] - cell]
                boards.ways[:, cell] = step
                way = step if way is None else way
        assert way is not None
        boards.head[:, s], boards.tail[:, s] = snake[0], snake[-1]
        boards.heading[:, s], boards.length[:, s] = way, len(snake)
    for f, symbol in enumerate(_FOOD):
        if symbol in cells:
            boards.food[:, f] = cells.index(symbol)
            boards.grid[:, cells.index(symbol)] = FOOD + f
    return env


def moved(env: Snake, *actions: int | list[int]) -> tuple[Any, ...]:
    """Make these moves on all boards (of several snakes: lists of moves), and return the last step's result."""
    for action in actions:
        result = env.step(torch.tensor(action).expand(env.batch_shape))
    return result


def drawn(observation: torch.Tensor) -> list[str]:
    """Draw an observation: ``@`` head, ``o`` body, ``*`` food, ``.`` free; of several snakes the viewer's only."""
    head, body, food = observation[:3]
    return ["".join(".*o@"[int(symbol)] for symbol in row) for row in (3 * head + 2 * body + food).tolist()]
