"""Parameters that are not legal."""

from __future__ import annotations

from typing import Any

import pytest

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
        ({"start_length": 100}, "at least one free cell .* got 100 on a board of 10 x 10 = 100 cells; use at most 99"),
        ({"height": 1, "width": 2}, "got 3 on a board of 1 x 2 = 2 cells; use at most 1"),
        ({"height": 1, "width": 1, "start_length": 1}, "a board of 1 x 1 = 1 cells has no room for snake and food"),
        ({"max_steps": 0}, "max_steps must be a positive int, or None for no limit, got 0"),
        ({"hunger_limit": 1.5}, r"hunger_limit must be a positive int, or None for no limit, got 1\.5"),
        ({"food_reward": float("nan")}, "food_reward must be a finite number, got nan"),
        ({"death_reward": None}, "death_reward must be a finite number, got None"),
        ({"win_reward": float("inf")}, "win_reward must be a finite number, got inf"),
        ({"step_reward": "0"}, "step_reward must be a finite number, got '0'"),
        ({"actions": "diagonal"}, r"actions must be one of \['absolute', 'relative'\], got 'diagonal'"),
        ({"observation": "pixels"}, "observation must be 'planes' or 'flat', got 'pixels'"),
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
