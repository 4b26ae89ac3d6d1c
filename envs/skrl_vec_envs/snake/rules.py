"""The rules that can be chosen, checked when they are, and the presets of them."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

ACTIONS = {"absolute": ("up", "down", "left", "right"), "relative": ("left", "straight", "right")}
PRESETS: dict[str, dict[str, Any]] = {
    "classic": {
        "start_length": 3,
        "max_length": None,
        "food_per_snake": 1,
        "food_colours": False,
        "reversing": "straight",
        "tail": "free",
        "moves": "simultaneous",
        "deaths": "respawn",
        "max_steps": 1000,
        "hunger_limit": None,
        "food_reward": 1.0,
        "death_reward": -1.0,
        "win_reward": 1.0,
        "step_reward": 0.0,
    },
    "multisnake": {
        "start_length": 1,
        "max_length": 10,
        "food_per_snake": 1,
        "food_colours": True,
        "reversing": "kills",
        "tail": "blocked",
        "moves": "in_order",
        "deaths": "end",
        "max_steps": 100,
        "hunger_limit": None,
        "food_reward": None,
        "death_reward": 0.0,
        "win_reward": 0.0,
        "step_reward": 0.0,
    },
}
_CHOICES = {
    "actions": tuple(ACTIONS),
    "reversing": ("straight", "kills"),
    "tail": ("free", "blocked"),
    "moves": ("simultaneous", "in_order"),
    "deaths": ("respawn", "end"),
}
_MOST_THINGS = 126  # snakes, and pieces of food, which have to fit the codes of a byte


@dataclasses.dataclass(frozen=True, kw_only=True)
class SnakeRules:
    """Rules of a game, see :class:`~skrl_vec_envs.snake.Snake` for the meaning of each.

    :raises ValueError: A value is not legal, or the board is too small for the snakes.
    """

    height: int
    width: int
    num_snakes: int
    actions: str
    start_length: int
    max_length: int | None
    food_per_snake: int
    food_colours: bool
    reversing: str
    tail: str
    moves: str
    deaths: str
    max_steps: int | None
    hunger_limit: int | None
    food_reward: float
    death_reward: float
    win_reward: float
    step_reward: float

    def __post_init__(self) -> None:
        for name in ("height", "width", "num_snakes", "start_length", "food_per_snake"):
            check_positive_int(name, getattr(self, name))
        for name in ("max_steps", "hunger_limit", "max_length"):
            if getattr(self, name) is not None:
                check_positive_int(name, getattr(self, name), "a positive int, or None for no limit")
        for name in ("food_reward", "death_reward", "win_reward", "step_reward"):
            _check_finite(name, getattr(self, name))
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {getattr(self, name)!r}")
        if not isinstance(self.food_colours, bool):
            raise ValueError(f"food_colours must be True or False, got {self.food_colours!r}")
        if self.num_snakes * self.food_per_snake > _MOST_THINGS:
            raise ValueError(
                f"there can be {_MOST_THINGS} snakes and pieces of food on a board, got num_snakes={self.num_snakes} "
                f"with food_per_snake={self.food_per_snake}"
            )
        self._check_room()

    def _check_room(self) -> None:
        if self.max_length is not None and self.max_length <= self.start_length:
            raise ValueError(
                f"max_length must be more than start_length, got {self.max_length} and {self.start_length}: "
                "a snake that cannot grow has won before it starts"
            )
        needed = self.num_snakes * (self.start_length + 1)
        if needed > self.num_cells:
            raise ValueError(
                f"the board is too small: num_snakes={self.num_snakes} with start_length={self.start_length} and a "
                f"free cell each need {needed} cells, got {self.height} x {self.width} = {self.num_cells}"
            )

    @property
    def num_cells(self) -> int:
        """Number of cells of the board."""
        return self.height * self.width

    @property
    def num_actions(self) -> int:
        """Number of actions."""
        return len(ACTIONS[self.actions])

    @property
    def num_food(self) -> int:
        """Pieces of food on a board."""
        return self.num_snakes * self.food_per_snake

    @property
    def longest(self) -> int:
        """Length at which a snake grows no more."""
        return self.num_cells if self.max_length is None else min(self.max_length, self.num_cells)


def make_rules(preset: str, changes: dict[str, Any], **others: Any) -> SnakeRules:
    """Complete a preset.

    :param preset: Name of the preset.
    :param changes: Rules that differ from the preset's.
    :param others: Rules that no preset has.

    :return: All rules.

    :raises ValueError: There is no such preset, or a value is not legal.
    :raises TypeError: There is no such rule.
    """
    if not isinstance(preset, str) or preset not in PRESETS:
        raise ValueError(f"rules must be {' or '.join(map(repr, PRESETS))}, got {preset!r}")
    chosen = PRESETS[preset] | changes
    if unknown := sorted(chosen.keys() - PRESETS[preset].keys()):
        raise TypeError(f"there is no rule {unknown[0]!r}: the rules are {', '.join(PRESETS[preset])}")
    if chosen["food_reward"] is None:  # all snakes together get 1 when all are as long as they can be
        most = SnakeRules(**others, **chosen | {"food_reward": 0.0}).longest
        chosen["food_reward"] = 1.0 / max(1, most - 1) / others["num_snakes"]
    return SnakeRules(**others, **chosen)


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
