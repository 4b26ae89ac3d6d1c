"""Single prims of ``omni.isaac.core``: robots and objects that a task puts into the first environment."""

from __future__ import annotations

from typing import Any

from skrl_vec_envs.omni.actors import Actor
from skrl_vec_envs.omni.usd import Prim, define_prim, get_current_stage


def add_reference_to_stage(usd_path: str, prim_path: str, prim_type: str = "Xform") -> Prim:
    """Put an asset on the stage, ``omni.isaac.core.utils.stage.add_reference_to_stage``. It is not loaded.

    It is an object, which flies freely, until a robot is made at its path.

    :param usd_path: Where Isaac Sim would find the asset; the prim remembers it as ``"usd_path"``.
    :param prim_path: Path of the prim.
    :param prim_type: Type of the prim.

    :return: The prim.
    """
    get_current_stage().actors[prim_path] = Actor(prim_path)
    prim = define_prim(prim_path, prim_type)
    prim.GetAttribute("usd_path").Set(usd_path)
    return prim


class XFormPrim:
    """A prim with a place, ``omni.isaac.core.prims.XFormPrim``.

    :param prim_path: Path of the prim.
    :param name: Name in the scene.
    :param position: Place in the world, in place of the translation.
    :param translation: Place in its environment.
    :param orientation: Orientation, (w, x, y, z).
    :param keywords: What else Isaac Sim's class takes (scale, visible, color, ...): remembered, without effect.
    """

    _moves = False
    _is_object = True

    def __init__(
        self,
        prim_path: str,
        name: str = "xform_prim",
        position: Any = None,
        translation: Any = None,
        orientation: Any = None,
        **keywords: Any,
    ) -> None:
        self._prim_path, self._name = prim_path, name
        self.settings = keywords
        self._prim = define_prim(prim_path)
        actors = get_current_stage().actors
        if self._moves:
            actors[prim_path] = Actor(prim_path, is_object=self._is_object, mass=keywords.get("mass"))
        parent = prim_path.rpartition("/")[0]  # of an asset, whose body is one level below
        if actor := actors.get(prim_path) or actors.get(parent):
            actor.position = translation if translation is not None else position
            actor.orientation = orientation

    @property
    def prim_path(self) -> str:
        """Path of the prim."""
        return self._prim_path

    @property
    def prim(self) -> Prim:
        """The prim."""
        return self._prim

    @property
    def name(self) -> str:
        """Name in the scene."""
        return self._name

    def set_collision_enabled(self, enabled: bool) -> None:
        """Remember it: what collides is the business of the dynamics."""
        self.settings["collision_enabled"] = enabled

    def apply_physics_material(self, physics_material: Any, *args: Any, **kwargs: Any) -> None:
        """Remember it: friction is the business of the dynamics."""
        self.settings["physics_material"] = physics_material

    def apply_visual_material(self, visual_material: Any, *args: Any, **kwargs: Any) -> None:
        """Remember it."""
        self.settings["visual_material"] = visual_material

    def set_visibility(self, visible: bool) -> None:
        """Remember it."""
        self.settings["visible"] = visible

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__}.{name} has no stand-in in skrl_vec_envs.omni")


class GeometryPrim(XFormPrim):
    """A prim with a shape, ``omni.isaac.core.prims.GeometryPrim``."""


class RigidPrim(XFormPrim):
    """A body that moves freely, ``omni.isaac.core.prims.RigidPrim``."""

    _moves = True


class Articulation(XFormPrim):
    """A robot, ``omni.isaac.core.articulations.Articulation``."""

    _moves = True
    _is_object = False


class Robot(Articulation):
    """A robot, ``omni.isaac.core.robots.Robot``."""


class DynamicSphere(RigidPrim):
    """A ball that moves, ``omni.isaac.core.objects.DynamicSphere``."""


class DynamicCuboid(RigidPrim):
    """A box that moves, ``omni.isaac.core.objects.DynamicCuboid``."""


class DynamicCylinder(RigidPrim):
    """A cylinder that moves, ``omni.isaac.core.objects.DynamicCylinder``."""


class DynamicCapsule(RigidPrim):
    """A capsule that moves, ``omni.isaac.core.objects.DynamicCapsule``."""


class DynamicCone(RigidPrim):
    """A cone that moves, ``omni.isaac.core.objects.DynamicCone``."""


class FixedCuboid(GeometryPrim):
    """A box that stands still, ``omni.isaac.core.objects.FixedCuboid``."""


class VisualSphere(GeometryPrim):
    """A ball to look at, ``omni.isaac.core.objects.VisualSphere``."""


class VisualCuboid(GeometryPrim):
    """A box to look at, ``omni.isaac.core.objects.VisualCuboid``."""


class Material:
    """A material, ``omni.isaac.core.materials``: remembered, without effect.

    :param parameters: What Isaac Sim's classes take.
    """

    def __init__(self, *parameters: Any, **keywords: Any) -> None:
        self.parameters, self.settings = parameters, keywords


def articulation_class(class_name: str) -> type[Robot]:
    """Make the class of a robot that OmniIsaacGymEnvs defines in ``robots.articulations``.

    :param class_name: Its name.

    :return: Class whose instances are put on the stage; it takes ``usd_path`` as well.
    """
    return type(class_name, (Robot,), {"__doc__": f"A stand-in for OmniIsaacGymEnvs' {class_name}."})
