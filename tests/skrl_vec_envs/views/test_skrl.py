"""skrl's view of the snake, on the installed line of skrl."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest
import torch
from skrl.envs.wrappers.torch import Wrapper
from skrl.models.torch import Model
from skrl.utils.spaces.torch import flatten_tensorized_space, tensorize_space, unflatten_tensorized_space
from torch import nn

from skrl_vec_envs.snake import Snake
from skrl_vec_envs.views.skrl import SkrlView
from tests.skrl_shared_cache.support.agents import ROLLOUT, make_agent, train
from tests.skrl_shared_cache.support.lines import OBSERVATIONS, DiscreteActorCritic

SHORT: dict[str, Any] = {"height": 3, "width": 5, "max_steps": 9}


def actions_of(view: SkrlView, seed: int) -> torch.Tensor:
    return torch.randint(4, (view.num_envs, 1), generator=torch.Generator().manual_seed(seed))


def test_the_view_is_a_skrl_wrapper_of_single_environment_spaces() -> None:
    env = Snake(3, **SHORT)
    view = SkrlView(env)
    assert isinstance(view, Wrapper)
    assert (view.num_envs, view.num_agents, view.device) == (3, 1, env.device)
    assert view.observation_space == env.single_observation_space
    assert view.action_space == env.single_action_space
    assert view.state_space is None
    assert view.state() is None


def test_shapes_and_dtypes_are_those_that_skrl_stores() -> None:
    view = SkrlView(Snake(3, **SHORT))
    observations, infos = view.reset()
    assert (observations.shape, observations.dtype, infos) == ((3, 45), torch.float32, {})
    observations, rewards, terminated, truncated, infos = view.step(torch.zeros(3, 1, dtype=torch.int64))
    assert (observations.shape, observations.dtype) == ((3, 45), torch.float32)
    assert (rewards.shape, rewards.dtype) == ((3, 1), torch.float32)
    assert (terminated.shape, terminated.dtype) == ((3, 1), torch.bool)
    assert (truncated.shape, truncated.dtype) == ((3, 1), torch.bool)
    assert infos["final_obs"].shape == (3, 45)


@pytest.mark.parametrize("observation", ["planes", "flat"])
def test_a_step_is_the_environments_with_observations_as_skrl_flattens_them(observation: Any) -> None:
    view = SkrlView(Snake(6, observation=observation, **SHORT))
    env = Snake(6, observation=observation, **SHORT)
    view.reset()
    env.reset()
    for seed in range(30):
        actions = actions_of(view, seed)
        observations, rewards, terminated, truncated, infos = view.step(actions)
        expected = env.step(actions[:, 0])
        space = view.observation_space
        assert torch.equal(observations, flatten_tensorized_space(tensorize_space(space, expected[0])))
        assert torch.equal(unflatten_tensorized_space(space, observations), expected[0])
        assert torch.equal(unflatten_tensorized_space(space, infos["final_obs"]), expected[4]["final_obs"])
        for column, vector in zip((rewards, terminated, truncated), expected[1:4], strict=True):
            assert torch.equal(column, vector[:, None])


def test_only_the_first_reset_starts_games_and_later_ones_repeat_the_last_step() -> None:
    view = SkrlView(Snake(4, **SHORT))
    first, _ = view.reset()
    started: Any = Snake(4, observation="flat", **SHORT).reset()
    assert torch.equal(first, started[0] if isinstance(started, tuple) else started)
    assert torch.equal(view.reset()[0], first)
    for seed in range(12):
        observations, *_, infos = view.step(actions_of(view, seed))
        again, same_infos = view.reset()
        assert torch.equal(again, observations)
        assert same_infos is infos


def test_after_closing_a_reset_starts_new_games() -> None:
    view = SkrlView(Snake(4, **SHORT))
    first, _ = view.reset()
    view.close()
    assert not torch.equal(view.reset()[0], first)


def test_it_draws_the_board_that_is_asked_for() -> None:
    env = Snake(2, **SHORT)
    view = SkrlView(env)
    view.reset()
    assert view.render() == env.render(0)
    assert view.render(board=1) == env.render(1) != env.render(0)


def test_attributes_of_the_environment_are_reachable() -> None:
    assert SkrlView(Snake(2, **SHORT)).rules.width == 5


class Player(DiscreteActorCritic, Model):
    """A policy and a value on the images of the board."""

    OBSERVATION_SPACE: gymnasium.Space[Any] = Snake(1, **SHORT).single_observation_space
    ACTION_SPACE: gymnasium.Space[Any] = Snake(1, **SHORT).single_action_space

    def __init__(self) -> None:
        DiscreteActorCritic.__init__(self, Model)
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ELU(), nn.Flatten())
        self.add_heads(8 * 15)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
        images = unflatten_tensorized_space(self.observation_space, inputs[OBSERVATIONS])
        return self.answer(self.net(images), role, inputs)


@pytest.mark.parametrize("num_envs", [1, 6])
def test_ppo_trains_and_plays_on_with_a_second_call(num_envs: int) -> None:
    view, model = SkrlView(Snake(num_envs, **SHORT)), Player()
    agent = make_agent("PPO", model, view, time_limit_bootstrap=True)
    before = [parameter.clone() for parameter in model.parameters()]
    train(agent, view, updates=2)
    train(agent, view, updates=1)
    assert all(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert int(view.boards.steps.max()) <= 9
    assert agent.memory.get_tensor_by_name("rewards").shape == (ROLLOUT, num_envs, 1)


def test_ppo_learns_to_eat_more_often_than_it_dies() -> None:
    view = SkrlView(Snake(64, height=4, width=4, observation="flat", max_steps=50))

    class FlatPlayer(Player):
        OBSERVATION_SPACE = view.observation_space

        def __init__(self) -> None:
            DiscreteActorCritic.__init__(self, Model)
            self.net = nn.Sequential(nn.Linear(48, 64), nn.ELU(), nn.Linear(64, 64), nn.ELU())
            self.add_heads(64)

    agent = make_agent("PPO", FlatPlayer(), view, learning_rate=2e-3, entropy_loss_scale=0.01, discount_factor=0.95)

    def mean_reward() -> float:
        return float(agent.memory.get_tensor_by_name("rewards").mean())

    train(agent, view, updates=1)
    untrained = mean_reward()
    train(agent, view, updates=60)
    assert untrained < -0.15
    assert mean_reward() > 0.0
