"""The view in Isaac Lab's convention."""

from __future__ import annotations

import pytest
import torch

from skrl_vec_envs.omniverse.tasks import PendulumTask, SnakeTask
from skrl_vec_envs.views.isaaclab import IsaacLabView
from tests.skrl_vec_envs.omniverse.support import make


def test_observations_come_in_groups() -> None:
    view = IsaacLabView(make(PendulumTask, autoreset="same_step", asymmetric=True))
    observations, extras = view.reset()
    assert {name: group.shape for name, group in observations.items()} == {"policy": (4, 2), "critic": (4, 3)}
    assert extras == {}
    assert set(view.single_observation_space.spaces) == {"policy", "critic"}
    assert view.observation_space["policy"].shape == (4, 2)  # type: ignore[index]


def test_without_states_there_is_one_group() -> None:
    view = IsaacLabView(make(SnakeTask, autoreset="same_step", height=4, width=4))
    assert set(view.reset()[0]) == {"policy"}
    assert set(view.single_observation_space.spaces) == {"policy"}
    assert view.action_space.shape == (4,)


def test_a_step_has_five_results_of_one_dimension_and_keeps_the_extras() -> None:
    view = IsaacLabView(make(PendulumTask, autoreset="same_step", maxEpisodeLength=2))
    view.reset(seed=1)
    _, rewards, terminated, truncated, extras = view.step(torch.zeros(4, 1))
    assert rewards.shape == terminated.shape == truncated.shape == (4,)
    assert truncated.all()
    assert not terminated.any()
    assert view.extras is extras
    assert {"time_outs", "final_obs"} <= set(extras)
    assert (view.num_envs, view.device, view.max_episode_length) == (4, torch.device("cpu"), 2)
    assert view.unwrapped is view


def test_an_environment_that_resets_lazily_is_refused() -> None:
    with pytest.raises(ValueError, match=r"got an environment with 'lazy': use VecEnv\(autoreset='same_step'\)"):
        IsaacLabView(make())
