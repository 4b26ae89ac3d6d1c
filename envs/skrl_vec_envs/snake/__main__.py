"""Play one board in the terminal: ``python -m skrl_vec_envs.snake --help``."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence

import torch

from skrl_vec_envs.snake import Snake
from skrl_vec_envs.snake.geometry import neighbours


def greedy(env: Snake, observation: torch.Tensor) -> int:
    """Choose the action that leads nearest to the food, of those that do not kill at once.

    :param env: Environment.
    :param observation: Observation of one board. Shape: (3 * height * width,).

    :return: Action.
    """
    head, body, food = observation.view(3, -1)
    width = env.rules.width
    goal_row, goal_column = divmod(int(food.argmax()), width)

    def cost(action: int) -> tuple[bool, int]:
        cell = around[action]
        row, column = divmod(cell, width)
        dies = cell == env.rules.num_cells or bool(body[cell])
        return dies, abs(row - goal_row) + abs(column - goal_column)

    around = neighbours(env.rules.height, width)[int(head.argmax())]
    return min(range(4), key=cost)


def main(arguments: Sequence[str] | None = None) -> None:
    """Play games and print each frame.

    :param arguments: Command line (default: the process's).
    """
    parser = argparse.ArgumentParser(prog="python -m skrl_vec_envs.snake", description="Watch a policy play snake.")
    parser.add_argument("--policy", choices=("greedy", "random"), default="greedy", help="default: %(default)s")
    parser.add_argument("--height", type=int, default=10, help="rows of the board, default: %(default)s")
    parser.add_argument("--width", type=int, default=10, help="columns of the board, default: %(default)s")
    parser.add_argument("--start-length", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=100, help="number of steps to play, default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--delay", type=float, default=0.1, help="seconds between frames, default: %(default)s")
    options = parser.parse_args(arguments)
    try:
        env = Snake(
            1,
            height=options.height,
            width=options.width,
            start_length=options.start_length,
            observation="flat",
            seed=options.seed,
        )
    except ValueError as error:
        parser.error(str(error))

    generator = random.Random(options.seed)
    (observations, _), score = env.reset(), 0.0
    for step in range(options.steps):
        print(f"step {step}, length {int(env.boards.length)}\n{env.render()}", flush=True)
        action = greedy(env, observations[0]) if options.policy == "greedy" else generator.randrange(4)
        observations, rewards, terminated, _, infos = env.step(torch.tensor([action]))
        score += float(rewards)
        if infos["final_mask"]:
            print(f"{'game over' if terminated else 'out of time'}: length {int(infos['length'])}, return {score:g}\n")
            score = 0.0
        time.sleep(options.delay)


if __name__ == "__main__":
    main()
