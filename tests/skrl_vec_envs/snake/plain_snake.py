"""A slow snake game on one board, with lists and loops: what the batched one is compared with."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from tests.skrl_vec_envs.plain_random import plain_draw

Cell = tuple[int, int]  # row, column; the direction of a move likewise

DIRECTIONS: list[Cell] = [(-1, 0), (1, 0), (0, -1), (0, 1)]


class Step(NamedTuple):
    """What a step returns, for one board."""

    observation: list[list[list[float]]]
    reward: float
    terminated: bool
    truncated: bool
    final_observation: list[list[list[float]]]
    length: int


class PlainSnake:
    """One board. The parameters are those of the batched game, ``board`` is the number of the board."""

    def __init__(
        self,
        *,
        height: int,
        width: int,
        start_length: int,
        max_steps: int | None,
        hunger_limit: int | None,
        actions: str,
        food_reward: float,
        death_reward: float,
        win_reward: float,
        step_reward: float,
        seed: int,
        board: int,
    ) -> None:
        self.cells = [(row, column) for row in range(height) for column in range(width)]
        self.height, self.width = height, width
        self.start_length, self.max_steps, self.hunger_limit = start_length, max_steps, hunger_limit
        self.relative = actions == "relative"
        self.food_reward, self.death_reward = food_reward, death_reward
        self.win_reward, self.step_reward = win_reward, step_reward
        self.seed, self.board = seed, board
        self.total_steps = 0
        self.starts = list(self._starts())
        self._start()

    def _starts(self) -> Iterator[tuple[list[Cell], Cell]]:
        straight = False
        for rows, columns in DIRECTIONS:
            for row, column in self.cells:
                ahead, *snake = [(row - i * rows, column - i * columns) for i in range(-1, self.start_length)]
                if ahead in self.cells and all(cell in self.cells for cell in snake):
                    straight = True
                    yield snake, (rows, columns)
        if not straight:
            path: list[Cell] = []
            for row in range(self.height):
                cells = [(row, column) for column in range(self.width)]
                path += cells if row % 2 == 0 else cells[::-1]
            for way in (path, path[::-1]):
                for i in range(len(way) - self.start_length):
                    snake = list(reversed(way[i : i + self.start_length]))
                    yield snake, (snake[0][0] - snake[1][0], snake[0][1] - snake[1][1])

    def _start(self) -> None:
        food_bits, pose_bits = plain_draw(self.seed, self.board, 2 * self.total_steps + 1)
        snake, self.direction = self.starts[pose_bits * len(self.starts) // 2**31]
        self.snake = list(snake)
        self.steps = self.hunger = 0
        self._place_food(food_bits)

    def _place_food(self, bits: int) -> None:
        free = [cell for cell in self.cells if cell not in self.snake]
        self.food: Cell | None = free[bits * len(free) // 2**31] if free else None

    def _turned(self, action: int) -> Cell:
        rows, columns = self.direction
        if self.relative:  # rows grow downwards: left of up (-1, 0) is (0, -1)
            return [(-columns, rows), (rows, columns), (columns, -rows)][action]
        wanted = DIRECTIONS[action]
        return self.direction if wanted == (-rows, -columns) else wanted

    def kills(self, action: int) -> bool:
        """Tell whether that action would end in the wall or the body."""
        target = self.target(action)
        keeps_tail = target == self.food
        return target not in self.cells or target in (self.snake if keeps_tail else self.snake[:-1])

    def target(self, action: int) -> Cell:
        """Return the cell, or the place outside the board, that an action leads to."""
        rows, columns = self._turned(action)
        return self.snake[0][0] + rows, self.snake[0][1] + columns

    def careful_action(self, generator: random.Random) -> int:
        """Choose an action that does not kill if there is one, food first, otherwise by chance."""
        actions = list(range(3 if self.relative else 4))
        generator.shuffle(actions)
        return min(actions, key=lambda action: (self.kills(action), self.target(action) != self.food))

    def step(self, action: int) -> Step:
        """Make a move and, where it ends the game, start the next one."""
        self.total_steps += 1
        self.steps += 1
        self.hunger += 1
        reward, won = self.step_reward, False
        died = self.kills(action)
        if not died:
            target = self.target(action)
            self.direction = self._turned(action)
            self.snake.insert(0, target)
            if target == self.food:
                self.hunger = 0
                reward += self.food_reward
                won = len(self.snake) == len(self.cells)
                self._place_food(plain_draw(self.seed, self.board, 2 * self.total_steps)[0])
            else:
                self.snake.pop()
        if self.hunger_limit is not None and self.hunger >= self.hunger_limit:
            died = True
        reward += self.win_reward * won + self.death_reward * died
        terminated = died or won
        truncated = not terminated and self.max_steps is not None and self.steps >= self.max_steps
        final_observation, length = self.observation(), len(self.snake)
        if terminated or truncated:
            self._start()
        return Step(self.observation(), reward, terminated, truncated, final_observation, length)

    def observation(self) -> list[list[list[float]]]:
        """Draw the planes of the head, the body and the food."""
        head, body = self.snake[0], self.snake[1:]
        return [
            [[float((row, column) in marked) for column in range(self.width)] for row in range(self.height)]
            for marked in ([head], body, [self.food])
        ]
