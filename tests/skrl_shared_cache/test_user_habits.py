"""What users do with their models, and what a cache must therefore not disturb."""

from __future__ import annotations

import copy
import random
import warnings
from typing import Any

import pytest
import torch
import torch.nn as nn

from skrl_shared_cache import SharedCacheWarning, SharedModel, cached_preprocessor

from .support.lines import OBSERVATIONS, ActorCritic, act, make_inputs
from .support.twins import Twins, assert_close_gradients, assert_same, build, gradients
from .support.zoo import FEATURES, mlp, naive, observations

A, B = make_inputs(observations(seed=1)), make_inputs(observations(seed=2))


def with_features(base: Any, change: Any) -> Any:
    """A naive model that does something to the features before its head sees them."""

    class WithFeatures(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            features = self.net(inputs[OBSERVATIONS])
            return self.answer(change(features, role), role, inputs)

    return WithFeatures()


def act_often(model: Any) -> None:
    for _ in range(30):
        for role in ("policy", "value"):
            act(model, A, role)


def scale_gradient(features: torch.Tensor, role: str) -> torch.Tensor:
    if role == "value" and features.requires_grad:
        features.register_hook(lambda gradient: 0.1 * gradient)
    return features


def scale_policy_gradient(features: torch.Tensor, role: str) -> torch.Tensor:
    if role == "policy" and features.requires_grad:
        features.register_hook(lambda gradient: 0.1 * gradient)
    return features


def detach_in_place(features: torch.Tensor, role: str) -> torch.Tensor:
    return features.detach_() if role == "value" and features.requires_grad else features


@pytest.mark.filterwarnings("ignore::skrl_shared_cache.SharedCacheWarning")
@pytest.mark.parametrize("change", [scale_gradient, scale_policy_gradient, detach_in_place])
def test_what_a_role_does_to_the_gradient_of_its_features_concerns_that_role_alone(change: Any) -> None:
    twins = Twins(lambda base: with_features(base, change))
    for seed in range(8):
        twins.learn(make_inputs(observations(seed=seed)))


def test_a_first_value_at_class_level_does_not_make_the_pattern_unsafe() -> None:
    class Pattern(ActorCritic, SharedModel):
        _shared_output: Any = None

        def __init__(self) -> None:
            ActorCritic.__init__(self, SharedModel)
            self.net = mlp()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            if role == "policy":
                self._shared_output = self.net(inputs[OBSERVATIONS])
                return self.answer(self._shared_output, role, inputs)
            features = self.net(inputs[OBSERVATIONS]) if self._shared_output is None else self._shared_output
            return self.answer(features, role, inputs)

    model = Pattern()
    model.act(A, role="policy")
    value = act(model, B, "value")[0]
    assert_same(value, model.value_head(model.net(B[OBSERVATIONS])))


def test_features_that_compute_returns_lie_on_the_path_of_the_loss() -> None:
    class Returns(ActorCritic, SharedModel):
        def __init__(self) -> None:
            ActorCritic.__init__(self, SharedModel)
            self.net = mlp()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            features = self.net(inputs[OBSERVATIONS])
            return self.answer(features, role, inputs, trunk=features)

    model = Returns()
    for seed in range(8):
        inputs = make_inputs(observations(seed=seed))
        for role in ("policy", "value"):
            actions, _, outputs = act(model, inputs, role)
            (gradient,) = torch.autograd.grad(actions.sum(), outputs["trunk"], retain_graph=True)
            assert gradient.abs().sum() > 0
        model.zero_grad()


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
def test_a_hook_on_a_layer_that_comes_between_two_calls_is_called(register: str) -> None:
    twins = Twins(naive)
    twins.warm(A)
    twins.act(B, "policy")
    twins.each(lambda model: getattr(model.net[2], register)(lambda module, *values: _doubled(values[-1])))
    twins.act(B, "value")


def _doubled(value: Any) -> Any:
    return tuple(2 * each for each in value) if isinstance(value, tuple) else 2 * value


def test_a_trunk_that_writes_into_its_dictionary_runs_each_time() -> None:
    class Embedding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = mlp()

        def forward(self, nest: dict[str, torch.Tensor]) -> torch.Tensor:
            nest["embedding"] = self.layers(nest["x"])
            return nest["embedding"]

    class WritesIntoNest(ActorCritic, SharedModel):
        def __init__(self) -> None:
            ActorCritic.__init__(self, SharedModel)
            self.net = Embedding()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            nest = {"x": inputs[OBSERVATIONS]}
            self.net(nest)
            return self.answer(nest["embedding"], role, inputs)

    model = WritesIntoNest()
    for seed in range(8):
        for role in ("policy", "value"):
            act(model, make_inputs(observations(seed=seed)), role)
    assert model.cache_info().hits == 0


def test_modules_that_are_made_at_each_call_leave_nothing_behind() -> None:
    class MadeAnew(ActorCritic, SharedModel):
        def __init__(self) -> None:
            ActorCritic.__init__(self, SharedModel)
            self.first, self.second = nn.Linear(6, 8), nn.Linear(8, FEATURES)
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            trunk = nn.Sequential(self.first, self.second)
            return self.answer(self.shared(trunk.forward, inputs[OBSERVATIONS]), role, inputs)

    model = MadeAnew()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SharedCacheWarning)
        for _ in range(40):
            for role in ("policy", "value"):
                act(model, A, role)
    assert len(model._shared_cache._functions) <= 1
    assert "function differs" in str(model.cache_info().last_miss)


def test_an_error_about_none_keeps_its_type() -> None:
    class Fails(ActorCritic, SharedModel):
        def __init__(self) -> None:
            ActorCritic.__init__(self, SharedModel)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            features: tuple[Any, ...] = self._shared_output + 1
            return features

    with pytest.raises(TypeError, match="has read `_shared_output`, which is None here"):
        Fails().act(A, role="value")


def test_a_shallow_copy_has_a_cache_of_its_own() -> None:
    model = build(naive, SharedModel)
    for _ in range(4):
        for role in ("policy", "value"):
            act(model, A, role)
    other = copy.copy(model)
    act(other, A, "policy")
    assert other.cache_info() != model.cache_info()


def test_a_trunk_that_differs_by_role_and_draws_python_numbers_is_found_out() -> None:
    class Drawn(nn.Linear):
        role = "policy"

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * (100.0 if self.role == "value" else 1.0) + 1e-3 * random.random()

    class ByRole(ActorCritic, SharedModel):
        def __init__(self) -> None:
            ActorCritic.__init__(self, SharedModel)
            self.net = Drawn(6, FEATURES)
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            self.net.role = role
            return self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)

    model = build(lambda base: ByRole(), SharedModel)
    with pytest.warns(SharedCacheWarning, match="leaves `net` alone"):
        act_often(model)


def test_a_preprocessed_tensor_can_be_saved_and_loaded(tmp_path: Any) -> None:
    class Scaler(nn.Module):
        def forward(self, x: torch.Tensor, train: bool = False) -> torch.Tensor:
            return x * 2

    output = cached_preprocessor(Scaler)()(torch.ones(2))
    torch.save(output, tmp_path / "x.pt")
    assert_same(torch.load(tmp_path / "x.pt"), output)


def test_a_warning_points_at_the_line_that_called_the_model() -> None:
    model = build(lambda base: with_features(base, lambda features, role: features.mul_(2.0)), SharedModel)
    with torch.no_grad(), pytest.warns(SharedCacheWarning) as caught:
        act_often(model)
    assert all(not warning.filename.endswith(("memo.py", "session.py", "model_cache.py")) for warning in caught)


def test_gradients_of_one_role_alone_are_those_of_the_plain_model() -> None:
    twins = Twins(naive)
    twins.warm(A)
    for model in (twins.cached, twins.plain):
        act(model, B, "policy")
        act(model, B, "value")[0].sum().backward()
    assert_close_gradients(gradients(twins.cached), gradients(twins.plain))
