"""Each rule of the game, on a board drawn for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from skrl_vec_envs.snake import Snake
from tests.skrl_vec_envs.snake.by_hand import DOWN, LEFT, RIGHT, UP, drawn, moved, snake_on


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (UP, "..@.. ..o.. ..... ....*"),
        (DOWN, "..... ..o.. ..@.. ....*"),
        (RIGHT, "..... ..o@. ..... ....*"),
    ],
)
def test_an_absolute_action_is_the_direction_of_the_move(action: int, expected: str) -> None:
    env = snake_on("..... .10.. ..... ....*")
    assert drawn(moved(env, action)[0][0]) == expected.split()


@pytest.mark.parametrize(
    ("heading", "row_and_column_of_left_straight_right"),
    [
        (UP, [(1, 0), (0, 1), (1, 2)]),
        (DOWN, [(1, 2), (2, 1), (1, 0)]),
        (LEFT, [(2, 1), (1, 0), (0, 1)]),
        (RIGHT, [(0, 1), (1, 2), (2, 1)]),
    ],
)
def test_a_relative_action_is_seen_from_the_snake(
    heading: int, row_and_column_of_left_straight_right: list[tuple[int, int]]
) -> None:
    for action, (row, column) in enumerate(row_and_column_of_left_straight_right):
        env = snake_on("*.. .0. ...", heading=heading, actions="relative")
        assert moved(env, action)[0][0, 0, row, column] == 1.0


@pytest.mark.parametrize("drawing", ["..... .210* .....", "..... ..10* .....", "..... ...0* ....."])
def test_reversing_goes_straight_on_whatever_the_length(drawing: str) -> None:
    env = snake_on(drawing, heading=RIGHT)
    assert moved(env, LEFT)[0][0, 0, 1, 4] == 1.0


def test_a_snake_that_eats_grows_and_its_tail_stays_for_one_move() -> None:
    env = snake_on("..... 210*. .....")
    observations, _, _, _, infos = moved(env, RIGHT)
    assert drawn(observations[0])[1].startswith("ooo@")
    assert infos["length"].item() == 4
    assert drawn(moved(env, DOWN)[0][0])[1].startswith(".ooo")


def test_the_cell_that_the_tail_leaves_is_free() -> None:
    env = snake_on("01. 32. ..*")
    _, _, terminated, _, infos = moved(env, DOWN)
    assert not terminated
    assert drawn(infos["final_obs"][0]) == ["oo.", "@o.", "..*"]


def test_the_cell_before_the_tail_is_not_free() -> None:
    env = snake_on("01. 32. 4.*")
    assert moved(env, DOWN)[2].item()


@pytest.mark.parametrize(
    ("drawing", "action"), [("0. 1* ..", UP), ("*. 1. 0.", DOWN), ("01 .*", LEFT), ("10 .*", RIGHT)]
)
def test_the_wall_kills_on_all_four_sides(drawing: str, action: int) -> None:
    _, rewards, terminated, truncated, _ = moved(snake_on(drawing), action)
    assert (terminated.item(), truncated.item(), rewards.item()) == (True, False, -1.0)


def test_a_fatal_move_is_not_made_so_the_final_observation_is_the_board_before_it() -> None:
    env = snake_on(".10 ..* ...")
    assert drawn(moved(env, RIGHT)[4]["final_obs"][0]) == [".o@", "..*", "..."]


def test_a_full_board_is_a_win_that_terminates_without_food_left() -> None:
    env = snake_on("10* 234", win_reward=7.0)
    _, rewards, terminated, truncated, infos = moved(env, RIGHT)
    assert (terminated.item(), truncated.item(), rewards.item()) == (True, False, 8.0)
    assert drawn(infos["final_obs"][0]) == ["oo@", "ooo"]
    assert infos["final_obs"][0, 2].sum() == 0


def test_after_an_end_the_observation_is_a_new_game_of_the_start_length() -> None:
    env = snake_on("10* 234")
    observations = moved(env, RIGHT)[0]
    assert observations[0].sum(dim=(1, 2)).tolist() == [1, 0, 1]
    assert env.boards.steps.item() == env.boards.hunger.item() == 0


def test_the_step_limit_truncates_and_does_not_terminate() -> None:
    env = snake_on("10... *....", max_steps=2)
    assert not moved(env, RIGHT)[3].item()
    _, rewards, terminated, truncated, _ = moved(env, RIGHT)
    assert (terminated.item(), truncated.item(), rewards.item()) == (False, True, 0.0)


@pytest.mark.parametrize(("drawing", "reward"), [("10 .*", -1.0), ("10* 234", 2.0)])
def test_an_end_in_the_last_step_allowed_is_a_termination_only(drawing: str, reward: float) -> None:
    _, rewards, terminated, truncated, _ = moved(snake_on(drawing, max_steps=1), RIGHT)
    assert (terminated.item(), truncated.item(), rewards.item()) == (True, False, reward)


def test_a_snake_that_does_not_eat_for_the_hunger_limit_starves() -> None:
    env = snake_on("10... *....", hunger_limit=2)
    assert not moved(env, RIGHT)[2].item()
    _, rewards, terminated, truncated, infos = moved(env, RIGHT)
    assert (terminated.item(), truncated.item(), rewards.item()) == (True, False, -1.0)
    assert drawn(infos["final_obs"][0]) == ["..o@.", "*...."]


def test_a_meal_in_the_last_moment_saves_from_starving() -> None:
    env = snake_on("10.*.. ......", hunger_limit=2)
    _, rewards, terminated, _, _ = moved(env, RIGHT, RIGHT)
    assert (terminated.item(), rewards.item()) == (False, 1.0)
    assert not moved(env, DOWN)[2].item()


@pytest.mark.parametrize(
    ("drawing", "expected"), [("10. *..", 0.5), ("10* ...", 10.5), (".10 *..", 100.5), ("10* 234", 1010.5)]
)
def test_rewards_add_up_per_event(drawing: str, expected: float) -> None:
    rewards: dict[str, Any] = {"step_reward": 0.5, "food_reward": 10.0, "death_reward": 100.0, "win_reward": 1000.0}
    assert moved(snake_on(drawing, **rewards), RIGHT)[1].item() == expected


def test_food_appears_on_each_free_cell_equally_often_and_nowhere_else() -> None:
    env = snake_on(".... 210* ....", num_envs=24_000)
    food = moved(env, RIGHT)[0][:, 2].sum(dim=0)
    free = food[[0, 2]].flatten()
    assert food[1].sum() == 0
    assert free.sum() == 24_000
    assert ((free - 3000) ** 2 / 3000).sum() < 24.3  # chi-square, 7 degrees of freedom, p = 0.001


def test_the_last_free_cell_gets_the_food() -> None:
    env = snake_on("10* 23.", num_envs=500)
    food = moved(env, RIGHT)[0][:, 2]
    assert (food.argmax(dim=-1)[:, 1] == 2).all()
    assert food.sum() == 500


def test_all_starts_are_equally_likely() -> None:
    env = Snake(42_000, height=3, width=4, start_length=3)
    env.reset()
    poses = torch.unique(env.boards.head[:, 0] * 4 + env.boards.heading[:, 0], return_counts=True)[1]
    assert len(poses) == 2 * 3  # to the left and to the right, in each row: no column has room for four cells
    assert ((poses - 7000) ** 2 / 7000).sum() < 20.5  # chi-square, 5 degrees of freedom, p = 0.001
