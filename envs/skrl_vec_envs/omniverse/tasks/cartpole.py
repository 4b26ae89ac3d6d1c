"""A pole on a cart: keep it upright."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch

from skrl_vec_envs.omniverse.task import ConfiguredTask

CART_MASS = 1.0  # kg
POLE_MASS = 0.1  # kg
POLE_HALF_LENGTH = 0.5  # m, from the joint to the centre of mass
GRAVITY = 9.81  # m / s^2


def accelerations(
    force: torch.Tensor, angle: torch.Tensor, angular_velocity: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Accelerate a cart without friction and the uniform pole that hinges on it.

    The equations are those of Florian, "Correct equations for the dynamics of the cart-pole system" (2007), without
    friction.

    :param force: Force on the cart, N. Shape: (N,).
    :param angle: Angle of the pole from upright, rad, positive towards the positive side of the cart. Shape: (N,).
    :param angular_velocity: rad / s. Shape: (N,).

    :return: Acceleration of the cart, m / s^2; angular acceleration of the pole, rad / s^2. Shape: (N,).
    """
    mass = CART_MASS + POLE_MASS
    sine, cosine = angle.sin(), angle.cos()
    push = (force + POLE_MASS * POLE_HALF_LENGTH * angular_velocity.square() * sine) / mass
    inertia = POLE_HALF_LENGTH * (4.0 / 3.0 - POLE_MASS / mass * cosine.square())
    angular = (GRAVITY * sine - cosine * push) / inertia
    return push - POLE_MASS * POLE_HALF_LENGTH / mass * angular * cosine, angular


class CartpoleTask(ConfiguredTask):
    """N carts on a rail, each with a pole.

    **Observation.** Shape: (N, 4): position of the cart (m), its velocity (m / s), angle of the pole from upright
    (rad), its angular velocity (rad / s).

    **Action.** Box, shape: (N, 1), from -1 to 1: ``maxEffort`` newtons on the cart.

    **Reward.** ``1 - angle^2 - 0.01 |velocity| - 0.005 |angular velocity|``, and -2 where the episode fails; so a
    return is at most ``maxEpisodeLength``.

    **End.** Failure: the cart is more than ``resetDist`` from the middle, or the pole more than a quarter turn from
    upright. Time out: after ``maxEpisodeLength`` steps, unless it fails in that step.

    **Start.** Cart within 1 m of the middle, at most 0.5 m / s; pole within pi / 8 of upright, at most pi / 4 per s;
    uniform. Semi-implicit Euler steps of ``sim["dt"]`` (default: 1/60 s).
    """

    SETTINGS: ClassVar = {"resetDist": 3.0, "maxEffort": 10.0, "maxEpisodeLength": 500}

    def configure(self, settings: dict[str, Any]) -> None:
        """Take the settings over."""
        self._num_observations, self._num_actions = 4, 1
        self._max_episode_length = settings["maxEpisodeLength"]
        self._reset_dist = settings["resetDist"]
        self._max_effort = settings["maxEffort"]

    def cleanup(self) -> None:
        """Make the buffers and the state anew."""
        super().cleanup()
        self._state = torch.zeros(4, self.num_envs, device=self.device)
        self._force = torch.zeros(self.num_envs, device=self.device)
        self._failed = self._late = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)

    def reset_idx(self, env_ids: torch.Tensor) -> None:
        """Put carts and poles at their start."""
        bounds = (1.0, 0.5, math.pi / 8, math.pi / 4)
        self._state[:, env_ids] = torch.stack([self.uniform(len(env_ids), -bound, bound) for bound in bounds])
        self.reset_buf[env_ids] = 0
        self.progress_buf[env_ids] = 0

    def pre_physics_step(self, actions: torch.Tensor) -> None:
        """Reset the flagged environments and push the carts."""
        self.reset_flagged()
        self._force = self._max_effort * actions[:, 0]

    def simulate(self, dt: float) -> None:
        """Move carts and poles."""
        position, velocity, angle, angular_velocity = self._state
        acceleration, angular_acceleration = accelerations(self._force, angle, angular_velocity)
        velocity += dt * acceleration
        angular_velocity += dt * angular_acceleration
        position += dt * velocity
        angle += dt * angular_velocity

    def get_observations(self) -> torch.Tensor:
        """Write the observations."""
        self.obs_buf.copy_(self._state.T)
        return self.obs_buf

    def calculate_metrics(self) -> None:
        """Write the rewards."""
        position, velocity, angle, angular_velocity = self._state
        self._failed = (position.abs() > self._reset_dist) | (angle.abs() > math.pi / 2)
        reward = 1.0 - angle.square() - 0.01 * velocity.abs() - 0.005 * angular_velocity.abs()
        self.rew_buf[:] = torch.where(self._failed, -2.0, reward)

    def is_done(self) -> None:
        """Flag what failed or ran out of time."""
        self._late = self.progress_buf >= self._max_episode_length
        self.reset_buf[:] = self._failed | self._late

    def get_time_outs(self) -> torch.Tensor:
        """Tell which episodes ran out of time and did not fail."""
        return self._late > self._failed
