"""PPO by rl_games 1.6.5 on a task in the manner of OmniIsaacGymEnvs. Needs the extra ``rl-games``.

ppo_omni_skrl.py trains on the same task by skrl.
"""

# mypy: disable-error-code="import-not-found,import-untyped"
from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from typing import Any

from rl_games.torch_runner import Runner

from omni_tasks import TASKS, CountedEnv, make_env
from skrl_vec_envs.views.rl_games import register

HORIZON = 32
CONTINUOUS = {
    "mu_activation": "None",
    "sigma_activation": "None",
    "mu_init": {"name": "default"},
    "sigma_init": {"name": "const_initializer", "val": -0.5},
    "fixed_sigma": True,
}


def config(task: str, num_envs: int, timesteps: int, seed: int, folder: str) -> dict[str, Any]:
    """Write rl_games' configuration, with the hyperparameters of ppo_omni_skrl.py."""
    discrete = task == "snake"
    return {
        "params": {
            "seed": seed + 1,  # rl_games takes 0 for none
            "algo": {"name": "a2c_discrete" if discrete else "a2c_continuous"},
            "model": {"name": "discrete_a2c" if discrete else "continuous_a2c_logstd"},
            "network": {
                "name": "actor_critic",
                "separate": False,
                "space": {"discrete": {}} if discrete else {"continuous": CONTINUOUS},
                "mlp": {"units": [64, 64], "activation": "elu", "initializer": {"name": "default"}},
            },
            "config": {
                "name": task,
                "full_experiment_name": task,
                "train_dir": folder,
                "env_name": task,
                "env_config": {"num_envs": None},
                "device": "cpu",
                "device_name": "cpu",
                "torch_compile": False,
                "mixed_precision": False,
                "multi_gpu": False,
                "ppo": True,
                "num_actors": num_envs,
                "horizon_length": HORIZON,
                "minibatch_size": HORIZON * num_envs // 4,
                "mini_epochs": 5,
                "max_epochs": timesteps // HORIZON,
                "save_best_after": timesteps,
                "save_frequency": 0,
                "gamma": 0.99,
                "tau": 0.95,
                "learning_rate": 1e-3,
                "lr_schedule": None,
                "e_clip": 0.2,
                "entropy_coef": 0.01 if discrete else 0.0,
                "critic_coef": 1.0,
                "clip_value": False,
                "bounds_loss_coef": 0.0,
                "grad_norm": 0.5,
                "truncate_grads": True,
                "normalize_input": False,
                "normalize_value": True,
                "normalize_advantage": True,
                "value_bootstrap": True,
                "reward_shaper": {"scale_value": 1.0 if discrete else 0.1},
            },
        }
    }


def train(task: str, num_envs: int, timesteps: int, seed: int, folder: str) -> float:
    """Train.

    :param task: Name of the task.
    :param num_envs: Number of environments.
    :param timesteps: Steps of each environment.
    :param seed: Seed.
    :param folder: Where rl_games writes its logs and checkpoints.

    :return: Mean return of the last episodes.
    """
    made: list[CountedEnv] = []

    def factory(num_envs: int, **_: Any) -> CountedEnv:  # rl_games adds its seed
        made.append(make_env(task, num_envs, seed))
        return made[-1]

    register(task, factory)
    runner = Runner()
    runner.load(config(task, num_envs, timesteps, seed, folder))
    runner.run({"train": True, "play": False})
    return made[0].mean_return


def main(argv: Sequence[str] | None = None) -> None:
    """Train, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--task", choices=TASKS, default="cartpole", help="what to train on")
    parser.add_argument("--timesteps", type=int, default=2400, help="steps of every environment")
    parser.add_argument("--num-envs", type=int, default=64, help="environments that are stepped together")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights, the actions and the task")
    parser.add_argument("--output", help="folder of logs and checkpoints (none: a temporary one)")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as temporary:
        mean_return = train(args.task, args.num_envs, args.timesteps, args.seed, args.output or temporary)
    print(f"mean return of the last episodes: {mean_return:.2f}")


if __name__ == "__main__":
    main()
