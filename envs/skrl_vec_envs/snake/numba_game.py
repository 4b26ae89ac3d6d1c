"""The compiled game, on NumPy's views of the tensors. Importing it imports numba."""

# mypy: disable-error-code="import-not-found,import-untyped"
from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch

from skrl_vec_envs.snake import kernel
from skrl_vec_envs.snake.boards import Boards
from skrl_vec_envs.snake.observations import OBSERVATIONS, Observation
from skrl_vec_envs.snake.pool import Pool
from skrl_vec_envs.snake.progress import Progress
from skrl_vec_envs.snake.torch_game import Outcome

_NEVER = 2**62
SERIAL_BELOW = 1024
"""Snakes below which one thread is faster than several."""


class NumbaGame:
    """Plays N boards together on a CPU.

    :param boards: State of the boards.
    :param observation: What is observed.
    :param final_of_all: Give final observations of all rows, and not only of those that ended.
    :param threads: Number of threads.
    """

    def __init__(self, boards: Boards, observation: Observation, final_of_all: bool, threads: int) -> None:
        self.boards = boards
        self.observation = observation
        rules = boards.rules
        few = boards.num_boards * rules.num_snakes < SERIAL_BELOW
        self.threads = 1 if few else min(threads, boards.num_boards, numba.config.NUMBA_NUM_THREADS)
        self._final_of_all = final_of_all
        self._rules = kernel.Rules(
            width=rules.width,
            height=rules.height,
            snakes=rules.num_snakes,
            food=rules.num_food,
            food_per_snake=rules.food_per_snake,
            coloured=rules.food_colours and rules.num_snakes > 1,
            start_length=rules.start_length,
            longest=rules.longest,
            reversing_kills=rules.reversing == "kills" and rules.actions == "absolute",
            tail_is_free=rules.tail == "free",
            in_order=rules.moves == "in_order",
            death_ends=rules.deaths == "end",
            max_steps=rules.max_steps or _NEVER,
            hunger_limit=rules.hunger_limit or _NEVER,
            kind=OBSERVATIONS.index(observation.kind),
            window=observation.window,
            turns_window=rules.actions == "relative",
            viewers=observation.num_viewers,
            final_of_all=final_of_all,
        )
        self._state = kernel.State(
            *(x.numpy() for x in (boards.grid, boards.ways, boards.numbers, boards.returns, boards.food, boards.keys))
        )
        tables = (boards.neighbours, boards.turns, boards.pose_bodies, boards.pose_ways, boards.path)
        numbers = [table.numpy().astype(np.uint32) for table in tables]
        planes = [np.array(table, dtype=np.uint32) for table in observation.plane_tables()]
        self._tables = kernel.Tables(boards.rewards.numpy(), *numbers, *planes)
        self._num_snakes = boards.num_boards * rules.num_snakes
        self._scratch = np.empty((self.threads, kernel.SCRATCH, rules.num_snakes), np.int64)
        self._counter = boards.clock.numpy().reshape(1)
        self._pool = Pool((boards.num_boards, observation.num_viewers, *observation.shape), observation.dtype)
        self._compile()

    def draw(self) -> torch.Tensor:
        """Draw all boards. Shape: (N, V, ...)."""
        observations = self._pool.take_array()
        kernel.draw(0, self.boards.num_boards, self._rules, self._state, self._tables, self._rows(observations))
        return torch.from_numpy(observations)

    def start(self) -> torch.Tensor:
        """Begin a game on all boards, and draw them. Shape: (N, V, ...)."""
        self._counter[0] += 1
        observations = self._pool.take_array()
        arguments = (self._first_draw(), self._rules, self._state, self._tables, self._rows(observations))
        kernel.start(0, self.boards.num_boards, *arguments)
        return torch.from_numpy(observations)

    def first_illegal(self, actions: torch.Tensor) -> int:
        """Return the number of the first action that is out of range, or -1."""
        return int(kernel.first_illegal(actions.numpy().reshape(-1), self.boards.rules.num_actions))

    def step(self, actions: torch.Tensor) -> Outcome:
        """Make one move on all boards.

        :param actions: Legal actions. Shape: that of the batch, dtype: int64, contiguous.

        :return: What came of it.
        """
        self._counter[0] += 1
        observations, final_observations = self._pool.take_array(), self._pool.take_array()
        results = [np.empty(self._num_snakes, dtype) for dtype in _DTYPES]
        out = kernel.Out(self._rows(observations), self._rows(final_observations), *results)
        arguments = (self._first_draw(), actions.numpy().reshape(-1), self._rules, self._state, self._tables, out)
        if self.threads == 1:
            last = kernel.step(0, self.boards.num_boards, *arguments, self._scratch[0])
        else:
            numba.set_num_threads(self.threads)
            last = kernel.step_in_parallel(self.boards.num_boards, *arguments, self._scratch)
        final = torch.from_numpy(final_observations)
        tensors = [torch.from_numpy(result) for result in results]
        if self._rules.snakes > 1:
            tensors = [tensor.view(self.boards.batch_shape) for tensor in tensors]
        return Outcome(
            torch.from_numpy(observations), final if self._final_of_all else final.flatten(0, 1)[:last], *tensors
        )

    def _compile(self) -> None:
        """Compile, or load from numba's cache, everything that a step needs; say so where it takes long."""
        observations = self._rows(self._pool.take_array())
        actions = np.zeros(self._num_snakes, np.int64)
        common = (self._rules, self._state, self._tables)
        out = kernel.Out(observations, observations, *(np.empty(self._num_snakes, dtype) for dtype in _DTYPES))
        with Progress("compiling the snake for the first time, which takes part of a minute") as progress:
            progress.run("check", kernel.first_illegal, actions, 4)
            progress.run("start", kernel.start, 0, 0, 0, *common, observations)
            progress.run("step", kernel.step, 0, 0, 0, actions, *common, out, self._scratch[0])
            if self.threads > 1:
                progress.run("step in parallel", kernel.step_in_parallel, 0, 0, actions, *common, out, self._scratch)

    def _first_draw(self) -> int:
        return int(self._counter[0]) * self.boards.draws_per_step

    def _rows(self, observations: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return observations.reshape(self.boards.num_boards * self._rules.viewers, -1)


_DTYPES = (np.float32, np.bool_, np.bool_, np.bool_, np.float32, np.int64, np.int64)
