"""One training of the comparison of what is learned: a task, a library and a seed, from one configuration of rl_games.

Returns are measured in the environment: the sums of its own rewards over the episodes that have ended, by the step in
which they did. Neither library's tracker has a part in it. Prints them as JSON.
"""

# mypy: disable-error-code="import-not-found,import-untyped"
from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import torch

from quality_tasks import LIBRARIES, SHUFFLED, TASKS, RecordedEnv, make_env, rl_games_config
from rl_games_rows import TwoPassRunner
from skrl_shared_cache import Runner
from skrl_shared_cache.rl_games import convert
from skrl_vec_envs import wrap_env

RUNNERS: dict[str, Any] = {"skrl": TwoPassRunner, "SharedModel": Runner}


def train(name: str, library: str, seed: int, steps: int) -> RecordedEnv:
    """Train.

    :param name: Name of the task.
    :param library: Name of the library.
    :param seed: Seed of the weights, the actions and the task, from 1 on.
    :param steps: Steps of each environment, a multiple of the horizon.

    :return: Environment after the training.

    :raises RuntimeError: The library made another number of steps.
    """
    env = make_env(name, seed)
    with contextlib.redirect_stdout(sys.stderr), tempfile.TemporaryDirectory() as folder:
        config = rl_games_config(name, seed, steps, folder)
        if library in RUNNERS:
            train_by_skrl(env, config, RUNNERS[library])
        else:
            train_by_rl_games(env, config, shuffle=library == SHUFFLED)
    if env.steps != steps:
        raise RuntimeError(f"{library} must make {steps} steps in each environment, it made {env.steps}")
    return env


def train_by_rl_games(env: RecordedEnv, config: dict[str, Any], shuffle: bool) -> None:
    """Train by rl_games' Runner.

    :param env: Environment.
    :param config: rl_games' configuration.
    :param shuffle: Whether to learn from a new permutation of the rollout in each mini-epoch, as skrl does. rl_games
        has the code for it, and no option that calls it.
    """
    from rl_games.common.algo_observer import DefaultAlgoObserver
    from rl_games.common.datasets import PPODataset
    from rl_games.torch_runner import Runner as RlGamesRunner

    from skrl_vec_envs.views.rl_games import register

    class Shuffled(PPODataset):
        def __getitem__(self, index: int) -> Any:
            if index == 0:
                self.apply_permutation()
            return super().__getitem__(index)

    class Shuffle(DefaultAlgoObserver):
        def after_init(self, algo: Any) -> None:
            super().after_init(algo)
            sizes = algo.batch_size, algo.minibatch_size
            kind = algo.is_discrete, algo.is_rnn, algo.ppo_device, algo.seq_length
            algo.dataset = Shuffled(*sizes, *kind, permute=True)

    register(config["params"]["config"]["env_name"], lambda **_: env)
    runner = RlGamesRunner(Shuffle() if shuffle else None)
    torch.set_float32_matmul_precision("highest")  # skrl's; the constructor has set another one
    runner.load(config)
    runner.run({"train": True, "play": False})


def train_by_skrl(env: RecordedEnv, config: dict[str, Any], runner: Any) -> None:
    """Train by a Runner of skrl, from the converted configuration."""
    converted = convert(config).config
    converted["agent"]["experiment"] = {"write_interval": 0, "checkpoint_interval": 0}
    converted["trainer"].update(close_environment_at_exit=False, disable_progressbar=True, headless=True)
    runner(wrap_env(env), converted).run()


def main(argv: Sequence[str] | None = None) -> None:
    """Train, and print the steps and returns of the episodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("seed", type=int)
    parser.add_argument("steps", type=int)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    print(json.dumps(train(args.task, args.library, args.seed, args.steps).ended))


if __name__ == "__main__":
    main()
