"""The base class of tasks, with the members of OmniIsaacGymEnvs' RLTask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np
import torch

from skrl_vec_envs.omniverse.config import SimConfig
from skrl_vec_envs.omniverse.randomization import Randomizer
from skrl_vec_envs.omniverse.world import Scene, World

if TYPE_CHECKING:
    from skrl_vec_envs.omniverse.env import VecEnv

_COMMON_SETTINGS = {
    "numEnvs": 64,
    "controlFrequencyInv": 1,
    "clipObservations": float("inf"),
    "clipActions": 1.0,
    "envSpacing": 0.0,  # a distance in Isaac Sim's scene, without effect here
}
_NEEDED = ("_cfg", "_task_cfg", "_num_envs", "_num_observations", "_num_actions")


class RLTask:
    """Rules and buffers of N environments that are stepped together.

    A task's constructor sets ``_cfg`` and ``_task_cfg`` (see :class:`~skrl_vec_envs.omniverse.SimConfig`),
    ``_num_envs``, ``_num_observations`` (O), ``_num_actions`` (A), where it has them ``_num_states`` (S),
    ``_max_episode_length``, ``action_space`` (default: a Box from -1 to 1, shape: (A,)), ``observation_space``
    (default: an unbounded Box, shape: (O,)) and ``state_space``, and then calls this one. ``_cfg`` holds ``"seed"``,
    ``"test"``, ``"sim_device"`` and ``"rl_device"``; ``_task_cfg["env"]`` may hold ``clipObservations``,
    ``clipActions`` and ``controlFrequencyInv``, the number of simulated steps per action.

    **Hooks**, in the order in which a step calls them: ``pre_physics_step(actions)``, which also resets the flagged
    environments, ``simulate(dt)``, ``get_observations()``, ``get_states()``, ``calculate_metrics()``, ``is_done()``,
    ``get_extras()``. The environment's set-up calls ``set_up_scene(scene)`` and ``post_reset()``.

    :param name: Name of the task.
    :param env: Environment to which the task will be given.
    :param offset: Accepted, without effect.

    :raises AttributeError: The constructor of the subclass has not set what is needed.
    """

    obs_buf: torch.Tensor
    """Observations. Shape: (N, O), or (N, *observation_space.shape), dtype: float32."""
    states_buf: torch.Tensor
    """States, what a value function may see beside the observations. Shape: (N, S), dtype: float32."""
    rew_buf: torch.Tensor
    """Rewards. Shape: (N,), dtype: float32."""
    reset_buf: torch.Tensor
    """1 where an episode has ended, and at the start. Shape: (N,), dtype: int64."""
    progress_buf: torch.Tensor
    """Steps made in this episode. Shape: (N,), dtype: int64."""
    extras: dict[str, Any]
    """What else there is to tell: tensors, numbers, dictionaries of these."""
    generator: torch.Generator
    """Random numbers of the task, on its device, from ``_cfg["seed"]``."""

    _cfg: dict[str, Any]
    _task_cfg: dict[str, Any]
    _num_envs: int
    _num_observations: int
    _num_actions: int

    def __init__(self, name: str, env: VecEnv, offset: Any = None) -> None:
        for needed in _NEEDED:
            if not hasattr(self, needed):
                raise AttributeError(f"{type(self).__name__} must set self.{needed} before it calls RLTask.__init__")
        self._name = name
        self._env = env
        self._offset = offset
        self._device = str(self._cfg["sim_device"])
        self.rl_device = str(self._cfg.get("rl_device") or self._device)
        self.test = self._cfg.get("test", False)
        self.is_extension = False
        self.generator = torch.Generator(self._device)
        self.seed(self._cfg["seed"])
        self._dr_randomizer = Randomizer(self._cfg, self._task_cfg)
        self.randomize_actions = False
        self.randomize_observations = False

        settings = self._task_cfg["env"]
        self.clip_obs = float(settings.get("clipObservations", np.inf))
        self.clip_actions = float(settings.get("clipActions", np.inf))
        self.control_frequency_inv = int(settings.get("controlFrequencyInv", 1))
        self.rendering_interval = self._task_cfg.get("renderingInterval", 1)
        for setting in ("clip_obs", "clip_actions", "control_frequency_inv"):
            if not getattr(self, setting) > 0:
                raise ValueError(f"{setting} must be positive, got {getattr(self, setting)}")

        if not hasattr(self, "_num_agents"):
            self._num_agents = 1
        if not hasattr(self, "_num_states"):
            self._num_states = 0
        if not hasattr(self, "action_space"):
            self.action_space: gymnasium.Space[Any] = _box(1.0, self.num_actions)
        if not hasattr(self, "observation_space"):
            self.observation_space: gymnasium.Space[Any] = _box(np.inf, self.num_observations)
        if not hasattr(self, "state_space"):
            self.state_space: gymnasium.Space[Any] = _box(np.inf, self.num_states)
        self.cleanup()

    def cleanup(self) -> None:
        """Make the buffers anew."""

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=self._device)

        shape = self.observation_space.shape or (self.num_observations,)
        self.obs_buf = zeros(self.num_envs, *shape)
        self.states_buf = zeros(self.num_envs, self.num_states)
        self.rew_buf = zeros(self.num_envs)
        self.reset_buf = zeros(self.num_envs, dtype=torch.int64) + 1
        self.progress_buf = zeros(self.num_envs, dtype=torch.int64)
        self._last_step = zeros(dtype=torch.int64)
        self.extras = {}

    def seed(self, seed: int) -> None:
        """Begin the sequence of the task's random numbers anew.

        :param seed: Seed.
        """
        self.generator.manual_seed(seed)

    def open_stage(self) -> None:
        """Prepare the stage on which ``set_up_scene`` puts objects; there is none here."""

    def set_up_scene(self, scene: Scene) -> None:
        """Put the task's objects on the stage. Called once, first.

        :param scene: Scene.
        """

    def post_reset(self) -> None:
        """Prepare what needs the scene's objects. Called once, after their initialization."""

    def reset(self) -> None:
        """Flag all environments: the next ``pre_physics_step`` resets them."""
        self.reset_buf = torch.ones_like(self.reset_buf)

    def reset_idx(self, env_ids: torch.Tensor) -> None:
        """Start new episodes: write the state, and zeros into ``reset_buf`` and ``progress_buf``.

        :param env_ids: Environments to reset. Shape: (R,), dtype: int64.
        """
        raise NotImplementedError(f"{type(self).__name__} must define reset_idx(env_ids)")

    def pre_step(self, time_step_index: int, simulation_time: float) -> None:
        """Called before each simulated step.

        :param time_step_index: Simulated steps so far.
        :param simulation_time: Simulated seconds so far.
        """

    def pre_physics_step(self, actions: torch.Tensor) -> None:
        """Reset the flagged environments and turn actions into forces.

        :param actions: A copy of the actions given, clipped, on the simulation's device. Shape: (N, A), dtype: float32;
            of a Discrete space: (N,), of a MultiDiscrete one: (N, K), dtype: int64.
        """
        raise NotImplementedError(f"{type(self).__name__} must define pre_physics_step(actions)")

    def simulate(self, dt: float) -> None:
        """Let time go on, in place of PhysX. Called ``control_frequency_inv`` times per step.

        :param dt: Seconds.
        """

    def post_physics_step(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Count the step and fill the buffers.

        :return: ``obs_buf``, ``rew_buf``, ``reset_buf``, ``extras``.
        """
        self.progress_buf += 1
        if self.world.is_playing():
            self.get_observations()
            self.get_states()
            self.calculate_metrics()
            self.is_done()
            self.get_extras()
        return self.obs_buf, self.rew_buf, self.reset_buf, self.extras

    def get_observations(self) -> Any:
        """Write ``obs_buf``."""
        raise NotImplementedError(f"{type(self).__name__} must define get_observations()")

    def copy_observations(self) -> torch.Tensor:
        """Return what ``obs_buf`` holds, in memory of its own. A task that has that already need not copy it.

        :return: Shape and dtype of ``obs_buf``. Called at most once after each ``get_observations``.
        """
        return self.obs_buf.clone()

    def get_states(self) -> torch.Tensor:
        """Write ``states_buf``, where there are states, and return it."""
        return self.states_buf

    def calculate_metrics(self) -> None:
        """Write ``rew_buf``."""
        raise NotImplementedError(f"{type(self).__name__} must define calculate_metrics()")

    def is_done(self) -> None:
        """Write ``reset_buf``."""
        raise NotImplementedError(f"{type(self).__name__} must define is_done()")

    def get_extras(self) -> dict[str, Any]:
        """Write ``extras``, and return it."""
        return self.extras

    def get_time_outs(self) -> torch.Tensor:
        """Tell which episodes ended because time was up.

        This one returns ``extras["time_outs"]`` where the task writes it (as Isaac Gym's do), otherwise the episodes
        that ended in their last step. Some tasks end in step ``_max_episode_length``, most in the step before: the
        first environment that outlives the latter tells them apart. A task that knows better overrides this.

        :return: The environment adds ``& reset``. Shape: (N,), dtype: bool.
        """
        if "time_outs" in self.extras:
            written: torch.Tensor = self.extras["time_outs"]
            return written.to(torch.bool)
        ended = self.reset_buf > 0
        length: int | None = getattr(self, "_max_episode_length", getattr(self, "max_episode_length", None))
        if length is None:
            return torch.zeros_like(ended)
        survived = self.progress_buf.masked_fill(ended, 0).amax()
        self._last_step = torch.maximum(self._last_step, survived + 1).clamp_(length - 1, length)
        return ended.logical_and(self.progress_buf >= self._last_step)

    @property
    def name(self) -> str:
        """Name of the task."""
        return self._name

    @property
    def device(self) -> str:
        """Device of the simulation and of the buffers."""
        return self._device

    @property
    def num_envs(self) -> int:
        """Number of environments, N."""
        return self._num_envs

    @property
    def num_agents(self) -> int:
        """Number of agents in an environment."""
        return self._num_agents

    @property
    def num_observations(self) -> int:
        """Size of an observation, O."""
        return self._num_observations

    @property
    def num_states(self) -> int:
        """Size of a state, S; 0 where there is none."""
        return self._num_states

    @property
    def num_actions(self) -> int:
        """Size of an action, A; of a Discrete space the number of choices."""
        return self._num_actions

    @property
    def cfg(self) -> dict[str, Any]:
        """Configuration of the run."""
        return self._cfg

    @property
    def world(self) -> World:
        """World in which the task is simulated."""
        return self._env.world


class ConfiguredTask(RLTask):
    """A task of this package: its settings are known, so that an unknown one is an error.

    :param name: Name of the task.
    :param sim_config: Configuration; ``task_config["env"]`` is completed from ``SETTINGS``.
    :param env: Environment to which the task will be given.
    :param offset: Accepted, without effect.

    :raises ValueError: A setting is unknown.
    """

    SETTINGS: ClassVar[dict[str, Any]] = {}
    """Every setting of the task's own, with its default."""

    def __init__(self, name: str, sim_config: SimConfig, env: VecEnv, offset: Any = None) -> None:
        self._sim_config = sim_config
        self._cfg = sim_config.config
        self._task_cfg = sim_config.task_config
        settings = sim_config.fill_env({**_COMMON_SETTINGS, **self.SETTINGS}, type(self).__name__)
        self._num_envs = settings["numEnvs"]
        if not isinstance(self._num_envs, int) or self._num_envs < 1:
            raise ValueError(f"numEnvs must be a positive int, got {self._num_envs!r}")
        self.configure(settings)
        super().__init__(name, env, offset)

    def configure(self, settings: dict[str, Any]) -> None:
        """Take the settings over, and set the sizes and spaces that :class:`RLTask` needs.

        :param settings: Completed settings.
        """
        raise NotImplementedError

    def reset_flagged(self) -> None:
        """Reset the environments that are flagged, as a task's ``pre_physics_step`` does first."""
        env_ids = self.reset_buf.nonzero()[:, 0]
        if len(env_ids):
            self.reset_idx(env_ids)

    def uniform(self, rows: int, low: float, high: float) -> torch.Tensor:
        """Draw from the task's own random numbers.

        :param rows: Number of values.
        :param low: Lower bound.
        :param high: Upper bound, excluded.

        :return: Shape: (rows,), dtype: float32.
        """
        drawn = torch.empty(rows, dtype=torch.float32, device=self.device)
        return drawn.uniform_(low, high, generator=self.generator)


def _box(bound: float, size: int) -> gymnasium.spaces.Box:
    return gymnasium.spaces.Box(-bound, bound, (size,), np.float32)
