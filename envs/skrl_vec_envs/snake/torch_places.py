"""Places in batched torch: new food, and snakes and boards that start anew.

R is the number of boards that are looked at: those where something happens or, where nothing may wait for the device,
all.
"""

from __future__ import annotations

import torch

from skrl_vec_envs import counter_rng
from skrl_vec_envs.snake.boards import DRAWS, FOOD, FREE, TRIES, WALL, Boards


class TorchPlaces:
    """Finds places on N boards.

    :param boards: State of the boards.
    :param sync_free: Never wait for the device.
    """

    def __init__(self, boards: Boards, sync_free: bool) -> None:
        self.boards = boards
        self.rules = rules = boards.rules
        device = boards.grid.device
        self._sync_free = sync_free
        self._snakes = torch.arange(rules.num_snakes, device=device)
        self._codes = (self._snakes + 1).to(torch.uint8)
        self._pieces = torch.arange(FOOD, FOOD + rules.num_food, device=device).to(torch.uint8)
        self._wall = torch.full((), WALL, dtype=torch.uint8, device=device)
        self._counters = torch.arange(boards.draws_per_step, device=device)

    def place_food(self, rows: torch.Tensor, bits: torch.Tensor | None = None) -> None:
        """Put missing food on free cells, each as likely as the others: one tried by chance, or the k-th free one.

        :param rows: Which boards. Shape: (R,), dtype: int64.
        :param bits: Random numbers for each piece (default: those for food that is missing after the moves). Shape:
            (R, F, TRIES + 1), dtype: int64.
        """
        boards, nowhere = self.boards, self.rules.num_cells
        if bits is None:
            bits = self._bits(rows, 0, self.rules.num_food)
        grid, starts = boards.grid.view(-1), (rows * (nowhere + 1))[:, None]
        for f in range(self.rules.num_food):
            food = boards.food[:, f]
            tried = counter_rng.below(bits[:, f, :TRIES], nowhere)
            found, which = (grid.take(starts + tried) == FREE).max(1, keepdim=True)
            cell = tried.gather(1, which)
            if self._sync_free or not bool(found.all()):
                order = (boards.grid.index_select(0, rows) == FREE).cumsum(1)
                count = order[:, -1:]
                exact = torch.searchsorted(order, counter_rng.below(bits[:, f, TRIES:], count) + 1)
                cell = torch.where(found, cell, exact)
                found = found | (count > 0)
            old = food.index_select(0, rows)[:, None]
            needed = (old == nowhere) & found
            cell = torch.where(needed, cell, nowhere)  # the wall, which is written as it is
            code = torch.where(needed, self._pieces[f], self._wall)
            grid.index_copy_(0, (starts + cell)[:, 0], code[:, 0])
            food.index_copy_(0, rows, torch.where(needed, cell, old)[:, 0])

    def begin(self, rows: torch.Tensor, ended: torch.Tensor) -> torch.Tensor | None:
        """Take the snakes that ended off some boards, and let them start anew; where all ended, the food as well.

        :param rows: Boards. Shape: (R,).
        :param ended: Snakes of these boards that ended. Shape: (R, S).

        :return: Boards without room, which began anew. Shape: (R,); None where there always is room.
        """
        boards, rules = self.boards, self.rules
        alone = rules.num_snakes == 1
        if alone and not self._sync_free:
            self._begin_alone(rows)
            return None
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
        boards.grid.index_copy_(0, rows, grid)
        boards.ways.index_copy_(0, rows, ways)
        boards.numbers.index_copy_(1, rows, torch.where(ended, begun, numbers))
        boards.food.index_copy_(0, rows, food)
        boards.returns.index_copy_(0, rows, boards.returns.index_select(0, rows).masked_fill_(ended, 0.0))
        self.place_food(rows, self._bits(rows, rules.num_food, rules.num_food))
        return stuck

    def _begin_alone(self, rows: torch.Tensor) -> None:
        """Begin a game on boards with one snake."""
        boards, rules = self.boards, self.rules
        bits = self._bits(rows, rules.num_food, rules.num_food + 1)
        pose = counter_rng.below(bits[:, -1, 0], len(boards.pose_headings))
        bodies, ways = boards.pose_bodies.index_select(0, pose), boards.pose_ways.index_select(0, pose)
        boards.grid[:, :-1].index_fill_(0, rows, FREE)
        cells = ((rows * (rules.num_cells + 1))[:, None] + bodies).view(-1)
        boards.grid.view(-1).index_fill_(0, cells, 1)
        boards.ways.view(-1).index_copy_(0, cells, ways.to(torch.uint8).view(-1))
        zeros = torch.zeros_like(pose)
        begun = (bodies[:, 0], bodies[:, -1], ways[:, 0], zeros + rules.start_length, zeros, zeros)
        boards.numbers[:, :, 0].index_copy_(1, rows, torch.stack(begun))
        boards.returns.index_fill_(0, rows, 0.0)
        boards.food.index_fill_(0, rows, rules.num_cells)
        self.place_food(rows, bits)

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
            pose = counter_rng.below(self._bits(rows, 2 * rules.num_food)[:, 0, :1], len(boards.pose_headings))
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
            bits = self._bits(rows, 2 * rules.num_food + s)[:, 0]
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
        bits = self._bits(rows, 2 * rules.num_food + rules.num_snakes)[:, 0, 0]
        offset = counter_rng.below(bits, rules.num_cells - rules.num_snakes * room + 1)
        segment = torch.arange(rules.start_length - 1, -1, -1, device=rows.device)
        place = offset[:, None, None] + self._snakes[:, None] * room + segment
        body, ahead = boards.path[place], boards.path[place + 1]
        headings = (boards.neighbours[body] == ahead[..., None]).long().argmax(-1)
        return body, headings

    def _bits(self, rows: torch.Tensor, first_thing: int, things: int = 1) -> torch.Tensor:
        """Draw the numbers for the places of some things on some boards. Shape: (R, things, TRIES + 1)."""
        first = self.boards.clock * self.boards.draws_per_step + DRAWS * first_thing
        counters = self._counters[: DRAWS * things] + first
        halves = counter_rng.draw(self.boards.keys.index_select(0, rows)[:, None], counters)
        return torch.stack(halves, 2).view(-1, things, TRIES + 1)
