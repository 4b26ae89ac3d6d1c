"""The Gymnasium view against Gymnasium's own vector environment over single ones, which pass its checker."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from skrl_vec_envs.omniverse.tasks import CartpoleTask, PendulumTask, SnakeTask
from skrl_vec_envs.views.gymnasium import GymnasiumView, SingleEnvView
from tests.skrl_vec_envs.omniverse.support import make

TASKS: dict[str, dict[str, Any]] = {
    "cartpole": {"task": CartpoleTask, "maxEpisodeLength": 9, "resetDist": 1.1},
    "pendulum": {"task": PendulumTask, "maxEpisodeLength": 9},
    "snake": {"task": SnakeTask, "maxEpisodeLength": 9, "height": 4, "width": 5},
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.filterwarnings("ignore:.*Box observation space m.*imum value is .*infinity")
def test_a_single_environment_passes_gymnasiums_checker(task: str) -> None:
    check_env(SingleEnvView(make(num_envs=1, autoreset="same_step", **TASKS[task])), skip_render_check=True)


class Fixed(CartpoleTask):
    """A cartpole that starts at the same place in all environments and episodes."""

    def uniform(self, rows: int, low: float, high: float) -> torch.Tensor:
        return torch.full((rows,), 0.3 * high)


CASES = [(task, 1) for task in TASKS] + [("fixed", 4)]


@pytest.mark.parametrize(("task", "num_envs"), CASES)
def test_it_returns_what_gymnasiums_vector_environment_returns(task: str, num_envs: int) -> None:
    settings = {**TASKS["cartpole"], "task": Fixed} if task == "fixed" else TASKS[task]
    view = GymnasiumView(make(num_envs=num_envs, autoreset="same_step", **settings))
    reference = SyncVectorEnv(
        [lambda: SingleEnvView(make(num_envs=1, autoreset="same_step", **settings))] * num_envs,
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    assert view.single_action_space == reference.single_action_space
    assert view.observation_space == reference.observation_space
    assert view.action_space == reference.action_space
    np.testing.assert_equal(view.reset(), reference.reset())
    view.action_space.seed(0)
    ends = 0
    for _ in range(60):
        actions = view.action_space.sample()
        *arrays, infos = view.step(actions)
        *expected, expected_infos = reference.step(actions)
        for array, other in zip(arrays, expected, strict=True):
            np.testing.assert_array_equal(array, other)
        assert set(infos) == set(expected_infos)
        for name in infos:
            _assert_same(infos[name], expected_infos[name])
        ends += len(infos.get("final_info", ()))
    assert ends or task != "snake"
    assert isinstance(arrays[1], np.ndarray)


def _assert_same(value: Any, other: Any) -> None:
    if isinstance(value, dict):
        assert set(value) == set(other)
        for name in value:
            _assert_same(value[name], other[name])
    elif value.dtype == object:
        assert [item is None for item in value] == [item is None for item in other]
        for item, another in zip(value, other, strict=True):
            np.testing.assert_array_equal(item, another)
    else:
        np.testing.assert_array_equal(value, other)


def test_a_vector_environment_of_one_seed_plays_the_same_again() -> None:
    view = GymnasiumView(make(autoreset="same_step", **TASKS["cartpole"]))
    first, _ = view.reset(seed=7)
    second, _ = view.reset()
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(view.reset(seed=7)[0], first)


def test_it_says_that_it_resets_in_the_same_step() -> None:
    view = GymnasiumView(make(autoreset="same_step"))
    assert view.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert isinstance(view, gymnasium.vector.VectorEnv)


def test_a_seed_per_environment_a_lazy_environment_and_several_for_one_are_refused() -> None:
    view = GymnasiumView(make(autoreset="same_step"))
    with pytest.raises(TypeError, match=r"seed must be one int for all environments, got \[1, 2, 3, 4\]"):
        view.reset(seed=[1, 2, 3, 4])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"got an environment with 'lazy': use VecEnv\(autoreset='same_step'\)"):
        GymnasiumView(make())
    with pytest.raises(ValueError, match=r"needs one environment .* got 4 with 'same_step'"):
        SingleEnvView(make(autoreset="same_step"))
