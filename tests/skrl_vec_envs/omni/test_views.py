"""Views: rows, columns and bodies, and what is said where something is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from skrl_vec_envs import omni
from skrl_vec_envs.omni import prims, usd
from skrl_vec_envs.omni.views import ArticulationView, RigidPrimView, XFormPrimView
from skrl_vec_envs.omniverse.world import Scene

N = 3
ARM = omni.DriveDynamics(("shoulder", "elbow"), ("base", "upper", "lower", "tip_0", "tip_1"), dof_limits=(-2.0, 1.0))


@pytest.fixture(autouse=True)
def _stage() -> Iterator[None]:
    omni.install(dynamics={"Arm": ARM, "Ant": omni.DriveDynamics(("hip",), ("torso", "foot"))})
    usd.new_stage().env_positions = torch.arange(N)[:, None] * torch.tensor([[10.0, 0.0, 0.0]])
    prims.Robot("/World/envs/env_0/Arm", name="arm", translation=torch.tensor([0.0, 1.0, 2.0]))
    prims.DynamicSphere("/World/envs/env_0/Ball/ball", position=np.array([0.0, 0.0, 1.0]), mass=3.0)
    yield
    omni.uninstall()


def arm() -> ArticulationView:
    return ArticulationView("/World/envs/.*/Arm/base", name="arms", reset_xform_properties=False)


def test_it_knows_its_joints_and_bodies() -> None:
    view = arm()
    assert (view.count, view.num_dof, view.num_bodies) == (3, 2, 5)
    assert view.dof_names == ["shoulder", "elbow"]
    assert (view.get_dof_index("elbow"), view._body_indices["tip_1"]) == (1, 4)
    assert view.get_dof_limits().shape == (3, 2, 2)
    assert view.get_dof_limits()[2, 1].tolist() == [-2.0, 1.0]
    assert view.prim_paths == [f"/World/envs/env_{env}/Arm" for env in range(3)]


def test_actors_start_where_they_were_put_in_each_environment() -> None:
    positions, orientations = arm().get_world_poses()
    assert positions.tolist() == [[0, 1, 2], [10, 1, 2], [20, 1, 2]]
    assert orientations.tolist() == [[1, 0, 0, 0]] * 3
    assert arm().get_local_poses()[0].tolist() == [[0, 1, 2]] * 3


@pytest.mark.parametrize("indices", [torch.tensor([2, 0], dtype=torch.int32), [2, 0], np.array([2, 0])])
def test_rows_are_written_and_read_by_any_kind_of_index(indices: Any) -> None:
    view = arm()
    view.set_joint_positions(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), indices=indices)
    assert view.get_joint_positions().tolist() == [[3, 4], [0, 0], [1, 2]]
    assert view.get_joint_positions(indices=indices).tolist() == [[1, 2], [3, 4]]


QUANTITIES: list[tuple[str, str]] = [
    ("set_joint_positions", "get_joint_positions"),
    ("set_joint_velocities", "get_joint_velocities"),
    ("set_joint_efforts", "get_applied_joint_efforts"),
]


@pytest.mark.parametrize(("write", "read"), QUANTITIES)
def test_columns_are_written_and_read(write: str, read: str) -> None:
    view = arm()
    getattr(view, write)(torch.tensor([[5.0]]), indices=[1], joint_indices=torch.tensor([1]))
    assert getattr(view, read)().tolist() == [[0, 0], [0, 5], [0, 0]]
    assert getattr(view, read)(joint_indices=[1]).tolist() == [[0], [5], [0]]


def test_writing_positions_moves_the_targets_of_the_drives_with_them() -> None:
    view = arm()
    view.set_joint_positions(torch.full((3, 2), 0.5))
    assert (view._state.position_targets == 0.5).all()
    view.set_joint_position_targets(torch.tensor([[9.0, 9.0]]), indices=[0])
    assert view.get_joint_positions()[0].tolist() == [0.5, 0.5]
    assert view._state.position_targets[0].tolist() == [9, 9]


def test_gains_and_masses_are_kept() -> None:
    view = arm()
    view.set_gains(kps=torch.full((3, 2), 7.0), kds=torch.full((1, 2), 2.0), indices=None)
    assert view.get_gains()[0].tolist() == [[7, 7]] * 3
    assert view.get_gains()[1].tolist() == [[2, 2]] * 3
    view.set_body_masses(torch.tensor([[4.0]]), indices=[1], body_indices=[3])
    tips = RigidPrimView("/World/envs/.*/Arm/tip_.*")
    assert tips.get_masses().tolist() == [1, 1, 4, 1, 1, 1]
    tips.set_masses([8.0], indices=[5])
    assert view.get_body_masses()[2].tolist() == [1, 1, 1, 1, 8]


def test_an_expression_that_matches_two_bodies_has_two_rows_per_environment() -> None:
    view = RigidPrimView("/World/envs/.*/Arm/tip_.*", name="tips")
    assert view.count == 6
    assert view.get_world_poses()[0].shape == (6, 3)
    assert view.get_velocities().shape == (6, 6)
    assert view.get_net_contact_forces().shape == (6, 3)
    assert view.prim_paths[3] == "/World/envs/env_1/Arm/tip_1"
    view.apply_forces(torch.arange(6.0)[:, None].expand(6, 3))
    assert arm()._state.body_forces[:, 3:, 0].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_forces_add_up_until_the_next_step_and_positions_make_torques() -> None:
    view = RigidPrimView("/World/envs/.*/Ball/ball")
    view.apply_forces(torch.tensor([[0.0, 0, 1]]), indices=[1])
    view.apply_forces_and_torques_at_pos(
        torch.tensor([[0.0, 0, 2]]), torch.tensor([[5.0, 0, 0]]), torch.tensor([[11.0, 0, 1]]), indices=[1]
    )
    assert view._state.body_forces[:, 0].tolist() == [[0, 0, 0], [0, 0, 3], [0, 0, 0]]
    assert view._state.body_torques[1, 0].tolist() == [5, -2, 0]
    view._actor.step(0.01, torch.zeros(3))
    assert not view._state.body_forces.any()
    assert view.get_linear_velocities()[1].tolist() == pytest.approx([0, 0, 0.01])


def test_velocities_are_written_in_halves() -> None:
    view = RigidPrimView("/World/envs/.*/Ball/ball")
    view.set_linear_velocities(torch.ones(3, 3))
    view.set_angular_velocities(torch.full((1, 3), 2.0), indices=[2])
    assert view.get_velocities()[2].tolist() == [1, 1, 1, 2, 2, 2]
    assert view.get_angular_velocities()[0].tolist() == [0, 0, 0]
    assert view.get_masses().tolist() == [3, 3, 3]


def test_local_poses_are_seen_from_the_environment() -> None:
    view = XFormPrimView("/World/envs/env_.*/Ball/ball")
    view.set_local_poses(torch.tensor([[1.0, 1.0, 1.0]]), indices=[2])
    assert view.get_world_poses()[0][2].tolist() == [21, 1, 1]


def test_an_asset_is_an_object_until_a_robot_is_made_of_it() -> None:
    prims.add_reference_to_stage("/asset.usd", "/World/envs/env_0/thing")
    prims.XFormPrim("/World/envs/env_0/thing/body", translation=[0.0, 0.0, 3.0])
    assert RigidPrimView("/World/envs/.*/thing/body").get_world_poses()[0][1].tolist() == [10, 0, 3]
    prims.add_reference_to_stage("/ant.usd", "/World/envs/env_0/Ant")
    prims.Robot("/World/envs/env_0/Ant")
    assert ArticulationView("/World/envs/.*/Ant/torso").num_dof == 1


def robot_without_dynamics() -> Any:
    prims.Robot("/World/envs/env_0/Walker")
    return ArticulationView("/World/envs/.*/Walker")


def two_objects() -> Any:
    prims.DynamicCuboid("/World/envs/env_0/props/prop_0")
    prims.DynamicCuboid("/World/envs/env_0/props/prop_1")
    return RigidPrimView("/World/envs/.*/props/prop_.*")


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (
            robot_without_dynamics,
            LookupError,
            r"no dynamics is known for 'Walker' .*install\(dynamics=\{'Walker': Drive",
        ),
        (two_objects, NotImplementedError, "matches several objects, .*prop_0.*prop_1.*: make a view of each"),
        (lambda: RigidPrimView("/World/envs/.*/Nobody"), LookupError, "no robot and no object stands at .*Nobody'"),
        (lambda: RigidPrimView("/World/envs/.*/Arm/knee"), LookupError, "no body that matches .*'base', 'upper'"),
        (lambda: ArticulationView("/World/envs/.*/Ball/ball"), LookupError, "'ball' has no joints: give its dynamics"),
        (lambda: arm().get_dof_index("knee"), LookupError, "'Arm' has no joint 'knee': the dof_names .*'shoulder'"),
        (lambda: arm()._body_indices["knee"], LookupError, "'Arm' has no body 'knee': the body_names"),
        (lambda: arm().get_jacobians(), AttributeError, "ArticulationView.get_jacobians has no stand-in"),
        (
            lambda: RigidPrimView("/World/envs/.*/Arm/upper").set_velocities(torch.zeros(3, 6)),
            NotImplementedError,
            "set_velocities of .*only the root of 'Arm' can be moved, 'base'",
        ),
        (
            lambda: prims.Robot("/World/envs/env_0/Arm").get_jacobian(),
            AttributeError,
            "Robot.get_jacobian has no stand",
        ),
    ],
)
def test_what_is_missing_is_named(act: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        act()


def test_the_built_in_dynamics_need_not_be_given() -> None:
    omni.install()
    prims.Robot("/World/envs/env_0/Cartpole")
    assert ArticulationView("/World/envs/.*/Cartpole").dof_names == ["cartJoint", "poleJoint"]


def test_a_view_is_an_object_of_the_scene() -> None:
    scene = Scene()
    view = scene.add(arm())
    view.initialize(None)
    assert scene.get_object("arms") is view
