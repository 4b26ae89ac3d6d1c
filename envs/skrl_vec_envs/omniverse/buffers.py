"""The tensors that a task must keep, and what is said when it does not."""

from __future__ import annotations

from typing import Any

import torch

_INTEGERS = (torch.int64, torch.int32)  # OmniIsaacGymEnvs' are int64; its warp tasks use int32


def check_buffers(task: Any) -> None:
    """Check the buffers of a task: there, tensors, of the right shape and dtype.

    :param task: Task.

    :raises AttributeError: A buffer is missing.
    :raises TypeError: A buffer is no tensor, or the extras are no dictionary.
    :raises ValueError: A buffer has a wrong shape or dtype.
    """
    rows = (task.num_envs,)
    _check(task, "obs_buf", rows + tuple(task.observation_space.shape), (torch.float32,))
    _check(task, "states_buf", (task.num_envs, task.num_states), (torch.float32,))
    _check(task, "rew_buf", rows, (torch.float32,))
    _check(task, "reset_buf", rows, _INTEGERS)
    _check(task, "progress_buf", rows, _INTEGERS)
    if not isinstance(_get(task, "extras"), dict):
        raise TypeError(f"{type(task).__name__}.extras must be a dict, got {type(task.extras).__name__}")


def check_returned(task: Any, observations: Any, rewards: Any, resets: Any) -> None:
    """Check what ``post_physics_step`` returned, where that is not the buffer itself.

    :param task: Task.
    :param observations: In place of ``obs_buf``.
    :param rewards: In place of ``rew_buf``.
    :param resets: In place of ``reset_buf``.

    :raises ValueError: A shape is not the buffer's.
    """
    for name, returned in ("obs_buf", observations), ("rew_buf", rewards), ("reset_buf", resets):
        buffer = getattr(task, name)
        if returned is not buffer and (not isinstance(returned, torch.Tensor) or returned.shape != buffer.shape):
            raise ValueError(
                f"{type(task).__name__}.post_physics_step must return something of the shape of {name}, "
                f"{tuple(buffer.shape)}, got {tuple(getattr(returned, 'shape', ())) or returned!r}"
            )


def check_finite(name: str, values: torch.Tensor) -> None:
    """Check that there is no NaN and no infinity. Waits for the device.

    :param name: What the values are, for the error.
    :param values: Shape: (N, ...).

    :raises FloatingPointError: There is one.
    """
    bad = values.isfinite().logical_not().nonzero()
    if len(bad):
        env, *where = bad[0].tolist()
        raise FloatingPointError(
            f"{name} must be finite, got {values[tuple(bad[0])].item()} in environment {env} at {where} "
            f"({len(bad)} such values in {len(bad[:, 0].unique())} of {len(values)} environments)"
        )


def _get(task: Any, name: str) -> Any:
    try:
        return getattr(task, name)
    except AttributeError:
        raise AttributeError(
            f"{type(task).__name__} has no {name}: RLTask.cleanup makes it, so call RLTask.__init__ and, where cleanup "
            "is overridden, super().cleanup()"
        ) from None


def _check(task: Any, name: str, shape: tuple[int, ...], dtypes: tuple[torch.dtype, ...]) -> None:
    buffer = _get(task, name)
    if not isinstance(buffer, torch.Tensor):
        raise TypeError(f"{type(task).__name__}.{name} must be a torch.Tensor, got {type(buffer).__name__}")
    if buffer.shape != shape or buffer.dtype not in dtypes:
        raise ValueError(
            f"{type(task).__name__}.{name} must have shape {shape} and dtype {dtypes[0]}, got shape "
            f"{tuple(buffer.shape)} and dtype {buffer.dtype}: write into the buffer (self.{name}[:] = ...)"
        )
