"""The configuration: OmniIsaacGymEnvs' layout, defaults, and keys that nobody reads."""

from __future__ import annotations

from typing import Any

import pytest

from skrl_vec_envs.omniverse import SimConfig, VecEnv
from skrl_vec_envs.omniverse.tasks import CartpoleTask, PendulumTask, SnakeTask


def test_the_number_of_environments_goes_to_the_task() -> None:
    sim_config = SimConfig({"num_envs": 7, "task": {"env": {"numEnvs": 3}}})
    assert sim_config.task_config["env"]["numEnvs"] == 7
    assert SimConfig({"num_envs": "", "task": {"env": {"numEnvs": 3}}}).task_config["env"]["numEnvs"] == 3


@pytest.mark.parametrize(
    ("given", "sim_device", "rl_device"),
    [
        ({}, "cpu", "cpu"),
        ({"sim_device": "gpu", "device_id": 2}, "cuda:2", "cuda:2"),
        ({"sim_device": "cuda:1", "rl_device": "cpu"}, "cuda:1", "cpu"),
    ],
)
def test_devices_are_named_as_torch_names_them(given: dict[str, Any], sim_device: str, rl_device: str) -> None:
    config = SimConfig(given).config
    assert (config["sim_device"], config["rl_device"]) == (sim_device, rl_device)


def test_the_given_dictionary_is_not_written() -> None:
    given = {"num_envs": 2, "task": {"env": {}}}
    SimConfig(given).fill_env({"numEnvs": 1, "a": 2}, "task")
    assert given == {"num_envs": 2, "task": {"env": {}}}


def test_settings_of_an_actor_are_those_under_its_name() -> None:
    sim_config = SimConfig({"task": {"sim": {"dt": 0.01, "Cartpole": {"density": 2}}}})
    assert sim_config.parse_actor_config("Cartpole") == {"density": 2}
    assert sim_config.parse_actor_config("ball") == {}
    assert sim_config.get_physics_params()["dt"] == 0.01


def test_an_unknown_key_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(ValueError, match=r"the configuration has an unknown key 'num_env': did you mean 'num_envs'\?"):
        SimConfig({"num_env": 3})
    with pytest.raises(ValueError, match=r"the configuration of task has an unknown key 'simulation'"):
        SimConfig({"task": {"simulation": {}}}).fill_env({}, "task")


@pytest.mark.parametrize("task", [CartpoleTask, PendulumTask, SnakeTask])
def test_a_setting_that_the_task_does_not_know_is_refused(task: Any) -> None:
    sim_config = SimConfig({"task": {"env": {"maxEpisodeLenght": 3}}})
    with pytest.raises(ValueError, match=rf"'env' of {task.__name__} .*did you mean 'maxEpisodeLength'\?"):
        task("task", sim_config, VecEnv())


@pytest.mark.parametrize("number", [0, -1, 2.5, "4"])
def test_a_number_of_environments_that_is_none_is_refused(number: Any) -> None:
    with pytest.raises(ValueError, match="numEnvs must be a positive int, got"):
        CartpoleTask("task", SimConfig({"num_envs": number}), VecEnv())


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("controlFrequencyInv", "control_frequency_inv"),
        ("clipActions", "clip_actions"),
        ("clipObservations", "clip_obs"),
    ],
)
def test_a_setting_that_must_be_positive_is_checked(setting: str, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be positive, got 0"):
        CartpoleTask("task", SimConfig({"task": {"env": {setting: 0}}}), VecEnv())
