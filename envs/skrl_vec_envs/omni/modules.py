"""What can be imported where Isaac Sim is not: the names of its modules, and of OmniIsaacGymEnvs' own."""

from __future__ import annotations

import abc
import inspect
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from skrl_vec_envs.omni import app, maths, prims, rl_task, usd, views
from skrl_vec_envs.omniverse import RLTask as PlainTask
from skrl_vec_envs.omniverse import SimConfig
from skrl_vec_envs.omniverse.randomization import Randomizer
from skrl_vec_envs.omniverse.threaded import TaskStopException, TrainerMT, VecEnvMT
from skrl_vec_envs.omniverse.world import Scene, World


def _names(*objects: Any) -> dict[str, Any]:
    return {thing.__name__: thing for thing in objects}


_MATHS: dict[str, Any] = {name: value for name, value in vars(maths).items() if inspect.isfunction(value)}
_MATHS |= {"torch": torch, "np": np}  # Isaac Sim's modules let these through a star import, too
_PRIM_UTILS = _names(
    *(usd.get_prim_at_path, usd.define_prim, usd.get_prim_property, usd.set_prim_property, usd.is_prim_path_valid),
    *(usd.get_prim_children, usd.get_prim_path, usd.delete_prim, usd.find_matching_prim_paths),
)
_STAGE_UTILS = {
    **_names(usd.get_current_stage, prims.add_reference_to_stage),
    "create_new_stage": usd.new_stage,
    "get_stage_units": lambda: 1.0,
    "update_stage": app.no_effect,
    "is_stage_loading": lambda: False,
}
_PRIMS = _names(
    *(prims.XFormPrim, prims.GeometryPrim, prims.RigidPrim, views.XFormPrimView, views.RigidPrimView),
)
_OBJECTS = _names(
    *(prims.DynamicSphere, prims.DynamicCuboid, prims.DynamicCylinder, prims.DynamicCapsule, prims.DynamicCone),
    *(prims.FixedCuboid, prims.VisualSphere, prims.VisualCuboid),
)
_ARTICULATIONS = _names(prims.Articulation, views.ArticulationView)
_ROBOTS = {"Robot": prims.Robot, "RobotView": views.ArticulationView}
_NUCLEUS = {"get_assets_root_path": app.get_assets_root_path}
_MATERIALS = dict.fromkeys(
    ("PhysicsMaterial", "PreviewSurface", "VisualMaterial", "DeformableMaterial"), prims.Material
)
_VEC_ENV = {"VecEnvBase": rl_task.VecEnvRLGames, **_names(VecEnvMT, TrainerMT, TaskStopException)}
_USD = {"get_context": lambda: SimpleNamespace(get_stage=usd.get_current_stage)}

MODULES: dict[str, dict[str, Any]] = {
    "carb": {
        **{name: getattr(app, name) for name in ("log_error", "log_warn", "log_info", "log_verbose", "settings")},
    },
    "carb.settings": {"get_settings": app.settings.get_settings},
    "pxr": {
        **{"Gf": usd.Gf, "Sdf": usd.Sdf, "Usd": usd.Usd, "UsdGeom": usd.UsdGeom, "UsdLux": usd.UsdLux, "Vt": usd.Vt},
        **{"UsdPhysics": usd.UsdPhysics, "UsdShade": usd.UsdShade, "PhysxSchema": usd.PhysxSchema},
        **{"PhysicsSchemaTools": usd.PhysicsSchemaTools},
    },
    "omni": {},
    "omni.kit": {},
    "omni.kit.app": {},
    "omni.usd": _USD,
    "omni.physx": {},
    "omni.physx.scripts": {},
    "omni.replicator": {},
    "omni.replicator.core": {},
    "omni.replicator.isaac": {
        "physics_view": SimpleNamespace(step_randomization=app.no_effect),
        "trigger": SimpleNamespace(),
    },
    "omni.isaac": {},
    "omni.isaac.kit": {"SimulationApp": app.SimulationApp},
    "omni.isaac.nucleus": _NUCLEUS,
    "omni.isaac.cloner": {"GridCloner": usd.GridCloner, "Cloner": usd.GridCloner},
    "omni.isaac.gym": {},
    "omni.isaac.gym.tasks": {},
    "omni.isaac.gym.tasks.rl_task": {"RLTaskInterface": PlainTask},
    "omni.isaac.gym.vec_env": _VEC_ENV,
    "omni.isaac.gym.vec_env.vec_env_mt": _VEC_ENV,
    "omni.isaac.gym.vec_env.vec_env_base": _VEC_ENV,
    "omni.isaac.core": {"World": World, "SimulationContext": World},
    "omni.isaac.core.world": {"World": World},
    "omni.isaac.core.simulation_context": {"SimulationContext": World},
    "omni.isaac.core.scenes": {"Scene": Scene},
    "omni.isaac.core.scenes.scene": {"Scene": Scene},
    "omni.isaac.core.tasks": {"BaseTask": PlainTask},
    "omni.isaac.core.tasks.base_task": {"BaseTask": PlainTask},
    "omni.isaac.core.prims": _PRIMS,
    "omni.isaac.core.prims.rigid_prim": _PRIMS,
    "omni.isaac.core.prims.rigid_prim_view": _PRIMS,
    "omni.isaac.core.prims.xform_prim": _PRIMS,
    "omni.isaac.core.prims.xform_prim_view": _PRIMS,
    "omni.isaac.core.objects": _OBJECTS,
    "omni.isaac.core.articulations": _ARTICULATIONS,
    "omni.isaac.core.articulations.articulation": _ARTICULATIONS,
    "omni.isaac.core.articulations.articulation_view": _ARTICULATIONS,
    "omni.isaac.core.robots": _ROBOTS,
    "omni.isaac.core.robots.robot": _ROBOTS,
    "omni.isaac.core.robots.robot_view": _ROBOTS,
    "omni.isaac.core.materials": _MATERIALS,
    "omni.isaac.core.materials.physics_material": _MATERIALS,
    "omni.isaac.core.materials.deformable_material": _MATERIALS,
    "omni.isaac.core.utils": {},
    "omni.isaac.core.utils.extensions": _names(app.enable_extension),
    "omni.isaac.core.utils.nucleus": _NUCLEUS,
    "omni.isaac.core.utils.prims": _PRIM_UTILS,
    "omni.isaac.core.utils.stage": _STAGE_UTILS,
    "omni.isaac.core.utils.semantics": {"add_update_semantics": app.no_effect},
    "omni.isaac.core.utils.viewports": {"set_camera_view": app.no_effect},
    "omni.isaac.core.utils.types": {"ArticulationAction": SimpleNamespace, "ArticulationActions": SimpleNamespace},
    "omni.isaac.core.utils.torch": _MATHS,
    "omni.isaac.core.utils.torch.maths": _MATHS,
    "omni.isaac.core.utils.torch.rotations": _MATHS,
    "omni.isaac.core.utils.torch.transformations": _MATHS,
    "omni.isaac.core.utils.torch.tensor": _MATHS,
    "omniisaacgymenvs.tasks.base.rl_task": {"RLTask": rl_task.RLTask},
    "omniisaacgymenvs.envs.vec_env_rlgames": {"VecEnvRLGames": rl_task.VecEnvRLGames},
    "omniisaacgymenvs.envs.vec_env_rlgames_mt": {"VecEnvRLGamesMT": rl_task.VecEnvRLGamesMT},
    "omniisaacgymenvs.utils.config_utils.sim_config": {"SimConfig": SimConfig},
    "omniisaacgymenvs.utils.domain_randomization.randomize": {"Randomizer": Randomizer},
}
"""Names of each module."""

LATER: dict[str, tuple[str, ...]] = {
    "omni.physx.scripts": ("physicsUtils", "utils", "deformableUtils"),
    "omni.isaac.core.utils.deformable_mesh_utils": (),
    "omni.isaac.core.prims": ("ClothPrimView", "ParticleSystemView", "DeformablePrim", "DeformablePrimView"),
    "omni.isaac.wheeled_robots.robots": ("WheeledRobot",),
    "omni.isaac.wheeled_robots.controllers.differential_controller": ("DifferentialController",),
    "omni.isaac.sensor": ("Camera", "ContactSensor"),
    "omni.isaac.sensor.scripts.camera": ("Camera",),
    "omni.isaac.core.utils.warp": (),
    "omni.isaac.core.utils.warp.tensor": (),
    "omni.isaac.core.utils.numpy": (),
    "omni.ui": (),
    "omniisaacgymenvs.tasks.base.rl_task": ("RLTaskWarp",),
}
"""Names that can be imported, and raise when they are used: nothing of Isaac Sim can take their place."""


class Missing(abc.ABCMeta):
    """The type of classes that say that they are missing, when they are used."""

    def __call__(cls, *parameters: Any, **keywords: Any) -> Any:
        """Refuse to make an instance."""
        raise NotImplementedError(f"{cls.__module__}.{cls.__name__} has no stand-in in skrl_vec_envs.omni")

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotImplementedError(f"{cls.__module__}.{cls.__name__}.{name} has no stand-in in skrl_vec_envs.omni")


def missing(module: str, name: str) -> Missing:
    """Make a class for a name that is missing: it can be derived from, but not used.

    :param module: Name of the module.
    :param name: Name in it.

    :return: Class.
    """
    return Missing(name, (), {"__module__": module})
