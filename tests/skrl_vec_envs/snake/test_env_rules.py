"""Each rule of the game, on a board drawn for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from skrl_vec_envs.snake import Snake
from tests.skrl_vec_envs.snake.backends import BACKENDS
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


@pytest.mark.parametrize("backend", BACKENDS)
def test_heads_that_meet_die_both_whatever_their_numbers_and_the_food_there_stays(backend: Any) -> None:
    for drawing in ("10*ab ..... +....", "ba*01 ..... +...."):
        env = snake_on(drawing, deaths="end", backend=backend)
        to_the_middle = [RIGHT, LEFT] if drawing[0] == "1" else [LEFT, RIGHT]
        _, rewards, terminated, _, infos = moved(env, to_the_middle)
        assert terminated.tolist() == [[True, True]]
        assert rewards.tolist() == [[-1.0, -1.0]]
        assert infos["final_obs"][0, 0, 2, 0, 2] == 1.0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("drawing", ["10ab. ....* ....+", ".0a.. ....* ....+"])
def test_heads_that_change_places_die_both_also_without_a_body(drawing: str, backend: Any) -> None:
    env = snake_on(drawing, heading=None if "1" in drawing else UP, deaths="end", backend=backend)
    assert moved(env, [RIGHT, LEFT])[2].tolist() == [[True, True]]
    assert moved(snake_on(drawing, heading=UP, moves="in_order", backend=backend), [RIGHT, UP])[2][0, 0].item()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("other", "dies"), [(RIGHT, True), (DOWN, False)])
def test_the_cell_that_anothers_tail_leaves_is_free_unless_that_one_eats(other: int, dies: bool, backend: Any) -> None:
    env = snake_on("0ba*. 1.... ....+", backend=backend)
    assert moved(env, [RIGHT, other])[2].tolist() == [[dies, False]]
    assert moved(snake_on("0ba*. 1.... ....+", tail="blocked", backend=backend), [RIGHT, DOWN])[2][0, 0].item()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_snake_that_dies_starts_anew_and_the_others_go_on(backend: Any) -> None:
    env = snake_on("10.... ...... ..ba.. .....* .....+", backend=backend)
    _, rewards, terminated, _, infos = moved(env, [UP, RIGHT])
    assert terminated.tolist() == [[True, False]]
    assert rewards.tolist() == [[-1.0, 0.0]]
    assert infos["length"].tolist() == [[2, 2]]
    _, _, _, _, infos = moved(env, [int(env.boards.heading[0, 0]), RIGHT])
    assert infos["episode_length"].tolist() == [[1, 2]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_with_deaths_that_end_the_board_all_begin_anew_and_only_the_dead_pay(backend: Any) -> None:
    env = snake_on("10.... ...... ..ba.. .....* .....+", deaths="end", backend=backend)
    _, rewards, terminated, _, _ = moved(env, [UP, RIGHT])
    assert (terminated.tolist(), rewards.tolist()) == ([[True, True]], [[-1.0, 0.0]])
    assert env.boards.length.tolist() == [[1, 1]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_food_of_anothers_colour_kills_and_stays(backend: Any) -> None:
    env = snake_on("10+... ...... .*.ab.", food_colours=True, deaths="end", backend=backend)
    _, _, terminated, _, infos = moved(env, [RIGHT, LEFT])
    assert terminated.all()
    assert infos["final_obs"][0, 0, 5, 0, 2] == 1.0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("drawing", "dies"), [(".0...*", False), ("10...*", True), ("210..*", True)])
def test_a_reversal_that_kills_does_so_from_two_segments_on(drawing: str, dies: bool, backend: Any) -> None:
    env = snake_on(drawing, heading=RIGHT, reversing="kills", backend=backend)
    assert moved(env, LEFT)[2].item() is dies


@pytest.mark.parametrize("backend", BACKENDS)
def test_at_the_greatest_length_a_snake_has_won_and_in_company_eats_without_growing(backend: Any) -> None:
    assert moved(snake_on("10*... ......", max_length=3, backend=backend), RIGHT)[1].item() == 2.0
    env = snake_on("210*.. ...... ...+ab", max_length=3, food_colours=True, backend=backend)
    _, rewards, terminated, _, infos = moved(env, [RIGHT, UP])
    assert (rewards.tolist(), terminated.tolist()) == ([[0.0, 0.0]], [[False, False]])
    assert infos["length"].tolist() == [[3, 2]]
    assert env.boards.food[0, 0] != 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_window_is_turned_to_the_heading_with_relative_actions_only(backend: Any) -> None:
    drawing = "..... .10*. ....."
    fixed = snake_on(drawing, observation="window", window=3, backend=backend)._game.draw()[0, 0]
    assert fixed[1].tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 0]]
    assert fixed[2].tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 0]]
    turned = snake_on(drawing, observation="window", window=3, actions="relative", backend=backend)._game.draw()[0, 0]
    assert turned[1].tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert turned[2].tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert not fixed[0].any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_entities_are_listed_with_kind_column_row_and_colour_seen_from_each_snake(backend: Any) -> None:
    env = snake_on("10.. *.ab", observation="entities", food_colours=True, rules="multisnake", backend=backend)
    own, others = env._game.draw()[0].tolist()
    assert own[:5] == [[1, 1, 0, 0], [1, 2, 1, 1], [2, 0, 0, 0], [2, 3, 1, 1], [3, 0, 1, 0]]
    assert [entity[3] for entity in others[:5]] == [1, 0, 1, 0, 1]
    assert not any(map(any, own[5:]))
