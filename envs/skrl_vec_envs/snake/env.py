"""The batched snake environment: rewards, ends, autoreset."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
import numpy as np
import torch

from skrl_vec_envs import counter_rng
from skrl_vec_envs.snake.boards import Boards
from skrl_vec_envs.snake.observations import planes
from skrl_vec_envs.snake.render import text
from skrl_vec_envs.snake.rules import ACTIONS, SnakeRules, check_positive_int

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_DRAWS = 2  # of random numbers per board in each step or reset:
_AFTER_MOVE, _AFTER_START = range(_DRAWS)
_BEFORE_RESET = -_DRAWS


class Snake:
    """N boards with one snake each, stepped together, in torch.

    Example::

        >>> env = Snake(num_envs=256, height=10, width=10)
        >>> observations = env.reset()
        >>> actions = torch.randint(4, (256,))
        >>> observations, rewards, terminated, truncated, infos = env.step(actions)

    **Game.** The snake moves by one cell per step; on food it grows by one segment, and new food appears on a free
    cell, each as likely as the others. The cell that the tail leaves is free for the head in the same step. A game
    starts with a straight snake of ``start_length`` segments, anywhere on the board and in any heading, all such places
    that have a cell straight ahead of the head as likely as the others (on a board with none: a stretch of the path
    that goes through the cells row by row, back and forth).

    **Action.** Shape: (N,), any integer dtype. ``"absolute"``: 0 up, 1 down, 2 left, 3 right; the opposite of the
    heading goes straight on, whatever the length. ``"relative"``: 0 left, 1 straight on, 2 right, seen from the snake.

    **Observation.** dtype: float32, zeros and ones. ``"planes"``, shape: (N, 3, height, width): the head, the body
    without the head, the food; row 0 is the top. ``"flat"``, shape: (N, 3 * height * width): the same, flattened. The
    order of the segments, the heading, the hunger and the number of steps are not shown.

    **Reward.** Shape: (N,), dtype: float32. ``step_reward`` in every step, and in addition ``food_reward`` for food,
    ``win_reward`` for filling the board (on top of its food), ``death_reward`` for a death.

    **End.** ``terminated``, shape: (N,), dtype: bool: the snake ran into the wall or its body; it starved, with
    ``hunger_limit`` steps made since the last meal; or it fills the board, which is a win. ``truncated``, same shape
    and dtype: ``max_steps`` steps were made in this game and it did not terminate. A step that ends a game starts the
    next one on that board (same-step autoreset, as Gymnasium's ``AutoresetMode.SAME_STEP``): the observation returned
    is already the new game's. Rewards and ends belong to the game that ended.

    **Infos.** A fresh dictionary per step:

    - ``"final_obs"``, shape and dtype of the observation: what the move led to, before any reset. Where the board goes
      on it equals the observation returned, so for all boards it is the successor to bootstrap from. A fatal move into
      the wall or the body is not made: this is then the board before the move. On a full board the plane of the food is
      empty.
    - ``"final_mask"``, shape: (N,), dtype: bool: which boards ended, ``terminated | truncated``.
    - ``"length"``, shape: (N,), dtype: int64: length of the snake before any reset.

    **State.** See :class:`~skrl_vec_envs.snake.boards.Boards`; it is in ``boards``. Returned tensors are fresh: none
    shares memory with the state, with another, or with a later one. The actions given are only read.

    **Random numbers** are a function of the seed, the number of the board and the number of the step or reset: the same
    seed and actions give the same games on any device and in any split of a batch (board ``i`` of an environment whose
    ``first_board`` is ``k`` plays the games of board ``k + i``). Torch's generators are not used.

    **Host syncs.** With ``sync_free`` a step never waits for the device and no shape depends on data, as CUDA graphs
    and ``torch.compile(fullgraph=True)`` require; all boards are then treated as those that ended are, and an action
    out of range is reported by an assertion on the device. Without, a step looks at the actions and works on the boards
    that ended only, which is free, and faster, on CPUs. The games are the same.

    :param num_envs: Number of boards, N.
    :param height: Rows of a board.
    :param width: Columns of a board.
    :param observation: ``"planes"`` or ``"flat"``.
    :param actions: ``"absolute"`` or ``"relative"``.
    :param start_length: Length of the snake when a game starts; it must leave a free cell.
    :param max_steps: Steps after which a game is truncated (None: never; a snake may then circle for ever).
    :param hunger_limit: Steps without food after which the snake dies (None: never).
    :param food_reward: Reward for food.
    :param death_reward: Reward for a death.
    :param win_reward: Reward for a full board.
    :param step_reward: Reward for every step.
    :param device: Device of the state and of all tensors returned and given.
    :param seed: Seed, from 0 to 2**63 - 1.
    :param first_board: Number of the first board, see *Random numbers*.
    :param sync_free: See *Host syncs* (None: on all devices but CPUs).

    :raises ValueError: A parameter is not legal.
    """

    def __init__(
        self,
        num_envs: int,
        *,
        height: int = 10,
        width: int = 10,
        observation: Literal["planes", "flat"] = "planes",
        actions: Literal["absolute", "relative"] = "absolute",
        start_length: int = 3,
        max_steps: int | None = 1000,
        hunger_limit: int | None = None,
        food_reward: float = 1.0,
        death_reward: float = -1.0,
        win_reward: float = 1.0,
        step_reward: float = 0.0,
        device: str | torch.device = "cpu",
        seed: int = 0,
        first_board: int = 0,
        sync_free: bool | None = None,
    ) -> None:
        check_positive_int("num_envs", num_envs)
        _check_counter("seed", seed)
        _check_counter("first_board", first_board)
        if observation not in ("planes", "flat"):
            raise ValueError(f"observation must be 'planes' or 'flat', got {observation!r}")
        self.rules = rules = SnakeRules(
            height=height,
            width=width,
            start_length=start_length,
            max_steps=max_steps,
            hunger_limit=hunger_limit,
            actions=actions,
            food_reward=food_reward,
            death_reward=death_reward,
            win_reward=win_reward,
            step_reward=step_reward,
        )
        self.num_envs = num_envs
        self.device = torch.empty(0, device=device).device  # with its index
        self.sync_free = self.device.type != "cpu" if sync_free is None else sync_free
        shape = (3, height, width) if observation == "planes" else (3 * height * width,)
        self.single_observation_space = gymnasium.spaces.Box(0.0, 1.0, shape, np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(rules.num_actions)

        with torch.inference_mode(False):
            self.boards = Boards(rules, num_envs, self.device)
            self._rewards = torch.tensor(
                [
                    step_reward,
                    step_reward + food_reward,
                    step_reward + food_reward + win_reward,
                    step_reward + death_reward,
                ],
                dtype=torch.float32,
                device=self.device,
            )
            self._all = torch.arange(num_envs, device=self.device)
            self._streams = first_board + self._all
            self._keys = counter_rng.stream_keys(seed, self._streams)
            self._draws = torch.full((), _BEFORE_RESET, dtype=torch.int64, device=self.device)
        self._started = False

    def reset(self, seed: int | None = None) -> torch.Tensor:
        """Start a new game on all boards.

        :param seed: Seed with which the sequence of games begins anew (None: go on with the sequence).

        :return: Observations.

        :raises ValueError: The seed is not legal.
        """
        if seed is not None:
            _check_counter("seed", seed)
            self._keys.copy_(counter_rng.stream_keys(seed, self._streams))
            self._draws.fill_(_BEFORE_RESET)
        self._draws += _DRAWS
        self._start(self._all, torch.ones_like(self._all, dtype=torch.bool))
        self._started = True
        return self._observe()

    def step(
        self, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Make one move on all boards, and start a new game where one ended.

        :param actions: Actions. Shape: (N,), any integer dtype.

        :return: Observations, rewards, terminated, truncated, infos.

        :raises RuntimeError: The environment was not reset before.
        :raises ValueError: The actions have a wrong shape, dtype or device, or one is out of range (with ``sync_free``:
            an assertion on the device fails).
        """
        if not self._started:
            raise RuntimeError("an environment must be reset before its first step: call reset()")
        self._check(actions)
        boards = self.boards
        self._draws += _DRAWS

        ate, died = boards.move(actions)
        if self.rules.hunger_limit is not None:
            died |= boards.hunger >= self.rules.hunger_limit
        full = boards.length == self.rules.num_cells
        terminated = died | full
        truncated = torch.zeros_like(terminated)
        if self.rules.max_steps is not None:
            truncated = (boards.steps >= self.rules.max_steps) & ~terminated
        ended = terminated | truncated
        rewards = self._rewards.take(ate.long() + full + died * 3)

        hungry = ate & ~full
        rows = self._rows(hungry)
        boards.place_food(rows, hungry, self._draw(rows, _AFTER_MOVE)[0])
        final_observations = self._observe()
        length = boards.length.clone()

        rows = self._rows(ended)
        self._start(rows, ended)
        observations = final_observations.clone().index_copy_(0, rows, self._observe(rows))
        infos = {"final_obs": final_observations, "final_mask": ended, "length": length}
        return observations, rewards, terminated, truncated, infos

    def render(self, board: int = 0) -> str:
        """Draw a board as text: ``@`` head, ``o`` body, ``*`` food, ``.`` free.

        :param board: Number of the board, from 0 to N - 1.

        :return: Lines of text.

        :raises RuntimeError: The environment was not reset before.
        :raises ValueError: There is no such board.
        """
        if not self._started:
            raise RuntimeError("an environment must be reset before it is drawn: call reset()")
        if not 0 <= board < self.num_envs:
            raise ValueError(f"board must be from 0 to {self.num_envs - 1}, got {board}")
        head, body, food = planes(self.boards, self._all[board : board + 1])[0].tolist()
        return text(head, body, food, self.rules.width)

    def _check(self, actions: torch.Tensor) -> None:
        names = ACTIONS[self.rules.actions]
        if not isinstance(actions, torch.Tensor):
            raise ValueError(
                f"actions must be a torch.Tensor, got {type(actions).__name__}: use torch.as_tensor(actions)"
            )
        if actions.shape != (self.num_envs,) or actions.dtype not in _INTEGERS or actions.device != self.device:
            raise ValueError(
                f"actions must be one integer per board, shape ({self.num_envs},) on {self.device}, "
                f"got {actions.dtype}, shape {tuple(actions.shape)} on {actions.device}"
            )
        legal = (actions >= 0) & (actions < len(names))
        rule = f"actions must be from 0 to {len(names) - 1} ({', '.join(names)})"
        if self.sync_free:
            torch._assert_async(legal.all(), rule)
        elif not legal.all():
            board = int(legal.logical_not().nonzero()[0])
            raise ValueError(f"{rule}, got {int(actions[board])} for board {board}")

    def _rows(self, needed: torch.Tensor) -> torch.Tensor:
        return self._all if self.sync_free else needed.nonzero()[:, 0]

    def _start(self, rows: torch.Tensor, needed: torch.Tensor) -> None:
        food_bits, pose_bits = self._draw(rows, _AFTER_START)
        self.boards.start(rows, needed, pose_bits)
        self.boards.place_food(rows, needed, food_bits)

    def _draw(self, rows: torch.Tensor, which: int) -> tuple[torch.Tensor, torch.Tensor]:
        return counter_rng.draw(self._keys.index_select(0, rows), self._draws + which)

    def _observe(self, rows: torch.Tensor | None = None) -> torch.Tensor:
        return planes(self.boards, rows).view(-1, *self.single_observation_space.shape)


def _check_counter(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise ValueError(f"{name} must be an int from 0 to 2**63 - 1, got {value!r}")
