"""Run OmniIsaacGymEnvs' task files without Isaac Sim: stand-ins for the modules that they import.

Example::

    >>> from skrl_vec_envs import omni
    >>> omni.install(dynamics={"Ant": omni.DriveDynamics(dof_names=[...], body_names=[...])})
    >>> from omniisaacgymenvs.tasks.ant import AntLocomotionTask  # the folder of OmniIsaacGymEnvs is on sys.path

There is no PhysX and no asset is loaded: each robot needs a :class:`Dynamics`, which says what joints and bodies it has
and how it moves. Objects (spheres, boxes) fly freely, and the cartpole has its own; see :class:`CartpoleDynamics`.
"""

from skrl_vec_envs.omni.dynamics import (
    ActorState,
    CartpoleDynamics,
    DriveDynamics,
    Dynamics,
    RigidBodyDynamics,
)
from skrl_vec_envs.omni.install import install, uninstall

__all__ = [
    "ActorState",
    "CartpoleDynamics",
    "DriveDynamics",
    "Dynamics",
    "RigidBodyDynamics",
    "install",
    "uninstall",
]
