"""The game in batched torch, for GPUs, and for CPUs without numba.

N is the number of boards, S that of snakes, F that of pieces of food; R is the number of boards that are looked at:
those where something happens or, where nothing may wait for the device, all.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from skrl_vec_envs.snake.boards import Boards
from skrl_vec_envs.snake.observations import Observation
from skrl_vec_envs.snake.torch_moves import TorchMoves
from skrl_vec_envs.snake.torch_places import TorchPlaces
from skrl_vec_envs.snake.torch_views import TorchViews


class Outcome(NamedTuple):
    """What a step returns. Shapes: observations (N, V, ...), the others: that of the batch.

    Final observations have the shape of the observations, or, of ended rows only, (rows, ...).
    """

    observations: torch.Tensor
    final_observations: torch.Tensor
    rewards: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    ended: torch.Tensor
    returns: torch.Tensor
    steps: torch.Tensor
    lengths: torch.Tensor


class TorchGame:
    """Plays N boards together.

    :param boards: State of the boards.
    :param observation: What is observed.
    :param final_of_all: Give final observations of all rows, and not only of those that ended.
    :param sync_free: Look at all boards always, so that no step waits for the device.
    """

    def __init__(self, boards: Boards, observation: Observation, final_of_all: bool, sync_free: bool) -> None:
        self.boards = boards
        self.rules = boards.rules
        device = boards.grid.device
        self._moves = TorchMoves(boards)
        self._places = TorchPlaces(boards, sync_free)
        self._views = TorchViews(observation, boards, pooled=device.type == "cpu" and not sync_free)
        self._final_of_all = final_of_all
        self._sync_free = sync_free
        self._all = torch.arange(boards.num_boards, device=device)

    def draw(self) -> torch.Tensor:
        """Draw all boards. Shape: (N, V, ...)."""
        return self._views.finish(self._views.draw())

    def start(self) -> torch.Tensor:
        """Begin a game on all boards, and draw them. Shape: (N, V, ...)."""
        self.boards.clock += 1
        self._places.begin(self._all, torch.ones_like(self.boards.head, dtype=torch.bool))
        return self._views.finish(self._views.draw())

    def step(self, actions: torch.Tensor) -> Outcome:
        """Make one move on all boards.

        :param actions: Legal actions. Shape: that of the batch, dtype: int64.

        :return: What came of it.
        """
        boards, rules = self.boards, self.rules
        boards.clock += 1
        ate, grew, died = self._moves.move(actions.view(boards.num_boards, rules.num_snakes))
        boards.steps += 1
        boards.hunger.add_(1).masked_fill_(ate, 0)
        if rules.hunger_limit is not None:
            died = died | (boards.hunger >= rules.hunger_limit)
        terminated, won = self._ends(died)
        truncated = torch.zeros_like(terminated)
        if rules.max_steps is not None:
            truncated = (boards.steps >= rules.max_steps) & ~terminated
        flags = torch.add(grew.view(torch.uint8), won.view(torch.uint8), alpha=2).add_(died.view(torch.uint8), alpha=4)
        rewards = boards.rewards.take(flags.long())
        boards.returns += rewards
        returns, steps, lengths = boards.returns.clone(), boards.steps.clone(), boards.length.clone()
        self._places.place_food(self._rows((boards.food >= rules.num_cells).any(1)))

        ended = terminated | truncated
        drawn = self._views.draw()
        final_observations = self._views.copy(drawn) if self._final_of_all else None
        rows = self._rows(ended.any(1))
        stuck = self._places.begin(rows, ended.index_select(0, rows))
        if stuck is not None:
            stuck = torch.zeros_like(ended[:, 0]).index_copy_(0, rows, stuck)[:, None]
            truncated = truncated | (stuck & ~terminated)
            ended = ended | stuck
        after = self._views.draw(rows)
        final_observations = self._final(drawn, after, ended, rows, final_observations)
        observations = self._views.finish(self._views.replace(drawn, rows, after))
        results = (rewards, terminated, truncated, ended, returns, steps, lengths)
        return Outcome(observations, final_observations, *(tensor.view(boards.batch_shape) for tensor in results))

    def _ends(self, died: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Tell which snakes' episodes terminate, and which boards are won. Shapes: (N, S), (N, 1)."""
        length, rules = self.boards.length, self.rules
        all_longest = length >= rules.longest
        if rules.num_snakes == 1:
            won = all_longest & ~died
            return died | won, won
        any_died = died.any(1, keepdim=True)
        full = length.sum(1, keepdim=True) >= rules.num_cells
        won = (all_longest.all(1, keepdim=True) | full) & ~any_died
        return (died | won | any_died if rules.deaths == "end" else died | won), won

    def _final(
        self,
        before: torch.Tensor,
        after: torch.Tensor,
        ended: torch.Tensor,
        rows: torch.Tensor,
        of_all: torch.Tensor | None,
    ) -> torch.Tensor:
        """Choose the final observations.

        :param before: All boards, drawn before anything starts anew. Shape: (N, V, ...).
        :param after: Boards where something does, drawn after that. Shape: (R, V, ...).
        :param ended: Which snakes ended. Shape: (N, S).
        :param rows: Which boards these are. Shape: (R,).
        :param of_all: Observations of all rows before anything starts anew, which are changed; None where only those of
            ended rows are wanted. Shape: (N, V, ...).
        """
        alone, viewers = self.rules.num_snakes == 1, before.shape[1]
        if of_all is None:
            over = ended if viewers > 1 else ended.all(1)
            which = rows if alone else over.flatten().nonzero()[:, 0]
            return before.flatten(0, 1).index_select(0, which).to(self._views.observation.dtype)
        if not alone and self.rules.deaths == "respawn":
            # a snake that goes on sees the others' new start already
            over = ended.index_select(0, rows)
            over = over if viewers > 1 else over.all(1, keepdim=True)
            chosen = torch.where(over.view(*over.shape, *[1] * (after.ndim - 2)), before.index_select(0, rows), after)
            of_all.index_copy_(0, rows, chosen.to(of_all.dtype))
        return of_all

    def _rows(self, needed: torch.Tensor) -> torch.Tensor:
        return self._all if self._sync_free else needed.nonzero()[:, 0]
