"""Lets ``import omni.isaac.core`` and its like find the stand-ins."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from skrl_vec_envs.omni.actors import set_dynamics
from skrl_vec_envs.omni.dynamics import Dynamics
from skrl_vec_envs.omni.modules import LATER, MODULES, missing
from skrl_vec_envs.omni.prims import articulation_class

_ISAAC_SIM = ("omni", "pxr", "carb")
_TASKS = "omniisaacgymenvs"
_ROBOTS = f"{_TASKS}.robots.articulations"
_GYM = "gym"
_INF = float("inf")  # an object of its own, so that uninstall takes away what install brought


def install(dynamics: Mapping[str, Dynamics] | None = None) -> None:
    """Make the stand-ins importable, and say how robots move.

    ``omni``, ``pxr`` and ``carb`` are stand-ins as a whole. Of ``omniisaacgymenvs`` only the base of tasks and
    environments and their configuration are; the rest is imported from its folder where that is on ``sys.path``, and
    otherwise ``omniisaacgymenvs.robots.articulations`` has a class for any robot. ``gym`` is Gymnasium where gym is not
    installed, and ``numpy.Inf``, which NumPy 2 dropped, is back. Called again, it only exchanges the dynamics.

    :param dynamics: Dynamics by the name of the robot or object: the last part of the path of its prim.

    :raises RuntimeError: Isaac Sim itself is installed, or USD's ``pxr`` is imported already.
    :raises TypeError: A dynamics is none.
    """
    if _FINDER not in sys.meta_path:
        if imported := [root for root in _ISAAC_SIM if root in sys.modules]:
            raise RuntimeError(f"{imported[0]!r} is imported already: install the stand-ins before that")
        if found := [name for name in ("carb", "omni.isaac.core") if _is_importable(name)]:
            raise RuntimeError(f"{found[0]!r} is installed: the stand-ins are for where Isaac Sim is not")
        sys.meta_path.insert(0, _FINDER)
        if not hasattr(np, "Inf"):
            np.Inf = _INF  # type: ignore[attr-defined]
    set_dynamics(dynamics or {})


def uninstall() -> None:
    """Undo :func:`install`: forget the stand-ins, and what was imported through them."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
        if getattr(np, "Inf", None) is _INF:
            del np.Inf  # type: ignore[attr-defined]
        _forget((*_ISAAC_SIM, _TASKS))
        for name in [name for name in (_GYM, f"{_GYM}.spaces") if _is_ours(sys.modules.get(name))]:
            del sys.modules[name]
    set_dynamics({})


def _forget(roots: Sequence[str]) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in roots]:
        del sys.modules[name]


def _is_importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # not even its parent
        return False
    finally:
        _forget(_ISAAC_SIM)  # looking for a module imports its parents


def _is_ours(module: ModuleType | None) -> bool:
    return isinstance(getattr(getattr(module, "__spec__", None), "loader", None), _Loader)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        root = name.partition(".")[0]
        if root in _ISAAC_SIM or name in MODULES:
            return self._ours(name)
        if root == _TASKS:
            real = importlib.machinery.PathFinder.find_spec(name, path)
            in_folder = _TASKS in sys.modules and not _is_ours(sys.modules[_TASKS])
            return real or (None if in_folder and not _holds_ours(name) else self._ours(name))
        if name in (_GYM, f"{_GYM}.spaces") and importlib.machinery.PathFinder.find_spec(_GYM) is None:
            return importlib.machinery.ModuleSpec(name, _Loader(), is_package=True)
        return None

    def _ours(self, name: str) -> importlib.machinery.ModuleSpec:
        return importlib.machinery.ModuleSpec(name, _Loader(), is_package=True)


class _Loader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        name = spec.name
        if name in MODULES or name in LATER or _holds_ours(name) or name.partition(".")[0] == _GYM:
            return _StandIn(name)
        if name.startswith(f"{_ROBOTS}.") and ".views." not in name:
            return _AnyRobot(name)
        where = "put the folder of OmniIsaacGymEnvs on sys.path" if name.startswith(_TASKS) else "it needs Isaac Sim"
        raise ModuleNotFoundError(f"{name} has no stand-in in skrl_vec_envs.omni: {where}", name=name)

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        if name.partition(".")[0] == _GYM:
            import gymnasium

            vars(module).update({**vars(gymnasium if name == _GYM else gymnasium.spaces), **_keep(module)})
            return
        names = {**MODULES.get(name, {}), **{later: missing(name, later) for later in LATER.get(name, ())}}
        vars(module).update(names)
        module.__dict__["__all__"] = list(names)


class _StandIn(ModuleType):
    """A module that says what it lacks."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        submodule = f"{self.__name__}.{name}"
        if submodule in MODULES or submodule in LATER or _holds_ours(submodule):
            return importlib.import_module(submodule)
        raise ImportError(f"{submodule} has no stand-in in skrl_vec_envs.omni: it needs Isaac Sim", name=submodule)


class _AnyRobot(_StandIn):
    """A module of ``omniisaacgymenvs.robots.articulations``: any class in it is a robot."""

    def __getattr__(self, name: str) -> Any:
        if not name[:1].isupper():
            return super().__getattr__(name)
        robot = articulation_class(name)
        setattr(self, name, robot)
        return robot


def _holds_ours(name: str) -> bool:
    return any(known.startswith(f"{name}.") for known in (*MODULES, *LATER, f"{_ROBOTS}.any"))


def _keep(module: ModuleType) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if name.startswith("__")}


_FINDER = _Finder()
