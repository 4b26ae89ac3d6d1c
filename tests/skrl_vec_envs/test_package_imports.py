"""What importing a task or a view must not bring in."""

from __future__ import annotations

import pytest

from tests.test_imports import loaded_after, packages

LIBRARIES = {"skrl", "rl_games", "numba", "matplotlib"}


@pytest.mark.parametrize("module", ["skrl_vec_envs", "skrl_vec_envs.snake", "skrl_vec_envs.omniverse.tasks"])
def test_a_task_imports_neither_skrl_nor_a_view(module: str) -> None:
    loaded = loaded_after(module)
    assert not packages(loaded) & LIBRARIES
    assert not {name for name in loaded if name.startswith("skrl_vec_envs.views")}


@pytest.mark.parametrize(("view", "own"), [("skrl", {"skrl"}), ("gymnasium", set()), ("isaaclab", set())])
def test_a_view_imports_its_own_library_only(view: str, own: set[str]) -> None:
    assert packages(loaded_after(f"skrl_vec_envs.views.{view}")) & LIBRARIES == own


def test_the_view_for_rl_games_does_not_import_skrl() -> None:
    pytest.importorskip("rl_games.common.ivecenv", reason="rl_games is not installed (extra rl-games)")
    assert "skrl" not in packages(loaded_after("skrl_vec_envs.views.rl_games"))
