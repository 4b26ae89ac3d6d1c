"""OmniIsaacGymEnvs' own task files, unedited. OMNIISAACGYMENVS names the folder that holds its package."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from skrl_vec_envs import omni, wrap_env
from skrl_vec_envs.omni import DriveDynamics, RigidBodyDynamics
from skrl_vec_envs.omniverse import SimConfig, VecEnv
from skrl_vec_envs.omniverse.tasks import CartpoleTask
from tests.skrl_vec_envs.omniverse.support import random_actions

FOLDER = os.environ.get("OMNIISAACGYMENVS")

pytestmark = [
    pytest.mark.skipif(not FOLDER, reason="OMNIISAACGYMENVS does not name the folder of OmniIsaacGymEnvs' package"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

SIM = {"dt": 0.0083, "gravity": [0.0, 0.0, -9.81]}
LOCOMOTION = {
    "episodeLength": 20,
    "dofVelocityScale": 0.2,
    "angularVelocityScale": 1.0,
    "contactForceScale": 0.1,
    "powerScale": 1.0,
    "headingWeight": 0.5,
    "upWeight": 0.1,
    "actionsCost": 0.005,
    "energyCost": 0.05,
    "jointsAtLimitCost": 0.1,
    "deathCost": -2.0,
    "terminationHeight": 0.31,
    "alive_reward_scale": 0.5,
}
ROTORS = [f"m{rotor}_prop" for rotor in range(1, 5)]
LEGS = ["LF", "LH", "RF", "RH"]
DYNAMICS: dict[str, omni.Dynamics] = {
    "Ant": DriveDynamics(
        [f"joint{index}" for index in range(8)],
        ["torso", "front_left_foot", "front_right_foot", "left_back_foot", "right_back_foot"],
    ),
    "BalanceBot": DriveDynamics(
        [f"{part}_leg{leg}" for leg in range(3) for part in ("lower", "upper")],
        ["tray", *(f"upper_leg{leg}" for leg in range(3))],
        stiffness=400.0,
        damping=40.0,
    ),
    "Crazyflie": RigidBodyDynamics(
        [f"m{rotor}_joint" for rotor in range(1, 5)],
        ["body", *ROTORS],
        masses=[0.028, 0, 0, 0, 0],
        body_offsets=[[0, 0, 0], [0.03, -0.03, 0], [-0.03, -0.03, 0], [-0.03, 0.03, 0], [0.03, 0.03, 0]],
        moments=[1e-4, 1e-4, 1e-4],
    ),
    "Quadcopter": RigidBodyDynamics(
        [f"rotor{index}" for index in range(8)], ["chassis", *(f"rotor{rotor}" for rotor in range(4))]
    ),
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "cartpole.CartpoleTask": (
        "Cartpole",
        {"resetDist": 3.0, "maxEffort": 400.0, "clipObservations": 5.0, "clipActions": 1.0, "controlFrequencyInv": 2},
    ),
    "ball_balance.BallBalanceTask": ("BallBalance", {"actionSpeedScale": 20, "maxEpisodeLength": 20}),
    "crazyflie.CrazyflieTask": ("Crazyflie", {"maxEpisodeLength": 20}),
    "quadcopter.QuadcopterTask": ("Quadcopter", {"maxEpisodeLength": 20}),
    "ant.AntLocomotionTask": ("Ant", LOCOMOTION),
}


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    omni.uninstall()
    monkeypatch.syspath_prepend(str(FOLDER))
    omni.install(DYNAMICS)
    yield
    omni.uninstall()


def make(task: str, autoreset: Any = "lazy", num_envs: int = 4) -> VecEnv:
    module, _, name = task.partition(".")
    task_class = getattr(importlib.import_module(f"omniisaacgymenvs.tasks.{module}"), name)
    title, settings = CASES[task]
    config = {"num_envs": num_envs, "task": {"name": title, "env": {"envSpacing": 4.0, **settings}, "sim": SIM}}
    env = VecEnv(autoreset, check_finite=True)
    env.set_task(task_class(name=title, sim_config=SimConfig(config), env=env))
    return env


@pytest.mark.parametrize("task", CASES)
@pytest.mark.parametrize("autoreset", ["lazy", "same_step"])
def test_it_steps_and_resets_and_skrl_sees_it(task: str, autoreset: Any) -> None:
    env = make(task, autoreset)
    view = wrap_env(env)
    view.reset()
    ends = 0
    for step in range(50):
        observations, rewards, terminated, truncated, _ = view.step(random_actions(env, step))
        assert observations.shape == (4, env.task.num_observations)
        assert rewards.shape == (4, 1)
        ends += int((terminated | truncated).sum())
    assert ends


def test_its_cartpole_moves_and_is_rewarded_as_our_own() -> None:
    theirs = make("cartpole.CartpoleTask", num_envs=6)
    ours = VecEnv()
    settings = {"maxEffort": 400.0, "controlFrequencyInv": 2, "clipObservations": 5.0}
    ours.set_task(CartpoleTask("ours", SimConfig({"num_envs": 6, "task": {"env": settings, "sim": SIM}}), ours))
    theirs.reset()
    ours.reset()
    task, own = theirs.task, ours.task
    assert isinstance(own, CartpoleTask)
    own._state.copy_(task.obs_buf.T)
    own.reset_buf.zero_()
    ended = torch.zeros(6, dtype=torch.bool)
    for step in range(40):
        actions = 0.1 * random_actions(ours, step)
        (obs, rewards, resets, extras), expected = theirs.step(actions), ours.step(actions)
        going_on = ~ended
        torch.testing.assert_close(obs["obs"][going_on], expected[0]["obs"][going_on], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(rewards[going_on], expected[1][going_on], atol=1e-4, rtol=1e-4)
        assert torch.equal(resets[going_on], expected[2][going_on])
        assert not extras["time_outs"].any()
        ended |= resets > 0
    assert ended.any()


def test_its_cartpole_times_out_after_its_last_step() -> None:
    env = make("cartpole.CartpoleTask", num_envs=2)
    env.reset()
    task: Any = env.task
    task.progress_buf[:] = torch.tensor([498, 100])
    task._cartpoles.set_joint_positions(torch.zeros(2, 2))
    task._cartpoles.set_joint_velocities(torch.zeros(2, 2))
    assert env.step(env.zero_actions())[2].tolist() == [0, 0]
    _, _, resets, extras = env.step(env.zero_actions())
    assert resets.tolist() == [1, 0]
    assert extras["time_outs"].tolist() == [True, False]
    assert math.isclose(float(task.progress_buf[0]), 500)
