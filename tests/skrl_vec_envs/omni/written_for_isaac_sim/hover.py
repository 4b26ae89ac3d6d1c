"""Fly a body with four rotors to a ball."""

# mypy: ignore-errors

import omni.isaac.core.utils.torch as torch_utils
import torch
from omni.isaac.core.objects import DynamicSphere
from omni.isaac.core.prims import RigidPrimView
from omni.isaac.core.utils.stage import get_current_stage
from omniisaacgymenvs.robots.articulations.copter import Copter
from omniisaacgymenvs.tasks.base.rl_task import RLTask
from pxr import Gf, PhysxSchema, UsdPhysics


class HoverTask(RLTask):
    def __init__(self, name, sim_config, env, offset=None) -> None:
        self._cfg = sim_config.config
        self._task_cfg = sim_config.task_config
        self._num_envs = self._task_cfg["env"]["numEnvs"]
        self._env_spacing = self._task_cfg["env"]["envSpacing"]
        self._max_episode_length = 50
        self._num_observations = 10
        self._num_actions = 4
        RLTask.__init__(self, name=name, env=env)

    def set_up_scene(self, scene) -> None:
        Copter(prim_path=self.default_zero_env_path + "/Copter", translation=torch.tensor([0.0, 0.0, 1.0]))
        ball = DynamicSphere(self.default_zero_env_path + "/ball", name="target", radius=0.1, color=torch.ones(3))
        ball.set_collision_enabled(False)
        stage = get_current_stage()
        joint = UsdPhysics.Joint.Define(stage, self.default_zero_env_path + "/Copter/joint")
        joint.CreateLocalRot0Attr().Set(Gf.Quatf(1.0, Gf.Vec3f(0, 0, 0)))
        PhysxSchema.PhysxRigidBodyAPI.Apply(joint.GetPrim()).CreateSleepThresholdAttr().Set(0)
        super().set_up_scene(scene, replicate_physics=False)
        self.anchor = stage.GetPrimAtPath("/World/envs/env_1").GetAttribute("xformOp:translate").Get() + Gf.Vec3d(
            0, 0, 1
        )
        self._copters = RigidPrimView(prim_paths_expr="/World/envs/.*/Copter/hull", name="copters")
        self._rotors = RigidPrimView(prim_paths_expr="/World/envs/.*/Copter/rotor[0-3]", name="rotors")
        self._balls = RigidPrimView(prim_paths_expr="/World/envs/.*/ball", name="balls")
        for view in (self._copters, self._rotors, self._balls):
            scene.add(view)

    def post_reset(self):
        self.start = self._copters.get_world_poses()
        self.weight = 9.81 * self._copters.get_masses()

    def reset_idx(self, env_ids):
        self._copters.set_world_poses(self.start[0][env_ids], self.start[1][env_ids], indices=env_ids)
        self._copters.set_velocities(torch.zeros(len(env_ids), 6, device=self._device), indices=env_ids)
        goals = torch_utils.torch_rand_float(-1.0, 1.0, (len(env_ids), 3), self._device)
        goals[:, 2] += 2.0
        self._balls.set_world_poses(goals + self._env_pos[env_ids], indices=env_ids)
        self.reset_buf[env_ids] = 0
        self.progress_buf[env_ids] = 0

    def pre_physics_step(self, actions) -> None:
        env_ids = self.reset_buf.nonzero(as_tuple=False).squeeze(-1)
        if len(env_ids) > 0:
            self.reset_idx(env_ids)
        thrusts = torch.zeros(self._num_envs, 4, 3, device=self._device)
        thrusts[:, :, 2] = (1.0 + actions) * self.weight[:, None] / 4.0
        self._rotors.apply_forces(thrusts.reshape(-1, 3), is_global=False)

    def get_observations(self) -> dict:
        positions, self.rotations = self._copters.get_world_poses(clone=False)
        positions -= self._env_pos
        goals, _ = self._balls.get_world_poses()
        self.to_goal = goals - self._env_pos - positions
        self.obs_buf[:, :3] = self.to_goal
        self.obs_buf[:, 3:7] = self.rotations
        self.obs_buf[:, 7:] = self._copters.get_linear_velocities()
        return {self._copters.name: {"obs_buf": self.obs_buf}}

    def calculate_metrics(self) -> None:
        upright = torch_utils.quat_axis(self.rotations, 2)[:, 2]
        self.rew_buf[:] = upright / (1.0 + self.to_goal.norm(dim=-1))

    def is_done(self) -> None:
        self.reset_buf[:] = ((self.progress_buf >= self._max_episode_length) | (self.rew_buf < 0)).long()
