"""What a user installs: the wheel, its files and its metadata."""

from __future__ import annotations

import zipfile
from email import message_from_bytes
from email.message import Message
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from .processes import python

ROOT = Path(__file__).parents[1]
PACKAGES = {"skrl_shared_cache": ROOT / "skrl_shared_cache", "skrl_vec_envs": ROOT / "envs" / "skrl_vec_envs"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel built from the sdist, so that a file missing from either is missed."""
    pytest.importorskip("build", reason="needs the extra 'test'")
    folder = tmp_path_factory.mktemp("dist")
    python("-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT))
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def test_the_wheel_holds_the_modules_of_both_packages_and_nothing_else(files: set[str]) -> None:
    modules = {path.relative_to(folder.parent) for folder in PACKAGES.values() for path in folder.rglob("*.py")}
    expected = {module.as_posix() for module in modules} | {f"{package}/py.typed" for package in PACKAGES}
    assert {file for file in files if ".dist-info/" not in file} == expected


def test_the_unpacked_wheel_imports_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    for package in PACKAGES:
        origin = python("-c", f"import {package}; print({package}.__file__)", cwd=tmp_path).strip()
        assert Path(origin) == tmp_path / package / "__init__.py"


def test_the_editable_install_finds_both_packages_in_the_checkout(tmp_path: Path) -> None:
    try:
        distribution("skrl-shared-cache")
    except PackageNotFoundError:
        pytest.skip("the project is not installed in this environment")
    for package, folder in PACKAGES.items():
        find = f"from importlib.util import find_spec; print(find_spec('{package}').origin)"
        assert Path(python("-I", "-c", find, cwd=tmp_path).strip()) == folder / "__init__.py"


def test_only_skrl_and_torch_are_required(metadata: Message) -> None:
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert sorted(required) == ["skrl<3,>=1.4.3", "torch>=2.4"]
    assert metadata["Requires-Python"] == ">=3.10"


def test_the_extras_are_those_that_the_readme_names(metadata: Message) -> None:
    assert {"envs", "plots", "dev"} <= set(metadata.get_all("Provides-Extra", []))
