"""Tasks that are written for Isaac Sim run with the stand-ins."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from skrl_vec_envs.omni import maths
from tests.skrl_vec_envs.omniverse.support import random_actions

from .own_tasks import make


@pytest.mark.parametrize("name", ["balance", "hover"])
@pytest.mark.parametrize("autoreset", ["lazy", "same_step"])
def test_it_steps_and_resets(name: str, autoreset: Any) -> None:
    env = make(name, autoreset=autoreset, episodeLength=20)
    env.reset()
    ends = 0
    for step in range(60):
        obs, rewards, resets, _ = env.step(random_actions(env, step))
        assert obs["obs"].isfinite().all()
        assert rewards.isfinite().all()
        ends += int(resets.sum())
    assert ends >= 5


def test_environments_stand_apart_and_objects_where_they_were_put() -> None:
    task: Any = make("hover", num_envs=9).task
    assert task._env_pos.shape == (9, 3)
    assert torch.pdist(task._env_pos).min() == 4.0
    assert torch.equal(task.start[0], task._env_pos + torch.tensor([0.0, 0.0, 1.0]))
    assert tuple(task.anchor) == tuple((task._env_pos[1] + torch.tensor([0.0, 0.0, 1.0])).tolist())


def test_rotors_carry_the_copter_and_turn_it() -> None:
    env = make("hover")
    env.reset()
    task: Any = env.task
    height = task._copters.get_world_poses()[0][:, 2]
    for _ in range(10):
        env.step(torch.zeros(5, 4))
    assert torch.allclose(task._copters.get_world_poses()[0][:, 2], height, atol=1e-5)
    env.step(torch.tensor([[0.0, 0.2, 0.0, 0.0]]).expand(5, 4))
    spin = task._copters.get_angular_velocities()
    assert (spin[:, 0] > 0.01).all()
    assert spin[:, 1:].abs().max() < 1e-4


def test_what_a_task_writes_into_what_it_read_moves_nothing() -> None:
    env = make("hover")
    env.reset()
    task: Any = env.task
    before = [tensor.clone() for tensor in task._copters.get_world_poses()]
    for tensor in (*task._copters.get_world_poses(clone=False), task._copters.get_velocities(clone=False)):
        tensor.fill_(7.0)
    after = task._copters.get_world_poses()
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))


def test_two_environments_of_one_task_have_their_own_stages() -> None:
    first, second = make("balance", num_envs=2, episodeLength=9), make("balance", num_envs=3, episodeLength=9)
    first.reset()
    before = first.task.obs_buf.clone()
    second.reset()
    second.step(torch.ones(3, 1))
    assert torch.equal(first.task.get_observations()["poles"]["obs_buf"], before)
    assert first.step(torch.zeros(2, 1))[0]["obs"].shape == (2, 4)


def test_an_upright_axis_is_the_third_column_of_the_rotation() -> None:
    quats = maths.normalize(torch.randn(6, 4))
    assert torch.allclose(maths.quat_axis(quats, 2), maths.quat_rotate(quats, torch.tensor([[0.0, 0, 1]]).expand(6, 3)))
