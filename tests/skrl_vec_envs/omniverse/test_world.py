"""The scene and the clock."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from skrl_vec_envs.omniverse.world import Scene

from .support import recorder


def test_objects_are_kept_by_name_until_they_are_removed() -> None:
    scene = Scene()
    thing = scene.add(SimpleNamespace(name="thing"))
    assert scene.object_exists("thing")
    assert scene.get_object("thing") is thing
    scene.remove_object("thing", registry_only=True)
    assert not scene.object_exists("thing")
    assert scene.get_object("thing") is None


def test_two_objects_of_one_name_and_the_removal_of_none_are_refused() -> None:
    scene = Scene()
    scene.add(SimpleNamespace(name="thing"))
    with pytest.raises(ValueError, match="an object named 'thing' already"):
        scene.add(SimpleNamespace(name="thing"))
    with pytest.raises(ValueError, match=r"no object named 'other', but \['thing'\]"):
        scene.remove_object("other")


def test_the_scene_is_set_up_once_and_initialized_by_each_hard_reset() -> None:
    env, task = recorder()
    task.calls.clear()
    env.world.reset()
    env.world.reset(soft=True)
    assert task.calls == ["initialize", "post_reset", "post_reset"]


def test_a_stopped_world_stands_at_zero_and_a_paused_one_where_it_was() -> None:
    env, _ = recorder()
    env.reset()
    env.world.pause()
    assert (env.world.is_playing(), env.world.is_stopped()) == (False, False)
    env.world.stop()
    assert env.world.is_stopped()
    assert env.world.current_time == 0
