"""Both libraries train on the same task object, and solve the cartpole."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import omni_tasks
import ppo_omni_skrl
from tests.skrl_vec_envs.rl_games_or_skip import rl_games_view

NINETY_PERCENT = 0.9 * 500.0  # of the maximal return: 500 steps, each with a reward of at most 1


def test_skrl_reaches_ninety_percent_of_the_cartpoles_return_with_a_shared_trunk() -> None:
    mean_return, passes = ppo_omni_skrl.train("cartpole", num_envs=64, timesteps=2400, seed=0)
    assert mean_return > NINETY_PERCENT
    assert passes < 1.1


def test_skrl_trains_on_the_snake(capsys: pytest.CaptureFixture[str]) -> None:
    ppo_omni_skrl.main(["--task", "snake", "--timesteps", "640", "--num-envs", "32"])
    words = capsys.readouterr().out.split("mean return of the last episodes: ")[1].split()
    assert float(words[0]) > -0.5  # chance gets -0.75


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_rl_games_reaches_ninety_percent_of_the_cartpoles_return(tmp_path: Path) -> None:
    rl_games_view()
    import ppo_omni_rl_games

    assert ppo_omni_rl_games.train("cartpole", 64, 2400, 0, str(tmp_path)) > NINETY_PERCENT


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_rl_games_trains_on_the_snake(capsys: pytest.CaptureFixture[str]) -> None:
    rl_games_view()
    import ppo_omni_rl_games

    ppo_omni_rl_games.main(["--task", "snake", "--timesteps", "640", "--num-envs", "32"])
    words = capsys.readouterr().out.split("mean return of the last episodes: ")[1].split()
    assert float(words[0]) > -0.5


def test_returns_are_those_of_the_episodes_that_ended() -> None:
    env = omni_tasks.make_env("cartpole", num_envs=2, seed=0)
    assert env.mean_return != env.mean_return  # NaN: no episode has ended
    env.reset()
    returns: list[float] = []
    running = env.task.rew_buf.clone()
    for _ in range(200):
        _, rewards, resets, _ = env.step(torch.ones(2, 1))
        running += rewards
        returns += running[resets > 0].tolist()
        running[resets > 0] = 0.0
    assert env.mean_return == pytest.approx(sum(returns) / len(returns), abs=1e-4)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_rl_games_repeats_a_training_with_the_same_seed_and_not_with_another_one(tmp_path: Path) -> None:
    rl_games_view()
    import ppo_omni_rl_games

    returns = [
        ppo_omni_rl_games.train("snake", num_envs=16, timesteps=128, seed=seed, folder=str(tmp_path))
        for seed in (0, 0, 1)
    ]
    assert returns[0] == returns[1]
    assert returns[0] != returns[2]
