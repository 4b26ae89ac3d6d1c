"""Makes environments of the tasks that are written for Isaac Sim."""

from __future__ import annotations

import importlib
from typing import Any

from skrl_vec_envs import omni
from skrl_vec_envs.omniverse import SimConfig, VecEnv

COPTER = omni.RigidBodyDynamics(
    body_names=("hull", "rotor0", "rotor1", "rotor2", "rotor3"),
    masses=[1.0, 0.0, 0.0, 0.0, 0.0],
    body_offsets=[[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [-0.1, 0, 0], [0, -0.1, 0]],
)


def task_class(name: str) -> Any:
    """Import a task through the stand-ins, which stay installed."""
    omni.install(dynamics={"Copter": COPTER, "ball": omni.Dynamics()})
    module = importlib.import_module(f"tests.skrl_vec_envs.omni.written_for_isaac_sim.{name}")
    return getattr(module, f"{name.capitalize()}Task")


def make(name: str, num_envs: int = 5, autoreset: Any = "lazy", **settings: Any) -> VecEnv:
    """Set up an environment with one of the tasks."""
    env = VecEnv(autoreset)
    config = SimConfig({"num_envs": num_envs, "seed": 3, "task": {"env": {"envSpacing": 4.0, **settings}}})
    env.set_task(task_class(name)(name, config, env))
    return env


def make_from_stand_ins(autoreset: str) -> VecEnv:
    """Set up the environment of the conformance suite."""
    return make("balance", autoreset=autoreset, episodeLength=9)
