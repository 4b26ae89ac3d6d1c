"""The stage remembers what is written to it."""

from __future__ import annotations

from typing import Any

import pytest

from skrl_vec_envs.omni import usd
from skrl_vec_envs.omni.usd import Gf, PhysxSchema, UsdGeom, UsdPhysics


@pytest.fixture(autouse=True)
def stage() -> usd.Stage:
    return usd.new_stage()


def test_attributes_are_false_until_they_are_written(stage: usd.Stage) -> None:
    drive = UsdPhysics.DriveAPI.Apply(usd.get_prim_at_path("/robot/joint"), "angular")
    assert not drive.GetStiffnessAttr()
    drive.CreateStiffnessAttr(400.0)
    assert drive.GetStiffnessAttr()
    drive.GetStiffnessAttr().Set(500.0)
    again = UsdPhysics.DriveAPI.Get(stage, "/robot/joint", "angular")
    assert again.GetStiffnessAttr().Get() == 500.0
    assert not UsdPhysics.DriveAPI(usd.get_prim_at_path("/robot/joint"), "linear").GetStiffnessAttr()


def test_a_schema_is_there_once_it_is_applied() -> None:
    prim = usd.define_prim("/body")
    assert not prim.HasAPI(PhysxSchema.PhysxRigidBodyAPI)
    PhysxSchema.PhysxRigidBodyAPI.Apply(prim)
    assert prim.HasAPI(PhysxSchema.PhysxRigidBodyAPI)
    assert not prim.HasAPI(UsdPhysics.RigidBodyAPI)


def test_children_are_the_prims_that_were_defined_below() -> None:
    for path in ("/World", "/World/a", "/World/a/b", "/World/c"):
        usd.define_prim(path)
    usd.get_prim_at_path("/World/never_defined")
    assert [prim.GetPath() for prim in usd.get_prim_at_path("/World").GetChildren()] == ["/World/a", "/World/c"]
    assert usd.is_prim_path_valid("/World/a/b")
    assert not usd.is_prim_path_valid("/World/never_defined")
    usd.delete_prim("/World/a")
    assert [prim.GetName() for prim in usd.get_prim_children(usd.get_prim_at_path("/World"))] == ["c"]


def test_paths_are_matched_part_by_part() -> None:
    for path in ("/World/envs/env_0/Ant", "/World/envs/env_1/Ant", "/World/envs/env_1/Ant/torso"):
        usd.define_prim(path)
    found = usd.find_matching_prim_paths("/World/envs/.*/Ant")
    assert found == ["/World/envs/env_0/Ant", "/World/envs/env_1/Ant"]


def test_relations_hold_their_targets(stage: usd.Stage) -> None:
    joint = UsdPhysics.Joint.Define(stage, "/joint")
    joint.CreateBody0Rel().SetTargets(["/a"])
    assert joint.GetBody0Rel().GetTargets() == ["/a"]
    assert joint.GetPrim().GetTypeName() == "Joint"


def test_vectors_add_and_scale() -> None:
    assert tuple((Gf.Vec3d(1, 2, 3) + Gf.Vec3d(1, 1, 1)) * 2.0 - Gf.Vec3f(0, 0, 1)) == (4, 6, 7)
    assert tuple(-Gf.Vec3f([1, 2, 3])) == (-1, -2, -3)
    quat = Gf.Quatf(0.5, Gf.Vec3f(1, 2, 3))
    assert (quat.GetReal(), tuple(quat.GetImaginary())) == (0.5, (1, 2, 3))


def test_the_grid_is_centred_and_written_to_the_prims() -> None:
    cloner = usd.GridCloner(spacing=2.0)
    positions = cloner.clone("/World/envs/env_0", cloner.generate_paths("/World/envs/env", 4))
    assert positions.tolist() == [[-1, -1, 0], [-1, 1, 0], [1, -1, 0], [1, 1, 0]]
    assert usd.get_prim_property("/World/envs/env_3", "xformOp:translate") == (1, 1, 0)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda prim: UsdGeom.Xformable(prim).ComputeLocalToWorldTransform(0), "UsdGeom.Xformable.ComputeLocalToWorld"),
        (lambda prim: UsdGeom.lower_case, "UsdGeom.lower_case has no stand-in"),
    ],
)
def test_what_is_missing_is_named(use: Any, message: str) -> None:
    with pytest.raises(AttributeError, match=message):
        use(usd.get_prim_at_path("/prim"))
