"""What importing a package must not bring in, seen in a fresh interpreter."""

from __future__ import annotations

import sys

import pytest

from .processes import python

OPTIONAL = {"matplotlib", "numba", "rl_games"}


def loaded_after(*modules: str) -> set[str]:
    """Return the names in ``sys.modules`` of a new interpreter that imports these modules."""
    imports = "".join(f"import {module}\n" for module in modules)
    return set(python("-c", f"import sys\nsys.path[:] = {sys.path!r}\n{imports}print(*sys.modules, sep='\\n')").split())


def packages(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def test_the_core_imports_only_torch_and_skrl_and_what_these_import() -> None:
    loaded = loaded_after("skrl_shared_cache")
    hosts = sorted(module for module in loaded if module.startswith(("skrl.", "torch.")))
    new = packages(loaded - loaded_after("torch", "skrl", *hosts))
    assert new - sys.stdlib_module_names == {"skrl_shared_cache"}


@pytest.mark.parametrize("module", ["skrl_shared_cache", "skrl_vec_envs.snake", "skrl_vec_envs.views.skrl"])
def test_importing_a_package_imports_no_optional_dependency(module: str) -> None:
    assert not packages(loaded_after(module)) & OPTIONAL
