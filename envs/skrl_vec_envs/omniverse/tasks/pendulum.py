"""A pendulum that hangs: swing it up."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gymnasium
import numpy as np
import torch

from skrl_vec_envs.omniverse.task import ConfiguredTask

GRAVITY = 10.0  # m / s^2
MAX_TORQUE = 2.0  # N m
MAX_SPEED = 8.0  # rad / s


class PendulumTask(ConfiguredTask):
    """N rods of 1 kg and 1 m that hinge at one end: the rules of Gymnasium's ``Pendulum-v1``.

    **Observation.** Shape: (N, 3): cosine and sine of the angle from upright, angular velocity (rad / s). With
    ``asymmetric`` it is cosine and sine only, and the three are the **state**, shape: (N, 3).

    **Action.** Box, shape: (N, 1), from -1 to 1: a torque of that times 2 N m.

    **Reward.** ``-(angle^2 + 0.1 velocity^2 + 0.001 torque^2)`` before the step, the angle from -pi to pi.

    **End.** Time out after ``maxEpisodeLength`` steps, never a failure.

    **Start.** Angle from -pi to pi, at most 1 rad / s; uniform. Semi-implicit Euler steps of ``sim["dt"]`` (set it to
    0.05 for Gymnasium's pendulum; default: 1/60 s), the speed limited to 8 rad / s.
    """

    SETTINGS: ClassVar = {"maxEpisodeLength": 200, "asymmetric": False}

    def configure(self, settings: dict[str, Any]) -> None:
        """Take the settings over."""
        full = np.array([1.0, 1.0, MAX_SPEED], np.float32)
        self._asymmetric = settings["asymmetric"]
        self._num_actions, self._num_observations = 1, 2 if self._asymmetric else 3
        self._num_states = 3 if self._asymmetric else 0
        self.observation_space = gymnasium.spaces.Box(-full[: self._num_observations], full[: self._num_observations])
        if self._asymmetric:
            self.state_space = gymnasium.spaces.Box(-full, full)
        self._max_episode_length = settings["maxEpisodeLength"]

    def cleanup(self) -> None:
        """Make the buffers and the state anew."""
        super().cleanup()
        self._angle, self._velocity, self._torque = torch.zeros(3, self.num_envs, device=self.device)

    def reset_idx(self, env_ids: torch.Tensor) -> None:
        """Put the rods at their start."""
        self._angle[env_ids] = self.uniform(len(env_ids), -math.pi, math.pi)
        self._velocity[env_ids] = self.uniform(len(env_ids), -1.0, 1.0)
        self.reset_buf[env_ids] = 0
        self.progress_buf[env_ids] = 0

    def pre_physics_step(self, actions: torch.Tensor) -> None:
        """Reset the flagged environments, and turn the hinges."""
        self.reset_flagged()
        self._torque[:] = MAX_TORQUE * actions[:, 0]
        angle = torch.remainder(self._angle + math.pi, 2.0 * math.pi) - math.pi
        costs = angle.square() + 0.1 * self._velocity.square() + 0.001 * self._torque.square()
        self.rew_buf[:] = -costs

    def simulate(self, dt: float) -> None:
        """Move the rods."""
        self._velocity += dt * (1.5 * GRAVITY * self._angle.sin() + 3.0 * self._torque)
        self._velocity.clamp_(-MAX_SPEED, MAX_SPEED)
        self._angle += dt * self._velocity

    def get_observations(self) -> torch.Tensor:
        """Write the observations, and the states where there are some."""
        full = torch.stack((self._angle.cos(), self._angle.sin(), self._velocity), 1)
        self.obs_buf[:] = full[:, : self.num_observations]
        if self._asymmetric:
            self.states_buf[:] = full
        return self.obs_buf

    def calculate_metrics(self) -> None:
        """Leave the rewards as they are: they belong to the state before the step."""

    def is_done(self) -> None:
        """Flag what ran out of time."""
        self.reset_buf[:] = self.progress_buf >= self._max_episode_length

    def get_time_outs(self) -> torch.Tensor:
        """Tell which episodes ran out of time: all that ended."""
        return self.reset_buf > 0
