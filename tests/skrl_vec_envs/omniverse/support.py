"""Tasks for the tests: one that writes its calls down, and makers of the package's own."""

from __future__ import annotations

from typing import Any

import torch

from skrl_vec_envs.omniverse import RLTask, SimConfig, VecEnv
from skrl_vec_envs.omniverse.tasks import CartpoleTask


class Recorder(RLTask):
    """Counts, one row per environment: the observation is (number of the episode, steps made in it).

    Row ``i`` ends after ``lengths[i]`` steps, with reward 1 per step; what is called is in ``calls``.
    """

    _max_episode_length: int

    def __init__(
        self,
        env: VecEnv,
        lengths: tuple[int, ...] = (2, 3, 100),
        settings: dict[str, Any] | None = None,
        *,
        num_states: int = 0,
        config: dict[str, Any] | None = None,
    ) -> None:
        sim_config = SimConfig({**(config or {}), "task": {"env": settings or {}}})
        self._cfg, self._task_cfg = sim_config.config, sim_config.task_config
        self._num_envs, self._num_observations, self._num_actions = len(lengths), 2, 2
        if num_states:
            self._num_states = num_states
        self.lengths = torch.tensor(lengths)
        self.episode = torch.zeros(len(lengths))
        self.calls: list[str] = []
        self.given: list[torch.Tensor] = []
        super().__init__("recorder", env)

    def set_up_scene(self, scene: Any) -> None:
        self.calls.append("set_up_scene")
        scene.add(self._Body(self.calls))

    class _Body:
        name = "body"

        def __init__(self, calls: list[str]) -> None:
            self._calls = calls

        def initialize(self, physics_sim_view: Any) -> None:
            self._calls.append("initialize")

    def post_reset(self) -> None:
        self.calls.append("post_reset")

    def reset(self) -> None:
        self.calls.append("reset")
        super().reset()

    def reset_idx(self, env_ids: torch.Tensor) -> None:
        self.calls.append(f"reset_idx{env_ids.tolist()}")
        self.episode[env_ids] += 1
        self.reset_buf[env_ids] = 0
        self.progress_buf[env_ids] = 0

    def pre_physics_step(self, actions: torch.Tensor) -> None:
        self.calls.append("pre_physics_step")
        env_ids = self.reset_buf.nonzero()[:, 0]
        if len(env_ids):
            self.reset_idx(env_ids)
        self.given.append(actions)

    def simulate(self, dt: float) -> None:
        self.calls.append("simulate")

    def get_observations(self) -> None:
        self.calls.append("get_observations")
        self.obs_buf[:, 0], self.obs_buf[:, 1] = self.episode, self.progress_buf

    def get_states(self) -> torch.Tensor:
        self.calls.append("get_states")
        if self.num_states:
            self.states_buf[:] = self.obs_buf[:, :1] * 10
        return self.states_buf

    def calculate_metrics(self) -> None:
        self.calls.append("calculate_metrics")
        self.rew_buf[:] = 1.0

    def is_done(self) -> None:
        self.calls.append("is_done")
        self.reset_buf[:] = self.progress_buf >= self.lengths

    def get_extras(self) -> dict[str, Any]:
        self.calls.append("get_extras")
        return self.extras


def recorder(autoreset: Any = "lazy", *parameters: Any, **keywords: Any) -> tuple[VecEnv, Recorder]:
    """Set up an environment with a :class:`Recorder`."""
    env = VecEnv(autoreset)
    task = Recorder(env, *parameters, **keywords)
    env.set_task(task)
    return env, task


def make(task: type[Any] = CartpoleTask, num_envs: int = 4, autoreset: Any = "lazy", **settings: Any) -> VecEnv:
    """Set up an environment with a task of the package's."""
    env = VecEnv(autoreset)
    config = SimConfig({"num_envs": num_envs, "seed": 3, "task": {"env": settings, "sim": {"dt": 0.05}}})
    env.set_task(task(task.__name__, config, env))
    return env


def random_actions(env: VecEnv, seed: int) -> torch.Tensor:
    """Draw actions of the environment's space."""
    generator = torch.Generator().manual_seed(seed)
    zero = env.zero_actions()
    if zero.is_floating_point():
        return torch.rand(zero.shape, generator=generator) * 2 - 1
    choices = torch.as_tensor(getattr(env.action_space, "nvec", getattr(env.action_space, "n", None)))
    return (torch.rand(zero.shape, generator=generator) * choices).to(torch.int64)
