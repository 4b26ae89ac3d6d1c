"""A slow snake game on one board, with lists and loops: what the batched ones are compared with."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from tests.skrl_vec_envs.plain_random import plain_draw

Cell = tuple[int, int]  # row, column; the direction of a move likewise
Image = list[list[list[float]]]

DIRECTIONS: list[Cell] = [(-1, 0), (1, 0), (0, -1), (0, 1)]
TRIES = 7
DRAWS = 4  # of two numbers each, for every thing that may need a place


class Step(NamedTuple):
    """What a step returns, for one board: of each viewer, or of each snake."""

    observations: list[Any]
    rewards: list[float]
    terminated: list[bool]
    truncated: list[bool]
    final_observations: list[Any]
    lengths: list[int]


class Snake:
    """One snake: its cells, head first, where it is headed, and how long it has lived."""

    def __init__(self, cells: list[Cell], direction: Cell) -> None:
        self.cells, self.direction = list(cells), direction
        self.steps = self.hunger = 0


class PlainSnake:
    """One board. ``rules`` has the attributes of ``SnakeRules``, ``board`` is the number of the board."""

    def __init__(self, rules: Any, *, seed: int, board: int, kind: str, window: int = 7, shared: bool = False) -> None:
        self.rules, self.seed, self.board = rules, seed, board
        self.kind, self.window, self.shared = kind, window, shared
        self.cells = [(row, column) for row in range(rules.height) for column in range(rules.width)]
        self.path: list[Cell] = []
        for row in range(rules.height):
            cells = [(row, column) for column in range(rules.width)]
            self.path += cells if row % 2 == 0 else cells[::-1]
        self.poses = self._straight_poses() or self._bent_poses()
        self.foods = rules.num_snakes * rules.food_per_snake
        self.time = 0
        self.snakes: list[Snake] = []
        self.food: list[Cell | None] = []
        self.start()

    def _straight_poses(self) -> list[tuple[list[Cell], Cell]]:
        poses = []
        for rows, columns in DIRECTIONS:
            for row, column in self.cells:
                ahead, *snake = [(row - i * rows, column - i * columns) for i in range(-1, self.rules.start_length)]
                if ahead in self.cells and all(cell in self.cells for cell in snake):
                    poses.append((snake, (rows, columns)))
        return poses

    def _bent_poses(self) -> list[tuple[list[Cell], Cell]]:
        poses = []
        for way in (self.path, self.path[::-1]):
            for i in range(len(way) - self.rules.start_length):
                snake = way[i : i + self.rules.start_length][::-1]
                poses.append((snake, (snake[0][0] - snake[1][0], snake[0][1] - snake[1][1])))
        return poses

    def _numbers(self, thing: int) -> list[int]:
        """Draw the numbers for the place of a thing: food after the moves, food of new games, snakes, all in a line."""
        first = DRAWS * (self.time * (2 * self.foods + self.rules.num_snakes + 1) + thing)
        return [bits for i in range(DRAWS) for bits in plain_draw(self.seed, self.board, first + i)]

    def start(self) -> None:
        """Begin a game."""
        self.time += 1
        self._start_board()

    def _start_board(self) -> None:
        self.snakes = []
        self.food = [None] * self.foods
        for s in range(self.rules.num_snakes):
            pose = self._free_pose(s)
            if pose is None:
                self._line_up()
                break
            self.snakes.append(Snake(*pose))
        self._place_food(1)

    def _line_up(self) -> None:
        length, count = self.rules.start_length, self.rules.num_snakes
        spare = len(self.cells) - count * (length + 1)
        offset = self._numbers(2 * self.foods + count)[0] * (spare + 1) // 2**31
        self.snakes = []
        for s in range(count):
            first = offset + s * (length + 1)
            (row, column), ahead = self.path[first + length - 1], self.path[first + length]
            direction = (ahead[0] - row, ahead[1] - column)
            self.snakes.append(Snake(self.path[first : first + length][::-1], direction))

    def _free_pose(self, s: int) -> tuple[list[Cell], Cell] | None:
        taken = self._taken()
        numbers = self._numbers(2 * self.foods + s)
        for bits in numbers[:TRIES]:
            pose = self.poses[bits * len(self.poses) // 2**31]
            if not any(cell in taken for cell in pose[0]):
                return pose
        free = [pose for pose in self.poses if not any(cell in taken for cell in pose[0])]
        return free[numbers[TRIES] * len(free) // 2**31] if free else None

    def _taken(self) -> set[Cell]:
        return {cell for snake in self.snakes for cell in snake.cells} | {cell for cell in self.food if cell}

    def _place_food(self, which: int) -> None:
        for f in range(self.foods):
            taken = self._taken()
            free = [cell for cell in self.cells if cell not in taken]
            if self.food[f] is None and free:
                *tried, last = self._numbers(which * self.foods + f)
                cells = [self.cells[bits * len(self.cells) // 2**31] for bits in tried]
                self.food[f] = next((cell for cell in cells if cell in free), free[last * len(free) // 2**31])

    def turned(self, s: int, action: int) -> Cell:
        """Return the direction in which an action moves a snake."""
        rows, columns = self.snakes[s].direction
        if self.rules.actions == "relative":  # rows grow downwards: left of up (-1, 0) is (0, -1)
            return [(-columns, rows), (rows, columns), (columns, -rows)][action]
        wanted = DIRECTIONS[action]
        straight = wanted == (-rows, -columns) and self.rules.reversing == "straight"
        return (rows, columns) if straight else wanted

    def target(self, s: int, action: int) -> Cell:
        """Return the cell, or the place outside the board, that an action leads a snake to."""
        rows, columns = self.turned(s, action)
        row, column = self.snakes[s].cells[0]
        return row + rows, column + columns

    def may_eat(self, s: int, cell: Cell) -> bool:
        """Tell whether there is food on a cell that the snake can eat."""
        pieces = [f for f, food in enumerate(self.food) if food == cell]
        return any(not self.rules.food_colours or f // self.rules.food_per_snake == s for f in pieces)

    def would_grow(self, s: int, cell: Cell) -> bool:
        """Tell whether the snake would get longer by moving to a cell."""
        return self.may_eat(s, cell) and len(self.snakes[s].cells) < self.longest

    @property
    def longest(self) -> int:
        """Length at which a snake grows no more."""
        return min(self.rules.max_length or len(self.cells), len(self.cells))

    def _fatal(self, moves: dict[int, tuple[Cell, Cell]]) -> set[int]:
        """Find out which of the snakes that move together die, from their targets and directions."""
        died = set()
        for s, (target, direction) in moves.items():
            snake = self.snakes[s]
            rows, columns = snake.direction
            if direction == (-rows, -columns) and len(snake.cells) > 1:
                died.add(s)
            if target not in self.cells or (target in self.food and not self.may_eat(s, target)):
                died.add(s)
            for other, its in enumerate(self.snakes):
                body = list(its.cells)
                if other in moves and self.rules.tail == "free" and not self.would_grow(other, moves[other][0]):
                    body.pop()
                if target in body:
                    died.add(s)
                if other in moves and other != s:
                    swap = target == its.cells[0] and moves[other][0] == snake.cells[0]
                    if swap or moves[other][0] == target:
                        died.add(s)
        return died

    def careful_actions(self, generator: random.Random) -> list[int]:
        """Choose actions that do not kill by themselves where there are any, food first, otherwise by chance."""
        chosen = []
        for s in range(len(self.snakes)):
            actions = list(range(self.rules.num_actions))
            generator.shuffle(actions)

            def cost(action: int, s: int = s) -> tuple[bool, bool]:
                target = self.target(s, action)
                return s in self._fatal({s: (target, self.turned(s, action))}), not self.may_eat(s, target)

            chosen.append(min(actions, key=cost))
        return chosen

    def step(self, actions: list[int]) -> Step:
        """Make a move, and let what ends begin anew."""
        self.time += 1
        count = self.rules.num_snakes
        turns = [(s,) for s in range(count)] if self.rules.moves == "in_order" else [tuple(range(count))]
        ate: set[int] = set()
        grew: set[int] = set()
        stayed: set[int] = set()
        for together in turns:
            moves = {s: (self.target(s, actions[s]), self.turned(s, actions[s])) for s in together}
            fatal = self._fatal(moves)
            stayed |= fatal
            growing = {s for s in together if self.would_grow(s, moves[s][0])}
            eaten = []
            for s in sorted(set(together) - fatal):
                snake, (target, snake.direction) = self.snakes[s], moves[s]
                snake.cells.insert(0, target)
                if s in growing:
                    grew.add(s)
                else:
                    snake.cells.pop()
                if self.may_eat(s, target):
                    ate.add(s)
                    eaten.append(target)
            self.food = [None if cell in eaten else cell for cell in self.food]
        died = set(stayed)
        for s, snake in enumerate(self.snakes):
            snake.steps += 1
            snake.hunger = 0 if s in ate else snake.hunger + 1
            if self.rules.hunger_limit is not None and snake.hunger >= self.rules.hunger_limit:
                died.add(s)
        lengths = [len(snake.cells) for snake in self.snakes]
        won = not died and (sum(lengths) == len(self.cells) or min(lengths) == self.longest)
        over = won or (self.rules.deaths == "end" and bool(died))
        terminated = [over or s in died for s in range(count)]
        limit = self.rules.max_steps
        truncated = [
            not ended and limit is not None and snake.steps >= limit
            for ended, snake in zip(terminated, self.snakes, strict=True)
        ]
        rewards = [
            self.rules.step_reward
            + self.rules.food_reward * (s in grew)
            + self.rules.win_reward * won
            + self.rules.death_reward * (s in died)
            for s in range(count)
        ]
        self._place_food(0)
        before = self.observations(stayed)
        ended = [a or b for a, b in zip(terminated, truncated, strict=True)]
        if any(ended):
            truncated = self._begin_anew(ended, terminated, truncated)
            ended = [a or b for a, b in zip(terminated, truncated, strict=True)]
        after = self.observations()
        if len(after) == count:
            final = [old if end else new for old, new, end in zip(before, after, ended, strict=True)]
        else:
            final = before if all(ended) else after
        return Step(after, rewards, terminated, truncated, final, lengths)

    def _begin_anew(self, ended: list[bool], terminated: list[bool], truncated: list[bool]) -> list[bool]:
        if not all(ended):
            for s, snake in enumerate(self.snakes):
                if ended[s]:
                    snake.cells = []
            for s in range(len(self.snakes)):
                if ended[s]:
                    pose = self._free_pose(s)
                    if pose is None:
                        truncated = [not end for end in terminated]
                        break
                    self.snakes[s] = Snake(*pose)
            else:
                self._place_food(1)
                return truncated
        self._start_board()
        return truncated

    def observations(self, stayed: set[int] | None = None) -> list[Any]:
        """Draw the board for each viewer. A snake that moved hides the tail of one that did not, where it is now."""
        stayed = stayed or set()
        moved = [cell for s, snake in enumerate(self.snakes) if s not in stayed for cell in snake.cells]
        bodies = [
            [cell for cell in snake.cells if s not in stayed or cell not in moved]
            for s, snake in enumerate(self.snakes)
        ]
        viewers = [0] if self.shared else range(self.rules.num_snakes)
        if self.kind == "entities":
            return [self._entities(viewer, bodies) for viewer in viewers]
        planes = [self._planes(viewer, bodies) for viewer in viewers]
        if self.kind == "window":
            return [self._window(viewer, layers) for viewer, layers in zip(viewers, planes, strict=True)]
        images = [
            [
                [[float((r, c) in layer) for c in range(self.rules.width)] for r in range(self.rules.height)]
                for layer in layers
            ]
            for layers in planes
        ]
        if self.kind == "flat":
            return [[x for plane in image for row in plane for x in row] for image in images]
        return images

    def _heads(self, bodies: list[list[Cell]]) -> list[set[Cell]]:
        heads = [snake.cells[0] for snake in self.snakes]
        return [{head} & set(body) for head, body in zip(heads, bodies, strict=True)]

    def _planes(self, viewer: int, bodies: list[list[Cell]]) -> list[set[Cell]]:
        per_snake, coloured = self.rules.food_per_snake, self.rules.food_colours
        heads = self._heads(bodies)
        rests = [set(body) - head for body, head in zip(bodies, heads, strict=True)]
        count = len(bodies)
        food = [{f for f in self.food[s * per_snake : (s + 1) * per_snake] if f} for s in range(count)]
        everything: set[Cell] = set().union(*food)
        if self.shared and count > 1:
            return [*heads, *rests, *(food if coloured else [everything])]
        own_food = food[viewer] if coloured else everything
        planes = [heads[viewer], rests[viewer], own_food]
        if count > 1:
            others = [s for s in range(count) if s != viewer]
            planes += [set().union(*(heads[s] for s in others)), set().union(*(rests[s] for s in others))]
            if coloured:
                planes.append(everything - own_food)
        return planes

    def _window(self, viewer: int, planes: list[set[Cell]]) -> Image:
        snake, half = self.snakes[viewer], self.window // 2
        row, column = snake.cells[0]
        ahead = snake.direction if self.rules.actions == "relative" else (-1, 0)
        right = (ahead[1], -ahead[0])

        def seen(up: int, side: int) -> Cell:
            return row + up * ahead[0] + side * right[0], column + up * ahead[1] + side * right[1]

        cells = [[seen(up, side) for side in range(-half, half + 1)] for up in range(half, -half - 1, -1)]
        walls = [[float(cell not in self.cells) for cell in line] for line in cells]
        return [walls, *([[float(cell in plane) for cell in line] for line in cells] for plane in planes[1:])]

    def _entities(self, viewer: int, bodies: list[list[Cell]]) -> list[list[float]]:
        count, per_snake = len(bodies), self.rules.food_per_snake
        heads = self._heads(bodies)
        rows = [(1, cell, (s - viewer) % count) for s in range(count) for cell in heads[s]]
        rest = [(cell, s) for s in range(count) for cell in bodies[s] if cell not in heads[s]]
        rows += [(2, cell, (s - viewer) % count) for cell, s in sorted(rest)]
        for f, place in enumerate(self.food):
            if place is not None:
                rows.append((3, place, (f // per_snake - viewer) % count if self.rules.food_colours else 0))
        room = min(len(self.cells), count * self.longest + self.foods)
        listed = [[float(kind), float(column), float(row), float(colour)] for kind, (row, column), colour in rows]
        return listed + [[0.0] * 4] * (room - len(listed))
