"""The batched game against the plain one, step by step and bit for bit."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from skrl_vec_envs.snake import Snake
from tests.skrl_vec_envs.snake.plain_snake import PlainSnake

# powers of two, so that sums are exact, and no two sums of them are equal
REWARDS = {"food_reward": 1.0, "death_reward": -2.0, "win_reward": 4.0, "step_reward": -0.125}
LIMITS = {"start_length": 3, "max_steps": None, "hunger_limit": None, "actions": "absolute"}


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    """Draw any legal rules of a small board."""
    height, width = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    if height * width == 1:
        width = 2
    return {
        "height": height,
        "width": width,
        "start_length": draw(st.integers(1, height * width - 1)),
        "max_steps": draw(st.none() | st.integers(1, 30)),
        "hunger_limit": draw(st.none() | st.integers(1, 20)),
        "actions": draw(st.sampled_from(("absolute", "relative"))),
        **REWARDS,
    }


def compare(
    rules: dict[str, Any],
    *,
    steps: int,
    boards: int = 3,
    seed: int = 0,
    first_board: int = 0,
    sync_free: bool = False,
    care: float = 0.9,
) -> Counter[str]:
    """Play both games with the same actions, assert that they agree in everything, and count what happened.

    :param care: Probability that an action is the plain game's careful one.
    """
    games = [PlainSnake(**rules, seed=seed, board=first_board + i) for i in range(boards)]
    env = Snake(boards, **rules, seed=seed, first_board=first_board, sync_free=sync_free)
    assert env.reset().tolist() == [game.observation() for game in games]
    generator = random.Random(seed)
    seen: Counter[str] = Counter()
    for _ in range(steps):
        actions = [
            game.careful_action(generator) if generator.random() < care else generator.randrange(env.rules.num_actions)
            for game in games
        ]
        seen["follows its tail"] += sum(
            len(game.snake) > 3 and game.target(action) == game.snake[-1] and not game.kills(action)
            for game, action in zip(games, actions, strict=True)
        )
        expected = [game.step(action) for game, action in zip(games, actions, strict=True)]
        observations, rewards, terminated, truncated, infos = env.step(torch.tensor(actions))
        assert observations.tolist() == [step.observation for step in expected]
        assert rewards.tolist() == [step.reward for step in expected]
        assert terminated.tolist() == [step.terminated for step in expected]
        assert truncated.tolist() == [step.truncated for step in expected]
        assert infos["final_obs"].tolist() == [step.final_observation for step in expected]
        assert infos["final_mask"].tolist() == [step.terminated or step.truncated for step in expected]
        assert infos["length"].tolist() == [step.length for step in expected]
        cells = rules["height"] * rules["width"]
        seen["wins"] += sum(step.length == cells for step in expected)
        seen["deaths"] += sum(step.terminated and step.length < cells for step in expected)
        seen["truncations"] += sum(step.truncated for step in expected)
        seen["meals"] += sum(step.reward > 0 for step in expected)
    return seen


@settings(max_examples=60)
@given(
    rules=rules(),
    seed=st.integers(0, 2**63 - 1),
    first_board=st.integers(0, 2**40),
    boards=st.integers(1, 4),
    sync_free=st.booleans(),
    care=st.sampled_from((0.0, 0.9, 1.0)),
)
def test_every_rule_seed_and_batch_plays_the_plain_game(rules: dict[str, Any], **options: Any) -> None:
    compare(rules, steps=50, **options)


@pytest.mark.parametrize("sync_free", [False, True])
@pytest.mark.parametrize(("height", "width"), [(2, 2), (1, 4), (2, 3), (3, 3)])
def test_tiny_boards_are_filled_and_won_as_in_the_plain_game(height: int, width: int, sync_free: bool) -> None:
    rules = {**LIMITS, **REWARDS, "height": height, "width": width}
    seen = compare(rules, steps=150, boards=8, sync_free=sync_free, care=0.98)
    assert seen["wins"] >= 10
    assert seen["deaths"] >= 1


def test_long_games_agree_and_their_snakes_follow_their_own_tails() -> None:
    rules = {**LIMITS, **REWARDS, "height": 4, "width": 4, "start_length": 6, "max_steps": 30}
    seen = compare(rules, steps=600, boards=4, care=1.0)
    assert min(seen[event] for event in ("follows its tail", "meals", "deaths", "truncations", "wins")) >= 3, seen


def test_a_larger_board_that_is_not_square_agrees() -> None:
    rules = {**LIMITS, **REWARDS, "height": 7, "width": 12, "max_steps": 40, "hunger_limit": 30}
    seen = compare(rules, steps=200, boards=5, seed=3)
    assert min(seen[event] for event in ("meals", "deaths", "truncations")) >= 5, seen
