"""Views of ``omni.isaac.core``: the state of one robot or object in all environments.

Rows are environments; of an expression that matches several bodies, environments times bodies. ``indices`` names rows,
``joint_indices`` columns; None stands for all. ``M`` is the number of rows, ``D`` that of joints. Everything is
Isaac Sim's: names, arguments, shapes, quaternions (w, x, y, z). What is read is a copy, with ``clone=False`` as well:
tasks write into it (``positions -= self._env_pos``), which must not move anything.
"""

from __future__ import annotations

import re
from typing import Any

import torch

from skrl_vec_envs.omni import maths
from skrl_vec_envs.omni.actors import Actor, find_actor
from skrl_vec_envs.omni.dynamics import ActorState
from skrl_vec_envs.omni.usd import get_current_stage, get_prim_at_path

_Poses = tuple[torch.Tensor, torch.Tensor]


class XFormPrimView:
    """Places, ``omni.isaac.core.prims.XFormPrimView``.

    :param prim_paths_expr: Regular expression for the paths of the prims.
    :param name: Name in the scene.
    :param keywords: What else Isaac Sim's class takes (``reset_xform_properties``, ``track_contact_forces``, ...):
        remembered, without effect.

    :raises LookupError: There is no such robot or object, or nobody said how it moves.
    """

    def __init__(self, prim_paths_expr: str, name: str = "xform_prim_view", **keywords: Any) -> None:
        self.prim_paths_expr, self._name, self.settings = prim_paths_expr, name, keywords
        self._stage = get_current_stage()
        self._actor, bodies = find_actor(self._stage, prim_paths_expr)
        self._bodies = self._find_bodies(bodies)
        self._non_root_link = False
        self._defaults: dict[str, torch.Tensor] = {}
        self._state  # noqa: B018 (says at once when the dynamics is missing)

    def _find_bodies(self, expression: str) -> list[int]:
        names = self._actor.dynamics.body_names
        # the name alone, since bodies may be nested on the stage; the root's own prim may have any name below the actor
        wanted = re.compile(expression.rpartition("/")[2] or re.escape(names[0]))
        found = [index for index, name in enumerate(names) if wanted.fullmatch(name)]
        if not found and len(names) == 1:
            return [0]
        if not found:
            raise LookupError(
                f"{self._actor.name!r} has no body that matches {self.prim_paths_expr!r}: the body_names of its "
                f"dynamics are {list(names)}"
            )
        return found

    @property
    def _state(self) -> ActorState:
        return self._actor.begin(self._stage.env_positions)

    @property
    def name(self) -> str:
        """Name in the scene."""
        return self._name

    @property
    def count(self) -> int:
        """Number of rows, M."""
        return len(self._state.positions) * len(self._bodies)

    @property
    def prim_paths(self) -> list[str]:
        """Paths of the prims, one per row."""
        names = self._actor.dynamics.body_names
        ends = [
            self._actor.path.rpartition("env_0/")[2] + ("" if body == 0 else f"/{names[body]}") for body in self._bodies
        ]
        return [f"/World/envs/env_{env}/{end}" for env in range(len(self._state.positions)) for end in ends]

    @property
    def prims(self) -> list[Any]:
        """Prims, one per row."""
        return [get_prim_at_path(path) for path in self.prim_paths]

    def initialize(self, physics_sim_view: Any = None) -> None:
        """Make the state, and remember it as the default one."""
        positions, orientations = self.get_world_poses()
        self._defaults.setdefault("positions", positions)
        self._defaults.setdefault("orientations", orientations)

    def is_valid(self, indices: Any = None) -> bool:
        """Tell whether the prims are there."""
        return True

    def is_physics_handle_valid(self) -> bool:
        """Tell whether the state is there."""
        return True

    def post_reset(self) -> None:
        """Do nothing: tasks write the state themselves."""

    def get_world_poses(self, indices: Any = None, clone: bool = True, usd: bool = True) -> _Poses:
        """Return positions and orientations in the world. Shape: (M, 3), (M, 4)."""
        if self._is_root:
            positions, orientations = self._state.positions, self._state.orientations
        else:
            positions, orientations = self._actor.dynamics.body_poses(self._state, self._bodies)
            positions, orientations = positions.reshape(-1, 3), orientations.reshape(-1, 4)
        return _read(positions, indices), _read(orientations, indices)

    def set_world_poses(self, positions: Any = None, orientations: Any = None, indices: Any = None) -> None:
        """Write positions and orientations of the root in the world."""
        self._check_root("set_world_poses")
        _write(self._state.positions, positions, indices)
        _write(self._state.orientations, orientations, indices)

    def get_local_poses(self, indices: Any = None) -> _Poses:
        """Return positions in the environment, and orientations. Shape: (M, 3), (M, 4)."""
        positions, orientations = self.get_world_poses()
        shift = self._stage.env_positions.repeat_interleave(len(self._bodies), 0)
        return _read(positions - shift, indices), _read(orientations, indices)

    def set_local_poses(self, translations: Any = None, orientations: Any = None, indices: Any = None) -> None:
        """Write positions in the environment, and orientations."""
        if translations is not None:
            shift = _read(self._stage.env_positions, indices)
            translations = torch.as_tensor(translations, device=shift.device) + shift
        self.set_world_poses(translations, orientations, indices)

    def set_visibilities(self, visibilities: Any, indices: Any = None) -> None:
        """Accept what can be seen."""

    def apply_physics_materials(self, *args: Any, **kwargs: Any) -> None:
        """Accept materials: friction is the business of the dynamics."""

    @property
    def _is_root(self) -> bool:
        return self._bodies == [0]

    @property
    def _device(self) -> str:
        return str(self._state.positions.device)

    def _check_root(self, method: str) -> None:
        if not self._is_root:
            raise NotImplementedError(
                f"{type(self).__name__}.{method} of {self.prim_paths_expr!r}: only the root of {self._actor.name!r} "
                f"can be moved, {self._actor.dynamics.body_names[0]!r}"
            )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__}.{name} has no stand-in in skrl_vec_envs.omni")


class RigidPrimView(XFormPrimView):
    """Bodies, ``omni.isaac.core.prims.RigidPrimView``. See :class:`XFormPrimView`."""

    def get_velocities(self, indices: Any = None, clone: bool = True) -> torch.Tensor:
        """Return linear and angular velocities in the world's frame. Shape: (M, 6)."""
        if self._is_root:
            return _read(self._state.velocities, indices)
        velocities = self._actor.dynamics.body_velocities(self._state, self._bodies)
        return _read(velocities.reshape(-1, 6), indices)

    def set_velocities(self, velocities: Any, indices: Any = None) -> None:
        """Write linear and angular velocities of the root."""
        self._check_root("set_velocities")
        _write(self._state.velocities, velocities, indices)

    def get_linear_velocities(self, indices: Any = None, clone: bool = True) -> torch.Tensor:
        """Return linear velocities. Shape: (M, 3)."""
        return self.get_velocities(indices)[:, :3]

    def get_angular_velocities(self, indices: Any = None, clone: bool = True) -> torch.Tensor:
        """Return angular velocities. Shape: (M, 3)."""
        return self.get_velocities(indices)[:, 3:]

    def set_linear_velocities(self, velocities: Any, indices: Any = None) -> None:
        """Write linear velocities of the root."""
        self._check_root("set_linear_velocities")
        _write(self._state.velocities[:, :3], velocities, indices)

    def set_angular_velocities(self, velocities: Any, indices: Any = None) -> None:
        """Write angular velocities of the root."""
        self._check_root("set_angular_velocities")
        _write(self._state.velocities[:, 3:], velocities, indices)

    def apply_forces(self, forces: Any, indices: Any = None, is_global: bool = True) -> None:
        """Apply forces for the next simulated step. Shape: (M, 3)."""
        self.apply_forces_and_torques_at_pos(forces, indices=indices, is_global=is_global)

    def apply_forces_and_torques_at_pos(
        self,
        forces: Any = None,
        torques: Any = None,
        positions: Any = None,
        indices: Any = None,
        is_global: bool = True,
    ) -> None:
        """Apply forces, at positions (default: where the bodies are), and torques for the next simulated step.

        Shape: (M, 3) each. In the world's frame, or in the bodies' own.
        """
        origins, orientations = self.get_world_poses(indices)

        def in_world(values: Any) -> torch.Tensor:
            tensor = torch.as_tensor(values, dtype=torch.float32, device=origins.device)
            return tensor if is_global else maths.quat_rotate(orientations, tensor)

        if forces is not None:
            _add(self._state.body_forces, self._bodies, in_world(forces), indices)
            if positions is not None:
                arms = in_world(positions) - origins if is_global else in_world(positions)
                _add(self._state.body_torques, self._bodies, torch.linalg.cross(arms, in_world(forces)), indices)
        if torques is not None:
            _add(self._state.body_torques, self._bodies, in_world(torques), indices)

    def get_masses(self, indices: Any = None, clone: bool = True) -> torch.Tensor:
        """Return masses, kg. Shape: (M,)."""
        return _read(self._state.masses[:, self._bodies].reshape(-1), indices)

    def set_masses(self, masses: Any, indices: Any = None) -> None:
        """Write masses, kg."""
        written = self.get_masses()
        _write(written, masses, indices)
        self._state.masses[:, self._bodies] = written.view(-1, len(self._bodies))

    def get_net_contact_forces(self, indices: Any = None, clone: bool = True, dt: float = 1.0) -> torch.Tensor:
        """Return the net forces of contacts, which are zero unless the dynamics writes them. Shape: (M, 3)."""
        return _read(self._state.contact_forces[:, self._bodies].reshape(-1, 3), indices)


class ArticulationView(RigidPrimView):
    """Robots, ``omni.isaac.core.articulations.ArticulationView``. See :class:`XFormPrimView`."""

    def _find_bodies(self, expression: str) -> list[int]:
        if not self._actor.dynamics.dof_names:
            raise LookupError(f"{self._actor.name!r} has no joints: give its dynamics dof_names")
        return [0]  # whatever the root's prim is called

    @property
    def num_dof(self) -> int:
        """Number of joints, D."""
        return len(self._actor.dynamics.dof_names)

    @property
    def dof_names(self) -> list[str]:
        """Names of the joints."""
        return list(self._actor.dynamics.dof_names)

    @property
    def body_names(self) -> list[str]:
        """Names of the bodies."""
        return list(self._actor.dynamics.body_names)

    @property
    def num_bodies(self) -> int:
        """Number of bodies."""
        return len(self._actor.dynamics.body_names)

    @property
    def num_fixed_tendons(self) -> int:
        """Number of tendons."""
        return self._actor.dynamics.fixed_tendons

    @property
    def _dof_indices(self) -> dict[str, int]:
        return _Named(self._actor, "joint", "dof_names")

    @property
    def _body_indices(self) -> dict[str, int]:
        return _Named(self._actor, "body", "body_names")

    def get_dof_index(self, dof_name: str) -> int:
        """Return the number of a joint.

        :raises LookupError: There is none of that name.
        """
        return self._dof_indices[dof_name]

    def get_body_index(self, body_name: str) -> int:
        """Return the number of a body.

        :raises LookupError: There is none of that name.
        """
        return self._body_indices[body_name]

    def get_dof_limits(self) -> torch.Tensor:
        """Return lower and upper limits. Shape: (M, D, 2)."""
        limits = self._actor.dynamics.dof_limits.to(self._device)
        return limits.expand(self.count, -1, 2).clone()

    def get_joint_positions(self, indices: Any = None, joint_indices: Any = None, clone: bool = True) -> torch.Tensor:
        """Return positions of the joints. Shape: (M, D)."""
        return _read(self._state.joint_positions, indices, joint_indices)

    def set_joint_positions(self, positions: Any, indices: Any = None, joint_indices: Any = None) -> None:
        """Write positions of the joints, and the same as targets of their drives."""
        _write(self._state.joint_positions, positions, indices, joint_indices)
        _write(self._state.position_targets, positions, indices, joint_indices)

    def get_joint_velocities(self, indices: Any = None, joint_indices: Any = None, clone: bool = True) -> torch.Tensor:
        """Return velocities of the joints. Shape: (M, D)."""
        return _read(self._state.joint_velocities, indices, joint_indices)

    def set_joint_velocities(self, velocities: Any, indices: Any = None, joint_indices: Any = None) -> None:
        """Write velocities of the joints, and the same as targets of their drives."""
        _write(self._state.joint_velocities, velocities, indices, joint_indices)
        _write(self._state.velocity_targets, velocities, indices, joint_indices)

    def set_joint_efforts(self, efforts: Any, indices: Any = None, joint_indices: Any = None) -> None:
        """Write efforts, which act until they are written again."""
        _write(self._state.joint_efforts, efforts, indices, joint_indices)

    def get_applied_joint_efforts(
        self, indices: Any = None, joint_indices: Any = None, clone: bool = True
    ) -> torch.Tensor:
        """Return the efforts that were written. Shape: (M, D)."""
        return _read(self._state.joint_efforts, indices, joint_indices)

    get_measured_joint_efforts = get_applied_joint_efforts

    def set_joint_position_targets(self, positions: Any, indices: Any = None, joint_indices: Any = None) -> None:
        """Write where the drives pull to."""
        _write(self._state.position_targets, positions, indices, joint_indices)

    def set_joint_velocity_targets(self, velocities: Any, indices: Any = None, joint_indices: Any = None) -> None:
        """Write how fast the drives want to move."""
        _write(self._state.velocity_targets, velocities, indices, joint_indices)

    def set_gains(
        self, kps: Any = None, kds: Any = None, indices: Any = None, joint_indices: Any = None, **keywords: Any
    ) -> None:
        """Write stiffness and damping of the drives."""
        _write(self._state.stiffness, kps, indices, joint_indices)
        _write(self._state.damping, kds, indices, joint_indices)

    def get_gains(self, indices: Any = None, joint_indices: Any = None, clone: bool = True) -> _Poses:
        """Return stiffness and damping of the drives. Shape: (M, D) each."""
        return (
            _read(self._state.stiffness, indices, joint_indices),
            _read(self._state.damping, indices, joint_indices),
        )

    def get_measured_joint_forces(
        self, indices: Any = None, joint_indices: Any = None, clone: bool = True
    ) -> torch.Tensor:
        """Return what the joints of the bodies measure: zero unless the dynamics writes it. Shape: (M, B, 6)."""
        return _read(self._state.joint_forces, indices, joint_indices)

    def get_body_masses(self, indices: Any = None, body_indices: Any = None, clone: bool = True) -> torch.Tensor:
        """Return masses, kg. Shape: (M, B)."""
        return _read(self._state.masses, indices, body_indices)

    def set_body_masses(self, values: Any, indices: Any = None, body_indices: Any = None) -> None:
        """Write masses, kg."""
        _write(self._state.masses, values, indices, body_indices)

    def set_fixed_tendon_properties(self, *args: Any, **kwargs: Any) -> None:
        """Accept the properties of tendons: what they do is the business of the dynamics."""

    def set_max_efforts(self, *args: Any, **kwargs: Any) -> None:
        """Accept the largest efforts: they are the business of the dynamics."""

    def switch_control_mode(self, *args: Any, **kwargs: Any) -> None:
        """Accept the way in which the joints are driven: efforts and drives act together."""

    set_effort_modes = set_solver_position_iteration_counts = switch_control_mode
    set_solver_velocity_iteration_counts = set_enabled_self_collisions = switch_control_mode


class _Named(dict[str, int]):
    """Numbers by name, which say what there is when there is not."""

    def __init__(self, actor: Actor, what: str, names: str) -> None:
        known = getattr(actor.dynamics, names)
        super().__init__((name, index) for index, name in enumerate(known))
        self._error = f"{actor.name!r} has no {what} %r: the {names} of its dynamics are {list(known)}"

    def __missing__(self, name: str) -> int:
        raise LookupError(self._error % name)


def _index(indices: Any, device: torch.device) -> Any:
    if indices is None:
        return slice(None)
    return torch.as_tensor(indices, device=device).to(torch.int64).reshape(-1)


def _read(values: torch.Tensor, indices: Any, columns: Any = None) -> torch.Tensor:
    if columns is not None:
        values = values[:, _index(columns, values.device)]
    if indices is not None:
        return values[_index(indices, values.device)]
    return values.clone()


def _write(target: torch.Tensor, values: Any, indices: Any, columns: Any = None) -> None:
    if values is None:
        return
    given = torch.as_tensor(values, dtype=target.dtype, device=target.device)
    rows = _index(indices, target.device)
    if columns is None:
        target[rows] = given
    else:
        every = torch.arange(len(target), device=target.device)[rows]
        target[every[:, None], _index(columns, target.device)] = given


def _add(target: torch.Tensor, bodies: list[int], values: torch.Tensor, indices: Any) -> None:
    rows = torch.arange(len(target) * len(bodies), device=target.device)[_index(indices, target.device)]
    columns = torch.as_tensor(bodies, device=target.device)[rows % len(bodies)]
    target.index_put_((rows // len(bodies), columns), values.reshape(-1, 3), accumulate=True)
