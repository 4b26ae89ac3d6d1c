"""PPO by skrl, with a trunk that runs once per pair, on a task in the manner of OmniIsaacGymEnvs.

ppo_omni_rl_games.py trains on the same task by rl_games. Runs on skrl 1.4.3 and 2.x.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import gymnasium
import skrl
import torch
from skrl.agents.torch.ppo import PPO
from skrl.envs.wrappers.torch import Wrapper
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, GaussianMixin
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from torch import nn

from omni_tasks import TASKS, make_env
from skrl_shared_cache import SharedModel
from skrl_vec_envs import wrap_env

SKRL_2 = not skrl.__version__.startswith("1.")


class ActorCritic:
    """What both kinds of policies have in common: a trunk, and a value beside the policy."""

    policy_mixin: Any

    def __init__(self: Any, observation_space: Any, action_space: Any, device: Any) -> None:
        spaces = {"observation_space": observation_space, "action_space": action_space}
        SharedModel.__init__(self, **spaces, device=device)  # type: ignore[call-arg]
        self.policy_mixin.__init__(self)
        DeterministicMixin.__init__(self)
        self.net = nn.Sequential(nn.Linear(self.num_observations, 64), nn.ELU(), nn.Linear(64, 64), nn.ELU())
        self.policy = nn.Linear(64, self.num_actions)
        self.log_std = nn.Parameter(torch.full((self.num_actions,), -0.5))
        self.value = nn.Linear(64, 1)

    def act(self, inputs: dict[str, Any], role: str = "") -> Any:
        mixin = self.policy_mixin if role == "policy" else DeterministicMixin
        return mixin.act(self, inputs, role=role)

    def compute(self: Any, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
        features = self.net(inputs["observations" if SKRL_2 else "states"])
        output = self.value(features) if role == "value" else self.policy(features)
        if role == "value" or self.policy_mixin is CategoricalMixin:
            return output, {}
        return (output, {"log_std": self.log_std}) if SKRL_2 else (output, self.log_std, {})


class GaussianActorCritic(ActorCritic, GaussianMixin, DeterministicMixin, SharedModel):
    """For actions in a Box."""

    policy_mixin = GaussianMixin


class CategoricalActorCritic(ActorCritic, CategoricalMixin, DeterministicMixin, SharedModel):
    """For discrete actions."""

    policy_mixin = CategoricalMixin


def make_agent(env: Wrapper) -> PPO:
    """Build the agent."""
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    discrete = isinstance(env.action_space, gymnasium.spaces.Discrete)
    model = (CategoricalActorCritic if discrete else GaussianActorCritic)(**spaces, device=env.device)
    cfg = {
        "rollouts": 32,
        "learning_epochs": 5,
        "mini_batches": 4,
        "discount_factor": 0.99,
        "gae_lambda" if SKRL_2 else "lambda": 0.95,
        "learning_rate": 1e-3,
        "entropy_loss_scale": 0.01 if discrete else 0.0,
        "value_loss_scale": 1.0,
        "value_clip": 0.0,
        "rewards_shaper": None if discrete else (lambda rewards, *_: 0.1 * rewards),
        "experiment": {"write_interval": 0, "checkpoint_interval": 0},
    }
    memory = RandomMemory(memory_size=cfg["rollouts"], num_envs=env.num_envs, device=env.device)
    return PPO(models={"policy": model, "value": model}, memory=memory, cfg=cfg, device=env.device, **spaces)


def train(task: str, num_envs: int, timesteps: int, seed: int) -> tuple[float, float]:
    """Train.

    :param task: Name of the task.
    :param num_envs: Number of environments.
    :param timesteps: Steps of each environment.
    :param seed: Seed.

    :return: Mean return of the last episodes; trunk passes per pair.
    """
    set_seed(seed)
    env = make_env(task, num_envs, seed)
    view = wrap_env(env)
    agent = make_agent(view)
    trainer_cfg = {"timesteps": timesteps, "headless": True, "close_environment_at_exit": False}
    SequentialTrainer(cfg=trainer_cfg, env=view, agents=agent).train()
    return env.mean_return, agent.policy.cache_info().trunk_passes_per_pair


def main(argv: Sequence[str] | None = None) -> None:
    """Train, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--task", choices=TASKS, default="cartpole", help="what to train on")
    parser.add_argument("--timesteps", type=int, default=2400, help="steps of every environment")
    parser.add_argument("--num-envs", type=int, default=64, help="environments that are stepped together")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights, the actions and the task")
    args = parser.parse_args(argv)
    mean_return, passes = train(args.task, args.num_envs, args.timesteps, args.seed)
    print(f"mean return of the last episodes: {mean_return:.2f}\ntrunk passes per pair: {passes:.2f}")


if __name__ == "__main__":
    main()
