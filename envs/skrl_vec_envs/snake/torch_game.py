"""The game in batched torch, for GPUs, and for CPUs without numba.

N is the number of boards, S that of snakes, F that of pieces of food; R is the number of boards that are looked at:
those where something happens or, where nothing may wait for the device, all.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from skrl_vec_envs import counter_rng
from skrl_vec_envs.snake.boards import DRAWS_PER_SNAKE, FOOD, FREE, TRIES, WALL, Boards
from skrl_vec_envs.snake.observations import Observation
from skrl_vec_envs.snake.torch_views import TorchViews


class Outcome(NamedTuple):
    """What a step returns. Shapes: observations (N, V, ...), the others (N, S)."""

    observations: torch.Tensor
    final_observations: torch.Tensor
    rewards: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    returns: torch.Tensor
    steps: torch.Tensor
    lengths: torch.Tensor


class TorchGame:
    """Plays N boards together.

    :param boards: State of the boards.
    :param observation: What is observed.
    :param sync_free: Look at all boards always, so that no step waits for the device.
    """

    def __init__(self, boards: Boards, observation: Observation, sync_free: bool) -> None:
        self.boards = boards
        self.rules = rules = boards.rules
        device = boards.grid.device
        self._views = TorchViews(observation, boards, pooled=device.type == "cpu" and not sync_free)
        self._sync_free = sync_free
        self._all = torch.arange(boards.num_boards, device=device)
        self._snakes = torch.arange(rules.num_snakes, device=device)
        self._codes = (self._snakes + 1).to(torch.uint8)
        self._others = ~torch.eye(rules.num_snakes, dtype=torch.bool, device=device)
        self._free = torch.full((), FREE, dtype=torch.uint8, device=device)
        self._wall = torch.full((), WALL, dtype=torch.uint8, device=device)

    def draw(self) -> torch.Tensor:
        """Draw all boards. Shape: (N, V, ...)."""
        return self._views.draw()

    def start(self) -> torch.Tensor:
        """Begin a game on all boards, and draw them."""
        self.boards.clock += 1
        every = torch.ones_like(self.boards.head, dtype=torch.bool)
        self._begin(self._all, every)
        return self._views.draw()

    def step(self, actions: torch.Tensor) -> Outcome:
        """Make one move on all boards.

        :param actions: Legal actions. Shape: (N, S), dtype: int64.

        :return: What came of it.
        """
        boards, rules = self.boards, self.rules
        boards.clock += 1
        if rules.moves == "in_order" and rules.num_snakes > 1:
            parts = [self._move(actions[:, s : s + 1], slice(s, s + 1)) for s in range(rules.num_snakes)]
            ate, grew, died = (torch.cat(column, 1) for column in zip(*parts, strict=True))
        else:
            ate, grew, died = self._move(actions, slice(None))
        boards.steps += 1
        boards.hunger.add_(1).mul_(~ate)
        if rules.hunger_limit is not None:
            died = died | (boards.hunger >= rules.hunger_limit)

        any_died = died.any(1, keepdim=True)
        all_longest = (boards.length >= rules.longest).all(1, keepdim=True)
        full = boards.length.sum(1, keepdim=True) >= rules.num_cells
        won = (all_longest | full) & ~any_died
        terminated = died | won | any_died if rules.deaths == "end" else died | won
        truncated = torch.zeros_like(terminated)
        if rules.max_steps is not None:
            truncated = (boards.steps >= rules.max_steps) & ~terminated
        rewards = boards.rewards.take(grew + 2 * won.long() + 4 * died)
        boards.returns += rewards
        returns, steps, lengths = boards.returns.clone(), boards.steps.clone(), boards.length.clone()

        missing = boards.food >= rules.num_cells
        rows = self._rows(missing.any(1))
        grid, food = boards.grid.index_select(0, rows), boards.food.index_select(0, rows)
        self._place_food(grid, food, rows, which=0)
        boards.grid.index_copy_(0, rows, grid)
        boards.food.index_copy_(0, rows, food)

        ended = terminated | truncated
        final_observations = self._views.draw()
        rows = self._rows(ended.any(1))
        stuck = self._begin(rows, ended.index_select(0, rows))
        if stuck is not None:
            stuck = torch.zeros_like(ended[:, 0]).index_copy_(0, rows, stuck)[:, None]
            truncated = truncated | (stuck & ~terminated)
            ended = ended | stuck
        after = self._views.draw(rows)
        observations = self._views.copy(final_observations).index_copy_(0, rows, after)
        if rules.num_snakes > 1 and rules.deaths == "respawn":
            # a snake that goes on sees the others' new start already
            before = final_observations.index_select(0, rows)
            over = ended.index_select(0, rows)
            over = over if before.shape[1] > 1 else over.all(1, keepdim=True)
            over = over.view(*over.shape, *[1] * (before.ndim - 2))
            final_observations.index_copy_(0, rows, torch.where(over, before, after))
        return Outcome(observations, final_observations, rewards, terminated, truncated, returns, steps, lengths)

    def _rows(self, needed: torch.Tensor) -> torch.Tensor:
        return self._all if self._sync_free else needed.nonzero()[:, 0]

    def _move(self, actions: torch.Tensor, who: slice) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Move some of the snakes together. A fatal move is not made.

        :param actions: Actions of these snakes. Shape: (N, number of them).
        :param who: Which snakes.

        :return: Which ate, which grew, which died. Shape: (N, number of them), dtype: bool.
        """
        boards, rules = self.boards, self.rules
        head, tail, old_heading, length = (x[:, who] for x in boards.numbers[:4])
        heading = boards.turns.take(torch.add(actions, old_heading, alpha=rules.num_actions))
        target = boards.neighbours.take(torch.add(heading, head, alpha=4))
        code = boards.grid.gather(1, target)
        is_food = (code >= FOOD) & (code != WALL)
        died = code == WALL
        if rules.food_colours and rules.num_snakes > 1:
            died |= is_food & ((code - FOOD) // rules.food_per_snake != self._snakes[who])
        ate = is_food & ~died
        grew = ate & (length < rules.longest)
        body = (code != FREE) & (code < FOOD)
        if rules.tail == "free":
            leaves = (target[:, :, None] == tail[:, None, :]) & ~grew[:, None, :]
            body &= ~leaves.any(2)
        died |= body
        if rules.reversing == "kills" and rules.actions == "absolute":
            died |= (actions == old_heading ^ 1) & (length > 1)
        if head.shape[1] > 1:
            meet = target[:, :, None] == target[:, None, :]
            to_head = target[:, :, None] == head[:, None, :]
            died |= ((meet | (to_head & to_head.transpose(1, 2))) & self._others).any(2)

        lives = ~died
        ate &= lives
        grew &= lives
        leaves_tail = lives & ~grew
        # what is not to be written goes to the wall, and is the wall
        nowhere = rules.num_cells
        boards.grid.scatter_(
            1, torch.where(leaves_tail, tail, nowhere), torch.where(leaves_tail, self._free, self._wall)
        )
        boards.ways.scatter_(1, torch.where(lives, head, nowhere), heading.to(torch.uint8))
        after_tail = boards.neighbours.take(boards.ways.gather(1, tail) + 4 * tail)
        tail.copy_(torch.where(leaves_tail, after_tail, tail))
        eaten = (boards.food[:, :, None] == target[:, None, :]) & ate[:, None, :]
        boards.food.masked_fill_(eaten.any(2), nowhere)
        head.copy_(torch.where(lives, target, head))
        old_heading.copy_(torch.where(lives, heading, old_heading))
        length += grew
        boards.grid.scatter_(1, torch.where(lives, target, nowhere), torch.where(lives, self._codes[who], self._wall))
        return ate, grew, died

    def _place_food(self, grid: torch.Tensor, food: torch.Tensor, rows: torch.Tensor, which: int) -> None:
        """Put missing food on free cells, each as likely as the others: the k-th free one, with no trial and error.

        :param grid: Grids of some boards, which are changed. Shape: (R, cells + 1).
        :param food: Food of these boards, which is changed. Shape: (R, F).
        :param rows: Which boards these are. Shape: (R,).
        :param which: Which of the two numbers of a draw to take.
        """
        nowhere = self.rules.num_cells
        for f in range(self.rules.num_food):
            bits = self._draw(rows, f)[which]
            order = (grid == FREE).cumsum(1)
            count = order[:, -1]
            needed = (food[:, f] == nowhere) & (count > 0)
            cell = torch.searchsorted(order, counter_rng.below(bits, count)[:, None] + 1)
            cell = torch.where(needed[:, None], cell, nowhere)
            grid.scatter_(1, cell, torch.where(needed, FOOD + f, WALL)[:, None].to(torch.uint8))
            food[:, f] = torch.where(needed, cell[:, 0], food[:, f])

    def _begin(self, rows: torch.Tensor, ended: torch.Tensor) -> torch.Tensor | None:
        """Take the snakes that ended off some boards, and let them start anew; where all ended, the food as well.

        :param rows: Boards. Shape: (R,).
        :param ended: Snakes of these boards that ended. Shape: (R, S).

        :return: Boards without room, which began anew. Shape: (R,); None where there always is room.
        """
        boards, rules = self.boards, self.rules
        alone = rules.num_snakes == 1
        grid, ways = boards.grid.index_select(0, rows), boards.ways.index_select(0, rows)
        numbers, food = boards.numbers.index_select(1, rows), boards.food.index_select(0, rows)
        over = ended.all(1, keepdim=True)
        bodies, headings, found = self._poses(grid, rows, ended, over)
        stuck = None
        if not alone:
            stuck = ~found & ~over[:, 0]
            over = over | ~found[:, None]
            ended = ended | over
        self._clear(grid, ended, over)
        food = torch.where(over, rules.num_cells, food)
        for s in range(rules.num_snakes):
            who = ended[:, s : s + 1]
            body = torch.where(who, bodies[:, s], rules.num_cells)
            grid.scatter_(1, body, torch.where(who, self._codes[s], self._wall).expand_as(body))
            ways.scatter_(1, body, headings[:, s].to(torch.uint8))
        first, last = bodies[:, :, 0], bodies[:, :, -1]
        zeros = torch.zeros_like(first)
        begun = torch.stack((first, last, headings[:, :, 0], zeros + rules.start_length, zeros, zeros))
        self._place_food(grid, food, rows, which=1)
        boards.grid.index_copy_(0, rows, grid)
        boards.ways.index_copy_(0, rows, ways)
        boards.numbers.index_copy_(1, rows, torch.where(ended, begun, numbers))
        boards.food.index_copy_(0, rows, food)
        boards.returns.index_copy_(0, rows, boards.returns.index_select(0, rows).masked_fill_(ended, 0.0))
        return stuck

    def _clear(self, grid: torch.Tensor, ended: torch.Tensor, over: torch.Tensor) -> None:
        cells = grid[:, :-1]
        for s in range(self.rules.num_snakes if self.rules.num_snakes > 1 else 0):
            cells.masked_fill_((cells == s + 1) & ended[:, s : s + 1], FREE)
        cells.masked_fill_(over, FREE)

    def _poses(
        self, grid: torch.Tensor, rows: torch.Tensor, ended: torch.Tensor, over: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Choose where the snakes that ended start anew.

        :return: Cells of the bodies, heading of each segment, shape: (R, S, start length); boards that had room for
            all, shape: (R,).
        """
        boards, rules = self.boards, self.rules
        if rules.num_snakes == 1:
            bits = self._draw(rows, rules.num_food)[0]
            pose = counter_rng.below(bits, len(boards.pose_headings))[:, None]
            return boards.pose_bodies[pose], boards.pose_ways[pose], over[:, 0]
        grid = grid.clone()
        self._clear(grid, ended, over)
        bodies, headings, found = self._one_by_one(grid, rows, ended)
        # a board that is too full for that begins anew: first by chance, too, and if need be in a fixed order
        again = grid.clone()
        again[:, :-1] = FREE
        every = torch.ones_like(ended)
        retry = ~found & ~over[:, 0]
        if self._sync_free or bool(retry.any()):
            new_bodies, new_headings, new_found = self._one_by_one(again, rows, every)
            lacking = retry[:, None, None]
            bodies = torch.where(lacking, new_bodies, bodies)
            headings = torch.where(lacking, new_headings, headings)
            lined_up = ~torch.where(retry, new_found, found)
        else:
            lined_up = ~found
        if self._sync_free or bool(lined_up.any()):
            line_bodies, line_headings = self._in_line(rows)
            bodies = torch.where(lined_up[:, None, None], line_bodies, bodies)
            headings = torch.where(lined_up[:, None, None], line_headings, headings)
        return bodies, headings, found | over[:, 0]

    def _one_by_one(
        self, grid: torch.Tensor, rows: torch.Tensor, needed: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Let snakes find a place one after the other, each free place as likely as the others."""
        boards, rules = self.boards, self.rules
        bodies, headings = [], []
        found = torch.ones_like(needed[:, 0])
        for s in range(rules.num_snakes):
            first = rules.num_food + DRAWS_PER_SNAKE * s
            bits = torch.stack([half for i in range(DRAWS_PER_SNAKE) for half in self._draw(rows, first + i)], 1)
            tried = counter_rng.below(bits[:, :TRIES], len(boards.pose_headings))
            fits = self._fits(grid, boards.pose_bodies[tried])
            pose = tried.gather(1, fits.int().argmax(1, keepdim=True))
            room = fits.any(1)
            if self._sync_free or not bool((room | ~needed[:, s]).all()):
                order = self._fits(grid, boards.pose_bodies.expand(len(grid), -1, -1)).cumsum(1)
                rank = counter_rng.below(bits[:, -1], order[:, -1])[:, None]
                exact = torch.searchsorted(order, rank + 1).clamp_(max=len(boards.pose_headings) - 1)
                pose = torch.where(room[:, None], pose, exact)
                room = room | (order[:, -1] > 0)
            body = boards.pose_bodies[pose[:, 0]]
            lies = (needed[:, s] & room)[:, None]
            cells = torch.where(lies, body, rules.num_cells)
            grid.scatter_(1, cells, torch.where(lies, self._codes[s], self._wall).expand_as(cells))
            found &= room | ~needed[:, s]
            bodies.append(body)
            headings.append(boards.pose_ways[pose[:, 0]])
        return torch.stack(bodies, 1), torch.stack(headings, 1), found

    def _fits(self, grid: torch.Tensor, bodies: torch.Tensor) -> torch.Tensor:
        cells = grid.gather(1, bodies.flatten(1)).view(bodies.shape)
        return (cells == FREE).all(2)

    def _in_line(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Line all snakes up along the path through all cells, with a free cell ahead of each."""
        boards, rules = self.boards, self.rules
        room = rules.start_length + 1
        bits = self._draw(rows, boards.draws_per_step - 1)[0]
        offset = counter_rng.below(bits, rules.num_cells - rules.num_snakes * room + 1)
        segment = torch.arange(rules.start_length - 1, -1, -1, device=rows.device)
        place = offset[:, None, None] + self._snakes[:, None] * room + segment
        body, ahead = boards.path[place], boards.path[place + 1]
        headings = (boards.neighbours[body] == ahead[..., None]).long().argmax(-1)
        return body, headings

    def _draw(self, rows: torch.Tensor, which: int) -> tuple[torch.Tensor, torch.Tensor]:
        counter = self.boards.clock * self.boards.draws_per_step + which
        return counter_rng.draw(self.boards.keys.index_select(0, rows), counter)
