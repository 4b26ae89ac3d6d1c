"""Vectorized environments in the manner of OmniIsaacGymEnvs, without Isaac Sim.

A task (:class:`RLTask`) holds the rules and buffers of N environments, :class:`VecEnv` steps it. The names, shapes,
dtypes and the order of calls are OmniIsaacGymEnvs'; ``RLTask.simulate(dt)`` takes the place of PhysX.
"""

from skrl_vec_envs.omniverse.config import SimConfig
from skrl_vec_envs.omniverse.env import VecEnv
from skrl_vec_envs.omniverse.task import ConfiguredTask, RLTask

__all__ = ["ConfiguredTask", "RLTask", "SimConfig", "VecEnv"]
