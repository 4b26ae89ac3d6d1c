"""The snake as a task."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import torch

from skrl_vec_envs.omniverse.task import ConfiguredTask
from skrl_vec_envs.snake import Snake

_OF_SNAKE = {
    "height": 10,
    "width": 10,
    "actions": "absolute",
    "start_length": 3,
    "hunger_limit": None,
    "food_reward": 1.0,
    "death_reward": -1.0,
    "win_reward": 1.0,
    "step_reward": 0.0,
}


class SnakeTask(ConfiguredTask):
    """N boards of :class:`skrl_vec_envs.snake.Snake`, which specifies the game; the settings have its names.

    **Observation.** Flat, shape: (N, 3 * height * width). **Action.** Discrete. **End.** Time out after
    ``maxEpisodeLength`` steps (``max_steps`` of the game). **Extras**: ``"length"``, length of the snake before any
    reset, shape: (N,), dtype: int64.

    The game starts the next one in the step that ends one. So an environment is reset when its game has ended, or
    together with all others, not in the middle of a game; and one simulated step is one move, whatever ``dt`` is:
    ``controlFrequencyInv`` must be 1.
    """

    SETTINGS: ClassVar = {**_OF_SNAKE, "maxEpisodeLength": 1000}

    def configure(self, settings: dict[str, Any]) -> None:
        """Take the settings over."""
        if settings["controlFrequencyInv"] != 1:
            raise ValueError(f"controlFrequencyInv must be 1 for the snake, got {settings['controlFrequencyInv']}")
        self._max_episode_length = settings["maxEpisodeLength"]
        self._snake: Any = Snake(
            self._num_envs,
            observation="flat",
            max_steps=self._max_episode_length,
            device=self._cfg["sim_device"],
            seed=self._cfg["seed"],
            **{name: settings[name] for name in _OF_SNAKE},
        )
        spaces = self._snake.single_observation_space, self._snake.single_action_space
        assert isinstance(spaces[0], gymnasium.spaces.Box)
        assert isinstance(spaces[1], gymnasium.spaces.Discrete)
        self.observation_space, self.action_space = spaces
        self._num_observations, self._num_actions = spaces[0].shape[0], int(spaces[1].n)
        self._reseed: int | None = None

    def seed(self, seed: int) -> None:
        """Begin the sequence of games anew with the next reset of all boards."""
        super().seed(seed)
        self._reseed = seed

    def cleanup(self) -> None:
        """Make the buffers anew."""
        super().cleanup()
        self._moves = torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)
        self._ended = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        self._truncated = self._ended
        self._rows = self._moves[:0]
        self._begun = self.obs_buf[:0]
        self._spare: torch.Tensor | None = None

    def reset(self) -> None:
        """Flag all boards, and begin new games on all of them."""
        super().reset()
        self._ended = torch.zeros_like(self._ended)

    def reset_idx(self, env_ids: torch.Tensor) -> None:
        """Show the new games.

        :raises RuntimeError: A game is in progress, and others are not reset.
        """
        if self._ended[env_ids].all():
            self.obs_buf.index_copy_(0, env_ids, self._begun[torch.searchsorted(self._rows, env_ids)])
        elif len(env_ids) == self.num_envs:
            result = self._snake.reset(self._reseed)
            self.obs_buf = result[0] if isinstance(result, tuple) else result
            self._reseed = None
        else:
            raise RuntimeError("a board is reset when its game has ended, or together with all others")
        self.reset_buf[env_ids] = 0
        self.progress_buf[env_ids] = 0

    def pre_physics_step(self, actions: torch.Tensor) -> None:
        """Reset the flagged boards."""
        self.reset_flagged()
        self._moves = actions

    def simulate(self, dt: float) -> None:
        """Move the snakes."""
        begun, self.rew_buf, _, self._truncated, infos = self._snake.step(self._moves)
        self.obs_buf, self._ended = infos["final_obs"], infos["final_mask"]
        self._rows = self._ended.nonzero()[:, 0]
        self._begun = begun.index_select(0, self._rows)
        # the game has made two large tensors that differ in a few rows: one is shown, and the other is its copy
        self._spare = begun.index_copy_(0, self._rows, self.obs_buf.index_select(0, self._rows))
        self.extras["length"] = infos["length"]

    def get_observations(self) -> torch.Tensor:
        """Leave the observations as they are: the game has made them."""
        return self.obs_buf

    def copy_observations(self) -> torch.Tensor:
        """Return what ``obs_buf`` holds, in memory of its own."""
        spare, self._spare = self._spare, None
        return self.obs_buf.clone() if spare is None else spare

    def calculate_metrics(self) -> None:
        """Leave the rewards as they are: the game has given them."""

    def is_done(self) -> None:
        """Flag the games that ended."""
        self.reset_buf[:] = self._ended

    def get_time_outs(self) -> torch.Tensor:
        """Tell which games ran out of time."""
        return self._truncated

    def render(self) -> Any:
        """Draw the first board as text."""
        return self._snake.render(0)
