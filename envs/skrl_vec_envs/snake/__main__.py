"""Play, or watch a player: ``python -m skrl_vec_envs.snake play|watch``, see ``--help``."""

from __future__ import annotations

import argparse
import contextlib
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from skrl_vec_envs.snake import Snake
from skrl_vec_envs.snake.gif import grid_of, save_gif
from skrl_vec_envs.snake.players import Player, greedy, make_random, of_checkpoint

_KEYS = {"w": 0, "s": 1, "a": 2, "d": 3, "\x1b[A": 0, "\x1b[B": 1, "\x1b[D": 2, "\x1b[C": 3}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    :param arguments: Command line (default: the process's).
    """
    parser = argparse.ArgumentParser(prog="python -m skrl_vec_envs.snake", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    play = commands.add_parser("play", help="play with the arrow keys, or w a s d; q ends")
    watch = commands.add_parser("watch", help="watch a trained policy, or a player that needs no training")
    watch.add_argument("player", help="a checkpoint of examples/train_snake.py, or: greedy, random")
    watch.add_argument("--boards", type=int, default=4, help="boards to watch, default: %(default)s")
    watch.add_argument("--steps", type=int, default=200, help="number of steps, default: %(default)s")
    watch.add_argument("--gif", type=Path, help="save a film there, and print nothing")
    for command in (play, watch):
        command.add_argument("--height", type=int, default=10, help="rows of the board, default: %(default)s")
        command.add_argument("--width", type=int, default=10, help="columns of the board, default: %(default)s")
        command.add_argument("--start-length", type=int, default=3, help="default: %(default)s")
        command.add_argument("--seed", type=int, default=0, help="default: %(default)s")
        command.add_argument("--delay", type=float, default=0.15, help="seconds between frames, default: %(default)s")
    options = parser.parse_args(arguments)
    try:
        if options.command == "play":
            play_game(make_env(1, options), options.delay)
        else:
            watch_games(options)
    except (ValueError, FileNotFoundError) as error:
        parser.error(str(error))


def make_env(boards: int, options: argparse.Namespace, **parameters: Any) -> Snake:
    """Set up boards for looking at them: the torch backend needs no compilation."""
    sizes = {"height": options.height, "width": options.width, "start_length": options.start_length}
    return Snake(boards, seed=options.seed, backend="torch", **{**sizes, **parameters})


def play_game(env: Snake, delay: float) -> None:
    """Let someone play at the keyboard, until ``q``."""
    if not sys.stdin.isatty():
        raise ValueError("play needs a terminal with a keyboard: stdin is none")
    env.reset()
    action, score = int(env.boards.heading[0, 0]), 0.0
    with keyboard() as read_key:
        while True:
            print(f"\x1b[2J\x1b[Hlength {int(env.boards.length)}, return {score:g}\n{env.render()}", flush=True)
            key = read_key(delay)
            if key == "q":
                return
            action = _KEYS.get(key, action)
            _, rewards, terminated, truncated, infos = env.step(torch.tensor([action]))
            score += float(rewards)
            if terminated or truncated:
                print(ending(bool(terminated), int(infos["length"]), score), "press a key", flush=True)
                while not read_key(10.0):
                    pass
                action, score = int(env.boards.heading[0, 0]), 0.0


@contextlib.contextmanager
def keyboard() -> Iterator[Callable[[float], str]]:
    """Read keys as they are pressed. Yields a function that waits some seconds for one and returns it, or ''."""
    import termios  # not on Windows
    import tty

    before = termios.tcgetattr(sys.stdin)

    def read_key(seconds: float) -> str:
        time_left = time.monotonic() + seconds
        if not select.select([sys.stdin], [], [], seconds)[0]:
            return ""
        key = sys.stdin.read(1)
        if key == "\x1b":
            key += sys.stdin.read(2)
        time.sleep(max(0.0, time_left - time.monotonic()))
        return key

    try:
        tty.setcbreak(sys.stdin)
        yield read_key
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def ending(died: bool, length: int, score: float) -> str:
    """Say how a game ended."""
    return f"{'game over' if died else 'out of time'}: length {length}, return {score:g}"


def watch_games(options: argparse.Namespace) -> None:
    """Show a player's games, in the terminal or in a film."""
    player, parameters = find_player(options.player, options.seed)
    env = make_env(options.boards, options, render_mode="rgb_array" if options.gif else "ansi", **parameters)
    observations, _ = env.reset()
    frames = []
    for step in range(options.steps):
        lengths = env.boards.length[:, 0].tolist()
        if options.gif:
            titles = [f"length {length}" for length in lengths]
            columns = next(c for c in range(1, options.boards + 1) if c * c >= options.boards)
            frames.append(grid_of([env.render(i) for i in range(options.boards)], titles, columns))
        else:
            print(f"step {step}, length {', '.join(map(str, lengths))}")
            drawn = [env.render(i).splitlines() for i in range(options.boards)]
            print(*("  ".join(lines) for lines in zip(*drawn, strict=True)), sep="\n", flush=True)
            time.sleep(options.delay)
        observations, _, terminated, truncated, infos = env.step(player(env, observations))
        for board in (terminated | truncated).nonzero()[:, 0].tolist():
            episode = int(infos["length"][board]), float(infos["episode_return"][board])
            print(f"board {board}: {ending(bool(terminated[board]), *episode)}")
    if options.gif:
        save_gif(frames, options.gif, options.delay)
        print(f"film: {options.gif}")


def find_player(name: str, seed: int) -> tuple[Player, dict[str, Any]]:
    """Return a player, and the parameters of the environment that it was trained for."""
    if name == "greedy":
        return greedy, {}
    if name == "random":
        return make_random(seed), {}
    return of_checkpoint(Path(name))


if __name__ == "__main__":
    main()
