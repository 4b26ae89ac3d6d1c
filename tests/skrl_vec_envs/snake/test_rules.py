"""Parameters that are not legal."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from skrl_vec_envs.snake import Snake


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"num_envs": 0}, "num_envs must be a positive int, got 0"),
        ({"num_envs": 2.0}, r"num_envs must be a positive int, got 2\.0"),
        ({"height": 0}, "height must be a positive int, got 0"),
        ({"width": -3}, "width must be a positive int, got -3"),
        ({"width": True}, "width must be a positive int, got True"),
        ({"start_length": 0}, "start_length must be a positive int, got 0"),
        ({"start_length": 100}, "start_length=100 and a free cell each need 101 cells, got 10 x 10 = 100"),
        ({"height": 1, "width": 2}, "num_snakes=1 with start_length=3 .* need 4 cells, got 1 x 2 = 2"),
        ({"height": 3, "num_snakes": 8}, "the board is too small: num_snakes=8 .* need 32 cells, got 3 x 10 = 30"),
        ({"num_snakes": 0}, "num_snakes must be a positive int, got 0"),
        (
            {"num_snakes": 20, "food_per_snake": 7},
            "126 snakes and pieces of food .* num_snakes=20 with food_per_snake=7",
        ),
        ({"max_length": 3}, "max_length must be more than start_length, got 3 and 3: a snake that cannot grow has won"),
        ({"max_length": 0}, "max_length must be a positive int, or None for no limit, got 0"),
        ({"rules": "nokia"}, "rules must be 'classic' or 'multisnake', got 'nokia'"),
        ({"reversing": "turns"}, "reversing must be 'straight' or 'kills', got 'turns'"),
        ({"tail": "stays"}, "tail must be 'free' or 'blocked', got 'stays'"),
        ({"moves": "random"}, "moves must be 'simultaneous' or 'in_order', got 'random'"),
        ({"deaths": "never"}, "deaths must be 'respawn' or 'end', got 'never'"),
        ({"food_colours": 1}, "food_colours must be True or False, got 1"),
        ({"max_steps": 0}, "max_steps must be a positive int, or None for no limit, got 0"),
        ({"hunger_limit": 1.5}, r"hunger_limit must be a positive int, or None for no limit, got 1\.5"),
        ({"food_reward": float("nan")}, "food_reward must be a finite number, got nan"),
        ({"death_reward": None}, "death_reward must be a finite number, got None"),
        ({"win_reward": float("inf")}, "win_reward must be a finite number, got inf"),
        ({"step_reward": "0"}, "step_reward must be a finite number, got '0'"),
        ({"actions": "diagonal"}, "actions must be 'absolute' or 'relative', got 'diagonal'"),
        ({"observation": "pixels"}, "observation must be one of 'planes', 'flat', 'window', 'entities', got 'pixels'"),
        ({"dtype": torch.float64}, r"dtype must be torch\.float32 or torch\.uint8, got torch\.float64"),
        (
            {"observation": "entities", "dtype": torch.uint8},
            "entities have coordinates: their dtype must be torch.float32",
        ),
        ({"window": 4}, "window must be an odd int from 3 on, so that it has a centre, got 4"),
        ({"observation": "window", "shared": True}, "a window is around a snake's head: with shared=True use 'planes'"),
        ({"rules": ["classic"]}, r"rules must be 'classic' or 'multisnake', got \['classic'\]"),
        ({"shared": 2}, "shared must be True or False, got 2"),
        ({"sync_free": "yes"}, "sync_free must be True, False, or None for all devices but CPUs, got 'yes'"),
        ({"device": "nowhere"}, r"device must be one that torch can use here, got 'nowhere' \(Expected one of cpu"),
        ({"device": 1.5}, r"device must be one that torch can use here, got 1\.5"),
        ({"backend": "numba", "device": "cuda:99"}, "plays on CPUs only, got device cuda:99: use backend='torch'"),
        ({"device": "cuda:99"}, "device must be one that torch can use here, got 'cuda:99'"),
        ({"render_mode": "human"}, "render_mode must be 'ansi' or 'rgb_array', got 'human'"),
        ({"final_obs": "some"}, "final_obs must be 'all' or 'ended', got 'some'"),
        (
            {"final_obs": "ended", "sync_free": True},
            "has a shape that depends on data: with sync_free use final_obs='all'",
        ),
        ({"threads": 0}, "threads must be a positive int, or None for torch's number, got 0"),
        ({"backend": "jax"}, "backend must be 'auto', 'numba' or 'torch', got 'jax'"),
        (
            {"backend": "numba", "device": "meta"},
            "numba backend plays on CPUs only, got device meta: use backend='torch'",
        ),
        ({"backend": "numba", "sync_free": True}, "sync_free is of the torch backend, got backend='numba'"),
        ({"seed": -1}, r"seed must be an int from 0 to 2\*\*63 - 1, got -1"),
        ({"seed": 2**63}, r"seed must be an int from 0 to 2\*\*63 - 1, got 9223372036854775808"),
        ({"first_board": None}, r"first_board must be an int from 0 to 2\*\*63 - 1, got None"),
    ],
)
def test_a_parameter_that_is_not_legal_is_refused_with_rule_value_and_fix(
    parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Snake(**{"num_envs": 2, **parameters})


def test_a_rule_that_does_not_exist_is_refused_with_a_list_of_those_that_do() -> None:
    with pytest.raises(TypeError, match="there is no rule 'colour': the rules are start_length, max_length"):
        Snake(2, colour=1)


def test_multisnake_rewards_all_food_together_with_one() -> None:
    assert Snake(1, rules="multisnake").rules.food_reward == 1 / 9
    assert Snake(1, rules="multisnake", num_snakes=2, max_length=5).rules.food_reward == 1 / 8
    assert Snake(1, rules="multisnake", food_reward=2.0).rules.food_reward == 2.0
