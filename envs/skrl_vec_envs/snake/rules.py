"""The rules that can be chosen, checked when they are."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

ACTIONS = {"absolute": ("up", "down", "left", "right"), "relative": ("left", "straight", "right")}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SnakeRules:
    """Rules of a game, see :class:`~skrl_vec_envs.snake.Snake` for the meaning of each.

    :raises ValueError: A value is not legal, or the start length leaves no free cell for the food.
    """

    height: int
    width: int
    start_length: int
    max_steps: int | None
    hunger_limit: int | None
    actions: str
    food_reward: float
    death_reward: float
    win_reward: float
    step_reward: float

    def __post_init__(self) -> None:
        for name in ("height", "width", "start_length"):
            check_positive_int(name, getattr(self, name))
        for name in ("max_steps", "hunger_limit"):
            if getattr(self, name) is not None:
                check_positive_int(name, getattr(self, name), "a positive int, or None for no limit")
        for name in ("food_reward", "death_reward", "win_reward", "step_reward"):
            _check_finite(name, getattr(self, name))
        if self.actions not in ACTIONS:
            raise ValueError(f"actions must be one of {sorted(ACTIONS)}, got {self.actions!r}")
        if self.num_cells < 2:
            raise ValueError("a board of 1 x 1 = 1 cells has no room for snake and food: use at least 2 cells")
        if self.start_length >= self.num_cells:
            raise ValueError(
                f"start_length must leave at least one free cell for the food: got {self.start_length} on a board of "
                f"{self.height} x {self.width} = {self.num_cells} cells; use at most {self.num_cells - 1}"
            )

    @property
    def num_cells(self) -> int:
        """Number of cells of the board. A snake of that length has won."""
        return self.height * self.width

    @property
    def num_actions(self) -> int:
        """Number of actions."""
        return len(ACTIONS[self.actions])


def check_positive_int(name: str, value: Any, rule: str = "a positive int") -> None:
    """Check that a value is an integer of at least 1.

    :param name: Name of the value, for the error.
    :param value: Value to check.
    :param rule: What the value must be, for the error.

    :raises ValueError: The value is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be {rule}, got {value!r}")


def _check_finite(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
