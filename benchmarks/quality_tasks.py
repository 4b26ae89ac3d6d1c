"""What is learned in the comparison of rl_games and skrl: the tasks, their environment, and rl_games' configuration."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from skrl_vec_envs.omniverse import SimConfig, VecEnv
from skrl_vec_envs.omniverse.env import StepByRows
from skrl_vec_envs.omniverse.tasks import CartpoleTask, SnakeTask

SHUFFLED = "rl_games, shuffled"
LIBRARIES = ("skrl", "SharedModel", "rl_games", SHUFFLED)
HORIZON, MINI_BATCHES, MINI_EPOCHS, NUM_ENVS = 32, 4, 5, 64


class Task(NamedTuple):
    """A task, and what differs in the configuration of its training."""

    task: type[Any]
    settings: dict[str, Any]
    goal: float | None
    """What a final return should exceed, 90 % of the maximal one; None: the training is too short for that."""
    steps: int
    """Steps of each environment in a full training."""
    learning_rate: float
    reward_scale: float
    entropy_coef: float


_CARTPOLE = {"maxEpisodeLength": 500}
_SNAKE = {"height": 6, "width": 6, "maxEpisodeLength": 500, "hunger_limit": 36}
TASKS = {
    "cartpole": Task(CartpoleTask, _CARTPOLE, 450.0, 4800, 1e-3, 0.1, 0.0),
    "snake": Task(SnakeTask, _SNAKE, None, 12800, 5e-4, 1.0, 0.01),
}


class RecordedEnv(VecEnv):
    """An environment that records the return of each episode, and the step in which it ended."""

    def __init__(self) -> None:
        super().__init__(autoreset="lazy")
        self.steps = 0
        self.ended: list[tuple[int, float]] = []
        self._running = torch.zeros(())

    def reset(self, *args: Any, **keywords: Any) -> Any:
        """Begin all episodes. The step that this takes is not one of the training's."""
        observations = super().reset(*args, **keywords)
        self.steps, self.ended, self._running = 0, [], self.task.rew_buf.new_zeros(self.num_envs)
        return observations

    def step_by_rows(self, actions: torch.Tensor) -> StepByRows:
        """Make a step, and add up the rewards."""
        result = super().step_by_rows(actions)
        self.steps += 1
        self._running = self._running + result[1]
        over = result[2] > 0
        self.ended += [(self.steps, value) for value in self._running[over].tolist()]
        self._running = torch.where(over, 0.0, self._running)
        return result


def make_env(name: str, seed: int) -> RecordedEnv:
    """Set up the environment of a task.

    :param name: Name of the task.
    :param seed: Seed of its random numbers.

    :return: Environment with its task.
    """
    env, task = RecordedEnv(), TASKS[name]
    config = SimConfig({"num_envs": NUM_ENVS, "seed": seed, "task": {"env": task.settings}})
    env.set_task(task.task(name=name, sim_config=config, env=env))
    return env


def rl_games_config(name: str, seed: int, steps: int, folder: str = "runs") -> dict[str, Any]:
    """Write rl_games' configuration, from which skrl's is converted.

    What the two libraries do in other ways is switched off where an option says so: values are not clipped, the rate is
    fixed, observations are not normalized, the means of the actions have no loss of their own.

    :param name: Name of the task.
    :param seed: Seed, from 1 on: rl_games 1.6.5 takes 0 for none.
    :param steps: Steps of each environment, a multiple of the horizon.
    :param folder: Where rl_games writes its logs and checkpoints.

    :return: Configuration.
    """
    task, discrete = TASKS[name], name == "snake"
    continuous = {
        "mu_activation": "None",
        "sigma_activation": "None",
        "mu_init": {"name": "default"},
        "sigma_init": {"name": "const_initializer", "val": -0.5},
        "fixed_sigma": True,
    }
    config = {
        "name": name,
        "full_experiment_name": name,
        "env_name": name,
        "env_config": {"num_envs": None, "seed": seed},
        "train_dir": folder,
        "device": "cpu",
        "device_name": "cpu",
        "torch_compile": False,
        "print_stats": False,
        "num_actors": NUM_ENVS,
        "horizon_length": HORIZON,
        "minibatch_size": HORIZON * NUM_ENVS // MINI_BATCHES,
        "mini_epochs": MINI_EPOCHS,
        "max_epochs": steps // HORIZON,
        "save_best_after": steps,
        "save_frequency": 0,
        "gamma": 0.99,
        "tau": 0.95,
        "learning_rate": task.learning_rate,
        "lr_schedule": None,
        "e_clip": 0.2,
        "entropy_coef": task.entropy_coef,
        "critic_coef": 2.0,
        "clip_value": False,
        "bounds_loss_coef": 0.0,
        "grad_norm": 0.5,
        "truncate_grads": True,
        "normalize_input": False,
        "normalize_value": True,
        "normalize_advantage": True,
        "value_bootstrap": True,
        "reward_shaper": {"scale_value": task.reward_scale},
    }
    network = {
        "name": "actor_critic",
        "separate": False,
        "space": {"discrete": {}} if discrete else {"continuous": continuous},
        "mlp": {"units": [64, 64], "activation": "elu", "initializer": {"name": "default"}},
    }
    names = {
        "algo": {"name": "a2c_discrete" if discrete else "a2c_continuous"},
        "model": {"name": "discrete_a2c" if discrete else "continuous_a2c_logstd"},
    }
    return {"params": {"seed": seed, "torch_threads": 0, **names, "network": network, "config": config}}
