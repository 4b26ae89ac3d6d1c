"""The batched games against the plain one, step by step and bit for bit.

``SNAKE_COMPARED_STEPS=1000000`` compares that many steps of boards instead of some thousands.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from skrl_vec_envs.snake import Snake
from tests.skrl_vec_envs.snake.backends import BACKENDS, INSTALLED
from tests.skrl_vec_envs.snake.plain_snake import PlainSnake

COMPARED_STEPS = int(os.environ.get("SNAKE_COMPARED_STEPS", "0"))
# powers of two, so that sums are exact, and no two sums of them are equal
REWARDS = {"food_reward": 1.0, "death_reward": -2.0, "win_reward": 4.0, "step_reward": -0.125}
OBSERVATIONS = ("planes", "flat", "window", "entities")
Player = Callable[[PlainSnake], list[int]]


@st.composite
def environments(draw: st.DrawFn) -> dict[str, Any]:
    """Draw any legal rules and any observation of a small board."""
    snakes, length = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    height = draw(st.integers(1, 6))
    least = -(-snakes * (length + 1) // height)
    width = draw(st.integers(least, max(least, 6)))
    observation = draw(st.sampled_from(OBSERVATIONS))
    return {
        "height": height,
        "width": width,
        "num_snakes": snakes,
        "rules": draw(st.sampled_from(("classic", "multisnake"))),
        "actions": draw(st.sampled_from(("absolute", "relative"))),
        "start_length": length,
        "max_length": draw(st.none() | st.integers(length + 1, length + 8)),
        "food_per_snake": draw(st.integers(1, 3)),
        "food_colours": draw(st.booleans()),
        "reversing": draw(st.sampled_from(("straight", "kills"))),
        "tail": draw(st.sampled_from(("free", "blocked"))),
        "moves": draw(st.sampled_from(("simultaneous", "in_order"))),
        "deaths": draw(st.sampled_from(("respawn", "end"))),
        "max_steps": draw(st.none() | st.integers(1, 30)),
        "hunger_limit": draw(st.none() | st.integers(1, 20)),
        "observation": observation,
        "window": draw(st.sampled_from((3, 5, 9))),
        "shared": observation != "window" and draw(st.booleans()),
        **REWARDS,
    }


def careful(care: float, seed: int = 0) -> Player:
    """Return a player that makes careful actions with probability ``care``, and any others."""
    generator = random.Random(seed)

    def play(game: PlainSnake) -> list[int]:
        actions = game.careful_actions(generator)
        return [a if generator.random() < care else generator.randrange(game.rules.num_actions) for a in actions]

    return play


def compare(
    parameters: dict[str, Any],
    play: Player,
    *,
    steps: int,
    boards: int = 3,
    seed: int = 0,
    first_board: int = 0,
    **options: Any,
) -> Counter[str]:
    """Play both games with the same actions, assert that they agree in everything, and count what happened."""
    env = Snake(boards, **parameters, seed=seed, first_board=first_board, **options)
    rules, seen_by = env.rules, env.observation
    view: dict[str, Any] = {"kind": seen_by.kind, "window": seen_by.window, "shared": seen_by.shared}
    games = [PlainSnake(rules, seed=seed, board=first_board + i, **view) for i in range(boards)]

    def viewed(observations: torch.Tensor) -> Any:
        return observations.view(boards, seen_by.num_viewers, *seen_by.shape).tolist()

    def per_snake(values: torch.Tensor) -> Any:
        return values.view(boards, rules.num_snakes).tolist()

    assert viewed(env.reset()[0]) == [game.observations() for game in games]
    returns, lives = torch.zeros(boards, rules.num_snakes), torch.zeros(boards, rules.num_snakes, dtype=torch.int64)
    seen: Counter[str] = Counter()
    for _ in range(steps):
        actions = [play(game) for game in games]
        expected = [game.step(moves) for game, moves in zip(games, actions, strict=True)]
        result = env.step(torch.tensor(actions).view(env.batch_shape))
        observations, rewards, terminated, truncated, infos = result
        assert per_snake(terminated) == [step.terminated for step in expected]
        assert per_snake(truncated) == [step.truncated for step in expected]
        assert per_snake(rewards) == torch.tensor([step.rewards for step in expected]).tolist()
        assert per_snake(infos["length"]) == [step.lengths for step in expected]
        assert viewed(observations) == [step.observations for step in expected]
        assert viewed(infos["final_obs"]) == [step.final_observations for step in expected]
        ended = terminated | truncated
        assert torch.equal(infos["final_mask"], ended)
        returns, lives = returns + rewards.view_as(returns), lives + 1
        assert torch.equal(infos["episode_return"].view_as(returns), returns)
        assert torch.equal(infos["episode_length"].view_as(lives), lives)
        returns, lives = (x.masked_fill(ended.view_as(x), 0) for x in (returns, lives))
        for step in expected:
            full = sum(step.lengths) == rules.num_cells and all(step.terminated)
            seen["full boards"] += full
            seen["deaths"] += 0 if full else sum(step.terminated)
            seen["truncations"] += sum(step.truncated)
            seen["meals"] += sum(reward > 0 for reward in step.rewards)
    return seen


@settings(max_examples=COMPARED_STEPS // 120 or 30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    parameters=environments(),
    seed=st.integers(0, 2**63 - 1),
    first_board=st.integers(0, 2**40),
    boards=st.integers(1, 4),
    backend=st.sampled_from(INSTALLED),
    sync_free=st.booleans(),
    care=st.sampled_from((0.0, 0.9, 1.0)),
)
def test_every_rule_seed_and_batch_plays_the_plain_game(
    parameters: dict[str, Any], backend: str, sync_free: bool, care: float, seed: int, **options: Any
) -> None:
    options["sync_free"] = sync_free if backend == "torch" else None
    compare(parameters, careful(care, seed), steps=40, seed=seed, backend=backend, **options)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("height", "width"), [(2, 2), (1, 4), (2, 3), (3, 3)])
def test_tiny_boards_are_filled_and_won_as_in_the_plain_game(height: int, width: int, backend: Any) -> None:
    parameters = {**REWARDS, "height": height, "width": width}
    seen = compare(parameters, careful(0.98), steps=150, boards=8, backend=backend)
    assert seen["full boards"] >= 10
    assert seen["deaths"] >= 1


def round_trip(game: PlainSnake) -> list[int]:
    """Follow a way through all cells and back to its beginning, which fills any board of an even height."""
    (row, column), last = game.snakes[0].cells[0], game.rules.height - 1
    if column == 0:
        return [0 if row > 0 else 3]  # up along the first column
    if row % 2 == 0:
        return [3 if column < game.rules.width - 1 else 1]
    return [2 if column > 1 or row == last else 1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("height", "width"), [(4, 4), (6, 5)])
def test_a_player_on_a_round_trip_fills_the_board_with_the_longest_legal_snake(
    height: int, width: int, backend: Any
) -> None:
    parameters: dict[str, Any] = {**REWARDS, "height": height, "width": width, "start_length": 1}
    parameters |= {"max_steps": None, "reversing": "kills"}  # a start in the other direction turns round
    seen = compare(parameters, round_trip, steps=3 * (height * width) ** 2 // 4, boards=2, backend=backend)
    assert seen["full boards"] >= 2
    assert seen["deaths"] == 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rules", ["classic", "multisnake"])
@pytest.mark.parametrize(
    ("height", "width", "num_snakes", "observation"),
    [(2, 2, 1, "planes"), (7, 12, 2, "entities"), (10, 10, 4, "planes"), (12, 9, 8, "window"), (40, 40, 8, "planes")],
)
def test_the_presets_agree_on_boards_of_all_sizes(
    rules: str, backend: Any, height: int, width: int, num_snakes: int, observation: str
) -> None:
    sizes = {"height": height, "width": width, "num_snakes": num_snakes}
    parameters: dict[str, Any] = {**sizes, "rules": rules, "observation": observation, "hunger_limit": 30}
    if height == 2:
        parameters |= {"max_length": None, "start_length": 1}
    steps = max(40, COMPARED_STEPS // 40) if height < 40 else max(3, COMPARED_STEPS // 4000)
    seen = compare(parameters, careful(0.95), steps=steps, boards=2, seed=3, backend=backend)
    assert seen["deaths"] + seen["truncations"] + seen["meals"] > 0 or steps < 40


@pytest.mark.parametrize("backend", BACKENDS)
def test_crowded_boards_on_which_a_snake_finds_no_room_begin_anew_as_in_the_plain_game(backend: Any) -> None:
    parameters = {**REWARDS, "height": 3, "width": 6, "num_snakes": 4, "start_length": 3, "max_steps": None}
    seen = compare(parameters, careful(0.7), steps=150, boards=4, backend=backend)
    assert seen["truncations"] > 20  # there is no other reason for one here
