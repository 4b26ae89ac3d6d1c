"""The functions of ``omni.isaac.core.utils.torch``: quaternions (w, x, y, z), transformations, random numbers.

Names, arguments and conventions are Isaac Sim's. They may be called from functions that ``torch.jit.script`` compiles,
as OmniIsaacGymEnvs' tasks do, and so keep to what that understands.
"""

import math
import random
from typing import List, Optional, Tuple  # noqa: UP035 (torch.jit.script reads these)

import numpy as np
import torch
from torch import Tensor


def normalize(x: Tensor, eps: float = 1e-9) -> Tensor:
    """Scale vectors to length one. Shape: (..., D)."""
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return torch.div(x, length.clamp(min=eps))


def normalize_angle(x: Tensor) -> Tensor:
    """Bring angles to -pi .. pi."""
    return torch.atan2(torch.sin(x), torch.cos(x))


def copysign(a: float, b: Tensor) -> Tensor:
    """Give a magnitude the signs of a tensor (zero where it is zero)."""
    return abs(a) * torch.sign(b)


def tensor_clamp(t: Tensor, min_t: Tensor, max_t: Tensor) -> Tensor:
    """Bring values between bounds."""
    return torch.maximum(torch.minimum(t, max_t), min_t)


def saturate(x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Bring values between bounds."""
    return tensor_clamp(x, lower, upper)


def scale(x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Map -1 .. 1 to lower .. upper."""
    return lower + (x + 1.0) / 2.0 * (upper - lower)


def unscale(x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Map lower .. upper to -1 .. 1."""
    return (x - lower) / (upper - lower) * 2.0 - 1.0


def scale_transform(x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Map lower .. upper to -1 .. 1."""
    return unscale(x, lower, upper)


def unscale_transform(x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Map -1 .. 1 to lower .. upper."""
    return scale(x, lower, upper)


def unscale_np(x: "np.ndarray", lower: "np.ndarray", upper: "np.ndarray") -> "np.ndarray":
    """Map lower .. upper to -1 .. 1, NumPy's arrays."""
    mapped: np.ndarray = (x - lower) / (upper - lower) * 2.0 - 1.0
    return mapped


def torch_rand_float(lower: float, upper: float, shape: Tuple[int, int], device: str) -> Tensor:  # noqa: UP006
    """Draw uniformly. Shape: the one given."""
    return torch.rand(shape[0], shape[1], device=device) * (upper - lower) + lower


def torch_random_dir_2(shape: Tuple[int, int], device: str) -> Tensor:  # noqa: UP006
    """Draw directions in the plane. Shape: (shape[0], 2)."""
    angle = torch_rand_float(-math.pi, math.pi, shape, device).squeeze(-1)
    return torch.stack([torch.cos(angle), torch.sin(angle)], -1)


def set_seed(seed: int, torch_deterministic: bool = False) -> int:
    """Seed Python's, NumPy's and torch's random numbers; -1 draws a seed (42 where it is to be deterministic).

    :return: The seed.
    """
    if seed == -1:
        seed = 42 if torch_deterministic else int(np.random.randint(0, 10000))
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    if torch_deterministic:
        torch.use_deterministic_algorithms(True)
    return seed


def get_axis_params(value: float, axis_idx: int, x_value: float = 0.0, n_dims: int = 3) -> List[float]:  # noqa: UP006
    """List the components of a vector: ``value`` on one axis, ``x_value`` on the first."""
    components = [value if index == axis_idx else 0.0 for index in range(n_dims)]
    components[0] = x_value
    return components


def quat_mul(a: Tensor, b: Tensor) -> Tensor:
    """Multiply quaternions: first the rotation b, then a. Shape: (..., 4)."""
    a = a.reshape(b.shape) if a.numel() == b.numel() else a
    a_w, a_v, b_w, b_v = a[..., :1], a[..., 1:], b[..., :1], b[..., 1:]
    w = a_w * b_w - (a_v * b_v).sum(-1, keepdim=True)
    v = a_w * b_v + b_w * a_v + torch.cross(a_v.expand_as(b_v), b_v.expand_as(a_v), dim=-1)
    return torch.cat([w, v], -1)


def quat_conjugate(a: Tensor) -> Tensor:
    """Invert rotations. Shape: (..., 4)."""
    return torch.cat([a[..., :1], -a[..., 1:]], -1)


def quat_unit(a: Tensor) -> Tensor:
    """Scale quaternions to length one."""
    return normalize(a)


def quat_apply(a: Tensor, b: Tensor) -> Tensor:
    """Rotate vectors. Shape: (..., 4), (..., 3); as many of each, or such that they can be broadcast."""
    if a.dim() != b.dim():
        return _rotated(a.reshape(-1, 4), b.reshape(-1, 3)).reshape(b.shape)
    return _rotated(a, b)


def _rotated(a: Tensor, b: Tensor) -> Tensor:
    v = a[..., 1:].expand_as(b)
    twice = 2.0 * torch.cross(v, b, dim=-1)
    return b + a[..., :1] * twice + torch.cross(v, twice, dim=-1)


def quat_rotate(q: Tensor, v: Tensor) -> Tensor:
    """Rotate vectors from the body's frame to the world's."""
    return quat_apply(q, v)


def my_quat_rotate(q: Tensor, v: Tensor) -> Tensor:
    """Rotate vectors from the body's frame to the world's."""
    return quat_apply(q, v)


def get_basis_vector(q: Tensor, v: Tensor) -> Tensor:
    """Rotate vectors from the body's frame to the world's."""
    return quat_apply(q, v)


def quat_rotate_inverse(q: Tensor, v: Tensor) -> Tensor:
    """Rotate vectors from the world's frame to the body's."""
    return quat_apply(quat_conjugate(q), v)


def quat_axis(q: Tensor, axis: int = 0) -> Tensor:
    """Give an axis of the body in the world's frame. Shape: (N, 4) to (N, 3)."""
    basis = torch.zeros(q.shape[0], 3, device=q.device)
    basis[:, axis] = 1.0
    return quat_apply(q, basis)


def quat_from_angle_axis(angle: Tensor, axis: Tensor) -> Tensor:
    """Rotate by an angle (rad) about an axis. Shape: (N,), (N, 3) to (N, 4)."""
    half = (angle / 2.0).unsqueeze(-1)
    return quat_unit(torch.cat([torch.cos(half), normalize(axis) * torch.sin(half)], -1))


def quat_to_angle_axis(q: Tensor) -> Tuple[Tensor, Tensor]:  # noqa: UP006
    """Give angle, from -pi to pi, and axis of rotations; the axis of none is z. Shape: (N, 4) to (N,), (N, 3)."""
    sine = torch.linalg.vector_norm(q[..., 1:], dim=-1)
    angle = normalize_angle(2.0 * torch.atan2(sine, q[..., 0]))
    z = torch.zeros_like(q[..., 1:])
    z[..., 2] = 1.0
    turned = (sine > 1e-5).unsqueeze(-1)
    return torch.where(turned[..., 0], angle, torch.zeros_like(angle)), torch.where(turned, normalize(q[..., 1:]), z)


def quat_diff_rad(a: Tensor, b: Tensor) -> Tensor:
    """Give the angle between rotations, from 0 to pi. Shape: (N, 4) to (N,)."""
    difference = quat_mul(a, quat_conjugate(b))
    return 2.0 * torch.asin(torch.linalg.vector_norm(difference[..., 1:], dim=-1).clamp(max=1.0))


def quat_from_euler_xyz(roll: Tensor, pitch: Tensor, yaw: Tensor, extrinsic: bool = True) -> Tensor:
    """Rotate about x, y and z (rad), about the world's axes or the body's. Shape: (N,) to (N, 4)."""
    halves = torch.stack([roll, pitch, yaw], -1) / 2.0
    cosine, sine, zero = torch.cos(halves), torch.sin(halves), torch.zeros_like(roll)
    about_x = torch.stack([cosine[..., 0], sine[..., 0], zero, zero], -1)
    about_y = torch.stack([cosine[..., 1], zero, sine[..., 1], zero], -1)
    about_z = torch.stack([cosine[..., 2], zero, zero, sine[..., 2]], -1)
    if extrinsic:
        return quat_mul(about_z, quat_mul(about_y, about_x))
    return quat_mul(about_x, quat_mul(about_y, about_z))


def get_euler_xyz(q: Tensor, extrinsic: bool = True) -> Tuple[Tensor, Tensor, Tensor]:  # noqa: UP006
    """Give roll, pitch and yaw, from 0 to 2 pi, see :func:`quat_from_euler_xyz`. Shape: (N, 4) to (N,)."""
    sign = 1.0 if extrinsic else -1.0
    w, x, y, z = q[:, 0], q[:, 1], q[:, 2], q[:, 3]
    roll = torch.atan2(2.0 * (w * x + sign * y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = torch.asin((2.0 * (w * y - sign * x * z)).clamp(-1.0, 1.0))
    yaw = torch.atan2(2.0 * (w * z + sign * x * y), 1.0 - 2.0 * (y * y + z * z))
    turn = 2.0 * math.pi
    return torch.remainder(roll, turn), torch.remainder(pitch, turn), torch.remainder(yaw, turn)


def euler_angles_to_quats(
    euler_angles: Tensor, degrees: bool = False, extrinsic: bool = True, device: Optional[str] = None  # noqa: UP045
) -> Tensor:
    """Rotate about x, y and z, see :func:`quat_from_euler_xyz`. Shape: (N, 3) to (N, 4)."""
    angles = torch.deg2rad(euler_angles) if degrees else euler_angles
    quats = quat_from_euler_xyz(angles[..., 0], angles[..., 1], angles[..., 2], extrinsic)
    return quats if device is None else quats.to(device)


def wxyz2xyzw(q: Tensor) -> Tensor:
    """Move the real part to the end."""
    return q[..., [1, 2, 3, 0]]


def xyzw2wxyz(q: Tensor) -> Tensor:
    """Move the real part to the front."""
    return q[..., [3, 0, 1, 2]]


def tf_inverse(q: Tensor, t: Tensor) -> Tuple[Tensor, Tensor]:  # noqa: UP006
    """Invert a rotation and the translation after it."""
    inverse = quat_conjugate(q)
    return inverse, -quat_apply(inverse, t)


def tf_apply(q: Tensor, t: Tensor, v: Tensor) -> Tensor:
    """Rotate points, then move them."""
    return quat_apply(q, v) + t


def tf_vector(q: Tensor, v: Tensor) -> Tensor:
    """Rotate vectors."""
    return quat_apply(q, v)


def tf_combine(q1: Tensor, t1: Tensor, q2: Tensor, t2: Tensor) -> Tuple[Tensor, Tensor]:  # noqa: UP006
    """Combine transformations: the second one is seen from the first."""
    return quat_mul(q1, q2), quat_apply(q1, t2) + t1


def get_pose(positions: Tensor, orientations: Tensor) -> Tensor:
    """Put positions and orientations side by side. Shape: (N, 7)."""
    return torch.cat([positions, orientations], -1)


def normalise_quat_in_pose(pose: Tensor) -> Tensor:
    """Scale the quaternions of poses to length one. Shape: (N, 7)."""
    return torch.cat([pose[..., :3], quat_unit(pose[..., 3:])], -1)


def local_to_world_space(pos_offset_local: Tensor, pose_global: Tensor) -> Tensor:
    """Bring points of a body's frame to the world's. Shape: (N, 3), (N, 7) to (N, 3)."""
    return tf_apply(pose_global[..., 3:], pose_global[..., :3], pos_offset_local)


def compute_heading_and_up(
    torso_rotation: Tensor, inv_start_rot: Tensor, to_target: Tensor, vec0: Tensor, vec1: Tensor, up_idx: int
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # noqa: UP006
    """Tell how a body stands and where it faces.

    :return: Rotation since the start; upward part of the body's up vector; forward part of its heading, towards the
        target; up vector; heading. Shape: (N, 4), (N,), (N,), (N, 3), (N, 3).
    """
    torso_quat = quat_mul(torso_rotation, inv_start_rot)
    up_vec, heading_vec = quat_apply(torso_quat, vec1), quat_apply(torso_quat, vec0)
    return torso_quat, up_vec[:, up_idx], (heading_vec * normalize(to_target)).sum(-1), up_vec, heading_vec


def compute_rot(
    torso_quat: Tensor,
    velocity: Tensor,
    ang_velocity: Tensor,
    targets: Tensor,
    torso_positions: Tensor,
    extrinsic: bool = True,
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # noqa: UP006
    """Tell how a body moves.

    :return: Velocity and angular velocity in the body's frame, roll, pitch, yaw, angle to the target (which Isaac Sim
        takes in the plane of x and z). Shape: (N, 3), (N, 3), then (N,).
    """
    roll, pitch, yaw = get_euler_xyz(torso_quat, extrinsic)
    to_target = targets - torso_positions
    angle_to_target = torch.atan2(to_target[:, 2], to_target[:, 0]) - yaw
    vel_loc = quat_rotate_inverse(torso_quat, velocity)
    return vel_loc, quat_rotate_inverse(torso_quat, ang_velocity), roll, pitch, yaw, angle_to_target
