"""Bad input: an error at the first use that says the rule, the value received and the fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn as nn

from skrl_shared_cache import SharedModel
from skrl_shared_cache.requirements import check_requirements

from .support.lines import OBSERVATIONS, ActorCritic, act
from .support.pairs import A, B
from .support.twins import build
from .support.zoo import FEATURES, mlp, naive


def naming(names: Any) -> Callable[[], Any]:
    """Return the class of a model with these ``shared_modules``."""

    class Naming(ActorCritic, SharedModel):
        shared_modules = names

        def __init__(self) -> None:
            ActorCritic.__init__(self, SharedModel)
            self.net = mlp()
            self.number = 5
            self.add_heads(FEATURES)

        def trunk(self, x: torch.Tensor) -> torch.Tensor:
            return torch.as_tensor(self.net(x))

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(self.trunk(inputs[OBSERVATIONS]), role, inputs)

    return Naming


@pytest.mark.parametrize("names", [("net",), ("net.0", "net.2"), ("trunk",), ["net"], ()], ids=str)
def test_names_of_children_submodules_and_methods_are_accepted(names: Any) -> None:
    model = naming(names)()
    for role in ("policy", "value"):
        act(model, A, role)


MISNAMED: dict[str, tuple[Any, type[Exception], str]] = {
    "not there": (
        ("nett",),
        AttributeError,
        r"Naming.shared_modules names 'nett', which the model does not have\. Its child modules: 'net', 'policy_head', "
        r"'value_head'\. Name a child, a submodule \(dotted\) or a method",
    ),
    "submodule not there": (("net.7",), AttributeError, r"names 'net\.7', which the model does not have"),
    "no module": (("number",), TypeError, r"names 'number', which is of type int: name a child module, a submodule"),
    "a parameter": (("log_std",), TypeError, r"names 'log_std', which is of type Parameter: name a child module"),
    "part of a parameter": (("net.0.weight",), TypeError, r"names 'net\.0\.weight', which is of type Parameter"),
    "a string": ("net", TypeError, r"Naming.shared_modules must be a tuple of names, such as \(\"net\",\), not 'net'"),
    "a module": ((mlp(),), TypeError, r"must be a tuple of names, such as \(\"net\",\), not \(Sequential"),
    "None": (None, TypeError, r"must be a tuple of names, such as \(\"net\",\), not None"),
    "compute": (
        ("compute",),
        TypeError,
        r"names 'compute', which answers each role differently: name what is the same",
    ),
    "act": (("act",), TypeError, r"names 'act', which answers each role differently"),
    "forward": (("forward",), TypeError, r"names 'forward', which answers each role differently"),
    "the model": (("",), TypeError, r"names '', which answers each role differently"),
}


@pytest.mark.parametrize(("names", "error", "match"), MISNAMED.values(), ids=MISNAMED)
def test_a_wrong_name_is_an_error_at_the_first_use(names: Any, error: type[Exception], match: str) -> None:
    """And not when the class is made: a mixin may name what its subclasses build."""
    model = naming(names)()
    for _ in range(2):
        with pytest.raises(error, match=match):
            act(model, A, "policy")


def test_a_wrong_name_is_no_error_where_the_cache_is_off() -> None:
    model = naming(("nett",))()
    model.shared_cache_mode = "off"
    act(model, A, "policy")


class WithoutCompute(ActorCritic, SharedModel):
    """An abstract class in between."""

    def __init__(self) -> None:
        ActorCritic.__init__(self, SharedModel)
        self.net = mlp()
        self.add_heads(FEATURES)


def test_a_compute_that_is_defined_nowhere_is_an_error_at_the_first_use() -> None:
    model = WithoutCompute()
    with pytest.raises(NotImplementedError, match=r"WithoutCompute must define compute\(self, inputs, role\): neither"):
        act(model, A, "policy")


def test_a_compute_that_comes_after_the_base_class_is_an_error() -> None:
    """Listed in the wrong order: the base class hides it, as skrl's does."""

    class Trunk:
        def compute(self, inputs: Any, role: str = "") -> Any:
            return None

    class WrongOrder(WithoutCompute, Trunk):
        pass

    with pytest.raises(NotImplementedError, match=r"inherits from \(before SharedModel\)"):
        WrongOrder().compute(A, "policy")


def test_an_abstract_class_in_between_may_be_completed() -> None:
    class Complete(WithoutCompute):
        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)

    model = Complete()
    for inputs in (A, B) * 3:
        for role in ("policy", "value"):
            act(model, inputs, role)
    assert model.cache_info().hits > 0


def test_a_compute_that_is_put_into_the_class_later_is_cached() -> None:
    class Late(WithoutCompute):
        pass

    Late.compute = lambda self, inputs, role="": self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)  # type: ignore[method-assign, misc]
    model = Late()
    for inputs in (A, B) * 3:
        for role in ("policy", "value"):
            act(model, inputs, role)
    assert model.cache_info().hits > 0


def reading(role_that_reads: str, use: Callable[[Any, Any], Any]) -> Any:
    """Return a model of which one role reads ``_shared_output`` without a thought of None."""

    class Reading(ActorCritic, SharedModel):
        def __init__(self) -> None:
            ActorCritic.__init__(self, SharedModel)
            self.net = mlp()
            self.add_heads(FEATURES)
            self._shared_output: Any = None

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            if role == role_that_reads:
                return self.answer(use(self, self._shared_output), role, inputs)
            self._shared_output = self.net(inputs[OBSERVATIONS])
            return self.answer(self._shared_output, role, inputs)

    return Reading()


USES: dict[str, Callable[[Any, Any], Any]] = {
    "into a head": lambda model, features: features,
    "method": lambda model, features: features.tanh(),
    "operator": lambda model, features: 2.0 * features,
    "index": lambda model, features: features[:],
    "function": lambda model, features: torch.tanh(features),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_features_that_are_read_and_never_computed_are_an_error_that_says_what_to_write(use: Any) -> None:
    model = reading("value", use)
    act(model, A, "policy")
    with pytest.raises(
        (TypeError, AttributeError),
        match=r"Reading\.compute\(role='value'\) failed on a None, and has read `_shared_output`, which is None here\. "
        r".*every role must be able to compute them: write `features = self\.net\(\.\.\.\) if self\._shared_output is",
    ) as error:
        act(model, A, "value")
    assert type(error.value.__cause__) is type(error.value)


def test_another_error_of_a_model_that_has_computed_its_features_is_its_own() -> None:
    def fail(model: Any, features: Any) -> Any:
        model._shared_output = model.net(A[OBSERVATIONS])
        return None + model._shared_output

    model = reading("value", fail)
    with pytest.raises(TypeError, match="unsupported operand"):
        act(model, A, "value")


@pytest.mark.parametrize("value", ["yes", "ON", "0", "verify ", "of"])
def test_an_unknown_mode_in_the_environment_is_an_error_when_a_model_is_built(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKRL_SHARED_CACHE", value)
    with pytest.raises(
        ValueError,
        match=f"the environment variable SKRL_SHARED_CACHE must be one of 'on', 'off', 'verify', not '{value}'",
    ):
        build(naive, SharedModel)


@pytest.mark.parametrize("value", ["yes", "", True, False, 1])
@pytest.mark.parametrize("on_class", [True, False], ids=["class", "instance"])
def test_an_unknown_mode_in_an_attribute_is_an_error_at_the_first_use(value: Any, on_class: bool) -> None:
    model = build(naive, type("Base", (SharedModel,), {"shared_cache_mode": value} if on_class else {}))
    if not on_class:
        model.shared_cache_mode = value
    with pytest.raises(
        ValueError, match=rf"Naive\.shared_cache_mode must be one of 'on', 'off', 'verify', not {value!r}"
    ):
        act(model, A, "policy")


@pytest.mark.parametrize("skrl", ["0.9", "1.4.2", "3.0.0", "3.0.0rc1", "4.0"])
def test_an_unsupported_skrl_is_an_error_that_names_the_one_to_install(skrl: str) -> None:
    with pytest.raises(
        ImportError, match=rf"needs skrl >= 1\.4\.3 and < 3, found {skrl}: pip install 'skrl>=1\.4\.3,<3'"
    ):
        check_requirements(skrl, "2.4.0")


@pytest.mark.parametrize("version", ["1.13.1", "2.3.1+cu121"])
def test_an_unsupported_torch_is_an_error_that_names_the_one_to_install(version: str) -> None:
    with pytest.raises(ImportError, match=r"needs torch >= 2\.4, found .*: pip install 'torch>=2\.4'"):
        check_requirements("2.0.0", version)


@pytest.mark.parametrize("skrl", ["1.4.3", "1.5.0", "2.0.0", "2.1.1", "2.99"])
@pytest.mark.parametrize("version", ["2.4.0", "2.4.0a0+git12345", "2.13.0+cpu", "2.13.0+cu126", "3.0"])
def test_supported_versions_are_accepted(skrl: str, version: str) -> None:
    check_requirements(skrl, version)


def test_self_shared_of_what_is_no_function_is_pythons_own_error() -> None:
    class Wrong(ActorCritic, SharedModel):
        def __init__(self) -> None:
            ActorCritic.__init__(self, SharedModel)
            self.net = nn.Linear(6, FEATURES)
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(self.shared(self.net(inputs[OBSERVATIONS])), role, inputs)

    with pytest.raises(TypeError, match="'Tensor' object is not callable"):
        act(Wrong(), A, "policy")
