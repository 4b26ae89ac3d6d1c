"""Moves in batched torch: of all snakes together, of some after the others, and of the only snake of each board."""

from __future__ import annotations

import torch

from skrl_vec_envs.snake.boards import FOOD, FREE, WALL, Boards

Happened = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Which snakes ate, which grew, which died. Shape: (N, number of snakes), dtype: bool."""


class TorchMoves:
    """Moves the snakes of N boards. A fatal move is not made.

    :param boards: State of the boards.
    """

    def __init__(self, boards: Boards) -> None:
        self.boards = boards
        self.rules = rules = boards.rules
        device = boards.grid.device
        self._snakes = torch.arange(rules.num_snakes, device=device)
        self._codes = (self._snakes + 1).to(torch.uint8)
        self._others = ~torch.eye(rules.num_snakes, dtype=torch.bool, device=device)
        self._free = torch.full((), FREE, dtype=torch.uint8, device=device)
        self._wall = torch.full((), WALL, dtype=torch.uint8, device=device)
        self._rows = torch.arange(boards.num_boards, device=device) * boards.grid.shape[1]

    def move(self, actions: torch.Tensor) -> Happened:
        """Move all snakes.

        :param actions: Legal actions. Shape: (N, S), dtype: int64.

        :return: What happened to them.
        """
        rules = self.rules
        if rules.num_snakes == 1:
            return self._alone(actions)
        if rules.moves == "simultaneous":
            return self._together(actions, slice(None))
        parts = [self._together(actions[:, s : s + 1], slice(s, s + 1)) for s in range(rules.num_snakes)]
        ate, grew, died = (torch.cat(column, 1) for column in zip(*parts, strict=True))
        return ate, grew, died

    def _alone(self, actions: torch.Tensor) -> Happened:
        """Do what :meth:`_together` does for the only snakes of their boards, in half the time.

        Nothing else moves, so that the tail's cell has code 1 before, and 1 after where the tail stays.
        """
        boards, rules = self.boards, self.rules
        head, tail, old_heading, length = (x[:, 0] for x in boards.numbers[:4])
        actions, grid, ways = actions[:, 0], boards.grid.view(-1), boards.ways.view(-1)
        heading = boards.turns.take(torch.add(actions, old_heading, alpha=rules.num_actions))
        target = boards.neighbours.take(torch.add(heading, head, alpha=4))
        at_target, at_tail = self._rows + target, self._rows + tail
        code = grid.take(at_target)
        body, wall = code == 1, code == WALL
        ate = (code >= FOOD) ^ wall
        if rules.tail == "free":
            body &= target != tail
        died = body | wall
        if rules.reversing == "kills" and rules.actions == "absolute":
            died |= (actions == old_heading ^ 1) & (length > 1)
        lives = ~died
        ate &= lives
        grew = ate & (length < rules.longest)
        leaves_tail = lives ^ grew
        ways.index_copy_(0, self._rows + head, heading.to(torch.uint8))
        after_tail = boards.neighbours.take(torch.add(ways.take(at_tail), tail, alpha=4))
        grid.index_copy_(0, at_tail, (~leaves_tail).view(torch.uint8))
        grid.index_copy_(0, at_target, code.masked_fill_(lives, 1))
        boards.food.masked_fill_((boards.food == target[:, None]) & ate[:, None], rules.num_cells)
        tail.copy_(torch.where(leaves_tail, after_tail, tail))
        head.copy_(torch.where(lives, target, head))
        old_heading.copy_(torch.where(lives, heading, old_heading))
        length += grew
        return ate[:, None], grew[:, None], died[:, None]

    def _together(self, actions: torch.Tensor, who: slice) -> Happened:
        """Move some of the snakes together.

        :param actions: Actions of these snakes. Shape: (N, number of them).
        :param who: Which snakes.

        :return: What happened to them.
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
