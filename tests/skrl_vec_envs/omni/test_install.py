"""What can be imported once the stand-ins are installed, and what is said of the rest."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest

from skrl_vec_envs import omni
from skrl_vec_envs.omni.modules import LATER, MODULES
from tests.test_imports import loaded_after, packages


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    omni.uninstall()
    omni.install()
    yield
    omni.uninstall()


def imported(statement: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(statement, names)
    return names


@pytest.mark.parametrize("module", sorted({*MODULES, *LATER}))
def test_every_module_of_the_list_can_be_imported_with_its_names(module: str) -> None:
    found = importlib.import_module(module)
    assert {*MODULES.get(module, {}), *LATER.get(module, ())} == set(found.__all__)
    imported(f"import {module}")
    imported(f"from {module} import *")


@pytest.mark.parametrize(
    ("statement", "used"),
    [
        ("import omni.isaac.core.utils.torch as torch_utils", "torch_utils.quat_mul"),
        ("import omni.usd", "omni.usd.get_context().get_stage().GetPrimAtPath('/World')"),
        ("import omni", "omni.isaac.core.prims.RigidPrimView"),
        ("import carb", "carb.settings.get_settings().set_bool('/a', True)"),
        ("from omni.isaac.core.utils.torch.rotations import *", "torch_rand_float(0, 1, (2, 1), 'cpu')"),
        ("from omniisaacgymenvs.robots.articulations.my_robot import MyRobot", "MyRobot.__name__"),
        ("from gym import spaces", "spaces.Discrete(3)"),
        ("import gym", "gym.spaces.Box(0, 1, (2,))"),
        ("import numpy as np", "np.Inf"),
    ],
)
def test_the_ways_in_which_tasks_import_work(statement: str, used: str) -> None:
    names = imported(statement)
    assert eval(used, names) is not NotImplemented


def test_gym_is_gymnasium() -> None:
    assert issubclass(imported("from gym import spaces")["spaces"].Box, gymnasium.spaces.Box)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("import omni.isaac.debug_draw", "omni.isaac.debug_draw has no stand-in .* needs Isaac Sim"),
        ("from omni.isaac.core.prims import Nothing", "omni.isaac.core.prims.Nothing has no stand-in"),
        (
            "from omniisaacgymenvs.tasks.cartpole import CartpoleTask",
            "tasks.cartpole .* put the folder of OmniIsaacGymEnvs",
        ),
        (
            "from omniisaacgymenvs.robots.articulations.views.x_view import X",
            "x_view .* put the folder of OmniIsaacGym",
        ),
    ],
)
def test_what_is_not_there_is_named_when_it_is_imported(statement: str, message: str) -> None:
    with pytest.raises(ImportError, match=message):
        imported(statement)


def test_what_cannot_be_there_can_be_imported_and_derived_from_and_is_named_when_it_is_used() -> None:
    names = imported(
        "from omni.isaac.wheeled_robots.robots import WheeledRobot\n"
        "from omniisaacgymenvs.tasks.base.rl_task import RLTaskWarp\n"
        "class Mine(WheeledRobot): pass\n"
    )
    with pytest.raises(NotImplementedError, match=r"omni.isaac.wheeled_robots.robots.WheeledRobot has no stand-in"):
        names["WheeledRobot"]()
    with pytest.raises(NotImplementedError, match=r"RLTaskWarp.cleanup has no stand-in"):
        names["RLTaskWarp"].cleanup(None)
    with pytest.raises(NotImplementedError, match="Mine has no stand-in"):
        names["Mine"]()


def test_a_folder_of_omniisaacgymenvs_is_used_but_for_the_base_of_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("tasks/base", "robots/articulations", "envs"):
        (tmp_path / "omniisaacgymenvs" / folder).mkdir(parents=True)
    files = {
        "__init__.py": "",
        "tasks/mine.py": "from omniisaacgymenvs.tasks.base.rl_task import RLTask\nclass Mine(RLTask): pass",
        "tasks/base/rl_task.py": "raise AssertionError('not this one')",
        "robots/articulations/robot.py": "FROM_THE_FOLDER = True",
    }
    for name, text in files.items():
        (tmp_path / "omniisaacgymenvs" / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert "skrl_vec_envs" in imported("from omniisaacgymenvs.tasks.mine import Mine")["Mine"].__mro__[1].__module__
    assert imported("from omniisaacgymenvs.robots.articulations.robot import FROM_THE_FOLDER")["FROM_THE_FOLDER"]
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'omniisaacgymenvs.tasks.other'"):
        imported("import omniisaacgymenvs.tasks.other")


def test_uninstalling_leaves_nothing() -> None:
    imported("import omni.isaac.core, pxr, carb, gym\nfrom omniisaacgymenvs.tasks.base import rl_task")
    omni.uninstall()
    roots = {name.partition(".")[0] for name in sys.modules}
    assert not roots & {"omni", "pxr", "carb", "omniisaacgymenvs", "gym"}
    assert not hasattr(np, "Inf")
    with pytest.raises(ModuleNotFoundError, match="No module named 'omni'"):
        imported("import omni")
    omni.uninstall()


def test_installing_where_isaac_sim_is_installed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    omni.uninstall()
    (tmp_path / "omni" / "isaac" / "core").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RuntimeError, match=r"'omni.isaac.core' is installed: the stand-ins are for where Isaac Sim is"):
        omni.install()


def test_usd_may_be_installed_but_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    omni.uninstall()
    monkeypatch.setitem(sys.modules, "pxr", ModuleType("pxr"))
    with pytest.raises(RuntimeError, match="'pxr' is imported already: install the stand-ins before that"):
        omni.install()


def test_an_infinity_that_was_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    omni.uninstall()
    monkeypatch.setattr(np, "Inf", np.inf, raising=False)
    omni.install()
    omni.uninstall()
    assert np.Inf == np.inf  # type: ignore[attr-defined]


def test_a_dynamics_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="the dynamics of 'Ant' must be a Dynamics, got str"):
        omni.install(dynamics={"Ant": "fast"})  # type: ignore[dict-item]


def test_neither_the_package_nor_a_task_installs_anything() -> None:
    loaded = loaded_after("skrl_vec_envs", "skrl_vec_envs.omni", "skrl_vec_envs.omniverse.tasks")
    assert not packages(loaded) & {"omni", "pxr", "carb", "gym", "omniisaacgymenvs", "skrl"}
