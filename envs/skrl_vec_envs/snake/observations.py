"""What agents see of a board: spaces, and how both backends number the planes."""

from __future__ import annotations

import dataclasses

import gymnasium
import numpy as np
import torch

from skrl_vec_envs.snake.rules import SnakeRules

OBSERVATIONS = ("planes", "flat", "window", "entities")
NO_PLANE = -1
NOTHING, HEAD, BODY, PIECE_OF_FOOD = range(4)
"""Kinds of entities."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Observation:
    """What is observed. V is the number of viewers: one per snake, or one of the whole board.

    :raises ValueError: The observation is not a legal one.
    """

    rules: SnakeRules
    kind: str
    dtype: torch.dtype
    window: int
    shared: bool

    def __post_init__(self) -> None:
        if self.kind not in OBSERVATIONS:
            raise ValueError(f"observation must be one of {', '.join(map(repr, OBSERVATIONS))}, got {self.kind!r}")
        if self.dtype not in (torch.float32, torch.uint8):
            raise ValueError(f"dtype must be torch.float32 or torch.uint8, got {self.dtype!r}")
        if self.kind == "entities" and self.dtype != torch.float32:
            raise ValueError("entities have coordinates: their dtype must be torch.float32, got torch.uint8")
        if not isinstance(self.window, int) or isinstance(self.window, bool) or self.window < 3 or self.window % 2 == 0:
            raise ValueError(f"window must be an odd int from 3 on, so that it has a centre, got {self.window!r}")
        if not isinstance(self.shared, bool):
            raise ValueError(f"shared must be True or False, got {self.shared!r}")
        if self.kind == "window" and self.shared:
            raise ValueError("a window is around a snake's head: with shared=True use 'planes', 'flat' or 'entities'")

    @property
    def num_viewers(self) -> int:
        """Observations per board, V."""
        return 1 if self.shared else self.rules.num_snakes

    @property
    def num_planes(self) -> int:
        """Number of planes."""
        return 1 + max(max(row) for table in self.plane_tables() for row in table)

    @property
    def most_entities(self) -> int:
        """Number of entities for which there is room in a list: as many as there can be."""
        return min(self.rules.num_cells, self.rules.num_snakes * self.rules.longest + self.rules.num_food)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one viewer's observation."""
        height, width = self.rules.height, self.rules.width
        if self.kind == "planes":
            return self.num_planes, height, width
        if self.kind == "flat":
            return (self.num_planes * height * width,)
        if self.kind == "window":
            return self.num_planes, self.window, self.window
        return self.most_entities, 4

    @property
    def board_shape(self) -> tuple[int, ...]:
        """Shape of what is observed of one board."""
        return self.shape if self.num_viewers == 1 else (self.num_viewers, *self.shape)

    def plane_tables(self) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
        """Number the planes.

        :return: For each viewer, the plane of each snake's head, of each snake's body, and of each piece of food.
        """
        rules = self.rules
        snakes = range(rules.num_snakes)
        colours = [f // rules.food_per_snake if rules.food_colours else 0 for f in range(rules.num_food)]
        if self.shared and rules.num_snakes > 1:
            count = rules.num_snakes
            return [list(snakes)], [[count + s for s in snakes]], [[2 * count + colour for colour in colours]]
        heads = [[0 if s == viewer else 3 for s in snakes] for viewer in snakes]
        bodies = [[1 if s == viewer else 4 for s in snakes] for viewer in snakes]
        food = [[2 if not rules.food_colours or c == viewer else 5 for c in colours] for viewer in snakes]
        return heads, bodies, food

    def space(self) -> gymnasium.spaces.Box:
        """Return the space of what is observed of one board."""
        if self.kind == "entities":
            rules = self.rules
            high = np.array([PIECE_OF_FOOD, rules.width - 1, rules.height - 1, rules.num_snakes - 1], np.float32)
            return gymnasium.spaces.Box(np.float32(0), np.broadcast_to(high, self.board_shape), dtype=np.float32)
        dtype = np.uint8 if self.dtype == torch.uint8 else np.float32
        return gymnasium.spaces.Box(0, 1, self.board_shape, dtype)
