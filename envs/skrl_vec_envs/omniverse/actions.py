"""The actions that a task takes: their shape, their dtype, and those that do nothing."""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from gymnasium.spaces import Discrete, MultiDiscrete

from skrl_vec_envs.omniverse.task import RLTask

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def zero_actions(task: RLTask) -> torch.Tensor:
    """Make actions that are zero, or the first choices.

    :param task: Task.

    :return: Shape: (N, A), dtype: float32; of a Discrete space: (N,), of a MultiDiscrete one: (N, K), dtype: int64.
    """
    space = task.action_space
    if isinstance(space, (Discrete, MultiDiscrete)):
        start = torch.as_tensor(space.start, dtype=torch.int64, device=task.rl_device)
        return start.expand(_shape(task)).clone()
    return torch.zeros(_shape(task), dtype=torch.float32, device=task.rl_device)


def check_actions(task: RLTask, actions: Any) -> torch.Tensor:
    """Check actions.

    :param task: Task.
    :param actions: Actions: of a Box, shape: (N, A), floating-point; of a Discrete space, shape: (N,) or (N, 1), of a
        MultiDiscrete one, shape: (N, K), any integer dtype.

    :return: The same, of shape (N,) for a Discrete space.

    :raises TypeError: They are no tensor.
    :raises ValueError: They have a wrong shape or dtype.
    """
    if not isinstance(actions, torch.Tensor):
        raise TypeError(f"actions must be a torch.Tensor, got {type(actions).__name__}: use torch.as_tensor(actions)")
    integer = isinstance(task.action_space, (Discrete, MultiDiscrete))
    shape = _shape(task)
    flat = actions[:, 0] if actions.shape == (*shape, 1) and isinstance(task.action_space, Discrete) else actions
    right_dtype = actions.dtype in _INTEGERS if integer else actions.is_floating_point()
    if flat.shape != shape or not right_dtype:
        kind = "integers" if integer else "floating-point numbers"
        raise ValueError(f"actions must be {kind} of shape {shape}, got {actions.dtype}, shape {tuple(actions.shape)}")
    return flat


def _shape(task: RLTask) -> tuple[int, ...]:
    space: gymnasium.Space[Any] = task.action_space
    if isinstance(space, (Discrete, MultiDiscrete)):
        return (task.num_envs, *(space.shape or ()))
    return (task.num_envs, task.num_actions)
