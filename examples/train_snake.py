"""Train a snake for long: PPO on the window around its head, until a time is over; then evaluate and save.

Prints where the time goes (env, inference of the rollout, update), and saves ``policy.pt`` (to be shown by
``python -m skrl_vec_envs.snake watch``), ``learning_curve.png`` and ``results.json``. With ``--window 0`` the policy
sees the flat board and takes absolute actions. Runs on skrl 1.4.3 and 2.x.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import skrl
import torch
from skrl.agents.torch.ppo import PPO
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin
from skrl.utils import set_seed
from torch import nn

from skrl_shared_cache import SharedModel
from skrl_vec_envs.snake import Snake
from skrl_vec_envs.snake.players import of_checkpoint, save_checkpoint, trunk
from skrl_vec_envs.views.skrl import SkrlView
from stopwatch import Stopwatch
from timed_run import TimedRun

SKRL_2 = not skrl.__version__.startswith("1.")
NO_LOGS = {"write_interval": 0, "checkpoint_interval": 0}


class ActorCritic(CategoricalMixin, DeterministicMixin, SharedModel):
    """A policy and a value that share a trunk."""

    def __init__(self, env: SkrlView, units: int) -> None:
        SharedModel.__init__(  # type: ignore[call-arg]
            self, observation_space=env.observation_space, action_space=env.action_space, device=env.device
        )
        CategoricalMixin.__init__(self)
        DeterministicMixin.__init__(self)
        self.net = trunk(env.observation_space.shape or (), units)
        self.policy = nn.Linear(units, self.num_actions)
        self.value = nn.Linear(units, 1)

    def act(self, inputs: dict[str, Any], role: str = "") -> Any:
        mixin = CategoricalMixin if role == "policy" else DeterministicMixin
        return mixin.act(self, inputs, role=role)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        features = self.net(inputs["observations" if SKRL_2 else "states"])
        return (self.policy if role == "policy" else self.value)(features), {}


def parameters_of(board: int, window: int) -> dict[str, Any]:
    """Choose the game: a snake starves when it circles."""
    seen = {"observation": "window", "window": window, "actions": "relative"} if window else {"observation": "flat"}
    return {"height": board, "width": board, "hunger_limit": 2 * board * board, "max_steps": None, **seen}


def make_agent(env: SkrlView, units: int, rollouts: int) -> PPO:
    """Build the agent."""
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    model = ActorCritic(env, units).to(env.device)
    cfg = {
        "rollouts": rollouts,
        "learning_epochs": 4,
        "mini_batches": 4,
        "discount_factor": 0.98,
        "gae_lambda" if SKRL_2 else "lambda": 0.95,
        "learning_rate": 1e-3,
        "entropy_loss_scale": 0.005,
        "value_loss_scale": 0.5,
        "value_clip": 0.0,
        "grad_norm_clip": 0.5,
        "experiment": NO_LOGS,
    }
    memory = RandomMemory(memory_size=rollouts, num_envs=env.num_envs, device=env.device)
    agent = PPO(models={"policy": model, "value": model}, memory=memory, cfg=cfg, device=env.device, **spaces)
    agent.init()
    return agent


def evaluate(checkpoint: Path, episodes: int, seed: int = 1) -> float:
    """Return the mean length that the most likely actions reach, over the first episode of each of many boards."""
    player, parameters = of_checkpoint(checkpoint)
    env = Snake(episodes, seed=seed, **parameters | {"max_steps": 5000})
    observations, _ = env.reset()
    lengths = torch.zeros(episodes)
    playing = torch.ones(episodes, dtype=torch.bool)
    while playing.any():
        observations, _, terminated, truncated, infos = env.step(player(env, observations))
        over = (terminated | truncated) & playing
        lengths[over] = infos["length"][over].float()
        playing &= ~over
    return float(lengths.mean())


def plot(points: list[tuple[float, int, float]], path: Path) -> None:
    """Draw the learning curve: mean return of the episodes that ended, over the minutes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(7, 4))
    minutes, _, returns = zip(*points, strict=True)
    axis.plot(minutes, returns)
    axis.set(xlabel="minutes", ylabel="mean return of ended episodes")
    axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> None:
    """Train, evaluate, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15.0, help="time to train for")
    parser.add_argument("--num-envs", type=int, default=1024, help="boards that are played together")
    parser.add_argument("--rollouts", type=int, default=32, help="steps between updates")
    parser.add_argument("--board", type=int, default=10, help="height and width of the board, in cells")
    parser.add_argument("--window", type=int, default=19, help="height and width of the window, 0 for the flat board")
    parser.add_argument("--units", type=int, default=128, help="width of the two layers of the trunk")
    parser.add_argument("--episodes", type=int, default=1000, help="episodes of the evaluation")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights, the actions and the boards")
    parser.add_argument("--output", type=Path, default=Path("runs/train_snake"), help="folder")
    args = parser.parse_args(argv)
    args.output.mkdir(parents=True, exist_ok=True)

    seed = set_seed(args.seed)
    environment = parameters_of(args.board, args.window)
    snake = Snake(args.num_envs, seed=seed, **environment)
    watch = Stopwatch("cpu")
    watch.watch("env", snake, "step")
    env = SkrlView(snake)
    agent = make_agent(env, args.units, args.rollouts)
    run = TimedRun(agent, env)
    points: list[tuple[float, int, float]] = []
    samples = args.num_envs * args.rollouts
    start = time.perf_counter()
    while (minutes := (time.perf_counter() - start) / 60) < args.minutes or not points:
        iteration = run.iterate()
        if iteration.returns:
            mean = sum(iteration.returns) / len(iteration.returns)
            points.append((minutes, len(run.iterations) * samples, mean))
        if len(run.iterations) % 20 == 1:
            shown = points[-1][2] if points else float("nan")
            print(
                f"{minutes:5.1f} min, {len(run.iterations) * samples / 1e6:6.2f} M samples, return {shown:.2f}",
                flush=True,
            )

    total = sum(iteration.total for iteration in run.iterations)
    update = sum(iteration.update for iteration in run.iterations)
    in_env = watch.seconds["env"]
    checkpoint = args.output / "policy.pt"
    model = agent.policy
    save_checkpoint(checkpoint, model.net, model.policy, args.units, environment)
    plot(points, args.output / "learning_curve.png")
    results = {
        "samples": len(run.iterations) * samples,
        "samples_per_second": len(run.iterations) * samples / total,
        "share_env": in_env / total,
        "share_inference": (total - update - in_env) / total,
        "share_update": update / total,
        "mean_length": evaluate(checkpoint, args.episodes),
        "episodes": args.episodes,
    }
    (args.output / "results.json").write_text(json.dumps(results, indent=2))
    print(*(f"{name}: {value:.4g}" for name, value in results.items()), sep="\n")
    print(f"watch it: python -m skrl_vec_envs.snake watch {checkpoint}")


if __name__ == "__main__":
    main()
