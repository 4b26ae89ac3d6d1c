"""A stage of prims that remembers what is written to it, in place of USD and its schemas.

Tasks describe a scene to PhysX with these. Here the dynamics is given instead, so most of it has no effect beyond being
remembered: ``Get...Attr().Get()`` gives what was set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import torch


class Vec(tuple[float, ...]):
    """A vector of ``pxr.Gf``."""

    def __new__(cls, *components: Any) -> Vec:
        """Make a vector from its components, or from one sequence of them."""
        if len(components) == 1 and isinstance(components[0], Iterable):
            components = tuple(components[0])
        return super().__new__(cls, (float(component) for component in components))

    def __add__(self, other: Iterable[float]) -> Vec:  # type: ignore[override]
        return Vec(*(a + b for a, b in zip(self, other, strict=True)))

    def __sub__(self, other: Iterable[float]) -> Vec:
        return Vec(*(a - b for a, b in zip(self, other, strict=True)))

    def __mul__(self, factor: Any) -> Vec:
        return Vec(*(a * factor for a in self))

    __rmul__ = __mul__

    def __neg__(self) -> Vec:
        return self * -1.0


class Quat:
    """A quaternion of ``pxr.Gf``.

    :param real: Real part.
    :param imaginary: Imaginary parts: a vector, or three numbers.
    """

    def __init__(self, real: float = 1.0, *imaginary: Any) -> None:
        self._real, self._imaginary = float(real), Vec(*(imaginary or (0.0, 0.0, 0.0)))

    def GetReal(self) -> float:
        """Return the real part."""
        return self._real

    def GetImaginary(self) -> Vec:
        """Return the imaginary parts."""
        return self._imaginary


class Attribute:
    """A value of a prim. It is false until it is written."""

    def __init__(self, values: dict[str, Any], name: str) -> None:
        self._values, self._name = values, name

    def Get(self, time: Any = None) -> Any:
        """Return the value, or None."""
        return self._values.get(self._name)

    def Set(self, value: Any, time: Any = None) -> bool:
        """Write the value."""
        self._values[self._name] = value
        return True

    SetTargets = Set
    GetTargets = Get

    def AddTarget(self, target: Any) -> bool:
        """Write one target."""
        return self.Set([target])

    def IsValid(self) -> bool:
        """Tell whether the value was written."""
        return self._name in self._values

    __bool__ = HasAuthoredValue = HasValue = IsValid

    def GetName(self) -> str:
        """Return the attribute's name."""
        return self._name


class Prim:
    """A node of the stage."""

    def __init__(self, stage: Stage, path: str, type_name: str = "") -> None:
        self._stage, self._path, self._type_name = stage, path, type_name
        self._values: dict[str, Any] = {}
        self._schemas: set[str] = set()

    def GetPath(self) -> str:
        """Return the path."""
        return self._path

    GetPrimPath = GetPath

    def GetName(self) -> str:
        """Return the last part of the path."""
        return self._path.rpartition("/")[2]

    def GetPrim(self) -> Prim:
        """Return the prim itself."""
        return self

    def GetStage(self) -> Stage:
        """Return the stage."""
        return self._stage

    def GetParent(self) -> Prim:
        """Return the prim above."""
        return self._stage.GetPrimAtPath(self._path.rpartition("/")[0] or "/")

    def GetChildren(self) -> list[Prim]:
        """Return the prims below that were defined. Those within an asset are not, since no asset is loaded."""
        return [prim for prim in self._stage.Traverse() if prim._path.rpartition("/")[0] == self._path]

    def GetTypeName(self) -> str:
        """Return the type with which it was defined."""
        return self._type_name

    def IsValid(self) -> bool:
        """Tell whether there is such a prim."""
        return True

    def HasAPI(self, schema: Any) -> bool:
        """Tell whether a schema was applied."""
        return str(schema) in self._schemas

    def ApplyAPI(self, schema: Any) -> None:
        """Apply a schema."""
        self._schemas.add(str(schema))

    def GetAttribute(self, name: str) -> Attribute:
        """Return an attribute, written or not."""
        return Attribute(self._values, name)

    def CreateAttribute(self, name: str, *type_and_more: Any) -> Attribute:
        """Return an attribute, written or not."""
        return Attribute(self._values, name)

    def HasAttribute(self, name: str) -> bool:
        """Tell whether an attribute was written."""
        return name in self._values

    def SetInstanceable(self, instanceable: bool) -> bool:
        """Remember it."""
        return Attribute(self._values, "instanceable").Set(instanceable)


class Stage:
    """All prims, and the actors whose dynamics is simulated (see :mod:`skrl_vec_envs.omni.actors`)."""

    def __init__(self) -> None:
        self._prims: dict[str, Prim] = {}
        self._defined: list[str] = []
        self.env_positions = torch.zeros(1, 3)
        """Positions of the environments. Shape: (N, 3)."""
        self.actors: dict[str, Any] = {}
        """Actors by the path in the first environment."""

    def DefinePrim(self, path: Any, type_name: str = "") -> Prim:
        """Return the prim at a path, and list it among its parent's children."""
        prim = self.GetPrimAtPath(path)
        prim._type_name = type_name or prim._type_name
        if prim._path not in self._defined:
            self._defined.append(prim._path)
        return prim

    def GetPrimAtPath(self, path: Any) -> Prim:
        """Return the prim at a path: any path is taken for that of a prim, since no asset is loaded to tell."""
        return self._prims.setdefault(str(path), Prim(self, str(path)))

    def RemovePrim(self, path: Any) -> None:
        """Forget a prim and those below."""
        for known in [known for known in self._prims if f"{known}/".startswith(f"{path}/")]:
            del self._prims[known]
        self._defined = [known for known in self._defined if known in self._prims]

    def Traverse(self) -> Iterator[Prim]:
        """Go through the prims that were defined."""
        return (self._prims[path] for path in list(self._defined))


class _Schemas:
    """A module of schemas, such as ``pxr.UsdPhysics``: any name in capitals is a schema."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if not name[:1].isupper():
            raise AttributeError(f"{self._name}.{name} has no stand-in in skrl_vec_envs.omni")
        schema = _Schema(f"{self._name}.{name}")
        setattr(self, name, schema)
        return schema


class _Schema:
    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, prim: Any, *names: str) -> _Applied:
        return _Applied(prim.GetPrim(), ":".join((self._name, *names)))

    def Apply(self, prim: Any, *names: str) -> _Applied:
        prim.GetPrim().ApplyAPI(self)
        return self(prim, *names)

    def Get(self, stage_or_prim: Any, *path_or_names: Any) -> _Applied:
        if isinstance(stage_or_prim, Stage):
            return self(stage_or_prim.GetPrimAtPath(path_or_names[0]), *path_or_names[1:])
        return self(stage_or_prim, *path_or_names)

    def Define(self, stage: Stage, path: Any) -> _Applied:
        return self(stage.DefinePrim(path, self._name.rpartition(".")[2]))

    def __str__(self) -> str:
        return self._name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return f"{self._name}.{name}"  # a token, such as UsdPhysics.Tokens.kinematic


class _Applied:
    """A prim seen through a schema: its methods are Get..., Create... and Add..., then Attr, Rel or Op."""

    _METHOD = re.compile(r"(?:Get|Create|Add)(\w+?)(Attr|Rel|Op)")

    def __init__(self, prim: Prim, prefix: str) -> None:
        self._prim, self._prefix = prim, prefix

    def GetPrim(self) -> Prim:
        return self._prim

    def GetPath(self) -> str:
        return self._prim.GetPath()

    GetPrimPath = GetPath

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        method = self._METHOD.fullmatch(name)
        if method is None:
            raise AttributeError(f"{self._prefix}.{name} has no stand-in in skrl_vec_envs.omni")

        def attribute(value: Any = None, *more: Any) -> Attribute:
            found = Attribute(self._prim._values, f"{self._prefix}:{method[1]}")
            if value is not None:
                found.Set(value)
            return found

        return attribute


class Gf:
    """``pxr.Gf``."""

    Vec2f = Vec2d = Vec3f = Vec3d = Vec3h = Vec4f = Vec4d = Vec
    Quatf = Quatd = Quath = Quaternion = Quat


class Sdf:
    """``pxr.Sdf``."""

    Path = str
    ValueTypeNames = _Schema("Sdf.ValueTypeNames")


UsdGeom, UsdLux, UsdPhysics, UsdShade, PhysxSchema, PhysicsSchemaTools, Usd, Vt = map(
    _Schemas, ("UsdGeom", "UsdLux", "UsdPhysics", "UsdShade", "PhysxSchema", "PhysicsSchemaTools", "Usd", "Vt")
)

_current = Stage()


def new_stage() -> Stage:
    """Make a stage the current one.

    :return: The stage.
    """
    global _current  # Isaac Sim has one current stage, which tasks ask for by a function without arguments
    _current = Stage()
    return _current


def get_current_stage() -> Stage:
    """Return the current stage."""
    return _current


def get_prim_at_path(prim_path: str) -> Prim:
    """Return the prim at a path of the current stage."""
    return _current.GetPrimAtPath(prim_path)


def define_prim(prim_path: str, prim_type: str = "Xform") -> Prim:
    """Define a prim on the current stage."""
    return _current.DefinePrim(prim_path, prim_type)


def get_prim_property(prim_path: str, property_name: str) -> Any:
    """Return a value of a prim."""
    return get_prim_at_path(prim_path).GetAttribute(property_name).Get()


def set_prim_property(prim_path: str, property_name: str, property_value: Any) -> None:
    """Write a value of a prim."""
    get_prim_at_path(prim_path).GetAttribute(property_name).Set(property_value)


def is_prim_path_valid(prim_path: str) -> bool:
    """Tell whether a prim was defined at a path."""
    return prim_path in _current._defined


def get_prim_children(prim: Prim) -> list[Prim]:
    """Return the prims below a prim."""
    return prim.GetChildren()


def get_prim_path(prim: Prim) -> str:
    """Return the path of a prim."""
    return prim.GetPath()


def delete_prim(prim_path: str) -> None:
    """Forget a prim and those below."""
    _current.RemovePrim(prim_path)


def find_matching_prim_paths(prim_path_regex: str) -> list[str]:
    """Return the paths of the prims that were defined and match, part by part."""
    parts = [re.compile(part) for part in prim_path_regex.split("/")]
    return [
        path
        for path in _current._defined
        if len(path.split("/")) == len(parts) and all(map(re.Pattern.fullmatch, parts, path.split("/")))
    ]


class GridCloner:
    """Places the environments on a grid, ``omni.isaac.cloner.GridCloner``.

    :param spacing: Metres between two environments.
    :param num_per_row: Environments in a row (-1: as many as rows).
    """

    def __init__(self, spacing: float = 0.0, num_per_row: int = -1) -> None:
        self._spacing, self._num_per_row = spacing, num_per_row

    def define_base_env(self, base_env_path: str) -> None:
        """Define the prim above the environments."""
        define_prim(base_env_path)

    def generate_paths(self, root_path: str, num_paths: int) -> list[str]:
        """Number the paths of the environments."""
        return [f"{root_path}_{index}" for index in range(num_paths)]

    def get_clone_transforms(self, num_clones: int, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Return the positions of the environments, centred, and no rotations."""
        per_row = self._num_per_row if self._num_per_row > 0 else max(1, int(num_clones**0.5))
        index = torch.arange(num_clones)
        grid = torch.stack([index // per_row, index % per_row], 1).float()
        grid = (grid - (grid.amax(0) / 2.0)) * self._spacing
        positions = torch.cat([grid, torch.zeros(num_clones, 1)], 1)
        return positions.numpy(), torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(num_clones, 4).numpy()

    def clone(self, source_prim_path: str, prim_paths: list[str], *args: Any, **kwargs: Any) -> Any:
        """Define the environments.

        :return: Their positions, shape: (N, 3).
        """
        positions, _ = self.get_clone_transforms(len(prim_paths))
        for path, position in zip(prim_paths, positions, strict=True):
            define_prim(path).GetAttribute("xformOp:translate").Set(Vec(*position))
        return positions

    def filter_collisions(self, *args: Any, **kwargs: Any) -> None:
        """Accept which environments collide: none does with another."""
