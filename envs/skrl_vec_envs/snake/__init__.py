"""The snake game, batched: see :class:`Snake` for its specification."""

from skrl_vec_envs.snake.env import Snake
from skrl_vec_envs.snake.per_snake import PerSnake
from skrl_vec_envs.snake.rules import SnakeRules

__all__ = ["PerSnake", "Snake", "SnakeRules"]
