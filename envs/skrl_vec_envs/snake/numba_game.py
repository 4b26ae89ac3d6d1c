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
    :param threads: Number of threads.
    :param final_of_all: Write final observations also where an episode goes on; the rows there are left as they are
        otherwise.
    """

    def __init__(self, boards: Boards, observation: Observation, threads: int, final_of_all: bool) -> None:
        self.boards = boards
        self.observation = observation
        rules = boards.rules
        few = boards.num_boards * rules.num_snakes < SERIAL_BELOW
        self.threads = 1 if few else min(threads, boards.num_boards, numba.config.NUMBA_NUM_THREADS)
        self._rules = kernel.Rules(
            width=rules.width,
            height=rules.height,
            snakes=rules.num_snakes,
            food=rules.num_food,
            food_per_snake=rules.food_per_snake,
            coloured=rules.food_colours and rules.num_snakes > 1,
            actions=rules.num_actions,
            start_length=rules.start_length,
            longest=rules.longest,
            reversing_kills=rules.reversing == "kills" and rules.actions == "absolute",
            tail_is_free=rules.tail == "free",
            in_order=rules.moves == "in_order",
            death_ends=rules.deaths == "end",
            max_steps=rules.max_steps or _NEVER,
            hunger_limit=rules.hunger_limit or _NEVER,
            draws=boards.draws_per_step,
            kind=OBSERVATIONS.index(observation.kind),
            window=observation.window,
            turns_window=rules.actions == "relative",
            viewers=observation.num_viewers,
            final_of_all=final_of_all,
        )
        self._state = kernel.State(
            *(x.numpy() for x in (boards.grid, boards.ways, boards.numbers, boards.returns, boards.food, boards.keys))
        )
        planes = (np.array(table, dtype=np.int64) for table in observation.plane_tables())
        tables = (
            boards.neighbours,
            boards.turns,
            boards.pose_bodies,
            boards.pose_ways,
            boards.path,
            boards.rewards,
        )
        self._tables = kernel.Tables(*(x.numpy() for x in tables), *planes)
        self._counter = boards.clock.numpy().reshape(1)
        shape = (boards.num_boards, observation.num_viewers, *observation.shape)
        self._pool = Pool(shape, observation.dtype)
        self._compile()

    def draw(self) -> torch.Tensor:
        """Draw all boards. Shape: (N, V, ...)."""
        observations, array = self._empty()
        kernel.draw(0, self.boards.num_boards, self._rules, self._state, self._tables, array)
        return observations

    def start(self) -> torch.Tensor:
        """Begin a game on all boards, and draw them."""
        self._counter[0] += 1
        observations, array = self._empty()
        kernel.start(0, self.boards.num_boards, self._first_draw(), self._rules, self._state, self._tables, array)
        return observations

    def first_illegal(self, actions: torch.Tensor) -> int:
        """Return the number of the first action that is out of range, or -1."""
        return int(kernel.first_illegal(actions.numpy().reshape(-1), self._rules.actions))

    def step(self, actions: torch.Tensor) -> Outcome:
        """Make one move on all boards.

        :param actions: Legal actions. Shape: (N, S), dtype: int64, contiguous.

        :return: What came of it.
        """
        self._counter[0] += 1
        out, tensors = self._out(actions.shape)
        arguments = (self._first_draw(), actions.numpy(), self._rules, self._state, self._tables, out)
        if self.threads == 1:
            kernel.step(0, self.boards.num_boards, *arguments)
        else:
            numba.set_num_threads(self.threads)
            kernel.step_in_parallel(self.threads, *arguments)
        return Outcome(*tensors)

    def _compile(self) -> None:
        """Compile, or load from numba's cache, everything that a step needs; say so where it takes long."""
        array = self._empty()[1]
        actions = torch.zeros(self.boards.num_boards, self._rules.snakes, dtype=torch.int64, device="cpu")
        common = (self._rules, self._state, self._tables)
        out = self._out(actions.shape)[0]
        with Progress("compiling the snake for the first time, which takes part of a minute") as progress:
            progress.run("check", kernel.first_illegal, actions.numpy().reshape(-1), self._rules.actions)
            progress.run("start", kernel.start, 0, 0, 0, *common, array)
            progress.run("step", kernel.step, 0, 0, 0, actions.numpy(), *common, out)
            if self.threads > 1:
                progress.run("step in parallel", kernel.step_in_parallel, 0, 0, actions.numpy(), *common, out)

    def _out(self, shape: torch.Size) -> tuple[Any, list[torch.Tensor]]:
        """Make what a step writes, as arrays and as tensors."""
        observations, observed = self._empty()
        final_observations, finally_observed = self._empty()
        tensors = [torch.empty(shape, dtype=dtype, device="cpu") for dtype in _DTYPES]
        out = kernel.Out(observed, finally_observed, *(tensor.numpy() for tensor in tensors))
        return out, [observations, final_observations, *tensors]

    def _first_draw(self) -> int:
        return int(self._counter[0]) * self.boards.draws_per_step

    def _empty(self) -> tuple[torch.Tensor, np.ndarray[Any, Any]]:
        observations = self._pool.take()
        return observations, observations.view(*observations.shape[:2], -1).numpy()


_DTYPES = (torch.float32, torch.bool, torch.bool, torch.float32, torch.int64, torch.int64)
