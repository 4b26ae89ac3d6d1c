"""One suite for every task under every view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from skrl_vec_envs.omniverse import VecEnv
from skrl_vec_envs.omniverse.tasks import CartpoleTask, PendulumTask, SnakeTask
from tests.skrl_vec_envs.omni.own_tasks import make_from_stand_ins
from tests.skrl_vec_envs.omniverse.support import make, random_actions

from .views import CASES, Bare, Driven

STEPS = 40
MAKERS: dict[str, Callable[[str], VecEnv]] = {
    "cartpole": lambda mode: make(CartpoleTask, 5, mode, maxEpisodeLength=9, resetDist=1.1),
    "pendulum": lambda mode: make(PendulumTask, 5, mode, maxEpisodeLength=9),
    "asymmetric pendulum": lambda mode: make(PendulumTask, 5, mode, maxEpisodeLength=9, asymmetric=True),
    "snake": lambda mode: make(SnakeTask, 5, mode, maxEpisodeLength=9, height=4, width=5),
    "snake, relative": lambda mode: make(SnakeTask, 5, mode, maxEpisodeLength=9, height=4, width=5, actions="relative"),
    "cartpole of the stand-ins": make_from_stand_ins,
}

pytestmark = [
    pytest.mark.parametrize(("view", "mode"), CASES),
    pytest.mark.parametrize("task", MAKERS),
]


def driven(view: type[Driven], mode: str, task: str) -> Driven:
    return view(MAKERS[task](mode))


def played(player: Driven, steps: int = STEPS) -> tuple[torch.Tensor, list[Any]]:
    first = player.reset().clone()
    return first, [player.step(random_actions(player.env, step)) for step in range(steps)]


def test_shapes_dtypes_and_devices(view: type[Driven], mode: str, task: str) -> None:
    player = driven(view, mode, task)
    first, results = played(player)
    shape = (5, *player.env.observation_space.shape)  # type: ignore[misc]
    for result in results:
        assert (result.observations.shape, result.observations.dtype) == (shape, torch.float32)
        assert (result.rewards.shape, result.rewards.dtype) == ((5,), torch.float32)
        assert (result.terminated.shape, result.terminated.dtype) == ((5,), torch.bool)
        assert (result.truncated.shape, result.truncated.dtype) == ((5,), torch.bool)
        assert {tensor.device for tensor in result.raw} == {torch.device("cpu")}
    assert (first.shape, first.dtype) == (shape, torch.float32)


def test_no_tensor_returned_is_shared_with_the_task_or_with_another(view: type[Driven], mode: str, task: str) -> None:
    _, expected = played(driven(view, mode, task))
    player = driven(view, mode, task)
    player.reset()
    kept: list[torch.Tensor] = []
    for step in range(STEPS):
        result = player.step(random_actions(player.env, step))
        assert torch.equal(result.observations, expected[step].observations)
        assert torch.equal(result.rewards, expected[step].rewards)
        assert torch.equal(result.ended, expected[step].ended)
        assert len({tensor.data_ptr() for tensor in result.raw if tensor.numel()}) == sum(
            tensor.numel() > 0 for tensor in result.raw
        )
        kept += result.raw
        for tensor in result.raw:
            tensor.fill_(1)
    assert all((tensor == 1).all() for tensor in kept)


def test_ends_are_either_terminations_or_truncations_and_both_occur_where_the_task_has_both(
    view: type[Driven], mode: str, task: str
) -> None:
    _, results = played(driven(view, mode, task))
    terminated = torch.stack([result.terminated for result in results])
    truncated = torch.stack([result.truncated for result in results])
    assert not (terminated & truncated).any()
    assert truncated.any()
    assert terminated.any() == ("pendulum" not in task)


def test_every_view_shows_what_the_environment_returns(view: type[Driven], mode: str, task: str) -> None:
    first, results = played(driven(view, mode, task))
    expected_first, expected = played(driven(Bare, mode, task))
    assert torch.equal(first, expected_first)
    for result, other in zip(results, expected, strict=True):
        for name in ("observations", "rewards", "terminated", "truncated"):
            assert torch.equal(getattr(result, name), getattr(other, name)), name


def test_the_last_observation_is_what_the_task_showed_before_it_was_reset(
    view: type[Driven], mode: str, task: str
) -> None:
    player = driven(view, mode, task)
    seen: list[torch.Tensor] = []
    original = player.env.task.get_observations

    def noting() -> Any:
        value = original()
        seen.append(player.env.task.obs_buf.clone())
        return value

    player.env.task.get_observations = noting  # type: ignore[method-assign]
    player.reset()
    for step in range(STEPS):
        seen.clear()
        result = player.step(random_actions(player.env, step))
        last = result.observations if mode == "lazy" else result.final_obs
        if last is not None:  # of skrl's own wrapper of Isaac Lab's environments on 1.4, which keeps no infos
            assert torch.equal(last[result.ended], seen[0][result.ended])
        if mode == "same_step" and result.ended.any():
            assert torch.equal(result.observations[result.ended], seen[1][result.ended])
            assert not torch.equal(seen[0][result.ended], seen[1][result.ended])


def test_the_same_seed_gives_the_same_trajectory(view: type[Driven], mode: str, task: str) -> None:
    first, results = played(driven(view, mode, task))
    again, repeated = played(driven(view, mode, task))
    assert torch.equal(first, again)
    for result, other in zip(results, repeated, strict=True):
        assert torch.equal(result.observations, other.observations)
        assert torch.equal(result.rewards, other.rewards)


def test_both_modes_give_the_same_rewards_and_ends_up_to_the_first_reset(
    view: type[Driven], mode: str, task: str
) -> None:
    other_mode = "lazy" if mode == "same_step" else "same_step"
    _, results = played(driven(view, mode, task))
    _, others = played(driven(Bare, other_mode, task))
    going_on = torch.ones(5, dtype=torch.bool)
    for result, other in zip(results, others, strict=True):
        assert torch.equal(result.rewards[going_on], other.rewards[going_on])
        assert torch.equal(result.ended[going_on], other.ended[going_on])
        going_on &= ~result.ended
    assert not going_on.any()


def test_integer_actions_reach_the_task_as_integers_and_no_action_is_written(
    view: type[Driven], mode: str, task: str
) -> None:
    player = driven(view, mode, task)
    player.reset()
    given: list[torch.Tensor] = []
    original = player.env.task.pre_physics_step

    def noting(actions: torch.Tensor) -> None:
        given.append(actions.clone())
        original(actions)
        actions.fill_(0)

    player.env.task.pre_physics_step = noting  # type: ignore[method-assign]
    actions = random_actions(player.env, 0)
    before = actions.clone()
    player.step(actions)
    assert torch.equal(actions, before)
    assert torch.equal(given[0], before)
    assert given[0].dtype == (torch.int64 if "snake" in task else torch.float32)
