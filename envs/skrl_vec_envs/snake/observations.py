"""What an agent sees of a board."""

from __future__ import annotations

import torch

from skrl_vec_envs.snake.boards import Boards

HEAD, BODY, FOOD = range(3)


def planes(boards: Boards, rows: torch.Tensor | None = None) -> torch.Tensor:
    """Draw one plane each of the head, the body without the head, and the food (ones, on zeros).

    :param boards: State of the boards.
    :param rows: Boards to draw (default: all). Shape: (R,), dtype: int64.

    :return: A fresh tensor. Shape: (R, 3, height * width), dtype: float32.
    """

    def select(x: torch.Tensor) -> torch.Tensor:
        return x if rows is None else x.index_select(0, rows)

    head, food = select(boards.head)[:, None], select(boards.food)[:, None]
    drawn = torch.zeros(len(head), 3, boards.num_cells, dtype=torch.float32, device=head.device)
    drawn[:, BODY] = select(boards.cells)[:, :-1] > select(boards.clock)[:, None]
    drawn[:, HEAD].scatter_(1, head, 1.0)
    drawn[:, BODY].scatter_(1, head, 0.0)
    drawn[:, FOOD].scatter_(1, food, (food != head).float())  # not the food that lies under the head of a full board
    return drawn
