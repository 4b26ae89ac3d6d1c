"""What stands on the stage and moves: each actor is one robot or object, in all environments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch

from skrl_vec_envs.omni.dynamics import ActorState, CartpoleDynamics, Dynamics, RigidBodyDynamics
from skrl_vec_envs.omni.usd import Stage

_BUILT_IN: dict[str, Dynamics] = {"Cartpole": CartpoleDynamics()}
_GIVEN: dict[str, Dynamics] = {}

FIRST_ENV = "/World/envs/env_0/"
_ENV = re.compile(r"/World/envs/(?:\.\*|env_(?:\.\*|\*|\d+)|\*)/")


def set_dynamics(dynamics: Mapping[str, Dynamics]) -> None:
    """Say how actors move.

    :param dynamics: Dynamics by the name of the actor: the last part of the path of its prim, such as ``"Ant"`` of
        ``/World/envs/env_0/Ant``.

    :raises TypeError: A dynamics is none.
    """
    for name, given in dynamics.items():
        if not isinstance(given, Dynamics):
            raise TypeError(f"the dynamics of {name!r} must be a Dynamics, got {type(given).__name__}")
    _GIVEN.clear()
    _GIVEN.update(dynamics)


class Actor:
    """A robot or an object in all environments.

    :param path: Path of its prim in the first environment.
    :param is_object: Whether it is an object, which flies freely where no dynamics is given.
    :param mass: Mass of an object, kg (default: 1).
    """

    def __init__(self, path: str, *, is_object: bool = True, mass: float | None = None) -> None:
        self.path, self.name = path, path.rpartition("/")[2]
        self.position: Any = None
        """Position in its environment, m (default: the origin). Shape: (3,)."""
        self.orientation: Any = None
        """Orientation, (w, x, y, z) (default: upright). Shape: (4,)."""
        self._is_object, self._mass = is_object, mass
        self._dynamics: Dynamics | None = None
        self.state: ActorState | None = None

    @property
    def dynamics(self) -> Dynamics:
        """How it moves.

        :raises LookupError: That was not said.
        """
        if self._dynamics is None:
            self._dynamics = self._find_dynamics()
        return self._dynamics

    def _find_dynamics(self) -> Dynamics:
        for known in (_GIVEN, _BUILT_IN):
            if self.name in known:
                return known[self.name]
        if self._is_object:
            return RigidBodyDynamics(body_names=(self.name,), masses=self._mass or 1.0)
        raise LookupError(
            f"no dynamics is known for {self.name!r} ({self.path}), but for {sorted({*_BUILT_IN, *_GIVEN})}: there is "
            f"no PhysX here, so say how it moves, skrl_vec_envs.omni.install(dynamics={{{self.name!r}: DriveDynamics("
            "dof_names=[...], body_names=[...])})"
        )

    def begin(self, env_positions: torch.Tensor) -> ActorState:
        """Make the state, the first time.

        :param env_positions: Positions of the environments. Shape: (N, 3).

        :return: State.
        """
        if self.state is None:
            self.state = self.dynamics.start(len(env_positions), str(env_positions.device))
            self.state.positions += env_positions
            if self.position is not None:
                self.state.positions += torch.as_tensor(self.position, device=env_positions.device)
            if self.orientation is not None:
                self.state.orientations[:] = torch.as_tensor(self.orientation, device=env_positions.device)
        return self.state

    def step(self, dt: float, gravity: torch.Tensor) -> None:
        """Let time go on, and take off what was applied for this step."""
        if self.state is not None:
            self.dynamics.step(self.state, dt, gravity)
            self.state.body_forces.zero_()
            self.state.body_torques.zero_()


def find_actor(stage: Stage, expression: str) -> tuple[Actor, str]:
    """Find the actor that a view's expression is about.

    :param stage: Stage.
    :param expression: Regular expression for the paths of prims, such as ``/World/envs/.*/Ant/torso``.

    :return: Actor; what follows its path, a regular expression for its bodies, or nothing.

    :raises LookupError: There is no such actor.
    """
    path = _ENV.sub(FIRST_ENV, expression, count=1)
    for known in sorted(stage.actors, key=len, reverse=True):
        if path == known or path.startswith(f"{known}/"):
            return stage.actors[known], path[len(known) + 1 :]
    matching = [known for known in stage.actors if re.fullmatch(path, known)]
    if len(matching) > 1:
        raise NotImplementedError(f"{expression!r} matches several objects, {matching}: make a view of each")
    if matching:
        return stage.actors[matching[0]], ""
    raise LookupError(
        f"no robot and no object stands at {expression!r}, but at {sorted(stage.actors)}: put it on the stage in "
        "set_up_scene before the view is made"
    )
