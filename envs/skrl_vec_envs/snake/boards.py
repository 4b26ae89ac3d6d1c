"""The state of N boards, and the three things that happen to it: a move, new food, a new game.

Each cell holds the tick at which it falls free, and each board has a clock. After a move the segments of a snake of
length ``L``, from head to tail, fall free at ``clock + L, ..., clock + 1``. A move advances the clock by one, so the
tail falls free; the clock of a snake that eats stands still, so it grows. A new game advances the clock by the length
of the snake, which frees all cells at once. So a move reads one cell and writes one, however long the snake is. The
wall is one more cell, which never falls free.

Everything is updated in place (a CUDA graph needs fixed addresses, and inference mode must not replace the state by
inference tensors). ``N`` is the number of boards, ``R`` that of selected ones, ``P`` that of start poses.
"""

from __future__ import annotations

from typing import Any

import torch

from skrl_vec_envs import counter_rng
from skrl_vec_envs.snake.geometry import neighbours, start_poses, turns
from skrl_vec_envs.snake.rules import SnakeRules


class Boards:
    """State of N boards without a game on them, until :meth:`start` is called.

    :param rules: Rules of the games.
    :param num_boards: Number of boards, N.
    :param device: Device of the state.
    """

    cells: torch.Tensor
    """Tick at which each cell falls free, the wall last. Shape: (N, height * width + 1), dtype: int64."""
    clock: torch.Tensor
    """Current tick. Shape: (N,), dtype: int64."""
    head: torch.Tensor
    """Cell of the head. Shape: (N,), dtype: int64."""
    heading: torch.Tensor
    """Heading: 0 up, 1 down, 2 left, 3 right. Shape: (N,), dtype: int64."""
    food: torch.Tensor
    """Cell of the food; that of the head on a full board, where there is none. Shape: (N,), dtype: int64."""
    length: torch.Tensor
    """Length of the snake. Shape: (N,), dtype: int64."""
    steps: torch.Tensor
    """Steps made in this game. Shape: (N,), dtype: int64."""
    hunger: torch.Tensor
    """Steps made since the last meal. Shape: (N,), dtype: int64."""

    def __init__(self, rules: SnakeRules, num_boards: int, device: torch.device) -> None:
        self.num_cells = rules.num_cells
        self.start_length = rules.start_length
        self.num_actions = rules.num_actions

        def table(rows: list[list[int]] | list[int]) -> torch.Tensor:
            return torch.tensor(rows, dtype=torch.int64, device=device)

        self._neighbours = table(neighbours(rules.height, rules.width))
        self._turns = table(turns(rules.actions))
        bodies, headings = start_poses(rules.height, rules.width, rules.start_length)
        self._pose_bodies, self._pose_headings = table(bodies), table(headings)
        self._body_ticks = torch.arange(rules.start_length, 0, -1, device=device)

        self.cells = torch.zeros(num_boards, self.num_cells + 1, dtype=torch.int64, device=device)
        self.cells[:, -1] = torch.iinfo(torch.int64).max
        self._numbers = torch.zeros(7, num_boards, dtype=torch.int64, device=device)
        self._name_numbers()

    def _name_numbers(self) -> None:
        self.clock, self.head, self.heading, self.food, self.length, self.steps, self.hunger = self._numbers

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._name_numbers()  # pickle does not keep views

    def move(self, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Move all snakes by one cell. A move into the wall or the body is not made.

        Food that is eaten stays where it is, under the head, until :meth:`place_food` is called.

        :param actions: Legal actions. Shape: (N,), any integer dtype.

        :return: Which snakes ate; which ran into the wall or themselves. Shape: (N,), dtype: bool.
        """
        torch.take(self._turns, torch.add(actions, self.heading, alpha=self.num_actions), out=self.heading)
        target = self._neighbours.take(torch.add(self.heading, self.head, alpha=4))
        ate = target == self.food  # a free cell: a snake that eats cannot collide
        collided = self.cells.gather(1, target[:, None])[:, 0] > self.clock + 1
        self.clock += (ate | collided).logical_not_()
        self.length += ate
        torch.where(collided, self.head, target, out=self.head)
        # after a collision this writes what the cell of the head holds already
        self.cells.scatter_(1, self.head[:, None], (self.clock + self.length)[:, None])
        self.steps += 1
        self.hunger.add_(1).mul_(~ate)
        return ate, collided

    def place_food(self, rows: torch.Tensor, needed: torch.Tensor, bits: torch.Tensor) -> None:
        """Put food on a free cell, each as likely as the others: the k-th free one, with no trial and error.

        :param rows: Boards to look at. Shape: (R,), dtype: int64.
        :param needed: Boards to change, of those in ``rows``. Shape: (N,), dtype: bool.
        :param bits: Random 31-bit numbers of those in ``rows``. Shape: (R,), dtype: int64.
        """
        free = self.cells.index_select(0, rows)[:, :-1] <= self.clock.index_select(0, rows)[:, None]
        rank = counter_rng.below(bits, self.num_cells - self.length.index_select(0, rows))
        food = torch.searchsorted(free.cumsum(1), rank[:, None] + 1)[:, 0]
        old = self.food.index_select(0, rows)
        self.food.index_copy_(0, rows, torch.where(needed.index_select(0, rows), food, old))

    def start(self, rows: torch.Tensor, needed: torch.Tensor, bits: torch.Tensor) -> None:
        """Start new games, without food as yet.

        :param rows: Boards to look at. Shape: (R,), dtype: int64.
        :param needed: Boards to change, of those in ``rows``. Shape: (N,), dtype: bool.
        :param bits: Random 31-bit numbers of those in ``rows``. Shape: (R,), dtype: int64.
        """
        old = self._numbers.index_select(1, rows)
        clock, head, _, food, length, _, _ = old
        pose = counter_rng.below(bits, len(self._pose_headings))
        body = self._pose_bodies.index_select(0, pose)
        heading = self._pose_headings.index_select(0, pose)
        zeros = torch.zeros_like(clock)
        new = torch.stack((clock + length, body[:, 0], heading, food, zeros + self.start_length, zeros, zeros))
        needed = needed.index_select(0, rows)
        numbers = torch.where(needed, new, old)
        # a board that goes on gets, as often as a start snake is long, what the cell of its head holds already
        cells = torch.where(needed[:, None], body, head[:, None])
        ticks = torch.where(needed[:, None], new[0][:, None] + self._body_ticks, (clock + length)[:, None])
        self.cells[rows[:, None], cells] = ticks
        self._numbers.index_copy_(1, rows, numbers)
