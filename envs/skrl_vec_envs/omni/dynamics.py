"""How bodies move: what takes the place of PhysX for one kind of actor, in all environments at once.

``N`` is the number of environments, ``D`` that of joints (degrees of freedom), ``B`` that of bodies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from skrl_vec_envs.omni import maths
from skrl_vec_envs.omniverse.tasks import cartpole


@dataclasses.dataclass
class ActorState:
    """State of an actor, and what acts on it. Views read and write it; a dynamics writes it in place."""

    positions: torch.Tensor
    """Of the root, in the world's frame, m. Shape: (N, 3)."""
    orientations: torch.Tensor
    """Of the root, (w, x, y, z). Shape: (N, 4)."""
    velocities: torch.Tensor
    """Of the root, in the world's frame: linear, m / s, then angular, rad / s. Shape: (N, 6)."""
    joint_positions: torch.Tensor
    """rad or m. Shape: (N, D)."""
    joint_velocities: torch.Tensor
    """rad / s or m / s. Shape: (N, D)."""
    joint_efforts: torch.Tensor
    """N m or N, until they are set again. Shape: (N, D)."""
    position_targets: torch.Tensor
    """Where the drives pull to. Shape: (N, D)."""
    velocity_targets: torch.Tensor
    """How fast the drives want to move. Shape: (N, D)."""
    stiffness: torch.Tensor
    """Of the drives, per position error. Shape: (N, D)."""
    damping: torch.Tensor
    """Of the drives, per velocity error. Shape: (N, D)."""
    masses: torch.Tensor
    """kg. Shape: (N, B)."""
    body_forces: torch.Tensor
    """In the world's frame, N, for the next simulated step. Shape: (N, B, 3)."""
    body_torques: torch.Tensor
    """In the world's frame, N m, for the next simulated step. Shape: (N, B, 3)."""
    joint_forces: torch.Tensor
    """What the joint of each body measures: force, torque. Zero unless the dynamics writes it. Shape: (N, B, 6)."""
    contact_forces: torch.Tensor
    """Net force of contacts on each body. Zero unless the dynamics writes it. Shape: (N, B, 3)."""


class Dynamics:
    """An actor that stays where it is put: the base class of those that move.

    :param dof_names: Names of the joints, D.
    :param body_names: Names of the bodies, B, the root first.
    :param dof_limits: Lower and upper limit of each joint, or of all. Shape: (D, 2) or (2,).
    :param joint_positions: Where the joints are at the start (default: 0, or the nearest limit). Shape: (D,).
    :param masses: Masses of the bodies, kg, or of each. Shape: (B,) or ().
    :param stiffness: Of the drives. Shape: (D,) or ().
    :param damping: Of the drives. Shape: (D,) or ().
    :param fixed_tendons: Number of tendons that a view reports.
    """

    def __init__(
        self,
        dof_names: Sequence[str] = (),
        body_names: Sequence[str] = ("root",),
        *,
        dof_limits: Sequence[Sequence[float]] | Sequence[float] = (-torch.pi, torch.pi),
        joint_positions: Sequence[float] | None = None,
        masses: Sequence[float] | float = 1.0,
        stiffness: Sequence[float] | float = 0.0,
        damping: Sequence[float] | float = 0.0,
        fixed_tendons: int = 0,
    ) -> None:
        self.dof_names = tuple(dof_names)
        self.body_names = tuple(body_names)
        self.fixed_tendons = fixed_tendons
        joints, bodies = len(self.dof_names), len(self.body_names)
        limits = torch.as_tensor(dof_limits, dtype=torch.float32)
        if limits.shape not in ((2,), (joints, 2)):
            raise ValueError(f"dof_limits must have shape ({joints}, 2) or (2,), got {tuple(limits.shape)}")
        self.dof_limits = limits.expand(joints, 2).clone()
        start = torch.zeros(joints).clamp(*self.dof_limits.T)
        self.joint_positions = _values("joint_positions", start if joint_positions is None else joint_positions, joints)
        self.masses = _values("masses", masses, bodies)
        self.stiffness = _values("stiffness", stiffness, joints)
        self.damping = _values("damping", damping, joints)

    def start(self, num_envs: int, device: str) -> ActorState:
        """Make the state at the start.

        :param num_envs: N.
        :param device: Device.

        :return: State, the root at the origin.
        """
        joints, bodies = len(self.dof_names), len(self.body_names)

        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(num_envs, *shape, device=device)

        def rows(values: torch.Tensor) -> torch.Tensor:
            return values.to(device).expand(num_envs, -1).clone()

        return ActorState(
            positions=zeros(3),
            orientations=rows(torch.tensor([1.0, 0.0, 0.0, 0.0])),
            velocities=zeros(6),
            joint_positions=rows(self.joint_positions),
            joint_velocities=zeros(joints),
            joint_efforts=zeros(joints),
            position_targets=rows(self.joint_positions),
            velocity_targets=zeros(joints),
            stiffness=rows(self.stiffness),
            damping=rows(self.damping),
            masses=rows(self.masses),
            body_forces=zeros(bodies, 3),
            body_torques=zeros(bodies, 3),
            joint_forces=zeros(bodies, 6),
            contact_forces=zeros(bodies, 3),
        )

    def step(self, state: ActorState, dt: float, gravity: torch.Tensor) -> None:
        """Let time go on: write the state.

        :param state: State.
        :param dt: Seconds.
        :param gravity: Acceleration, m / s^2. Shape: (3,).
        """

    def body_poses(self, state: ActorState, bodies: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Tell where bodies are. This one takes all of them to be where the root is.

        :param state: State.
        :param bodies: Numbers of the bodies, b of them.

        :return: Positions, orientations. Shape: (N, b, 3), (N, b, 4).
        """
        shown = len(bodies)
        return state.positions[:, None].expand(-1, shown, 3), state.orientations[:, None].expand(-1, shown, 4)

    def body_velocities(self, state: ActorState, bodies: Sequence[int]) -> torch.Tensor:
        """Tell how bodies move, see :meth:`body_poses`.

        :return: Linear and angular velocities. Shape: (N, b, 6).
        """
        return state.velocities[:, None].expand(-1, len(bodies), 6)


class CartpoleDynamics(Dynamics):
    """A pole on a cart without friction, see :func:`skrl_vec_envs.omniverse.tasks.cartpole.accelerations`.

    Joints: ``cartJoint``, ``poleJoint``; the angle is 0 when upright. Semi-implicit Euler steps.
    """

    def __init__(self) -> None:
        super().__init__(
            ("cartJoint", "poleJoint"),
            ("slider", "cart", "pole"),
            dof_limits=[[-4.0, 4.0], [-torch.inf, torch.inf]],
            masses=[1.0, cartpole.CART_MASS, cartpole.POLE_MASS],
        )

    def step(self, state: ActorState, dt: float, gravity: torch.Tensor) -> None:
        """Move carts and poles."""
        linear, angular = cartpole.accelerations(
            state.joint_efforts[:, 0], state.joint_positions[:, 1], state.joint_velocities[:, 1]
        )
        state.joint_velocities += dt * torch.stack((linear, angular), 1)
        state.joint_positions += dt * state.joint_velocities


class DriveDynamics(Dynamics):
    """Joints that do not act on each other, each with a drive and a limit, on a root that stays where it is put.

    ``inertia * acceleration = effort + stiffness * (position target - position) + damping * (velocity target -
    velocity)``; no gravity, no contact: enough to see a task run, and to train what needs no more. The drives are
    integrated implicitly, so that stiff ones do not blow up; at a limit a joint stops.

    :param parameters: See :class:`Dynamics`.
    :param inertia: Of the joints, kg m^2 or kg. Shape: (D,) or ().
    """

    def __init__(self, *parameters: Sequence[str], inertia: Sequence[float] | float = 1.0, **keywords: object) -> None:
        super().__init__(*parameters, **keywords)  # type: ignore[arg-type]
        self.inertia = _values("inertia", inertia, len(self.dof_names))

    def step(self, state: ActorState, dt: float, gravity: torch.Tensor) -> None:
        """Move the joints."""
        self._step_joints(state, dt)

    def _step_joints(self, state: ActorState, dt: float) -> None:
        inertia, limits = self.inertia.to(state.positions.device), self.dof_limits.to(state.positions.device)
        pull = state.stiffness * (state.position_targets - state.joint_positions - dt * state.joint_velocities)
        push = state.joint_efforts + pull + state.damping * (state.velocity_targets - state.joint_velocities)
        state.joint_velocities += dt * push / (inertia + dt * state.damping + dt * dt * state.stiffness)
        moved = state.joint_positions + dt * state.joint_velocities
        inside = moved.clamp(limits[:, 0], limits[:, 1])
        state.joint_velocities *= inside == moved
        state.joint_positions.copy_(inside)


class RigidBodyDynamics(DriveDynamics):
    """One rigid body in free flight, with gravity and what is applied to its parts; joints as in the base class.

    Forces act where the part is fixed to the body, torques on the whole. Semi-implicit Euler steps; no contact.

    :param parameters: See :class:`Dynamics`.
    :param body_offsets: Where the parts are fixed, in the body's frame, m (default: at the root). Shape: (B, 3).
    :param moments: Principal moments of inertia of the whole, kg m^2. Shape: (3,).
    :param keywords: See :class:`DriveDynamics`.
    """

    def __init__(
        self,
        *parameters: Sequence[str],
        body_offsets: Sequence[Sequence[float]] | None = None,
        moments: Sequence[float] = (0.01, 0.01, 0.01),
        **keywords: object,
    ) -> None:
        super().__init__(*parameters, **keywords)  # type: ignore[arg-type]
        bodies = len(self.body_names)
        offsets = torch.zeros(bodies, 3) if body_offsets is None else torch.as_tensor(body_offsets)
        if offsets.shape != (bodies, 3):
            raise ValueError(f"body_offsets must have shape ({bodies}, 3), got {tuple(offsets.shape)}")
        self.body_offsets = offsets.to(torch.float32)
        self.moments = _values("moments", moments, 3)

    def step(self, state: ActorState, dt: float, gravity: torch.Tensor) -> None:
        """Move the body and the joints."""
        self._step_joints(state, dt)
        arms = self._arms(state, range(len(self.body_names)))
        torque = (state.body_torques + torch.linalg.cross(arms, state.body_forces)).sum(1)
        force = state.body_forces.sum(1) / state.masses.sum(1, keepdim=True)
        moments = self.moments.to(torque.device)
        spin = maths.quat_rotate_inverse(state.orientations, state.velocities[:, 3:])
        turning = maths.quat_rotate_inverse(state.orientations, torque) - torch.linalg.cross(spin, moments * spin)
        state.velocities[:, :3] += dt * (force + gravity)
        state.velocities[:, 3:] = maths.quat_rotate(state.orientations, spin + dt * turning / moments)
        state.positions += dt * state.velocities[:, :3]
        angular = state.velocities[:, 3:]
        turn = maths.quat_from_angle_axis(dt * torch.linalg.vector_norm(angular, dim=1), angular)
        state.orientations.copy_(maths.quat_unit(maths.quat_mul(turn, state.orientations)))

    def body_poses(self, state: ActorState, bodies: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Tell where the parts are."""
        positions, orientations = super().body_poses(state, bodies)
        return positions + self._arms(state, bodies), orientations

    def _arms(self, state: ActorState, bodies: Sequence[int]) -> torch.Tensor:
        offsets = self.body_offsets[list(bodies)].to(state.positions.device)
        return maths.quat_apply(state.orientations[:, None], offsets.expand(len(state.positions), -1, 3))


def _values(name: str, values: Sequence[float] | float | torch.Tensor, size: int) -> torch.Tensor:
    tensor = torch.as_tensor(values, dtype=torch.float32)
    if tensor.shape not in ((), (size,)):
        raise ValueError(f"{name} must be one number or {size}, got shape {tuple(tensor.shape)}")
    return tensor.expand(size).clone()
