"""What importing a task must not bring in."""

from __future__ import annotations

from tests.test_imports import loaded_after, packages


def test_a_task_imports_neither_skrl_nor_a_view() -> None:
    loaded = loaded_after("skrl_vec_envs", "skrl_vec_envs.snake")
    assert "skrl" not in packages(loaded)
    assert not {module for module in loaded if module.startswith("skrl_vec_envs.views")}
