"""Boards with several snakes, as agents with one policy for all snakes want to see them."""

from __future__ import annotations

from typing import Any

import gymnasium
import torch

from skrl_vec_envs.snake.env import Snake


class PerSnake:
    """Each snake of each board as an environment of its own: N boards with S snakes are N * S environments.

    Environment ``S * n + s`` is snake ``s`` of board ``n``. All tensors of the boards, shape (N, S, ...), become
    tensors of shape (N * S, ...), and so do those in the infos. Of ``"final_obs"`` with ``final_obs="ended"``, the rows
    are in that order already.

    Example::

        >>> env = SkrlView(PerSnake(Snake(num_envs=256, num_snakes=4)))  # 1024 environments for skrl

    :param boards: Boards, each snake with an observation of its own.

    :raises ValueError: The snakes of a board share an observation: nothing in it tells a policy which one is its own.
    """

    def __init__(self, boards: Snake) -> None:
        if boards.observation.shared:
            raise ValueError(
                "PerSnake needs an observation per snake, got boards with shared=True, where nothing tells a policy "
                "which snake is its own: use Snake(..., shared=False)"
            )
        self.boards = boards
        snakes = boards.rules.num_snakes
        self.num_envs = boards.num_envs * snakes
        self.device = boards.device
        space, action_space = boards.single_observation_space, boards.single_action_space
        assert isinstance(space, gymnasium.spaces.Box)
        shape = space.shape if snakes == 1 else space.shape[1:]
        self.single_observation_space = gymnasium.spaces.Box(space.low.min(), space.high.max(), shape, space.dtype.type)
        self.single_action_space = gymnasium.spaces.Discrete(
            int(action_space.n if isinstance(action_space, gymnasium.spaces.Discrete) else action_space.nvec[0])
        )
        self._several = snakes > 1

    def reset(self, seed: int | None = None) -> tuple[torch.Tensor, dict[str, Any]]:
        """Begin all boards.

        :param seed: See :meth:`Snake.reset`.

        :return: Observations, shape: (N * S, *observation); infos, empty.
        """
        observations, infos = self.boards.reset(seed)
        return self._rows(observations), infos

    def step(
        self, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Make a step on all boards.

        :param actions: Shape: (N * S,), any integer dtype.

        :return: As :meth:`Snake.step` returns it, with N * S rows.

        :raises ValueError: The actions have another shape, and see :meth:`Snake.step`.
        """
        if actions.shape != (self.num_envs,):
            raise ValueError(f"actions must have shape {(self.num_envs,)}, one per snake, got {tuple(actions.shape)}")
        snakes = self.boards.rules.num_snakes
        *results, infos = self.boards.step(actions.view(-1, snakes) if self._several else actions)
        observations, rewards, terminated, truncated = map(self._rows, results)
        per_board = {
            name: each for name, each in infos.items() if name != "final_obs" or self.boards.final_obs == "all"
        }
        infos |= {name: self._rows(each) for name, each in per_board.items()}
        return observations, rewards, terminated, truncated, infos

    def render(self, board: int = 0) -> Any:
        """Draw one board, see :meth:`Snake.render`."""
        return self.boards.render(board)

    def _rows(self, values: torch.Tensor) -> torch.Tensor:
        return values.flatten(0, 1) if self._several else values
