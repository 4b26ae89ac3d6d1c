"""The batched snake environment: what goes in, what comes out, and which backend plays."""

from __future__ import annotations

import importlib.util
import logging
from typing import TYPE_CHECKING, Any, Literal

import gymnasium
import torch

from skrl_vec_envs.snake.boards import Boards
from skrl_vec_envs.snake.observations import Observation
from skrl_vec_envs.snake.render import picture, text
from skrl_vec_envs.snake.rules import ACTIONS, check_positive_int, make_rules
from skrl_vec_envs.snake.torch_game import TorchGame

if TYPE_CHECKING:
    from skrl_vec_envs.snake.numba_game import NumbaGame

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_log = logging.getLogger(__name__)
_said: set[str] = set()


class Snake:
    """N boards with S snakes each, stepped together, with same-step autoreset.

    Example::

        >>> env = Snake(num_envs=256, height=10, width=10)
        >>> observations, infos = env.reset()
        >>> actions = torch.randint(4, (256,))
        >>> observations, rewards, terminated, truncated, infos = env.step(actions)

    **Shapes.** With one snake per board all tensors begin with (N,); with several snakes with (N, S), so that each
    snake has its observation, action, reward and ends. S is left out below.

    **Game.** A step moves every snake by one cell. A snake that gets to food eats it, grows by one segment as long as
    it is shorter than ``max_length``, and new food appears on a free cell, each as likely as the others, after all
    heads have moved. Food for which there is no free cell appears in the first step after which there is one.

    A snake dies when it moves into the wall, into itself, or into another snake; its move is then not made. With
    ``tail="free"`` the cell that a tail leaves in the same step is free (a snake that would grow does not leave it).
    With ``moves="simultaneous"`` all snakes move against one and the same board, whatever their numbers: of heads that
    meet on a cell, or that change places, each dies, and the food there stays. With ``moves="in_order"`` snake 0 moves
    first, and each sees the moves of those before. With ``food_colours`` food is of one snake's colour, number ``f //
    food_per_snake``, and any other dies of it.

    A new snake is straight, ``start_length`` segments long and has a cell of the board ahead; all such places are as
    likely as the others, of those where nothing lies (when a board begins, snakes are placed one after the other; on a
    board with no straight place at all: a stretch of the path that goes through the cells row by row, back and forth;
    where snake after snake finds no room: all in a line on that path).

    **Action.** Shape: (N,), any integer dtype. ``"absolute"``: 0 up, 1 down, 2 left, 3 right; the opposite of the
    heading goes straight on with ``reversing="straight"``, and with ``"kills"`` it kills a snake of two segments or
    more. ``"relative"``: 0 left, 1 straight on, 2 right, seen from the snake.

    **Observation.** Zeros and ones, dtype: float32 or uint8; ``"entities"``: float32. Of each snake's view; with
    ``shared`` of the board as a whole, shape (N, ...) also with several snakes. The heading, the hunger and the number
    of steps are not shown.

    - ``"planes"``, shape: (N, P, height, width); row 0 is the top. P = 3 with one snake: the head, the body without the
      head, the food. With several: also the others' heads and the others' bodies, and with ``food_colours`` the others'
      food. Shared: the heads by number, the bodies by number, the food, by colour with ``food_colours``.
    - ``"flat"``, shape: (N, P * height * width): the same, flattened.
    - ``"window"``, shape: (N, P, window, window): the planes around the snake's head, which is in the middle. The plane
      of its head shows the wall instead. With relative actions the window is turned: up is ahead.
    - ``"entities"``, shape: (N, E, 4): lists of what is on the board, as kind (0 nothing, 1 head, 2 segment of a body,
      3 food), x (column), y (row), colour. The heads by number, the bodies row by row, the food by number, then zeros.
      The colour is the number of the snake counted from the viewer's own, which is 0; shared: the number. Food without
      colours has 0. E is the number that there can be.

    **Reward.** Shape: (N,), dtype: float32. ``step_reward`` in every step, and in addition ``food_reward`` for food
    that makes the snake grow, ``death_reward`` for a death, ``win_reward`` for a win.

    **End.** ``terminated``, shape: (N,), dtype: bool: the snake died, or it starved, with ``hunger_limit`` steps made
    since its last meal; or the board is won, for all snakes: no cell is free of snakes, or all snakes are as long as
    they can be, and none died. ``truncated``, same shape and dtype, never together with ``terminated``: ``max_steps``
    steps were made in this episode. With ``deaths="respawn"`` an episode is a snake's: the one that died or ran out of
    time is taken off the board and starts anew among the others, in the same step; when all end together, or when there
    is no room for it (then the others are truncated), the board begins anew. With ``deaths="end"`` the first death ends
    the episodes of all snakes (terminated), and the board begins anew. Rewards and ends belong to the episode that
    ended, the observation returned to the new one (``AutoresetMode.SAME_STEP`` of Gymnasium).

    **Infos** of a step, a fresh dictionary; a reset returns an empty one:

    - ``"final_obs"``, shape and dtype of the observation: what the move led to, before anything starts anew, for the
      rows that ended. Of the rows that go on it is the observation, so that for all rows it is the successor to
      bootstrap from. With ``shared`` a row ends when all snakes of its board do. With ``final_obs="ended"``, shape:
      (R, ...), it holds the R rows that ended only, in the order of ``final_mask.nonzero()``.
    - ``"final_mask"``, shape: (N,), dtype: bool: which rows ended, ``terminated | truncated``.
    - ``"episode_return"``, shape: (N,), dtype: float32, and ``"episode_length"``, shape: (N,), dtype: int64: sum of the
      rewards and number of the steps of this episode so far, this step included.
    - ``"length"``, shape: (N,), dtype: int64: length of the snake before anything starts anew.

    **Presets.** Any rule may be given besides, as a keyword:

    ==================  ==================  ===============================================================
    rule                ``"classic"``       ``"multisnake"`` (of entity-gym-rs)
    ==================  ==================  ===============================================================
    ``start_length``    3                   1
    ``max_length``      None: no limit      10
    ``food_per_snake``  1                   1
    ``food_colours``    False               True
    ``reversing``       ``"straight"``      ``"kills"``
    ``tail``            ``"free"``          ``"blocked"``
    ``moves``           ``"simultaneous"``  ``"in_order"``
    ``deaths``          ``"respawn"``       ``"end"``
    ``max_steps``       1000                100
    ``hunger_limit``    None: no limit      None
    ``food_reward``     1.0                 None: 1 / (max_length - 1) / num_snakes
    ``death_reward``    -1.0                0.0
    ``win_reward``      1.0                 0.0
    ``step_reward``     0.0                 0.0
    ==================  ==================  ===============================================================

    **State.** See :class:`~skrl_vec_envs.snake.boards.Boards`; it is in ``boards``. Returned tensors are fresh: none
    shares memory with the state, with another, or with a later one. The actions given are only read.

    **Random numbers** are a function of the seed, the number of the board and the number of the step or reset: the same
    seed and actions give the same games on any device, with any backend and number of threads, and in any split of a
    batch (board ``i`` of an environment whose ``first_board`` is ``k`` plays the games of board ``k + i``). Torch's
    generators are not used.

    **Backends.** ``"numba"`` (CPU) plays in one compiled loop; the first use compiles it, which takes part of a minute
    and is said on stderr, later ones load it from numba's cache. ``"torch"`` (any device) makes the same of batched
    operations. With ``sync_free`` a torch step never waits for the device and no shape depends on data, as CUDA graphs
    and ``torch.compile(fullgraph=True)`` require; an action out of range is then reported by an assertion on the
    device. Without, a step looks at the actions and works on the boards where something happens only, which is faster
    on CPUs.

    :param num_envs: Number of boards, N.
    :param height: Rows of a board.
    :param width: Columns of a board.
    :param num_snakes: Snakes per board, S.
    :param rules: Preset, ``"classic"`` or ``"multisnake"``.
    :param actions: ``"absolute"`` or ``"relative"``.
    :param observation: ``"planes"``, ``"flat"``, ``"window"`` or ``"entities"``.
    :param dtype: ``torch.float32`` or ``torch.uint8``, of the observation.
    :param window: Height and width of the window, odd.
    :param shared: Observe the board once, and not from each snake's view.
    :param device: Device of all tensors returned and given.
    :param backend: ``"numba"``, ``"torch"``, or ``"auto"``: numba on CPUs where it is installed, and torch.
    :param threads: Threads of the numba backend (None: as many as torch has).
    :param seed: Seed, from 0 to 2**63 - 1.
    :param first_board: Number of the first board, see *Random numbers*.
    :param sync_free: See *Backends* (None: on all devices but CPUs).
    :param final_obs: Give ``infos["final_obs"]`` for ``"all"`` rows, or for those that ``"ended"`` only, in order. The
        latter is faster, and not possible with ``sync_free``.
    :param render_mode: ``"ansi"`` or ``"rgb_array"``.
    :param changes: Rules that differ from the preset's.

    :raises ValueError: A parameter is not legal, or the board is too small for the snakes.
    :raises TypeError: There is no such parameter or rule.
    :raises ImportError: The numba backend is asked for, and numba is not installed.
    """

    def __init__(
        self,
        num_envs: int,
        *,
        height: int = 10,
        width: int = 10,
        num_snakes: int = 1,
        rules: str = "classic",
        actions: Literal["absolute", "relative"] = "absolute",
        observation: Literal["planes", "flat", "window", "entities"] = "planes",
        dtype: torch.dtype = torch.float32,
        window: int = 7,
        shared: bool = False,
        device: str | torch.device = "cpu",
        backend: Literal["auto", "numba", "torch"] = "auto",
        threads: int | None = None,
        seed: int = 0,
        first_board: int = 0,
        sync_free: bool | None = None,
        final_obs: Literal["all", "ended"] = "all",
        render_mode: Literal["ansi", "rgb_array"] = "ansi",
        **changes: Any,
    ) -> None:
        check_positive_int("num_envs", num_envs)
        if threads is not None:
            check_positive_int("threads", threads, "a positive int, or None for torch's number")
        _check_counter("seed", seed)
        _check_counter("first_board", first_board)
        if render_mode not in ("ansi", "rgb_array"):
            raise ValueError(f"render_mode must be 'ansi' or 'rgb_array', got {render_mode!r}")
        if final_obs not in ("all", "ended"):
            raise ValueError(f"final_obs must be 'all' or 'ended', got {final_obs!r}")
        self.final_obs = final_obs
        self.rules = make_rules(rules, changes, height=height, width=width, num_snakes=num_snakes, actions=actions)
        self.observation = Observation(rules=self.rules, kind=observation, dtype=dtype, window=window, shared=shared)
        self._observation_shape = (num_envs, *self.observation.board_shape)
        self.num_envs = num_envs
        self.render_mode = render_mode
        if sync_free not in (None, True, False):
            raise ValueError(f"sync_free must be True, False, or None for all devices but CPUs, got {sync_free!r}")
        self.device = _usable(device, backend)
        self.backend = _choose_backend(backend, self.device, sync_free)
        self.sync_free = self.device.type != "cpu" if sync_free is None else sync_free
        if self.sync_free and final_obs == "ended":
            raise ValueError("final_obs='ended' has a shape that depends on data: with sync_free use final_obs='all'")
        self.threads = torch.get_num_threads() if threads is None else threads
        self.single_observation_space = self.observation.space()
        count = self.rules.num_actions
        self.single_action_space: gymnasium.spaces.Discrete | gymnasium.spaces.MultiDiscrete = (
            gymnasium.spaces.Discrete(count)
            if num_snakes == 1
            else gymnasium.spaces.MultiDiscrete([count] * num_snakes)
        )
        with torch.inference_mode(False):
            self.boards = Boards(self.rules, num_envs, self.device, seed, first_board)
            self._game = self._make_game()
        self._started = False

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of actions, rewards and ends: (N,) with one snake per board, (N, S) with several."""
        return self.boards.batch_shape

    def reset(self, seed: int | None = None) -> tuple[torch.Tensor, dict[str, Any]]:
        """Begin a new game on all boards.

        :param seed: Seed with which the sequence of games begins anew (None: go on with the sequence).

        :return: Observations, infos.

        :raises ValueError: The seed is not legal.
        """
        if seed is not None:
            _check_counter("seed", seed)
            self.boards.reseed(seed)
        self._started = True
        return self._shaped(self._game.start()), {}

    def step(
        self, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Make one move on all boards; what ends in it starts anew in it.

        :param actions: Actions. Shape: (N,), with several snakes (N, S); any integer dtype.

        :return: Observations, rewards, terminated, truncated, infos.

        :raises RuntimeError: The environment was not reset before.
        :raises ValueError: The actions have a wrong shape, dtype or device, or one is out of range (with ``sync_free``:
            an assertion on the device fails).
        """
        if not self._started:
            raise RuntimeError("an environment must be reset before its first step: call reset()")
        result = self._game.step(self._legal(actions))
        final = result.final_observations
        infos = {
            "final_obs": self._shaped(final) if self.final_obs == "all" else final,
            "final_mask": result.ended,
            "episode_return": result.returns,
            "episode_length": result.steps,
            "length": result.lengths,
        }
        return self._shaped(result.observations), result.rewards, result.terminated, result.truncated, infos

    def render(self, board: int = 0) -> Any:
        """Draw a board, in the ``render_mode`` of the environment.

        :param board: Number of the board, from 0 to N - 1.

        :return: ``"ansi"``: lines of text, with ``@`` the head and ``o`` the body (further snakes: ``A a``, ``B b``,
            ...), ``*`` food, ``.`` free. ``"rgb_array"``: a picture with 16 pixels per cell, shape: (rows, columns, 3),
            dtype: uint8.

        :raises RuntimeError: The environment was not reset before.
        :raises ValueError: There is no such board.
        """
        if not self._started:
            raise RuntimeError("an environment must be reset before it is drawn: call reset()")
        if not 0 <= board < self.num_envs:
            raise ValueError(f"board must be from 0 to {self.num_envs - 1}, got {board}")
        grid = self.boards.grid[board, :-1].view(self.rules.height, self.rules.width).cpu().numpy()
        heads = self.boards.head[board].tolist()
        if self.render_mode == "rgb_array":
            colour_of = [
                f // self.rules.food_per_snake if self.rules.food_colours else -1 for f in range(self.rules.num_food)
            ]
            return picture(grid, heads, colour_of)
        return text(grid, heads)

    def _legal(self, actions: torch.Tensor) -> torch.Tensor:
        """Check actions. Return them as int64, contiguous."""
        shape, names = self.batch_shape, ACTIONS[self.rules.actions]
        if not isinstance(actions, torch.Tensor):
            raise ValueError(
                f"actions must be a torch.Tensor, got {type(actions).__name__}: use torch.as_tensor(actions)"
            )
        if actions.shape != shape or actions.dtype not in _INTEGERS or actions.device != self.device:
            raise ValueError(
                f"actions must be one integer per {'board' if len(shape) == 1 else 'snake'}, shape {shape} on "
                f"{self.device}, got {actions.dtype}, shape {tuple(actions.shape)} on {actions.device}"
            )
        rule = f"actions must be from 0 to {len(names) - 1} ({', '.join(names)})"
        given = actions.to(torch.int64).contiguous()
        if self.backend == "numba":
            illegal = self._game.first_illegal(given)  # type: ignore[union-attr]
        else:
            legal = given == given.clamp(0, len(names) - 1)
            if self.sync_free:
                torch._assert_async(legal.all(), rule)
                return given
            illegal = -1 if legal.all() else int(legal.view(-1).logical_not().nonzero()[0])
        if illegal >= 0:
            board, snake = divmod(illegal, self.rules.num_snakes)
            where = f"board {board}" if len(shape) == 1 else f"snake {snake} of board {board}"
            raise ValueError(f"{rule}, got {int(given.view(-1)[illegal])} for {where}")
        return given

    def _shaped(self, observations: torch.Tensor) -> torch.Tensor:
        return observations.view(self._observation_shape)

    def _make_game(self) -> TorchGame | NumbaGame:
        if self.backend == "torch":
            return TorchGame(self.boards, self.observation, self.final_obs == "all", self.sync_free)
        from skrl_vec_envs.snake.numba_game import NumbaGame

        return NumbaGame(self.boards, self.observation, self.final_obs == "all", self.threads)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_game"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._game = self._make_game()  # on the copy's own boards


def _choose_backend(backend: str, device: torch.device, sync_free: bool | None) -> Literal["numba", "torch"]:
    if backend not in ("auto", "numba", "torch"):
        raise ValueError(f"backend must be 'auto', 'numba' or 'torch', got {backend!r}")
    installed = importlib.util.find_spec("numba") is not None
    if backend == "numba":
        if device.type != "cpu":
            raise ValueError(f"the numba backend plays on CPUs only, got device {device}: use backend='torch'")
        if sync_free:
            raise ValueError("sync_free is of the torch backend, got backend='numba'")
        if not installed:
            raise ImportError("the numba backend needs numba: pip install numba, or use backend='torch'")
        return "numba"
    if backend == "torch" or device.type != "cpu" or sync_free is not None:
        return "torch"
    if not installed and "numba" not in _said:
        _said.add("numba")
        _log.warning("numba is not installed: the snake is played by torch, which is several times slower")
    return "numba" if installed else "torch"


def _usable(device: str | torch.device, backend: str) -> torch.device:
    """Return the device with its index, if torch can use it here."""
    try:
        if backend == "numba" and torch.device(device).type != "cpu":  # whether there is such a device or not
            return torch.device(device)
        return torch.empty(0, device=device).device
    except (AssertionError, RuntimeError, TypeError) as error:  # torch without CUDA raises an AssertionError
        reason = str(error).splitlines()[0]
        raise ValueError(f"device must be one that torch can use here, got {device!r} ({reason})") from error


def _check_counter(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise ValueError(f"{name} must be an int from 0 to 2**63 - 1, got {value!r}")
