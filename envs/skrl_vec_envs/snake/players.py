"""Players of boards with one snake: greedy, random, and a trained policy."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from skrl_vec_envs.snake.boards import FOOD, FREE, WALL
from skrl_vec_envs.snake.env import Snake

Player = Callable[[Snake, torch.Tensor], torch.Tensor]
"""Chooses actions, shape: (N,), from the environment and its observations."""


def greedy(env: Snake, observations: torch.Tensor) -> torch.Tensor:
    """Choose the absolute action that leads nearest to the food, of those that do not kill at once."""
    boards, width = env.boards, env.rules.width
    around = boards.neighbours[boards.head[:, 0]]
    code = boards.grid.gather(1, around)
    kills = (code == WALL) | ((code != FREE) & (code < FOOD) & (around != boards.tail))
    kills |= torch.arange(4, device=env.device) == (boards.heading ^ 1)  # it would go straight on instead
    food = boards.food[:, :1]
    distance = (around // width - food // width).abs() + (around % width - food % width).abs()
    return (distance + kills * 4 * env.rules.num_cells).argmin(1)


def make_random(seed: int) -> Player:
    """Return a player that draws from a generator of its own."""
    generator = torch.Generator().manual_seed(seed)

    def play(env: Snake, observations: torch.Tensor) -> torch.Tensor:
        return torch.randint(env.rules.num_actions, env.batch_shape, generator=generator).to(env.device)

    return play


def trunk(shape: tuple[int, ...], units: int) -> nn.Sequential:
    """Build the network before the heads of the policy and the value, for observations of any kind.

    :param shape: Shape of an observation.
    :param units: Width of the layers.
    """
    size = math.prod(shape)
    return nn.Sequential(nn.Flatten(), nn.Linear(size, units), nn.ELU(), nn.Linear(units, units), nn.ELU())


def save_checkpoint(path: Path, net: nn.Module, head: nn.Module, units: int, environment: dict[str, Any]) -> None:
    """Save a policy with what its environment is like.

    :param path: File to write.
    :param net: Network of :func:`trunk`.
    :param head: Linear layer to the logits of the actions.
    :param units: Width of the layers.
    :param environment: Parameters of :class:`Snake` that the policy needs: plain numbers and strings.
    """
    content = {"net": net.state_dict(), "head": head.state_dict(), "units": units, "environment": environment}
    torch.save(content, path)


def of_checkpoint(path: Path) -> tuple[Player, dict[str, Any]]:
    """Load a policy that :func:`save_checkpoint` saved.

    :param path: File.

    :return: Player that takes the most likely action; the parameters of its environment.

    :raises FileNotFoundError: There is no such file.
    """
    if not path.is_file():
        raise FileNotFoundError(f"the player must be 'greedy', 'random' or a checkpoint's file, got {str(path)!r}")
    content = torch.load(path, map_location="cpu", weights_only=True)
    parameters: dict[str, Any] = content["environment"]
    example = Snake(1, backend="torch", **parameters)
    net = trunk(example.observation.shape, content["units"])
    head = nn.Linear(content["units"], example.rules.num_actions)
    net.load_state_dict(content["net"])
    head.load_state_dict(content["head"])

    def play(env: Snake, observations: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            actions: torch.Tensor = head(net(observations.float())).argmax(-1)
        return actions

    return play, parameters
