"""How actors move, against closed forms."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from skrl_vec_envs.omni import CartpoleDynamics, DriveDynamics, Dynamics, RigidBodyDynamics, maths
from skrl_vec_envs.omniverse.tasks import CartpoleTask
from tests.skrl_vec_envs.omniverse.support import make

GRAVITY = torch.tensor([0.0, 0.0, -9.81])


def stepped(dynamics: Dynamics, state: Any, steps: int, dt: float = 0.001) -> Any:
    for _ in range(steps):
        dynamics.step(state, dt, GRAVITY)
    return state


def test_an_actor_without_a_way_to_move_stays() -> None:
    dynamics = Dynamics(("a",))
    state = dynamics.start(2, "cpu")
    state.joint_efforts += 1.0
    stepped(dynamics, state, 10)
    assert not state.joint_positions.any()
    assert not state.positions.any()


def test_joints_start_at_zero_or_at_the_nearest_limit_or_where_they_are_put() -> None:
    limits = [[-1.0, 1.0], [0.5, 2.0], [-2.0, -1.0]]
    assert Dynamics("abc", dof_limits=limits).start(1, "cpu").joint_positions.tolist() == [[0.0, 0.5, -1.0]]
    assert Dynamics("ab", joint_positions=[1.0, 2.0]).start(1, "cpu").joint_positions.tolist() == [[1.0, 2.0]]


def test_the_cartpole_of_the_stand_ins_is_the_task_s() -> None:
    env = make(CartpoleTask, num_envs=3)
    env.reset()
    task: Any = env.task
    dynamics = CartpoleDynamics()
    state = dynamics.start(3, "cpu")
    state.joint_positions[:], state.joint_velocities[:] = task._state[[0, 2]].T, task._state[[1, 3]].T
    for _ in range(5):
        state.joint_efforts[:, 0] = 10.0
        dynamics.step(state, 0.05, GRAVITY)
        obs = env.step(torch.ones(3, 1))[0]["obs"]
    torch.testing.assert_close(obs, torch.cat((state.joint_positions, state.joint_velocities), 1)[:, [0, 2, 1, 3]])


def test_an_effort_accelerates_a_joint_by_its_inertia() -> None:
    dynamics = DriveDynamics(("a",), inertia=2.0, dof_limits=(-10.0, 10.0))
    state = dynamics.start(1, "cpu")
    state.joint_efforts[:] = 4.0
    stepped(dynamics, state, 1000)
    assert state.joint_velocities.item() == pytest.approx(2.0, rel=1e-3)
    assert state.joint_positions.item() == pytest.approx(1.0, rel=2e-3)


def test_a_drive_pulls_a_joint_as_a_damped_spring() -> None:
    dynamics = DriveDynamics(("a",), stiffness=4.0, damping=4.0)  # critically damped
    state = dynamics.start(1, "cpu")
    state.position_targets[:] = 1.0
    stepped(dynamics, state, 1000)
    assert state.joint_positions.item() == pytest.approx(1.0 - math.exp(-2.0) * 3.0, abs=2e-3)


def test_a_stiff_drive_does_not_blow_up() -> None:
    dynamics = DriveDynamics(("a",), stiffness=1e6, damping=1e3, inertia=0.01)
    state = dynamics.start(1, "cpu")
    state.position_targets[:] = 1.0
    stepped(dynamics, state, 500, dt=1.0 / 60.0)
    assert state.joint_positions.item() == pytest.approx(1.0, abs=1e-3)


def test_a_joint_stops_at_its_limit() -> None:
    dynamics = DriveDynamics(("a", "b"), dof_limits=[[-0.1, 0.1], [-5.0, 5.0]])
    state = dynamics.start(1, "cpu")
    state.joint_efforts[:] = 10.0
    stepped(dynamics, state, 500)
    assert state.joint_positions[0, 0].item() == pytest.approx(0.1)
    assert state.joint_velocities[0, 0] == 0
    assert state.joint_velocities[0, 1] > 1


def test_a_body_falls_freely() -> None:
    dynamics = RigidBodyDynamics()
    state = dynamics.start(1, "cpu")
    stepped(dynamics, state, 1000)
    assert state.positions[0].tolist() == pytest.approx([0, 0, -9.81 / 2], rel=2e-3)


def test_a_force_on_a_part_pushes_and_turns_the_body() -> None:
    dynamics = RigidBodyDynamics(
        (), ("hull", "arm"), masses=[2.0, 0.0], body_offsets=[[0, 0, 0], [0.5, 0, 0]], moments=[1, 4, 1]
    )
    state = dynamics.start(1, "cpu")
    state.body_forces[0, 1, 2] = 2.0
    dynamics.step(state, 0.01, torch.zeros(3))
    assert state.velocities[0].tolist() == pytest.approx([0, 0, 0.01, 0, -0.01 * 2.0 * 0.5 / 4.0, 0])


def test_a_body_turns_at_the_rate_of_its_spin() -> None:
    dynamics = RigidBodyDynamics()
    state = dynamics.start(1, "cpu")
    state.velocities[0, 5] = math.pi / 2
    stepped(dynamics, state, 1000)
    half = math.pi / 4
    assert state.orientations[0].tolist() == pytest.approx([math.cos(half), 0, 0, math.sin(half)], abs=1e-4)


def test_without_a_torque_the_angular_momentum_stays() -> None:
    moments = torch.tensor([1.0, 2.0, 3.0])
    dynamics = RigidBodyDynamics(moments=moments.tolist())
    state = dynamics.start(1, "cpu")
    state.velocities[0, 3:] = torch.tensor([1.0, 0.2, -0.5])

    def momentum() -> torch.Tensor:
        spin = maths.quat_rotate_inverse(state.orientations, state.velocities[:, 3:])
        return maths.quat_rotate(state.orientations, moments * spin)

    before = momentum()
    stepped(dynamics, state, 2000)
    torch.testing.assert_close(momentum(), before, atol=5e-3, rtol=0)
    assert state.orientations.norm().item() == pytest.approx(1.0)


def test_parts_are_where_they_are_fixed() -> None:
    dynamics = RigidBodyDynamics((), ("hull", "arm"), body_offsets=[[0, 0, 0], [1, 0, 0]])
    state = dynamics.start(1, "cpu")
    state.positions[:] = torch.tensor([5.0, 0, 0])
    state.orientations[:] = maths.quat_from_angle_axis(torch.tensor([math.pi / 2]), torch.tensor([[0.0, 0, 1]]))
    positions, _ = dynamics.body_poses(state, [1, 0])
    torch.testing.assert_close(positions[0], torch.tensor([[5.0, 1, 0], [5, 0, 0]]), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("make_it", "message"),
    [
        (lambda: Dynamics(("a", "b"), dof_limits=[[0.0, 1.0]]), r"dof_limits must have shape \(2, 2\) or \(2,\)"),
        (lambda: Dynamics(("a", "b"), stiffness=[1.0]), r"stiffness must be one number or 2, got shape \(1,\)"),
        (lambda: RigidBodyDynamics(body_offsets=[[0, 0]]), r"body_offsets must have shape \(1, 3\), got \(1, 2\)"),
    ],
)
def test_wrong_sizes_are_refused(make_it: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_it()
