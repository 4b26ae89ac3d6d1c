"""The pendulum against Gymnasium's."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.envs.classic_control import PendulumEnv

from skrl_vec_envs.omniverse.tasks import PendulumTask

from ..support import make, random_actions


def test_it_moves_and_rewards_as_gymnasiums_pendulum() -> None:
    env = make(PendulumTask, num_envs=1)
    env.reset()
    task: Any = env.task
    reference: Any = PendulumEnv()
    reference.reset(seed=0)
    reference.state = np.array([task._angle[0].item(), task._velocity[0].item()])
    for step in range(100):
        actions = random_actions(env, step)
        obs, rewards, _, _ = env.step(actions)
        observation, reward, *_ = reference.step(2.0 * actions[0].double().numpy())
        np.testing.assert_allclose(obs["obs"][0], observation, atol=2e-3)
        np.testing.assert_allclose(rewards[0], reward, atol=2e-2)


def test_every_end_is_a_time_out() -> None:
    env = make(PendulumTask, maxEpisodeLength=3)
    env.reset()
    _, _, resets, extras = [env.step(env.zero_actions()) for _ in range(2)][-1]
    assert resets.tolist() == [1] * 4
    assert extras["time_outs"].all()


def test_the_asymmetric_one_shows_the_velocity_to_the_value_function_only() -> None:
    env, full = make(PendulumTask, asymmetric=True), make(PendulumTask)
    env.reset()
    full.reset()
    for step in range(10):
        obs = env.step(random_actions(env, step))[0]
        expected = full.step(random_actions(full, step))[0]["obs"]
        assert torch.equal(obs["states"], expected)
        assert torch.equal(obs["obs"], expected[:, :2])
    assert (env.observation_space.shape, env.state_space.shape, env.num_states) == ((2,), (3,), 3)


def test_observations_lie_in_their_space() -> None:
    env = make(PendulumTask)
    env.reset()
    for step in range(200):
        for observation in env.step(random_actions(env, step))[0]["obs"]:
            assert env.observation_space.contains(observation.numpy())
