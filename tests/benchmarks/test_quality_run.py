"""One training of the comparison: the same task, the same steps and the same count of returns for each library."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
import torch
from torch import nn

from ..processes import python
from . import conftest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from quality_run import train
    from quality_tasks import TASKS, make_env, rl_games_config

from skrl_shared_cache.rl_games import convert


@pytest.fixture
def trunk_passes() -> Any:
    """Counts the calls of the first layer of the trunk."""
    calls = [0]

    def count(module: nn.Module, *_: Any) -> None:
        calls[0] += isinstance(module, nn.Linear) and module.in_features == 4

    hook = nn.modules.module.register_module_forward_pre_hook(count)
    yield calls
    hook.remove()


@pytest.mark.parametrize("task", TASKS)
def test_nothing_of_the_configuration_is_lost_on_the_way_to_skrl(task: str) -> None:
    conversion = convert(rl_games_config(task, 1, 640))
    assert conversion.notes.not_mapped == []
    assert conversion.config["agent"]["value_clip"] == 0.0
    assert conversion.config["agent"]["learning_rate_scheduler"] is None


@pytest.mark.parametrize("task", TASKS)
def test_returns_are_the_sums_of_the_rewards_of_the_episodes_that_ended(task: str) -> None:
    env = make_env(task, seed=1)
    env.reset()
    expected: list[tuple[int, float]] = []
    running = [0.0] * env.num_envs
    for step in range(1, 61):
        _, rewards, resets, _ = env.step(env.zero_actions())
        for i in range(env.num_envs):
            running[i] += float(rewards[i])
            if resets[i]:
                expected.append((step, running[i]))
                running[i] = 0.0
    assert [step for step, _ in env.ended] == [step for step, _ in expected]
    assert [value for _, value in env.ended] == pytest.approx([value for _, value in expected], abs=1e-4)
    assert len(expected) > 20


def test_a_reset_begins_the_record_anew() -> None:
    env = make_env("cartpole", seed=1)
    env.reset()
    for _ in range(60):
        env.step(torch.ones(env.num_envs, 1))
    assert env.ended
    env.reset()
    assert (env.steps, env.ended) == (0, [])


def test_only_the_shared_model_runs_its_trunk_once_per_pair(trunk_passes: list[int]) -> None:
    train("cartpole", "skrl", 1, 64)
    plain, trunk_passes[0] = trunk_passes[0], 0
    train("cartpole", "SharedModel", 1, 64)
    assert plain > 2 * 64 + 2 * 40  # two per step and per minibatch, and the last values
    assert trunk_passes[0] < 0.6 * plain


def test_plain_and_shared_models_begin_with_the_same_episodes() -> None:
    plain, shared = (train("cartpole", library, 1, 64).ended for library in ("skrl", "SharedModel"))
    first = [episode for episode in plain if episode[0] <= 33]  # the step after the first update has its actions
    assert first == [episode for episode in shared if episode[0] <= 33]
    assert first


def test_seeds_differ_and_a_seed_repeats_itself() -> None:
    first, again, other = (train("snake", "SharedModel", seed, 32).ended for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_library_that_makes_another_number_of_steps_is_found_out() -> None:
    with pytest.raises(RuntimeError, match="skrl must make 40 steps in each environment, it made 32"):
        train("cartpole", "skrl", 1, 40)


def test_only_the_minibatches_of_rl_games_are_shuffled() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it uses what torch and NumPy have deprecated since
        pytest.importorskip("rl_games", reason="rl_games is not installed (extra rl-games)")
    script = str(conftest.BENCHMARKS / "quality_run.py")
    slices, shuffled = (
        json.loads(python("-W", "ignore", script, "cartpole", library, "1", "96"))
        for library in ("rl_games", "rl_games, shuffled")
    )
    first = [episode for episode in slices if episode[0] <= 33]  # nothing has been learned
    assert first == [episode for episode in shuffled if episode[0] <= 33]
    assert first
    assert slices != shuffled
