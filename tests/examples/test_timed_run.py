"""One training at a time, and two in turns."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from torch import nn

import ppo_snake
from timed_run import CallCount, TimedRun

NO_LOGS = {"write_interval": 0, "checkpoint_interval": 0}


def make_run(seed: int = 0) -> TimedRun:
    torch.manual_seed(seed)
    env = ppo_snake.make_env(num_envs=4, board=5, device="cpu", seed=seed)
    return TimedRun(ppo_snake.make_agent("plain", env, NO_LOGS), env)


def test_runs_that_take_turns_learn_what_each_learns_alone() -> None:
    alone = make_run()
    alone.iterate()
    alone.iterate()
    run, other = make_run(), make_run(seed=1)
    for training in (run, other, other, run):
        training.iterate()
    assert torch.equal(run.parameters(), alone.parameters())


def test_a_run_leaves_the_global_random_numbers_alone() -> None:
    run = make_run()
    before = torch.get_rng_state()
    run.iterate()
    assert torch.equal(torch.get_rng_state(), before)


def test_returns_are_the_sums_of_the_rewards_of_the_episodes_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    env = ppo_snake.make_env(num_envs=2, board=5, device="cpu", seed=0)
    step, calls = env.step, iter(range(1, 1000))

    def three_steps_per_episode(actions: torch.Tensor) -> tuple[Any, ...]:
        observations, rewards, terminated, truncated, infos = step(actions)
        i = next(calls)
        rewards[:, 0] = torch.tensor([1.0, 10.0]) * i
        return observations, rewards, torch.full_like(terminated, i % 3 == 0), torch.zeros_like(truncated), infos

    monkeypatch.setattr(env, "step", three_steps_per_episode)
    run = TimedRun(ppo_snake.make_agent("plain", env, NO_LOGS), env)
    first, second = run.iterate().returns, run.iterate().returns
    assert first[:4] == [1 + 2 + 3, 10 * (1 + 2 + 3), 4 + 5 + 6, 10 * (4 + 5 + 6)]
    assert len(first) == 2 * (32 // 3)
    assert second[0] == 31 + 32 + 33  # the episode goes on in the next iteration


def test_the_time_after_the_interaction_is_the_update_and_the_rest_the_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    env = ppo_snake.make_env(num_envs=2, board=5, device="cpu", seed=0)
    agent = ppo_snake.make_agent("plain", env, NO_LOGS)
    monkeypatch.setattr(agent, "post_interaction", lambda **_: time.sleep(0.01))
    run = TimedRun(agent, env)
    wall = time.perf_counter()
    iteration = run.iterate()
    wall = time.perf_counter() - wall
    assert iteration.update >= 32 * 0.01
    assert 0 < iteration.rollout <= wall - iteration.update
    assert iteration.total == iteration.rollout + iteration.update


def test_calls_of_a_module_are_counted_wherever_they_come_from() -> None:
    layer = nn.Linear(2, 2)
    count = CallCount(layer)
    net = nn.Sequential(layer, layer)
    net(torch.zeros(1, 2))
    layer(torch.zeros(1, 2))
    assert count.calls == 3
