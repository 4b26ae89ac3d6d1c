"""The vectorized environment around a task, with the members of OmniIsaacGymEnvs' VecEnvRLGames."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import gymnasium
import torch

from skrl_vec_envs.omniverse.actions import check_actions, zero_actions
from skrl_vec_envs.omniverse.buffers import check_buffers, check_finite, check_returned
from skrl_vec_envs.omniverse.task import RLTask
from skrl_vec_envs.omniverse.world import World

Observations = dict[str, torch.Tensor]
Step = tuple[Observations, torch.Tensor, torch.Tensor, dict[str, Any]]


class Ended(NamedTuple):
    """The environments whose episode ended in a step, K of them."""

    env_ids: torch.Tensor
    """Their numbers. Shape: (K,), dtype: int64."""
    last: Observations
    """Their last observations and states. Shape: (K, O), (K, S)."""


StepByRows = tuple[Observations, torch.Tensor, torch.Tensor, dict[str, Any], Ended | None]


class VecEnv:
    """N environments of one task, stepped together.

    Example::

        >>> env = VecEnv(autoreset="lazy")
        >>> task = CartpoleTask("Cartpole", SimConfig({"num_envs": 64}), env)
        >>> env.set_task(task)
        >>> obs = env.reset()
        >>> obs, rewards, resets, extras = env.step(torch.zeros(64, 1))

    **Observations**: a dictionary with ``"obs"``, shape: (N, O), and ``"states"``, shape: (N, S), both float32, clipped
    to ``clipObservations``, on ``rl_device``. **Rewards**, shape: (N,), dtype: float32. **Resets**, shape: (N,), dtype:
    int64, 1 where an episode ended. **Extras**, a fresh dictionary per step: the task's, and ``"time_outs"``, shape:
    (N,), dtype: bool, where it ended because time was up. All tensors are copies: none shares memory with the task.

    **Autoreset.** ``"lazy"`` is OmniIsaacGymEnvs': the observation returned with a reset is the episode's last one, and
    the next ``pre_physics_step`` resets. ``"same_step"`` is Isaac Lab's: the step that ends an episode also begins the
    next one (``reset_idx``, then observations and states again), returns the first observation of the new episode for
    these rows, and ``extras["final_obs"]`` and ``extras["final_states"]``, what the lazy form would have returned: the
    last observation where an episode ended, the same as the observation returned elsewhere.

    **Actions.** Of a Box: shape (N, A), floating-point, clipped to ``clipActions``. Of a Discrete space: shape (N,) or
    (N, 1), of a MultiDiscrete one: (N, K), any integer dtype; not clipped. They are only read.

    A step calls ``pre_physics_step``, then ``control_frequency_inv`` times the world (the task's ``simulate``), then
    ``post_physics_step`` and ``get_states``. Where ``task.randomize_actions`` is set, the actions go through
    ``task._dr_randomizer.apply_actions_randomization`` before they are clipped; where ``task.randomize_observations``
    is, the observations through ``apply_observations_randomization`` before that.

    :param autoreset: ``"lazy"`` or ``"same_step"``.
    :param check_finite: Raise when an observation, a state or a reward is NaN or infinite. Waits for the device.
    :param headless: Accepted, without effect: there is no window.

    :raises ValueError: The autoreset mode is unknown.
    """

    returns_copies = True
    """Nothing returned is a buffer: views need not copy once more."""

    def __init__(
        self,
        autoreset: Literal["lazy", "same_step"] = "lazy",
        *,
        check_finite: bool = False,
        headless: bool = True,
    ) -> None:
        if autoreset not in ("lazy", "same_step"):
            raise ValueError(f"autoreset must be 'lazy' or 'same_step', got {autoreset!r}")
        self.autoreset = autoreset
        self.check_finite = check_finite
        self.render_enabled = False
        self.sim_frame_count = 0
        """Simulated steps."""
        self._task: RLTask | None = None
        self._world: World | None = None
        self._device = torch.device("cpu")
        self._checked: tuple[Any, ...] = (None,) * 6  # buffers that were found right: most tasks keep them
        self._was_reset = False

    def set_task(
        self,
        task: RLTask,
        backend: str = "torch",
        sim_params: Mapping[str, Any] | None = None,
        init_sim: bool = True,
        rendering_dt: float = 1.0 / 60.0,
    ) -> None:
        """Take a task, and set up its scene.

        :param task: Task, made for this environment.
        :param backend: ``"torch"``, which is also what ``"numpy"`` gives.
        :param sim_params: ``"dt"`` (seconds per simulated step, default: ``task_config["sim"]["dt"]``, or 1/60).
        :param init_sim: Set up the scene now.
        :param rendering_dt: Accepted, without effect.

        :raises ValueError: The backend is unknown, the task was made for another environment, or one of its buffers has
            a wrong shape or dtype.
        :raises AttributeError: The task lacks a buffer.
        """
        if task._env is not self:
            raise ValueError(f"the task {task.name!r} was made for another environment: give its constructor this one")
        if backend not in ("torch", "numpy"):
            raise ValueError(f"backend must be 'torch', got {backend!r}: tasks in warp need Isaac Sim")
        dt = {**task._task_cfg.get("sim", {}), **(sim_params or {})}.get("dt", 1.0 / 60.0)
        self._task, self._world = task, World(dt, rendering_dt)
        self._device = torch.device(task.rl_device)
        self._world.add_task(task)
        self._was_reset = False
        if init_sim:
            self._world.reset()
            check_buffers(task)

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Observations:
        """Flag all environments, and make a step with actions that are zero, which resets them.

        :param seed: Seed with which the task's random numbers begin anew (None: they go on).
        :param options: Accepted, without effect.

        :return: Observations and states.
        """
        task = self.task
        if seed is not None:
            task.seed(seed)
        self._was_reset = True
        task.reset()
        return self.step(self.zero_actions())[0]

    def step(self, actions: torch.Tensor) -> Step:
        """Make a step in all environments.

        :param actions: Actions, see the class.

        :return: Observations and states, rewards, resets, extras.

        :raises RuntimeError: The environment was not reset before.
        :raises TypeError: The actions are no tensor.
        :raises ValueError: The actions have a wrong shape or dtype, or the task has replaced a buffer by a wrong one.
        :raises FloatingPointError: See ``check_finite``.
        """
        observations, rewards, resets, extras, ended = self.step_by_rows(actions)
        if ended is not None:
            for name, final in (("obs", "final_obs"), ("states", "final_states")):
                extras[final] = observations[name].clone().index_copy_(0, ended.env_ids, ended.last[name])
        return observations, rewards, resets, extras

    def step_by_rows(self, actions: torch.Tensor) -> StepByRows:
        """Make a step, and give the last observations and states only where an episode ended.

        :param actions: Actions, see the class.

        :return: As :meth:`step` returns it, without ``"final_obs"`` and ``"final_states"``; these rows, or None with
            lazy autoreset.

        :raises: See :meth:`step`.
        """
        if not self._was_reset:
            raise RuntimeError("an environment must be reset before its first step: call reset()")
        self.task.pre_physics_step(self._receive(actions))
        self._simulate()
        return self._collect()

    def zero_actions(self) -> torch.Tensor:
        """Return actions that do nothing: zeros, or the first choices.

        :return: Shape: (N, A), dtype: float32; of a Discrete space: (N,), of a MultiDiscrete one: (N, K), dtype: int64.
        """
        return zero_actions(self.task)

    def _receive(self, actions: torch.Tensor) -> torch.Tensor:
        task = self.task
        actions = check_actions(task, actions)
        if task.randomize_actions:
            actions = task._dr_randomizer.apply_actions_randomization(actions=actions.clone(), reset_buf=task.reset_buf)
        if actions.is_floating_point():
            return torch.clamp(actions, -task.clip_actions, task.clip_actions).to(task.device, torch.float32)
        return actions.to(task.device, torch.int64, copy=True)

    def _simulate(self) -> None:
        for _ in range(self.task.control_frequency_inv):
            self.world.step(render=False)
            self.sim_frame_count += 1

    def _collect(self) -> StepByRows:
        task = self.task
        observations, rewards, resets, extras = task.post_physics_step()
        self._check_buffers()
        check_returned(task, observations, rewards, resets)
        result = self._observe(observations)
        rewards = self._copy(rewards)
        over = resets > 0
        time_outs = (task.get_time_outs() & over).to(self._device)
        resets = resets.to(self._device, torch.int64, copy=True)
        extras = {**copy_extras(extras, self._device), "time_outs": time_outs}
        if self.check_finite:
            for name, values in ("observations", result["obs"]), ("states", result["states"]), ("rewards", rewards):
                check_finite(name, values)
        ended = self._restart(over, result) if self.autoreset == "same_step" else None
        return result, rewards, resets, extras, ended

    def _check_buffers(self) -> None:
        task = self.task
        buffers = task.obs_buf, task.states_buf, task.rew_buf, task.reset_buf, task.progress_buf, task.extras
        if not all(map(operator.is_, buffers, self._checked)):
            check_buffers(task)
            self._checked = buffers

    def _observe(self, observations: torch.Tensor) -> Observations:
        task = self.task
        copied = task.copy_observations() if observations is task.obs_buf else observations.clone()
        copied = copied.detach().to(self._device)
        if task.randomize_observations:
            copied = task._dr_randomizer.apply_observations_randomization(observations=copied, reset_buf=task.reset_buf)
        return {"obs": self._clip(copied), "states": self._clip(self._copy(task.get_states()))}

    def _restart(self, over: torch.Tensor, result: Observations) -> Ended:
        """Begin new episodes where they ended, and write their first observations into the result."""
        task, env_ids = self.task, over.nonzero()[:, 0]
        rows = env_ids.to(self._device)
        last = {name: values.index_select(0, rows) for name, values in result.items()}
        if len(env_ids):
            task.reset_idx(env_ids)
            task.reset_buf.index_fill_(0, env_ids, 0)
            task.progress_buf.index_fill_(0, env_ids, 0)
            task.get_observations()
            # only these rows: a task may observe the others otherwise the second time, when it adds noise for example
            first = self._observe_rows(env_ids)
            for name, values in result.items():
                if values.numel():  # most tasks have no states
                    values.index_copy_(0, rows, first[name])
        return Ended(rows, last)

    def _observe_rows(self, env_ids: torch.Tensor) -> Observations:
        task = self.task
        if task.randomize_observations:
            rows = env_ids.to(self._device)
            return {name: values.index_select(0, rows) for name, values in self._observe(task.obs_buf).items()}
        states = task.get_states()
        both = {"obs": task.obs_buf.index_select(0, env_ids), "states": states.index_select(0, env_ids)}
        return {name: self._clip(values.detach().to(self._device)) for name, values in both.items()}

    def _clip(self, values: torch.Tensor) -> torch.Tensor:
        bound = self.task.clip_obs
        return values if math.isinf(bound) else values.clamp_(-bound, bound)

    def _copy(self, values: torch.Tensor) -> torch.Tensor:
        return values.detach().to(self._device, copy=True)

    @property
    def task(self) -> RLTask:
        """Task of the environment.

        :raises RuntimeError: It has none yet.
        """
        if self._task is None:
            raise RuntimeError("the environment has no task: call set_task(task)")
        return self._task

    @property
    def world(self) -> World:
        """World in which the task is simulated.

        :raises RuntimeError: There is none yet.
        """
        if self._world is None:
            raise RuntimeError("the environment has no world yet: call set_task(task)")
        return self._world

    @property
    def unwrapped(self) -> VecEnv:
        """The environment itself."""
        return self

    @property
    def num_envs(self) -> int:
        """Number of environments, N."""
        return self.task.num_envs

    @property
    def num_agents(self) -> int:
        """Number of agents in an environment."""
        return self.task.num_agents

    @property
    def num_states(self) -> int:
        """Size of a state, S; 0 where there is none."""
        return self.task.num_states

    @property
    def device(self) -> torch.device:
        """Device of all that is returned, ``rl_device``."""
        return self._device

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """Space of one environment's observation."""
        return self.task.observation_space

    @property
    def state_space(self) -> gymnasium.Space[Any]:
        """Space of one environment's state; of size 0 where there is none."""
        return self.task.state_space

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """Space of one environment's action."""
        return self.task.action_space

    def get_number_of_agents(self) -> int:
        """Return the number of agents in an environment."""
        return self.task.num_agents

    def seed(self, seed: int) -> None:
        """Begin the sequence of the task's random numbers anew.

        :param seed: Seed.
        """
        self.task.seed(seed)

    def render(self, mode: str = "human") -> Any:
        """Return what the task draws, or None.

        :param mode: Accepted, without effect.
        """
        draw = getattr(self.task, "render", None)
        return draw() if draw else None

    def close(self) -> None:
        """Stop the world."""
        if self._world is not None:
            self._world.stop()
        self._was_reset = False


def copy_extras(extras: Mapping[str, Any], device: str | torch.device) -> dict[str, Any]:
    """Copy a dictionary, the dictionaries in it, and their tensors.

    :param extras: Dictionary.
    :param device: Device of the copied tensors.

    :return: The copy. What is neither a tensor nor a dictionary is shared.
    """

    def copied(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.detach().to(device, copy=True)
        return copy_extras(value, device) if isinstance(value, Mapping) else value

    return {name: copied(value) for name, value in extras.items()}
