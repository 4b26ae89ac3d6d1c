"""A vectorized environment as rl_games 1.6.5 wants to see it."""

# mypy: disable-error-code="import-not-found,import-untyped"
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from rl_games.common import env_configurations, vecenv
from rl_games.common.ivecenv import IVecEnv

from skrl_vec_envs.omniverse.env import Observations, VecEnv

_VECENV_TYPE = "SKRL_VEC_ENVS"


class RlGamesView(IVecEnv):
    """rl_games' interface to a :class:`~skrl_vec_envs.omniverse.VecEnv`.

    Observations are a tensor, shape: (N, O), or, where the task has states, a dictionary of ``"obs"`` and ``"states"``
    for the central value. Rewards have shape (N,). Infos hold ``"time_outs"``, for ``value_bootstrap``.

    rl_games scales actions from -1 .. 1 to the bounds of the action space, so infinite bounds would make NaN of them:
    they are shown as ``clipActions``, or 1 where nothing clips. Infinite bounds of observations are shown as the
    largest float. A MultiDiscrete space is shown as a Tuple of Discrete ones.

    In the configuration, set ``device: cpu`` and ``device_name: cpu`` without a GPU, and ``torch_compile: False``.

    :param env: Environment to view.
    """

    def __init__(self, env: VecEnv) -> None:
        self.env = env
        self.observation_space = _finite(env.observation_space, float(np.finfo(np.float32).max))
        clip = env.task.clip_actions
        self.action_space = _finite(_as_tuple(env.action_space), clip if math.isfinite(clip) else 1.0)
        self.state_space = _finite(env.state_space, float(np.finfo(np.float32).max)) if env.num_states else None
        self.num_states = env.num_states

    def reset(self) -> Observations | torch.Tensor:
        """Begin all episodes.

        :return: Observations.
        """
        return self._observe(self.env.reset())

    def step(
        self, actions: torch.Tensor
    ) -> tuple[Observations | torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Make a step.

        :param actions: Actions. Shape: (N, A); of a Discrete space: (N,).

        :return: Observations, rewards, shape: (N,), float32, resets, shape: (N,), int64, infos.
        """
        observations, rewards, resets, extras = self.env.step(actions)
        return self._observe(observations), rewards, resets, extras

    def _observe(self, observations: Observations) -> Observations | torch.Tensor:
        return observations if self.num_states else observations["obs"]

    def get_number_of_agents(self) -> int:
        """Return the number of agents in an environment."""
        return self.env.num_agents

    def get_env_info(self) -> dict[str, Any]:
        """Return the spaces of one environment, by rl_games' names."""
        info = {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "agents": self.env.num_agents,
            "value_size": 1,
        }
        return {**info, "state_space": self.state_space} if self.num_states else info

    def seed(self, seed: int) -> None:
        """Begin the sequence of the task's random numbers anew.

        :param seed: Seed.
        """
        self.env.seed(seed)

    def render(self, mode: str = "human") -> Any:
        """Return what the task draws, or None."""
        return self.env.render(mode)


def register(name: str, factory: Callable[..., VecEnv]) -> None:
    """Make an environment known to rl_games, as ``env_name: <name>`` in a configuration.

    :param name: Name of the environment.
    :param factory: Makes the environment, with its task, from the configuration's ``env_config``. Its number of
        environments must be ``num_actors``, which is passed on where ``env_config`` holds ``num_envs: None``.

    :raises ValueError: The factory cannot be called.
    """
    if not callable(factory):
        raise ValueError(f"factory must be a function that returns a VecEnv, got {factory!r}")

    def create(**keywords: Any) -> RlGamesView:
        env = factory(**keywords)
        if not isinstance(env, VecEnv):
            raise TypeError(f"the factory of {name!r} must return a VecEnv, got {type(env).__name__}")
        return RlGamesView(env)

    vecenv.register(_VECENV_TYPE, _create_vec_env)
    env_configurations.register(name, {"vecenv_type": _VECENV_TYPE, "env_creator": create})


def _create_vec_env(config_name: str, num_actors: int, **keywords: Any) -> RlGamesView:
    if keywords.get("num_envs", num_actors) is None:
        keywords["num_envs"] = num_actors
    view: RlGamesView = env_configurations.configurations[config_name]["env_creator"](**keywords)
    if view.env.num_envs != num_actors:
        raise ValueError(
            f"num_actors must be the number of environments: the configuration of {config_name!r} has "
            f"{num_actors}, the environment {view.env.num_envs}"
        )
    return view


def _as_tuple(space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
    if isinstance(space, MultiDiscrete):
        return gymnasium.spaces.Tuple([Discrete(int(choices)) for choices in space.nvec.flatten()])
    return space


def _finite(space: gymnasium.Space[Any], bound: float) -> gymnasium.Space[Any]:
    if not isinstance(space, Box) or (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        return space
    low, high = (np.nan_to_num(limit, posinf=bound, neginf=-bound) for limit in (space.low, space.high))
    return Box(low, high, dtype=space.dtype.type)
