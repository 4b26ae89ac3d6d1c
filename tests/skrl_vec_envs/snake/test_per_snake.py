"""Several snakes per board as environments of their own."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest
import torch
from skrl.models.torch import Model
from torch import nn

from skrl_vec_envs.snake import PerSnake, Snake
from skrl_vec_envs.views.skrl import SkrlView
from tests.skrl_shared_cache.support.agents import ROLLOUT, make_agent, train
from tests.skrl_shared_cache.support.lines import OBSERVATIONS, DiscreteActorCritic

BOARDS: dict[str, Any] = {"height": 6, "width": 5, "num_snakes": 3, "max_steps": 9}


def actions_of(seed: int, number: int) -> torch.Tensor:
    return torch.randint(4, (number,), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("final_obs", ["all", "ended"])
def test_rows_are_the_snakes_board_by_board(final_obs: Any) -> None:
    boards, view = (make(Snake(5, final_obs=final_obs, **BOARDS)) for make in (lambda env: env, PerSnake))
    assert torch.equal(view.reset()[0], boards.reset()[0].flatten(0, 1))
    for seed in range(25):
        actions = actions_of(seed, 15)
        *results, infos = view.step(actions)
        *expected, expected_infos = boards.step(actions.view(5, 3))
        for got, whole in zip(results, expected, strict=True):
            assert torch.equal(got, whole.flatten(0, 1))
        assert infos.keys() == expected_infos.keys()
        ended = infos["final_mask"]
        assert torch.equal(ended, expected_infos["final_mask"].flatten())
        if final_obs == "ended":
            assert torch.equal(infos["final_obs"], expected_infos["final_obs"])
            assert len(infos["final_obs"]) == ended.sum()
        else:
            assert torch.equal(infos["final_obs"], expected_infos["final_obs"].flatten(0, 1))
            assert infos["length"].shape == (15,)


def test_spaces_are_those_of_one_snake() -> None:
    view = PerSnake(Snake(5, dtype=torch.uint8, **BOARDS))
    assert (view.num_envs, view.single_action_space) == (15, gymnasium.spaces.Discrete(4))
    observations, _ = view.reset()
    assert view.single_observation_space.contains(observations[7].numpy())


def test_with_one_snake_per_board_it_changes_nothing() -> None:
    boards, view = Snake(4, observation="flat", max_steps=5), PerSnake(Snake(4, observation="flat", max_steps=5))
    assert view.single_observation_space == boards.single_observation_space
    assert torch.equal(view.reset()[0], boards.reset()[0])
    actions = actions_of(0, 4)
    for got, expected in zip(view.step(actions)[:4], boards.step(actions)[:4], strict=True):
        assert torch.equal(got, expected)


def test_a_shared_observation_is_refused() -> None:
    with pytest.raises(ValueError, match=r"an observation per snake.*shared=True.*use Snake\(\.\.\., shared=False\)"):
        PerSnake(Snake(4, shared=True, **BOARDS))


@pytest.mark.parametrize("shape", [(5, 3), (14,), (15, 1)])
def test_actions_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    view = PerSnake(Snake(5, **BOARDS))
    view.reset()
    with pytest.raises(ValueError, match=r"shape \(15,\), one per snake, got"):
        view.step(torch.zeros(shape, dtype=torch.int64))


def test_skrl_is_told_to_ask_for_it() -> None:
    with pytest.raises(ValueError, match=r"several snakes.*SkrlView\(skrl_vec_envs\.snake\.PerSnake\(env\)\)"):
        SkrlView(Snake(5, **BOARDS))


class Player(DiscreteActorCritic, Model):
    """One policy and value for all snakes."""

    OBSERVATION_SPACE: gymnasium.Space[Any] = PerSnake(Snake(1, dtype=torch.uint8, **BOARDS)).single_observation_space
    ACTION_SPACE: gymnasium.Space[Any] = gymnasium.spaces.Discrete(4)

    def __init__(self) -> None:
        DiscreteActorCritic.__init__(self, Model)
        self.net = nn.Sequential(nn.Linear(5 * 6 * 5, 16), nn.ELU())
        self.add_heads(16)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
        return self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)


def test_one_policy_of_skrl_learns_from_all_snakes() -> None:
    env, model = SkrlView(PerSnake(Snake(4, dtype=torch.uint8, **BOARDS))), Player()
    observations, _ = env.reset()
    assert (observations.shape, observations.dtype) == ((12, 5 * 6 * 5), torch.float32)
    agent = make_agent("PPO", model, env)
    before = [parameter.clone() for parameter in model.parameters()]
    train(agent, env, updates=1)
    assert agent.memory.get_tensor_by_name("rewards").shape == (ROLLOUT, 12, 1)
    assert all(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
