"""The state of N boards with S snakes and F pieces of food each, and the tables of the game: plain tensors.

A board is a grid of bytes. Each cell says what is on it: nothing, a snake, a piece of food; the wall is one more cell,
the last one. A second grid says in which direction the snake goes on from a cell, towards its head. So a move looks at
one cell, the target, and writes three, the target, the old head and the tail, however long the snake is; nothing ever
overflows, and no game needs another one's cells cleared.

Both backends work on these tensors, in place: a CUDA graph needs fixed addresses, NumPy views share their memory, and
inference mode must not replace the state by inference tensors.
"""

from __future__ import annotations

from typing import Any

import torch

from skrl_vec_envs import counter_rng
from skrl_vec_envs.snake.geometry import neighbours, path, start_poses, turns
from skrl_vec_envs.snake.rules import SnakeRules

FREE, FOOD, WALL = 0, 128, 255
"""Codes of the cells: free; ``1 + s`` snake number ``s``; ``FOOD + f`` piece of food number ``f``; the wall."""
TRIES = 7
"""Places that are tried at random for food, and for a snake that joins others, before all places are looked at."""
DRAWS = (TRIES + 1) // 2
"""Random draws of two numbers each that one place may take. Each step has as many for every thing that may need one:
food that is missing after the moves, food of what starts anew, snakes, and all snakes in a line."""


class Boards:
    """State of N boards without a game on them. Shapes: (N, ...), dtype: int64 where no other is given.

    :param rules: Rules of the games.
    :param num_boards: Number of boards, N.
    :param device: Device of the state.
    :param seed: Seed of the random numbers.
    :param first_board: Number of the first board.
    """

    grid: torch.Tensor
    """What is on each cell, the wall last. Shape: (N, height * width + 1), dtype: uint8."""
    ways: torch.Tensor
    """Heading from a cell of a snake to the next one towards its head. Shape: as ``grid``, dtype: uint8."""
    head: torch.Tensor
    """Cell of each head. Shape: (N, S)."""
    tail: torch.Tensor
    """Cell of the last segment. Shape: (N, S)."""
    heading: torch.Tensor
    """Heading: 0 up, 1 down, 2 left, 3 right. Shape: (N, S)."""
    length: torch.Tensor
    """Length. Shape: (N, S)."""
    steps: torch.Tensor
    """Steps made in this episode. Shape: (N, S)."""
    hunger: torch.Tensor
    """Steps made since the last meal. Shape: (N, S)."""
    returns: torch.Tensor
    """Sum of the rewards of this episode. Shape: (N, S), dtype: float32."""
    food: torch.Tensor
    """Cell of each piece of food, ``height * width`` where there is none. Shape: (N, F)."""
    keys: torch.Tensor
    """Keys of the random numbers. Shape: (N,)."""
    clock: torch.Tensor
    """Number of steps and resets since the last seed. Shape: ()."""

    def __init__(self, rules: SnakeRules, num_boards: int, device: torch.device, seed: int, first_board: int) -> None:
        self.rules = rules
        self.num_boards = num_boards
        cells, snakes = rules.num_cells, rules.num_snakes
        self.draws_per_step = DRAWS * (2 * rules.num_food + snakes + 1)

        def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        def table(rows: Any) -> torch.Tensor:
            return torch.tensor(rows, dtype=torch.int64, device=device)

        self.grid = zeros(num_boards, cells + 1, dtype=torch.uint8)
        self.grid[:, -1] = WALL
        self.ways = zeros(num_boards, cells + 1, dtype=torch.uint8)
        self.numbers = zeros(6, num_boards, snakes)
        self.returns = zeros(num_boards, snakes, dtype=torch.float32)
        self.food = zeros(num_boards, rules.num_food).fill_(cells)
        self.clock = zeros()
        self._streams = first_board + torch.arange(num_boards, device=device)
        self.keys = counter_rng.stream_keys(seed, self._streams)
        self._name_numbers()

        self.neighbours = table([*neighbours(rules.height, rules.width), [cells] * 4])  # next to the wall: wall
        self.turns = table(turns(rules.actions, rules.reversing))
        bodies, headings = start_poses(rules.height, rules.width, rules.start_length)
        self.pose_bodies, self.pose_headings = table(bodies), table(headings)
        self.pose_ways = self._ways_along(self.pose_bodies, self.pose_headings)
        self.path = table(path(rules.height, rules.width))
        # (ate and grew) + 2 * (won) + 4 * (died)
        self.rewards = torch.tensor(
            [
                rules.step_reward + rules.food_reward * grew + rules.win_reward * won + rules.death_reward * died
                for died in (0, 1)
                for won in (0, 1)
                for grew in (0, 1)
            ],
            dtype=torch.float32,
            device=device,
        )

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of what there is one of per snake: (N,) with one snake per board, (N, S) with several."""
        snakes = self.rules.num_snakes
        return (self.num_boards,) if snakes == 1 else (self.num_boards, snakes)

    def reseed(self, seed: int) -> None:
        """Begin the sequence of random numbers anew.

        :param seed: Seed.
        """
        self.keys.copy_(counter_rng.stream_keys(seed, self._streams))
        self.clock.zero_()

    def _name_numbers(self) -> None:
        self.head, self.tail, self.heading, self.length, self.steps, self.hunger = self.numbers

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._name_numbers()  # pickle does not keep views

    def _ways_along(self, bodies: torch.Tensor, headings: torch.Tensor) -> torch.Tensor:
        """Give the heading from each segment of straight or bent poses to the one before it."""
        ahead = torch.cat((bodies[:, :1], bodies[:, :-1]), 1)
        ways = (self.neighbours[bodies] == ahead[..., None]).long().argmax(-1)
        ways[:, 0] = headings
        return ways
