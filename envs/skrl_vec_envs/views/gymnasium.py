"""A vectorized environment as a Gymnasium ``VectorEnv``, with NumPy arrays; and one environment as an ``Env``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from skrl_vec_envs.omniverse.env import VecEnv

Array = np.ndarray[Any, np.dtype[Any]]
_Infos = dict[str, Any]


class GymnasiumView(VectorEnv[Array, Array, Array]):
    """Gymnasium's interface to a :class:`~skrl_vec_envs.omniverse.VecEnv`, with same-step autoreset.

    Infos are those of Gymnasium's own vector environments: ``"final_obs"``, an object array of shape (N,) with the last
    observation of each episode that ended and None elsewhere, ``"final_info"`` with the task's extras of these
    environments, and the masks ``"_final_obs"`` and ``"_final_info"``; all four are there only when an episode ended.
    The task's extras of the environments that go on are there by their names, each with its mask. Extras that have no
    value per environment are left out.

    :param env: Environment to view, with ``autoreset="same_step"``.

    :raises ValueError: The environment resets lazily.
    """

    def __init__(self, env: VecEnv) -> None:
        if env.autoreset != "same_step":
            raise ValueError(
                "GymnasiumView resets in the step that ends an episode, got an environment with "
                f"{env.autoreset!r}: use VecEnv(autoreset='same_step')"
            )
        self.env = env
        self.num_envs = env.num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": ["ansi"]}
        self.render_mode = None
        self.single_observation_space = env.observation_space
        self.single_action_space = env.action_space
        self.observation_space = batch_space(env.observation_space, env.num_envs)
        self.action_space = batch_space(env.action_space, env.num_envs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, _Infos]:
        """Begin all episodes.

        :param seed: Seed with which the task's random numbers begin anew (None: they go on).
        :param options: Accepted, without effect.

        :return: Observations, shape: (N, *observation); infos, empty.

        :raises TypeError: There is a seed per environment.
        """
        if seed is not None and not isinstance(seed, int):
            raise TypeError(f"seed must be one int for all environments, got {seed!r}")
        return _array(self.env.reset(seed)["obs"]), {}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, _Infos]:
        """Make a step.

        :param actions: Actions. Shape: (N, *action).

        :return: Observations, rewards, shape: (N,), float32, terminated and truncated, never both, shape: (N,), bool,
            infos.
        """
        given = torch.as_tensor(actions, device=self.env.device)
        observations, rewards, resets, extras, ended = self.env.step_by_rows(given)
        over, truncated = _array(resets).astype(np.bool_), _array(extras.pop("time_outs"))
        infos = _infos(extras, ~over)
        if ended is not None and len(ended.env_ids):
            infos["final_obs"] = last = np.empty(self.num_envs, dtype=object)  # of None
            last[_array(ended.env_ids)] = np.fromiter(_array(ended.last["obs"]), dtype=object)
            infos["final_info"] = _infos(extras, over)
            infos["_final_obs"], infos["_final_info"] = over, over.copy()
        return _array(observations["obs"]), _array(rewards), over > truncated, truncated, infos

    def render(self) -> tuple[Any, ...] | None:
        """Return what the task draws, or None."""
        drawn = self.env.render()
        return None if drawn is None else (drawn,)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the environment."""
        self.env.close()


class SingleEnvView(gymnasium.Env[Array, Any]):
    """Gymnasium's interface to a :class:`~skrl_vec_envs.omniverse.VecEnv` with one environment.

    A reset after the end of an episode, without a seed, returns the first observation of the episode that the
    environment has begun by itself.

    :param env: Environment to view, with ``autoreset="same_step"``.

    :raises ValueError: There are several environments, or the environment resets lazily.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 (gymnasium declares it so)

    def __init__(self, env: VecEnv) -> None:
        if env.num_envs != 1 or env.autoreset != "same_step":
            raise ValueError(
                f"SingleEnvView needs one environment that resets in the step that ends an episode, got {env.num_envs} "
                f"with {env.autoreset!r}: use VecEnv(autoreset='same_step') and a task with num_envs=1"
            )
        self.env = env
        self.observation_space = env.observation_space
        self.action_space = env.action_space
        self._begun: Array | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, _Infos]:
        """Begin an episode.

        :param seed: Seed with which the task's random numbers begin anew (None: they go on).
        :param options: Accepted, without effect.

        :return: Observation; infos, empty.
        """
        super().reset(seed=seed)
        observation = self._begun
        if observation is None or seed is not None:
            observation = _array(self.env.reset(seed)["obs"])[0]
        self._begun = None
        return observation, {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, _Infos]:
        """Make a step.

        :param action: Action.

        :return: Observation, reward, terminated, truncated, infos: the task's extras of this environment.
        """
        given = torch.as_tensor(np.asarray(action), device=self.env.device)[None]
        observations, rewards, resets, extras = self.env.step(given)
        ended, truncated = bool(resets[0]), bool(extras.pop("time_outs")[0])
        final = _array(extras.pop("final_obs"))[0]
        del extras["final_states"]
        if ended:
            self._begun = _array(observations["obs"])[0]
        infos = {name: value[0] for name, value in _per_env(extras, 1)}
        return final, float(rewards[0]), ended and not truncated, truncated, infos

    def render(self) -> Any:
        """Return what the task draws, or None."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


def _array(values: torch.Tensor) -> Array:
    array: Array = values.cpu().numpy()
    return array


def _per_env(extras: dict[str, Any], num_envs: int) -> Iterator[tuple[str, Array]]:
    for name, value in extras.items():
        if isinstance(value, torch.Tensor) and value.shape[:1] == (num_envs,):
            yield name, _array(value)


def _infos(extras: dict[str, Any], mask: Array) -> _Infos:
    """Give the values per environment where the mask is set, in the manner of ``VectorEnv._add_info``."""
    infos: _Infos = {}
    if extras and mask.any():
        for name, values in _per_env(extras, len(mask)):
            infos[name] = np.where(mask.reshape(-1, *[1] * (values.ndim - 1)), values, np.zeros_like(values))
            infos[f"_{name}"] = mask.copy()
    return infos
