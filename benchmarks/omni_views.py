"""What the views of a vectorized env cost per step, and what the hand-over between two threads does.

The bare task is ``pre_physics_step``, ``simulate`` and ``post_physics_step``, without an environment around it; where
the view resets in the step that ends an episode (Gymnasium, Isaac Lab), also what any such reset has to do: find the
rows that ended, ``reset_idx``, and ``get_observations`` after that. To keep the last observations, to write the first
ones into copies of their own and to build the infos is overhead. Bare task and view take turns within one process, a
block of steps each; a figure is the median over the blocks, and the overhead of a view is the median of its differences
to the neighbouring blocks of the bare task. Actions are random and made in advance; they end about ninety episodes of
4096 cartpoles in each step, and no pendulum's but all together. The snake's observations are megabytes, whose
allocation takes longer than what is measured here: it is not among the default tasks. The threaded variant is compared
with the direct call.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from skrl_vec_envs.omniverse import SimConfig, VecEnv
from skrl_vec_envs.omniverse.tasks import CartpoleTask, PendulumTask, SnakeTask
from skrl_vec_envs.omniverse.threaded import VecEnvMT
from skrl_vec_envs.views.gymnasium import GymnasiumView
from skrl_vec_envs.views.isaaclab import IsaacLabView
from skrl_vec_envs.views.skrl import SkrlView

TASKS = {"cartpole": CartpoleTask, "pendulum": PendulumTask, "snake": SnakeTask}
LIMIT_US = 60.0
LIMITED = ("skrl", "rl_games", "gymnasium")
SAME_STEP = ("gymnasium", "isaaclab")
ACTIONS = 16
Stepper = Callable[[int], Any]


def make(task: str, num_envs: int, autoreset: Any = "lazy", env_class: type[VecEnv] = VecEnv) -> VecEnv:
    """Set up an environment.

    :param task: Name of the task.
    :param num_envs: Number of environments, N.
    :param autoreset: Reset mode.
    :param env_class: Class of the environment.

    :return: Environment, reset.
    """
    env = env_class(autoreset)
    env.set_task(TASKS[task](task, SimConfig({"num_envs": num_envs, "seed": 0}), env))
    return env


def random_actions(env: VecEnv) -> list[torch.Tensor]:
    """Draw actions.

    :param env: Environment.

    :return: Some actions, each of the shape that the environment takes.
    """
    generator = torch.Generator().manual_seed(0)
    zeros = env.zero_actions()
    if zeros.is_floating_point():
        return [torch.rand(zeros.shape, generator=generator) * 2.0 - 1.0 for _ in range(ACTIONS)]
    return [torch.randint(env.task.num_actions, zeros.shape, generator=generator) for _ in range(ACTIONS)]


def bare(task: str, num_envs: int, same_step: bool) -> Stepper:
    """Step a task without an environment around it.

    :param task: Name of the task.
    :param num_envs: Number of environments, N.
    :param same_step: Reset in the step that ends an episode.

    :return: What makes a step.
    """
    env = make(task, num_envs)
    env.reset()
    actions, hooks = random_actions(env), env.task

    def step(index: int) -> None:
        hooks.pre_physics_step(actions[index])
        hooks.simulate(1.0 / 60.0)
        hooks.post_physics_step()
        if same_step and len(ended := hooks.reset_buf.nonzero()[:, 0]):
            hooks.reset_idx(ended)
            hooks.get_observations()

    return step


def views(task: str, num_envs: int) -> dict[str, Stepper]:
    """Step a task through each view, and through the environment alone."""

    def through(view: Any, actions: Sequence[Any]) -> Stepper:
        view.reset()
        return lambda index: view.step(actions[index])

    def drawn(env: VecEnv, shape: Any = None) -> tuple[VecEnv, list[torch.Tensor]]:
        actions = random_actions(env)
        return env, [action.view(num_envs, -1) for action in actions] if shape else actions

    env, actions = drawn(make(task, num_envs))
    steppers = {"env": through(env, actions)}
    env, actions = drawn(make(task, num_envs), shape=True)
    steppers["skrl"] = through(SkrlView(env), actions)
    try:
        from skrl_vec_envs.views.rl_games import RlGamesView
    except ImportError:
        print("rl_games is not installed (extra rl-games): left out")
    else:
        env, actions = drawn(make(task, num_envs))
        steppers["rl_games"] = through(RlGamesView(env), actions)
    env, actions = drawn(make(task, num_envs, "same_step"))
    steppers["gymnasium"] = through(GymnasiumView(env), [action.numpy() for action in actions])
    env, actions = drawn(make(task, num_envs, "same_step"))
    steppers["isaaclab"] = through(IsaacLabView(env), actions)
    return steppers


def block(step: Stepper, steps: int) -> float:
    """Time some steps.

    :param step: What makes a step.
    :param steps: Number of steps.

    :return: Microseconds per step.
    """
    begin = time.perf_counter()
    for index in range(steps):
        step(index % ACTIONS)
    return (time.perf_counter() - begin) / steps * 1e6


def overheads(task: str, num_envs: int, blocks: int, steps: int) -> dict[str, dict[str, float]]:
    """Measure all views.

    :param task: Name of the task.
    :param num_envs: Number of environments, N.
    :param blocks: Number of blocks of each view.
    :param steps: Number of steps in a block.

    :return: Microseconds per step of the bare task, of each view, and the view's overhead.
    """
    references = {same_step: bare(task, num_envs, same_step) for same_step in (False, True)}
    results = {}
    for name, step in views(task, num_envs).items():
        reference = references[name in SAME_STEP]
        block(reference, steps)
        block(step, steps)
        pairs = [(block(reference, steps), block(step, steps)) for _ in range(blocks)]
        results[name] = {
            "bare": statistics.median(plain for plain, _ in pairs),
            "view": statistics.median(viewed for _, viewed in pairs),
            "overhead": statistics.median(viewed - plain for plain, viewed in pairs),
        }
    return results


def threads(num_envs: int, steps: int) -> dict[str, Any]:
    """Compare the threaded environment with the direct call.

    :param num_envs: Number of environments in the batch.
    :param steps: Number of steps.

    :return: Steps of single environments per second, both ways, and the threaded one's times.
    """
    direct = make("cartpole", num_envs)
    direct.reset()
    actions = random_actions(direct)
    direct_us = block(lambda index: direct.step(actions[index]), steps)
    env = make("cartpole", num_envs, env_class=VecEnvMT)
    assert isinstance(env, VecEnvMT)
    taken: list[float] = []

    def learn() -> None:
        env.reset()
        taken.append(block(lambda index: env.step(actions[index]), steps))

    env.run(learn)
    return {
        "direct": num_envs / direct_us * 1e6,
        "threaded": num_envs / taken[0] * 1e6,
        "times": {"send": env.times.send, "wait": env.times.wait, "collect": env.times.collect},
    }


def report(results: dict[str, Any]) -> str:
    """Write the tables.

    :param results: What was measured.

    :return: Markdown.
    """
    lines = ["| task | N | view | bare task | with the view | overhead |", "|---|---|---|---|---|---|"]
    for task, by_size in results["views"].items():
        for size, by_view in by_size.items():
            for view, us in by_view.items():
                limit = f" (limit {LIMIT_US:.0f})" if view in LIMITED and int(size) == 4096 else ""
                numbers = f"{us['bare']:.0f} us | {us['view']:.0f} us | {us['overhead']:.0f} us{limit}"
                lines.append(f"| {task} | {size} | {view} | {numbers} |")
    lines += ["", "| N | direct | threaded | direct / threaded |", "|---|---|---|---|"]
    for size, rates in results["threads"].items():
        ratio = rates["direct"] / rates["threaded"]
        lines.append(f"| {size} | {rates['direct']:,.0f} steps/s | {rates['threaded']:,.0f} steps/s | {ratio:.2f} |")
    for size, rates in results["threads"].items():
        lines.append(f"\nN = {size}")
        lines += [f"Total {name}: {1000 * seconds:.0f} ms" for name, seconds in rates["times"].items()]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=15, help="blocks of each view, default: %(default)s")
    parser.add_argument("--steps", type=int, default=200, help="steps in a block, default: %(default)s")
    parser.add_argument("--num-envs", type=int, nargs="+", default=[64, 4096], help="default: %(default)s")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=["cartpole", "pendulum"])
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    sizes = [1, *args.num_envs]
    results = {
        "views": {
            task: {str(size): overheads(task, size, args.blocks, args.steps) for size in args.num_envs}
            for task in args.tasks
        },
        "threads": {str(size): threads(size, args.steps * 10) for size in sizes},
    }
    print(report(results))
    if args.json:
        args.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
