"""PPO on snake: a categorical policy and its value share a trunk, which runs once per pair instead of twice.

This is a plain skrl script. What makes the trunk run once is the last base class of the model, and nothing else;
``--base plain`` trains with skrl's own ``Model`` in its place. Runs on skrl 1.4.3 and 2.x, also in several processes:
``torchrun --nproc-per-node=2 examples/ppo_snake.py``.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import distributed_cpu  # isort: skip  # noqa: F401  # before skrl
import gymnasium
import skrl
import torch
from skrl import config
from skrl.agents.torch.ppo import PPO
from skrl.envs.wrappers.torch import Wrapper
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn

from skrl_shared_cache import SharedModel
from skrl_vec_envs.snake import Snake
from skrl_vec_envs.views.skrl import SkrlView
from stopwatch import Stopwatch

BASES = {"plain": Model, "cached": SharedModel}
SKRL_2 = not skrl.__version__.startswith("1.")


def shared_model(base: type[Model], units: Sequence[int] = (256, 256)) -> type[Model]:
    """Define the actor-critic on top of ``base``, with a trunk of layers of ``units``."""

    class Shared(CategoricalMixin, DeterministicMixin, base):  # SharedModel, or skrl's Model
        def __init__(self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any], device: Any):
            base.__init__(self, observation_space=observation_space, action_space=action_space, device=device)
            CategoricalMixin.__init__(self)
            DeterministicMixin.__init__(self)
            sizes = [self.num_observations, *units]
            layers = [(nn.Linear(size, next_size), nn.ELU()) for size, next_size in zip(sizes, units)]
            self.net = nn.Sequential(*(module for layer in layers for module in layer))
            self.policy = nn.Linear(sizes[-1], self.num_actions)
            self.value = nn.Linear(sizes[-1], 1)

        def act(self, inputs: dict[str, Any], role: str = "") -> Any:
            if role == "policy":
                return CategoricalMixin.act(self, inputs, role=role)
            return DeterministicMixin.act(self, inputs, role=role)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
            features = self.net(inputs["observations" if SKRL_2 else "states"])
            return (self.policy if role == "policy" else self.value)(features), {}

    return Shared


def make_env(num_envs: int, board: int, device: str, seed: int) -> SkrlView:
    """Set up square boards on which a snake starves when it circles."""
    snake = Snake(
        num_envs,
        height=board,
        width=board,
        observation="flat",
        hunger_limit=board * board,
        device=device,
        seed=seed,
    )
    return SkrlView(snake)


def make_agent(
    base: str, env: Wrapper, experiment: dict[str, Any], *, units: Sequence[int] = (256, 256), rollouts: int = 32
) -> PPO:
    """Build the agent. ``experiment`` says where skrl writes logs and checkpoints, and how often."""
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    model = shared_model(BASES[base], units)(**spaces, device=env.device)
    cfg = {
        "rollouts": rollouts,
        "learning_epochs": 4,
        "mini_batches": 4,
        "discount_factor": 0.97,
        "gae_lambda" if SKRL_2 else "lambda": 0.95,
        "learning_rate": 2e-3,
        "entropy_loss_scale": 0.01,
        "value_loss_scale": 1.0,
        "value_clip": 0.0,
        "experiment": experiment,
    }
    memory = RandomMemory(memory_size=cfg["rollouts"], num_envs=env.num_envs, device=env.device)
    return PPO(models={"policy": model, "value": model}, memory=memory, cfg=cfg, device=env.device, **spaces)


def final_return(folder: Path) -> float:
    """Average the last ten points of the mean return that TensorBoard shows; NaN when no episode ended."""
    events = EventAccumulator(str(folder)).Reload()
    tag = "Reward / Total reward (mean)"
    points = [event.value for event in events.Scalars(tag)] if tag in events.Tags()["scalars"] else [math.nan]
    return fmean(points[-10:])


def main(argv: Sequence[str] | None = None) -> None:
    """Train, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--base", choices=BASES, default="cached", help="last base class of the model")
    parser.add_argument("--timesteps", type=int, default=6400, help="steps of every environment")
    parser.add_argument("--num-envs", type=int, default=128, help="boards that are played together")
    parser.add_argument("--board", type=int, default=8, help="height and width of the board, in cells")
    parser.add_argument("--units", type=int, nargs="+", default=[256, 256], help="widths of the layers of the trunk")
    parser.add_argument("--rollouts", type=int, default=32, help="steps between updates")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights, the actions and the boards")
    default_device = f"cuda:{config.torch.local_rank}" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", default=default_device, help="torch device")
    parser.add_argument("--output", type=Path, default="runs", help="folder in which the run makes a folder of its own")
    args = parser.parse_args(argv)
    folder = args.output.resolve() / f"ppo_snake_{args.base}_{time.strftime('%Y%m%d-%H%M%S')}"

    seed = set_seed(args.seed)
    env = make_env(args.num_envs, args.board, args.device, seed)
    experiment = {
        "directory": str(folder.parent),
        "experiment_name": folder.name,
        "write_interval": max(1, args.timesteps // 100),
        "checkpoint_interval": max(1, args.timesteps // 2),
    }
    agent = make_agent(args.base, env, experiment, units=args.units, rollouts=args.rollouts)
    trainer_cfg = {"timesteps": args.timesteps, "headless": True, "close_environment_at_exit": False}
    trainer = SequentialTrainer(cfg=trainer_cfg, env=env, agents=agent)
    watch = Stopwatch(args.device)
    watch.watch("env", env, "step")
    watch.watch("inference", agent, "act")
    watch.watch("update", agent, "update" if SKRL_2 else "_update")
    trainer.train()
    seconds = watch.total()
    env.close()

    if config.torch.rank:
        return  # of the processes of a distributed run the first one reports
    agent.writer.close()
    results = {
        "mean_return": final_return(folder),
        "samples_per_second": round(args.timesteps * args.num_envs / seconds),
        **{f"share_{name}": round(each / seconds, 3) for name, each in watch.seconds.items()},
    }
    if args.base == "cached":
        info = agent.policy.cache_info()
        results |= {"trunk_passes_per_pair": info.trunk_passes_per_pair, **info._asdict()}
    (folder / "results.json").write_text(json.dumps(results, indent=2))
    print(*(f"{name}: {value}" for name, value in results.items()), sep="\n")
    print(f"logs, checkpoints and results: {folder}\ncurves: tensorboard --logdir {folder}")


if __name__ == "__main__":
    main()
