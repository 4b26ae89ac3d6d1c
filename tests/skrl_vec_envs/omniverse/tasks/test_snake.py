"""The snake as a task plays the games of the snake."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from skrl_vec_envs.omniverse import SimConfig, VecEnv
from skrl_vec_envs.omniverse.tasks import SnakeTask
from skrl_vec_envs.snake import Snake

from ..support import make, random_actions

SHORT: dict[str, Any] = {"height": 4, "width": 4, "hunger_limit": 9}


@pytest.mark.parametrize("autoreset", ["lazy", "same_step"])
@pytest.mark.parametrize("num_envs", [1, 6])
def test_it_plays_the_games_of_the_snake(autoreset: Any, num_envs: int) -> None:
    env = make(SnakeTask, num_envs=num_envs, autoreset=autoreset, maxEpisodeLength=4, **SHORT)
    snake = Snake(num_envs, observation="flat", max_steps=4, seed=3, **SHORT)
    env.reset()
    snake.reset()
    snake.step(env.zero_actions())
    time_outs = 0
    for step in range(60):
        actions = random_actions(env, step)
        obs, rewards, resets, extras = env.step(actions)
        first, expected, terminated, truncated, infos = snake.step(actions)
        assert torch.equal(obs["obs"], first if autoreset == "same_step" else infos["final_obs"])
        assert torch.equal(rewards, expected)
        assert torch.equal(resets > 0, terminated | truncated)
        assert torch.equal(extras["time_outs"], truncated)
        assert torch.equal(extras["length"], infos["length"])
        time_outs += int(truncated.sum())
    assert time_outs


def test_a_reset_with_a_seed_begins_the_games_anew_and_one_without_goes_on() -> None:
    env = make(SnakeTask, **SHORT)
    first, second = env.reset(seed=5)["obs"], env.reset()["obs"]
    assert not torch.equal(first, second)
    assert torch.equal(env.reset(seed=5)["obs"], first)


def test_a_reset_begins_new_games_also_where_all_have_just_ended() -> None:
    env, snake = make(SnakeTask, num_envs=1, maxEpisodeLength=2, **SHORT), Snake(1, max_steps=2, seed=3, **SHORT)
    env.reset()
    snake.reset()
    snake.step(env.zero_actions())
    ended = False
    while not ended:
        ended = bool(env.step(env.zero_actions())[2])
        snake.step(env.zero_actions())
    env.reset()
    snake.reset()
    assert torch.equal(env.task.obs_buf.view(1, 3, 4, 4), snake.step(env.zero_actions())[4]["final_obs"])


def test_it_draws_the_first_board() -> None:
    env = make(SnakeTask, **SHORT)
    env.reset()
    assert env.render().count("@") == 1


def test_a_reset_in_the_middle_of_some_games_and_several_moves_per_step_are_refused() -> None:
    env = make(SnakeTask, **SHORT)
    env.reset()
    task: Any = env.task
    task._ended.zero_()
    task.reset_buf[:] = torch.tensor([0, 1, 0, 0])
    with pytest.raises(RuntimeError, match="reset when its game has ended, or together with all others"):
        env.step(env.zero_actions())
    with pytest.raises(ValueError, match="controlFrequencyInv must be 1 for the snake, got 2"):
        SnakeTask("snake", SimConfig({"task": {"env": {"controlFrequencyInv": 2}}}), VecEnv())
