"""The functions of Isaac Sim's torch maths, against rotation matrices."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from skrl_vec_envs.omni import maths

N = 50


def matrices(q: torch.Tensor) -> torch.Tensor:
    """Turn quaternions (w, x, y, z) into rotation matrices, by the textbook's formula."""
    w, x, y, z = q.T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return torch.stack([torch.stack(row, 1) for row in rows], 1)


def about(axis: int, angle: torch.Tensor) -> torch.Tensor:
    """Rotate about an axis of the world, as a matrix."""
    first, second = ((1, 2), (2, 0), (0, 1))[axis]
    matrix = torch.eye(3).repeat(len(angle), 1, 1)
    matrix[:, first, first] = matrix[:, second, second] = angle.cos()
    matrix[:, first, second], matrix[:, second, first] = -angle.sin(), angle.sin()
    return matrix


def quats(seed: int) -> torch.Tensor:
    return maths.normalize(torch.randn(N, 4, generator=torch.Generator().manual_seed(seed)))


def vectors() -> torch.Tensor:
    return torch.randn(N, 3, generator=torch.Generator().manual_seed(9))


def close(left: torch.Tensor, right: torch.Tensor) -> None:
    torch.testing.assert_close(left, right, atol=1e-5, rtol=1e-5)


def rotated(matrix: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (matrix @ v[:, :, None])[:, :, 0]


def test_products_rotate_one_after_the_other() -> None:
    close(matrices(maths.quat_mul(quats(0), quats(1))), matrices(quats(0)) @ matrices(quats(1)))


@pytest.mark.parametrize("rotate", [maths.quat_apply, maths.quat_rotate, maths.my_quat_rotate, maths.tf_vector])
def test_vectors_are_rotated(rotate: Any) -> None:
    close(rotate(quats(0), vectors()), rotated(matrices(quats(0)), vectors()))


def test_many_vectors_are_rotated_by_as_many_quaternions_in_another_shape() -> None:
    expected = maths.quat_apply(quats(0), vectors())
    close(maths.quat_apply(quats(0), vectors().view(10, 5, 3)), expected.view(10, 5, 3))


def test_the_inverse_rotates_back() -> None:
    close(maths.quat_rotate_inverse(quats(0), maths.quat_rotate(quats(0), vectors())), vectors())
    close(matrices(maths.quat_conjugate(quats(0))), matrices(quats(0)).mT)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axes_are_the_columns_of_the_matrix(axis: int) -> None:
    close(maths.quat_axis(quats(0), axis), matrices(quats(0))[:, :, axis])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_angle_about_an_axis(axis: int) -> None:
    angle = torch.linspace(-3.0, 3.0, N)
    quat = maths.quat_from_angle_axis(angle, torch.eye(3)[axis].expand(N, 3) * 2)
    close(matrices(quat), about(axis, angle))
    turned, direction = maths.quat_to_angle_axis(quat)
    close(direction[:, axis] * turned, angle)


@pytest.mark.parametrize("extrinsic", [True, False])
def test_euler_angles_turn_about_x_then_y_then_z(extrinsic: bool) -> None:
    roll, pitch, yaw = torch.rand(3, N, generator=torch.Generator().manual_seed(2)) * 2.8 - 1.4
    x, y, z = about(0, roll), about(1, pitch), about(2, yaw)
    quat = maths.quat_from_euler_xyz(roll, pitch, yaw, extrinsic)
    close(matrices(quat), z @ y @ x if extrinsic else x @ y @ z)
    for angle, given in zip(maths.get_euler_xyz(quat, extrinsic), (roll, pitch, yaw), strict=True):
        close(maths.normalize_angle(angle), given)
        assert (angle >= 0).all()
    degrees = torch.rad2deg(torch.stack((roll, pitch, yaw), 1))
    close(maths.euler_angles_to_quats(degrees, degrees=True, extrinsic=extrinsic), quat)


def test_the_angle_between_rotations() -> None:
    angle = torch.linspace(0.0, 3.0, N)
    turn = maths.quat_from_angle_axis(angle, vectors())
    torch.testing.assert_close(maths.quat_diff_rad(maths.quat_mul(turn, quats(0)), quats(0)), angle, atol=2e-3, rtol=0)


def test_transformations_combine_and_invert() -> None:
    q, t = maths.tf_combine(quats(0), vectors(), quats(1), vectors() * 2)
    close(
        maths.tf_apply(q, t, vectors()),
        maths.tf_apply(quats(0), vectors(), maths.tf_apply(quats(1), vectors() * 2, vectors())),
    )
    close(maths.tf_apply(*maths.tf_inverse(q, t), maths.tf_apply(q, t, vectors())), vectors())
    close(maths.local_to_world_space(vectors(), maths.get_pose(t, q)), maths.tf_apply(q, t, vectors()))


def test_the_real_part_moves_to_the_end_and_back() -> None:
    assert maths.wxyz2xyzw(torch.tensor([[1, 2, 3, 4]])).tolist() == [[2, 3, 4, 1]]
    assert torch.equal(maths.xyzw2wxyz(maths.wxyz2xyzw(quats(0))), quats(0))


def test_scaling_maps_bounds_to_one_and_back() -> None:
    lower, upper = torch.tensor([1.0, -2.0]), torch.tensor([3.0, 2.0])
    assert maths.unscale(torch.stack((lower, upper)), lower, upper).tolist() == [[-1, -1], [1, 1]]
    x = torch.rand(5, 2)
    close(maths.scale(maths.unscale(x, lower, upper), lower, upper), x)
    assert maths.tensor_clamp(torch.tensor([0.0, 5.0]), lower, upper).tolist() == [1.0, 2.0]


def test_random_numbers_lie_in_their_range_and_directions_on_the_circle() -> None:
    drawn = maths.torch_rand_float(2.0, 5.0, (1000, 3), "cpu")
    assert drawn.shape == (1000, 3)
    assert 2.0 <= drawn.min() < 2.05
    assert 4.95 < drawn.max() <= 5.0
    directions = maths.torch_random_dir_2((1000, 1), "cpu")
    close(directions.norm(dim=1), torch.ones(1000))
    assert directions.mean(0).abs().max() < 0.1


def test_a_seed_is_used_or_drawn() -> None:
    assert maths.set_seed(5) == 5
    first = torch.rand(3)
    maths.set_seed(5)
    assert torch.equal(torch.rand(3), first)
    assert 0 <= maths.set_seed(-1) < 10000


def test_a_body_that_faces_its_target_and_stands_has_both_projections_one() -> None:
    q = maths.quat_from_angle_axis(torch.full((N,), math.pi / 2), torch.tensor([[0.0, 0, 1]]).expand(N, 3))
    identity = torch.tensor([[1.0, 0, 0, 0]]).expand(N, 4)
    x, z = torch.eye(3)[0].expand(N, 3), torch.eye(3)[2].expand(N, 3)
    _, up, heading, up_vec, heading_vec = maths.compute_heading_and_up(
        q, identity, torch.eye(3)[1].expand(N, 3), x, z, 2
    )
    close(up, torch.ones(N))
    close(heading, torch.ones(N))
    close(up_vec, z)
    close(heading_vec, torch.eye(3)[1].expand(N, 3))
    velocity, spin, _, _, yaw, angle = maths.compute_rot(q, heading_vec * 3, z, torch.tensor([[1000.0, 0, 0]]), x * 0)
    close(velocity, x * 3)
    close(spin, z)
    close(yaw, torch.full((N,), math.pi / 2))
    close(angle, torch.full((N,), -math.pi / 2))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "function",
    [maths.compute_heading_and_up, maths.compute_rot, maths.quat_diff_rad, maths.tf_combine, maths.quat_to_angle_axis],
)
def test_functions_can_be_compiled_by_torchscript(function: Any) -> None:
    assert torch.jit.script(function) is not None
