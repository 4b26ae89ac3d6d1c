"""Keep a pole upright."""

# mypy: ignore-errors

import torch
from gym import spaces
from omni.isaac.core.articulations import ArticulationView
from omni.isaac.core.utils.prims import get_prim_at_path
from omni.isaac.core.utils.torch.maths import torch_rand_float
from omniisaacgymenvs.robots.articulations.cartpole import Cartpole
from omniisaacgymenvs.tasks.base.rl_task import RLTask


class BalanceTask(RLTask):
    def __init__(self, name, sim_config, env, offset=None) -> None:
        self._sim_config = sim_config
        self._cfg = sim_config.config
        self._task_cfg = sim_config.task_config
        self._num_envs = self._task_cfg["env"]["numEnvs"]
        self._env_spacing = self._task_cfg["env"]["envSpacing"]
        self._max_episode_length = self._task_cfg["env"]["episodeLength"]
        self._num_observations = 4
        self._num_actions = 1
        self.action_space = spaces.Box(-1.0, 1.0, (1,))
        RLTask.__init__(self, name, env)

    def set_up_scene(self, scene) -> None:
        pole = Cartpole(prim_path=self.default_zero_env_path + "/Cartpole", translation=torch.tensor([0.0, 0.0, 2.0]))
        self._sim_config.apply_articulation_settings(
            "Cartpole", get_prim_at_path(pole.prim_path), self._sim_config.parse_actor_config("Cartpole")
        )
        super().set_up_scene(scene)
        self._poles = ArticulationView(prim_paths_expr="/World/envs/.*/Cartpole", name="poles")
        scene.add(self._poles)

    def post_reset(self):
        self._cart = self._poles.get_dof_index("cartJoint")
        self._pole = self._poles.get_dof_index("poleJoint")
        self.reset_idx(torch.arange(self._poles.count, dtype=torch.int64, device=self._device))

    def reset_idx(self, env_ids):
        shape = (len(env_ids), self._poles.num_dof)
        self._poles.set_joint_positions(torch_rand_float(-0.2, 0.2, shape, self._device), indices=env_ids)
        self._poles.set_joint_velocities(torch_rand_float(-0.1, 0.1, shape, self._device), indices=env_ids)
        self.reset_buf[env_ids] = 0
        self.progress_buf[env_ids] = 0

    def pre_physics_step(self, actions) -> None:
        if not self._env._world.is_playing():
            return
        env_ids = self.reset_buf.nonzero(as_tuple=False).squeeze(-1)
        if len(env_ids) > 0:
            self.reset_idx(env_ids)
        efforts = torch.zeros((self._poles.count, self._poles.num_dof), device=self._device)
        efforts[:, self._cart] = 10.0 * actions[:, 0]
        self._poles.set_joint_efforts(efforts, indices=torch.arange(self._poles.count, dtype=torch.int32))

    def get_observations(self) -> dict:
        self.positions = self._poles.get_joint_positions(clone=False)
        velocities = self._poles.get_joint_velocities(clone=False)
        self.obs_buf[:] = torch.cat((self.positions, velocities), dim=-1)
        return {self._poles.name: {"obs_buf": self.obs_buf}}

    def calculate_metrics(self) -> None:
        self.rew_buf[:] = torch.cos(self.positions[:, self._pole])

    def is_done(self) -> None:
        fallen = torch.abs(self.positions[:, self._pole]) > 0.2
        self.reset_buf[:] = torch.where(self.progress_buf >= self._max_episode_length - 1, 1, fallen.long())
