"""The base classes from which OmniIsaacGymEnvs' tasks and environments derive."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from skrl_vec_envs.omni.app import no_effect
from skrl_vec_envs.omni.usd import GridCloner, define_prim, new_stage
from skrl_vec_envs.omniverse import task as base
from skrl_vec_envs.omniverse.env import VecEnv
from skrl_vec_envs.omniverse.threaded import VecEnvMT
from skrl_vec_envs.omniverse.world import Scene


class RLTask(base.RLTask):
    """``omniisaacgymenvs.tasks.base.rl_task.RLTask``: the task's robots are simulated by their dynamics.

    Such tasks draw from torch's own random numbers, so seeding the task seeds these (and Python's and NumPy's).

    :param name: Name of the task.
    :param env: Environment to which the task will be given.
    :param offset: Accepted, without effect.
    """

    dr = SimpleNamespace(physics_view=SimpleNamespace(step_randomization=no_effect))
    """What tasks call where they randomize the simulator; that itself is refused."""
    enable_cameras = False

    def seed(self, seed: int) -> None:
        """Seed the task's random numbers, and the global ones of Python, NumPy and torch."""
        super().seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)

    def open_stage(self) -> None:
        """Begin with an empty stage."""
        self._stage = new_stage()

    def set_up_scene(
        self,
        scene: Scene,
        replicate_physics: bool = True,
        collision_filter_global_paths: Any = (),
        filter_collisions: bool = True,
        copy_from_source: bool = False,
    ) -> None:
        """Place the environments on a grid; their positions are ``_env_pos``, shape: (N, 3).

        :param scene: Scene.
        :param replicate_physics: Accepted, without effect, as are the others.
        """
        self._clone(define=True)
        scene.add_default_ground_plane(prim_path="/World/defaultGroundPlane")

    def initialize_views(self, scene: Scene) -> None:
        """Place the environments on a grid, for the workflow of extensions."""
        self._clone(define=False)

    def _clone(self, *, define: bool) -> None:
        self._cloner = GridCloner(spacing=getattr(self, "_env_spacing", 0.0))
        if define:
            define_prim(self.default_base_env_path)
            paths = self._cloner.generate_paths(f"{self.default_base_env_path}/env", self.num_envs)
            positions = self._cloner.clone(self.default_zero_env_path, paths)
        else:
            positions, _ = self._cloner.get_clone_transforms(self.num_envs)
        self._env_pos = torch.as_tensor(positions, dtype=torch.float32, device=self.device)
        self._stage.env_positions = self._env_pos

    def simulate(self, dt: float) -> None:
        """Let the dynamics of all robots and objects act."""
        gravity = torch.tensor(self._task_cfg["sim"].get("gravity", (0.0, 0.0, -9.81)), device=self.device)
        for actor in self._stage.actors.values():
            actor.step(dt, gravity)

    @property
    def default_base_env_path(self) -> str:
        """Path of the prim above the environments."""
        return "/World/envs"

    @property
    def default_zero_env_path(self) -> str:
        """Path of the first environment."""
        return f"{self.default_base_env_path}/env_0"

    def set_is_extension(self, is_extension: bool) -> None:
        """Remember whether the task runs in an extension."""
        self.is_extension = is_extension

    def set_initial_camera_params(self, camera_position: Any = None, camera_target: Any = None) -> None:
        """Accept where the camera stands: there is none."""


class VecEnvRLGames(VecEnv):
    """``omniisaacgymenvs.envs.vec_env_rlgames.VecEnvRLGames``.

    :param parameters: What Isaac Sim's class takes: accepted, without effect.
    :param autoreset: See :class:`~skrl_vec_envs.omniverse.VecEnv`.
    """

    def __init__(self, *parameters: Any, autoreset: Any = "lazy", check_finite: bool = False, **keywords: Any) -> None:
        super().__init__(autoreset, check_finite=check_finite)


class VecEnvRLGamesMT(VecEnvMT):
    """``omniisaacgymenvs.envs.vec_env_rlgames_mt.VecEnvRLGamesMT``, see :class:`VecEnvRLGames`."""

    def __init__(self, *parameters: Any, autoreset: Any = "lazy", check_finite: bool = False, **keywords: Any) -> None:
        super().__init__(autoreset, check_finite=check_finite)
