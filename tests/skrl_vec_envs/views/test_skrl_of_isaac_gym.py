"""skrl's view of environments that this package does not make: OmniIsaacGymEnvs and Isaac Gym, previews 2 to 4."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from skrl.envs.wrappers.torch import Wrapper

from skrl_vec_envs.views.skrl import SkrlView

from .isaac_gym_fakes import ACTIONS, BOX, FAKES, N, OmniverseEnv, Preview2Env, Preview3Env


@pytest.mark.parametrize("fake", FAKES)
def test_shapes_dtypes_and_spaces_are_those_that_skrl_stores(fake: Any) -> None:
    view = SkrlView(fake())
    assert isinstance(view, Wrapper)
    assert (view.num_envs, view.num_agents, view.device) == (N, 1, torch.device("cpu"))
    assert (view.observation_space, view.action_space) == (BOX, ACTIONS)
    assert view.reset()[0].shape == (N, 2)
    observations, rewards, terminated, truncated, _ = view.step(torch.zeros(N, 1))
    assert (observations.shape, rewards.shape, rewards.dtype) == ((N, 2), (N, 1), torch.float32)
    assert (terminated.shape, terminated.dtype) == (truncated.shape, truncated.dtype) == ((N, 1), torch.bool)


@pytest.mark.parametrize("fake", FAKES)
def test_only_the_first_reset_reaches_the_environment(fake: Any) -> None:
    env = fake()
    view = SkrlView(env)
    view.reset()
    observations = view.step(torch.zeros(N, 1))[0]
    assert torch.equal(view.reset()[0], observations)
    assert getattr(env, "_task", getattr(env, "task", env)).resets == 1


@pytest.mark.parametrize("fake", FAKES)
def test_what_skrl_adds_to_rewards_and_observations_does_not_reach_the_buffers(fake: Any) -> None:
    env = fake()
    view, keeper = SkrlView(env), getattr(env, "_task", getattr(env, "task", env))
    returned = [view.reset()[0], *view.step(torch.zeros(N, 1))[:2]]
    if view.state() is not None:
        returned.append(view.state())  # type: ignore[arg-type]
    buffers = [keeper.obs_buf, keeper.rew_buf, keeper.states_buf]
    before = [buffer.clone() for buffer in buffers]
    for tensor in returned:
        tensor += 100.0
    assert all(torch.equal(buffer, old) for buffer, old in zip(buffers, before, strict=True))


@pytest.mark.parametrize("fake", [Preview2Env, Preview3Env])
def test_a_time_out_is_a_truncation_and_no_termination_and_only_where_an_episode_ended(fake: Any) -> None:
    view = SkrlView(fake())
    view.reset()
    _, _, terminated, truncated, _ = view.step(torch.zeros(N, 1))
    assert terminated.flatten().tolist() == [False, False, False]
    assert truncated.flatten().tolist() == [True, False, False]
    _, _, terminated, truncated, _ = view.step(torch.zeros(N, 1))
    assert terminated.flatten().tolist() == [False, True, False]
    assert truncated.flatten().tolist() == [False, False, False]


def test_without_time_outs_every_end_is_a_termination() -> None:
    view = SkrlView(OmniverseEnv())
    view.reset()
    _, _, terminated, truncated, _ = view.step(torch.zeros(N, 1))
    assert terminated.flatten().tolist() == [True, False, False]
    assert not truncated.any()


def test_states_are_there_where_the_environment_has_some() -> None:
    view = SkrlView(OmniverseEnv())
    view.reset()
    assert view.state_space is not None
    assert view.state_space.shape == (4,)
    assert view.state().tolist() == [[5.0] * 4] * N  # type: ignore[union-attr]
    plain = SkrlView(Preview3Env())
    plain.reset()
    assert plain.state_space is None
    assert plain.state() is None


def test_an_environment_of_another_kind_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"SkrlView cannot view an object of builtins.object, which has none of the mem"
    ):
        SkrlView(object())  # type: ignore[arg-type]
