"""Observations in batched torch. R is the number of boards drawn, V that of viewers, S that of snakes."""

from __future__ import annotations

import math

import torch

from skrl_vec_envs.snake.boards import FOOD, WALL, Boards
from skrl_vec_envs.snake.observations import BODY, HEAD, NOTHING, PIECE_OF_FOOD, Observation
from skrl_vec_envs.snake.pool import Pool


class TorchViews:
    """Draws boards as their viewers see them.

    :param observation: What is observed.
    :param boards: State of the boards.
    :param pooled: Use memory again, see :class:`~skrl_vec_envs.snake.pool.Pool`.
    """

    def __init__(self, observation: Observation, boards: Boards, pooled: bool) -> None:
        self.observation = observation
        self._boards = boards
        self._codes = torch.arange(1, observation.rules.num_snakes + 1, dtype=torch.uint8, device=boards.grid.device)
        self._pieces = torch.arange(observation.rules.num_food, dtype=torch.uint8, device=boards.grid.device) + FOOD
        self._around = self._window_offsets()
        shape = (boards.num_boards, observation.num_viewers, *observation.shape)
        self._pool = Pool(shape, observation.dtype) if pooled else None
        if observation.kind in ("planes", "flat") and observation.rules.num_snakes == 1:
            pixels = math.prod(shape[1:])
            device = boards.grid.device
            self._bytes = torch.empty(boards.num_boards, pixels, dtype=torch.uint8, device=device)
            self._starts = torch.arange(boards.num_boards, device=device)[:, None] * pixels

    def draw(self, rows: torch.Tensor | None = None) -> torch.Tensor:
        """Draw boards, in bytes but for entities.

        :param rows: Boards to draw (default: all). Shape: (R,), dtype: int64.

        :return: A drawing for :meth:`copy` and :meth:`finish`, to be used before the next one. Shape: (R, V, *shape of
            the observation).
        """
        boards = self._boards
        grid, head, heading, food = (
            x if rows is None else x.index_select(0, rows)
            for x in (boards.grid, boards.head, boards.heading, boards.food)
        )
        kind = self.observation.kind
        if kind == "entities":
            drawn = self._entities(grid, head)
        elif kind == "window":
            drawn = self._windows(grid, head, heading)
        elif self.observation.rules.num_snakes == 1:
            image = self._image() if rows is None else self._bytes.new_empty(len(rows), self._bytes.shape[1])
            drawn = self._planes_alone(grid[:, :-1], head, food, image)
        else:
            drawn = self._planes(grid[:, :-1], head)
        return drawn.view(len(grid), self.observation.num_viewers, *self.observation.shape)

    def replace(self, drawn: torch.Tensor, rows: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        """Replace some boards of a drawing by others, in place.

        Torch takes as long for a byte as for a word of four, so that words are copied where boards are made of them.
        """
        whole, part = drawn.flatten(1), after.flatten(1)
        if drawn.dtype == torch.uint8 and whole.shape[1] % 4 == 0:
            whole, part = whole.view(torch.int32), part.view(torch.int32)
        whole.index_copy_(0, rows, part)
        return drawn

    def copy(self, drawn: torch.Tensor) -> torch.Tensor:
        """Return a drawing in the dtype of the observation, as a fresh tensor."""
        return self._empty(len(drawn)).copy_(drawn)

    def finish(self, drawn: torch.Tensor) -> torch.Tensor:
        """Do what :meth:`copy` does to a drawing that is not needed any more."""
        return drawn if drawn.dtype == self.observation.dtype else self.copy(drawn)

    def _empty(self, boards: int) -> torch.Tensor:
        if self._pool is not None and boards == self._boards.num_boards:
            return self._pool.take()
        shape = (boards, self.observation.num_viewers, *self.observation.shape)
        return torch.empty(shape, dtype=self.observation.dtype, device=self._boards.grid.device)

    def _image(self) -> torch.Tensor:
        """Return memory to draw all boards in: what is returned by a step if it can be, else always the same."""
        return self._empty(len(self._bytes)) if self.observation.dtype == torch.uint8 else self._bytes

    def _planes_alone(
        self, grid: torch.Tensor, head: torch.Tensor, food: torch.Tensor, image: torch.Tensor
    ) -> torch.Tensor:
        """Draw head, body and food of one snake by copying bytes, which is faster than to compare them."""
        boards, cells = len(grid), grid.shape[1]
        image = image.view(boards, 3, cells).zero_()
        image[:, 1] = grid
        things = torch.cat((head, food), 1) + self._starts[:boards]
        pixels = image.view(-1)
        pixels.index_fill_(0, (things + cells).view(-1), 0)
        # food that is missing has no pixel, and the head's has to be written anyway
        pieces = torch.where(food < cells, things[:, 1:] + 2 * cells, things[:, :1])
        pixels.index_fill_(0, torch.cat((things[:, :1], pieces), 1).view(-1), 1)
        return image

    def _planes(self, grid: torch.Tensor, head: torch.Tensor) -> torch.Tensor:
        observation, rules = self.observation, self.observation.rules
        viewers = observation.num_viewers
        body = grid[:, None] == self._codes[:, None]
        heads = torch.zeros_like(body).scatter_(2, head[:, :, None], True) & body
        body &= ~heads
        shape = (len(grid), viewers, observation.num_planes, rules.num_cells)
        drawn = torch.zeros(shape, dtype=torch.bool, device=grid.device)
        head_planes, body_planes, food_planes = observation.plane_tables()
        food = grid[:, None] == self._pieces[:, None]
        for viewer in range(viewers):
            for s in range(rules.num_snakes):
                drawn[:, viewer, head_planes[viewer][s]] |= heads[:, s]
                drawn[:, viewer, body_planes[viewer][s]] |= body[:, s]
            for f in range(rules.num_food):
                drawn[:, viewer, food_planes[viewer][f]] |= food[:, f]
        return drawn.view(torch.uint8)

    def _window_offsets(self) -> torch.Tensor:
        """List rows and columns from the head for each heading. Shape: (2, 4, window * window)."""
        size = self.observation.window
        steps = torch.arange(size, device=self._boards.grid.device) - size // 2
        row, column = (x.flatten() for x in torch.meshgrid(steps, steps, indexing="ij"))
        up = (row, column)
        if self.observation.rules.actions == "absolute":
            turned = [up] * 4
        else:  # as the snake sees it: up is its heading
            turned = [up, (-row, -column), (-column, row), (column, -row)]
        return torch.stack([torch.stack(axis) for axis in zip(*turned, strict=True)])

    def _windows(self, grid: torch.Tensor, head: torch.Tensor, heading: torch.Tensor) -> torch.Tensor:
        observation, rules = self.observation, self.observation.rules
        rows, columns = self._around[:, heading]  # (R, S, window * window)
        rows = rows + (head // rules.width)[..., None]
        columns = columns + (head % rules.width)[..., None]
        inside = (rows >= 0) & (rows < rules.height) & (columns >= 0) & (columns < rules.width)
        cells = torch.where(inside, rows * rules.width + columns, rules.num_cells)
        codes = grid.gather(1, cells.flatten(1)).view_as(cells)
        shape = (len(grid), rules.num_snakes, observation.num_planes, cells.shape[2])
        drawn = torch.zeros(shape, dtype=torch.bool, device=grid.device)
        drawn[:, :, 0] = codes == WALL
        head_planes, body_planes, food_planes = observation.plane_tables()
        for s in range(rules.num_snakes):
            of_snake = codes == s + 1
            of_head = of_snake & (cells == head[:, s, None, None])
            for viewer in range(rules.num_snakes):
                drawn[:, viewer, body_planes[viewer][s]] |= (of_snake & ~of_head)[:, viewer]
                if viewer != s:
                    drawn[:, viewer, head_planes[viewer][s]] |= of_head[:, viewer]
        for f in range(rules.num_food):
            piece = codes == FOOD + f
            for viewer in range(rules.num_snakes):
                drawn[:, viewer, food_planes[viewer][f]] |= piece[:, viewer]
        return drawn.view(torch.uint8)

    def _entities(self, grid: torch.Tensor, head: torch.Tensor) -> torch.Tensor:
        observation, rules = self.observation, self.observation.rules
        snakes = rules.num_snakes
        code = grid[:, :-1].long()
        is_food = code >= FOOD
        is_head = torch.zeros_like(is_food).scatter_(1, head, True)
        kind = torch.where(is_food, PIECE_OF_FOOD, torch.where(code > 0, BODY, NOTHING)).masked_fill_(is_head, HEAD)
        colour = torch.where(is_food, (code - FOOD) // rules.food_per_snake, code - 1)
        # heads by number, bodies row by row, food by number, nothing
        order = torch.where(is_head, code - 1, torch.where(is_food, code, snakes)).masked_fill_(code == 0, WALL)
        cells = order.argsort(dim=1, stable=True)[:, : observation.most_entities]
        kind, colour = kind.gather(1, cells), colour.gather(1, cells)
        lists = []
        for viewer in range(observation.num_viewers):
            seen = (colour - viewer) % snakes
            if not rules.food_colours:
                seen = seen.masked_fill(kind == PIECE_OF_FOOD, 0)
            entity = torch.stack((kind, cells % rules.width, cells // rules.width, seen), -1)
            lists.append(entity * (kind != NOTHING)[..., None])
        return torch.stack(lists, 1).float()
