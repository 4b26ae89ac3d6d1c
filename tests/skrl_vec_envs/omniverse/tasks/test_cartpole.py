"""The cartpole against Gymnasium's, and its rules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control import CartPoleEnv

from skrl_vec_envs.omniverse.tasks import CartpoleTask

from ..support import make, random_actions


def test_it_moves_as_gymnasiums_cartpole() -> None:
    env = make(num_envs=1, resetDist=100.0, maxEffort=10.0)
    env.reset()
    reference: Any = CartPoleEnv()
    reference.gravity, reference.tau, reference.kinematics_integrator = 9.81, 0.05, "semi-implicit euler"
    reference.x_threshold = reference.theta_threshold_radians = 100.0
    reference.reset(seed=0)
    reference.state = env.task.obs_buf[0].double().numpy()
    for step in range(10):
        push = step % 3 == 0
        observation = env.step(torch.tensor([[1.0 if push else -1.0]]))[0]["obs"]
        reference.step(int(push))
        np.testing.assert_allclose(observation[0], reference.state, rtol=1e-4, atol=1e-4)


def test_the_reward_is_the_stated_one_and_an_end_costs_two() -> None:
    env = make(num_envs=64)
    env.reset()
    seen_failure = False
    for step in range(60):
        obs, rewards, resets, extras = env.step(random_actions(env, step))
        position, velocity, angle, angular = obs["obs"].T
        failed = (position.abs() > 3.0) | (angle.abs() > math.pi / 2)
        stated = 1.0 - angle**2 - 0.01 * velocity.abs() - 0.005 * angular.abs()
        assert torch.allclose(rewards, torch.where(failed, -2.0, stated))
        assert torch.equal(resets > 0, failed)
        assert not extras["time_outs"].any()
        seen_failure |= bool(failed.any())
    assert seen_failure


def test_episodes_start_within_the_stated_bounds() -> None:
    env = make(num_envs=2000)
    env.reset()
    env.task.reset_idx(torch.arange(2000))
    starts = env.task.get_observations().abs().amax(0)
    bounds = torch.tensor([1.0, 0.5, math.pi / 8, math.pi / 4])
    assert (starts <= bounds).all()
    assert (starts > 0.95 * bounds).all()


@pytest.mark.parametrize("autoreset", ["lazy", "same_step"])
def test_time_is_up_after_the_stated_number_of_steps_unless_the_pole_falls_in_that_step(autoreset: Any) -> None:
    env = make(num_envs=2, autoreset=autoreset, maxEpisodeLength=5)
    env.reset()
    for _ in range(3):
        assert not env.step(env.zero_actions())[2].any()
    task: Any = env.task
    task._state[2, 1] = 3.0  # the pole of the second one lies
    _, _, resets, extras = env.step(env.zero_actions())
    assert resets.tolist() == [1, 1]
    assert extras["time_outs"].tolist() == [True, False]


def test_the_effort_is_the_configured_one_times_the_clipped_action() -> None:
    env = make(CartpoleTask, num_envs=2, maxEffort=3.0)
    env.reset()
    task: Any = env.task
    task.pre_physics_step(env._receive(torch.tensor([[5.0], [-0.5]])))
    assert task._force.tolist() == [3.0, -1.5]
