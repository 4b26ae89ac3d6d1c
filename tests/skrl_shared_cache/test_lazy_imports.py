"""What the package imports only when it is asked for, since it brings in skrl's agents and trainers."""

from __future__ import annotations

import sys

import pytest

import skrl_shared_cache

from ..processes import python

LAZY = ("Runner", "check_agent", "shared_model", "use")
HEAVY = ("skrl.utils.runner", "skrl.agents", "skrl.multi_agents", "skrl.trainers", "skrl.utils.model_instantiators")


def loaded_after(statement: str) -> set[str]:
    """Return the names in ``sys.modules`` of a new interpreter that runs this statement."""
    code = f"import sys\nsys.path[:] = {sys.path!r}\n{statement}\nprint(*sys.modules, sep='\\n')"
    return set(python("-c", code).split())


def test_the_package_imports_no_runner_agent_trainer_or_instantiator_of_skrl() -> None:
    assert not loaded_after("import skrl_shared_cache") & set(HEAVY)


def test_the_instantiator_imports_no_runner_and_no_agent() -> None:
    loaded = loaded_after("from skrl_shared_cache import shared_model, check_agent")
    assert "skrl.utils.model_instantiators" in loaded
    assert not loaded & {"skrl.utils.runner", "skrl.agents", "skrl.trainers"}


@pytest.mark.parametrize("name", LAZY)
def test_what_is_imported_late_is_named_and_found(name: str) -> None:
    assert name in skrl_shared_cache.__all__
    assert getattr(skrl_shared_cache, name).__module__.startswith("skrl_shared_cache.")


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'skrl_shared_cache' has no attribute 'Runer'"):
        _ = skrl_shared_cache.Runer
