"""Tasks with analytic dynamics, and the snake."""

from skrl_vec_envs.omniverse.tasks.cartpole import CartpoleTask
from skrl_vec_envs.omniverse.tasks.pendulum import PendulumTask
from skrl_vec_envs.omniverse.tasks.snake import SnakeTask

__all__ = ["CartpoleTask", "PendulumTask", "SnakeTask"]
