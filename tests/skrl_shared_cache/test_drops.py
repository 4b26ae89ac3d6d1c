"""What changes a model as a whole, and what ends a pass that was kept."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn as nn

from skrl_shared_cache import SharedModel

from .support.lines import OBSERVATIONS, act, make_inputs, set_training
from .support.pairs import A, B, in_grad_mode, refusal, warm_twins
from .support.twins import Twins, TwoPass, assert_same, build, seeded_act
from .support.zoo import mlp, naive, observations, pattern
from .test_trunk_kinds import camera_and_body_pattern, named_method, shared_call

KINDS = {"naive": naive, "pattern": pattern, "named method": named_method, "self.shared": shared_call}
all_kinds = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
both_grad_modes = pytest.mark.parametrize("grad", [True, False], ids=["grad", "no grad"])


def pretend_to_broadcast(objects: list[Any], rank: int) -> None:
    """Stand in for the process of that rank, whose weights are others."""
    objects[0] = {name: 1.5 * tensor for name, tensor in objects[0].items()}


def broadcast(model: Any) -> None:
    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        context.setattr(torch.distributed, "broadcast_object_list", pretend_to_broadcast)
        model.broadcast_parameters(rank=0)


def load(model: Any, donor: Any, folder: Path) -> None:
    donor.save(str(folder / "model.pt"))
    training = model.training
    model.load(str(folder / "model.pt"))
    model.train(training)


CHANGES: dict[str, Callable[[Any, Any, Path], Any]] = {
    "load": load,
    "load_state_dict": lambda model, donor, _: model.load_state_dict(donor.state_dict()),
    "load_state_dict by assignment": lambda model, donor, _: model.load_state_dict(donor.state_dict(), assign=True),
    "update_parameters": lambda model, donor, _: model.update_parameters(donor),
    "update_parameters, polyak": lambda model, donor, _: model.update_parameters(donor, polyak=0.3),
    "broadcast_parameters": lambda model, donor, _: broadcast(model),
    "init_parameters": lambda model, donor, _: model.init_parameters("constant_", val=0.1),
    "init_weights": lambda model, donor, _: model.init_weights("constant_", val=0.1),
    "init_biases": lambda model, donor, _: model.init_biases("constant_", val=0.1),
    "to and back": lambda model, donor, _: model.to(torch.bfloat16).to(torch.float32),
    "half and float": lambda model, donor, _: model.half().float(),
    "apply": lambda model, donor, _: model.apply(lambda module: module.requires_grad_(False)),
}


@pytest.mark.parametrize("make", [naive, named_method])
@both_grad_modes
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_value_is_that_of_the_changed_model(make: Any, change: Any, grad: bool, tmp_path: Path) -> None:
    twins, donor = warm_twins(make), build(make, TwoPass, seed=5)
    with in_grad_mode(grad):
        refusal(twins, between=lambda: twins.each(lambda model: change(model, donor, tmp_path)))
        twins.pair(B)
        twins.pair(A)


class Scaled(nn.Module):
    """A trunk with a plain number in its state dict."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()
        self.scale = 1.0

    def get_extra_state(self) -> float:
        return self.scale

    def set_extra_state(self, state: float) -> None:
        self.scale = state

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.layers(x)
        return features * self.scale


def test_a_loaded_state_that_is_no_tensor_is_that_of_the_value() -> None:
    twins = warm_twins(partial(naive, trunk=Scaled))
    state = {"net._extra_state": 3.0}
    assert (
        refusal(twins, between=lambda: twins.each(lambda m: m.load_state_dict(state, strict=False))) == "state loaded"
    )


def freeze(model: Any) -> None:
    model.freeze_parameters(True)


def thaw(model: Any) -> None:
    model.freeze_parameters(False)


@all_kinds
@pytest.mark.parametrize(("first", "then"), [(thaw, freeze), (freeze, thaw)], ids=["freeze", "thaw"])
def test_gradients_are_those_of_a_model_that_was_frozen_or_thawed_between(make: Any, first: Any, then: Any) -> None:
    twins = warm_twins(make)
    twins.each(first)
    twins.act(A, "policy")
    twins.each(then)
    outputs = twins.act(A, "value")
    if then is thaw:
        for model, (values, _, _) in zip((twins.cached, twins.plain), outputs):
            model.zero_grad()
            values.sum().backward()
        twins.assert_same_gradients()


@all_kinds
@both_grad_modes
def test_the_precision_may_change_between_the_calls(make: Any, grad: bool) -> None:
    twins = warm_twins(make)
    with in_grad_mode(grad):
        twins.act(A, "policy")
        twins.each(lambda model: model.double())
        inputs = make_inputs(A[OBSERVATIONS].double())
        twins.act(inputs, "value")
        assert refusal(twins, make_inputs(observations(seed=8).double())) is None


@all_kinds
def test_training_and_evaluation_do_not_share_a_pass(make: Any) -> None:
    twins = warm_twins(make)
    for inputs, enabled in ((A, False), (B, True)):
        switch = partial(twins.each, partial(set_training, enabled=enabled))
        assert refusal(twins, inputs, between=switch) == "train/eval mode changed"


@pytest.mark.parametrize("switch", [lambda m: m.eval(), lambda m: m.train()], ids=["eval", "train"])
def test_a_switch_of_the_mode_to_what_it_is_drops_what_is_kept(switch: Callable[[Any], Any]) -> None:
    """skrl's agents switch after each update: a graph that was left over there must not outlive it."""
    twins = warm_twins()
    twins.each(switch)
    assert refusal(twins, between=lambda: twins.each(switch)) == "train/eval mode changed"


@all_kinds
def test_a_cleared_cache_is_asked_in_vain(make: Any) -> None:
    twins = warm_twins(make)
    assert refusal(twins, between=twins.cached.clear_cache) == "cleared"
    assert refusal(twins, B) is None


def write_past_torch(model: Any) -> None:
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.detach().numpy()[:] *= 2.0


@all_kinds
@both_grad_modes
def test_clear_cache_is_the_remedy_after_a_write_past_torch(make: Any, grad: bool) -> None:
    twins, x = warm_twins(make), observations(seed=4)
    array = x.numpy()

    def write_and_clear() -> None:
        array[:] *= 2.0
        twins.each(write_past_torch)
        twins.cached.clear_cache()

    with in_grad_mode(grad):
        assert refusal(twins, make_inputs(x), between=write_and_clear) == "cleared"


class Refusal(RuntimeError):
    """What a head raises."""


@all_kinds
@both_grad_modes
@pytest.mark.parametrize("where", ["trunk", "head"])
def test_an_exception_in_compute_ends_what_is_kept(make: Any, grad: bool, where: str) -> None:
    twins = warm_twins(make)

    def fail(*_: Any) -> None:
        raise Refusal

    with in_grad_mode(grad):
        for model in (twins.cached, twins.plain):
            broken = model.policy_head if where == "head" else (model.net if hasattr(model, "net") else model.second)
            handle = broken.register_forward_pre_hook(fail)
            with pytest.raises(Refusal):
                act(model, A, "policy")
            handle.remove()
        twins.act(A, "value")
        twins.act(B, "value")
        assert refusal(twins, A) is None


def test_an_exception_of_the_value_ends_what_the_policy_left() -> None:
    twins = warm_twins()
    twins.act(A, "policy")
    for model in (twins.cached, twins.plain):
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            act(model, make_inputs(torch.zeros(5, 4)), "value")
    twins.act(A, "value")
    assert twins.cached.cache_info().last_miss == "exception in compute"


def test_a_model_that_caught_its_own_exception_goes_on() -> None:
    def make(base: Any) -> Any:
        model = naive(base)

        class Careful(type(model)):  # type: ignore[misc]
            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                try:
                    result: tuple[Any, ...] = super().compute({OBSERVATIONS: inputs[OBSERVATIONS][:, :4]}, role)
                except RuntimeError:
                    result = super().compute(inputs, role)
                return result

        model.__class__ = Careful
        return model

    twins = Twins(make)
    for inputs in (A, B) * 4:
        twins.learn(inputs)


def load_copy(model: Any) -> Any:
    clone = build(naive, SharedModel, seed=7)
    clone.load_state_dict(model.state_dict())
    return clone


@both_grad_modes
@pytest.mark.parametrize("copy_of", [copy.deepcopy, load_copy], ids=["deepcopy", "state"])
def test_a_copy_gets_nothing_of_what_its_original_keeps(copy_of: Callable[[Any], Any], grad: bool) -> None:
    twins = warm_twins()
    with in_grad_mode(False):
        seeded_act(twins.cached, A, "policy")
    with in_grad_mode(grad):
        clone = copy_of(twins.cached)
        write_past_torch(clone)
        other = build(naive, TwoPass)
        other.load_state_dict(clone.state_dict())
        assert_same(act(clone, A, "value"), act(other, A, "value"))
        twins.act(A, "value")


# ------------------------------------------------------------------------------------------------------- optimizers


class Manual(torch.optim.Optimizer):
    """An optimizer of somebody else's, which writes through ``.data``: no version counter moves."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.data.sub_(group["lr"] * parameter.grad)


FORMS = {"for-loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
OPTIMIZERS: dict[str, Any] = {
    "SGD": torch.optim.SGD,
    "Adam": torch.optim.Adam,
    "AdamW": torch.optim.AdamW,
    "RMSprop": torch.optim.RMSprop,
}
STEPS: dict[str, Callable[[Any], Any]] = {
    f"{name}, {form}": partial(optimizer, lr=0.1, **flags)
    for name, optimizer in OPTIMIZERS.items()
    for form, flags in FORMS.items()
    if (name, form) != ("RMSprop", "fused")
}
STEPS["of somebody else's"] = partial(Manual, lr=0.1)


@pytest.mark.parametrize("make", [naive, named_method])
@pytest.mark.parametrize("optimizer", STEPS.values(), ids=STEPS)
def test_a_value_after_an_optimizer_step_is_that_of_the_new_parameters(make: Any, optimizer: Any) -> None:
    twins = warm_twins(make)
    optimizers = [optimizer(model.parameters()) for model in (twins.cached, twins.plain)]
    twins.learn(B)
    twins.copy_gradients()

    def step() -> None:
        for each in optimizers:
            each.step()

    with torch.no_grad():
        assert refusal(twins, between=step) == "parameters changed"
        assert refusal(twins, make_inputs(observations(seed=6))) is None


def test_a_step_of_another_models_optimizer_is_right_too() -> None:
    twins = warm_twins()
    other = build(naive, TwoPass, seed=3)
    other.compute(A, "value")[0].sum().backward()
    optimizer = torch.optim.Adam(other.parameters(), fused=True)
    refusal(twins, between=optimizer.step)


def test_an_optimizer_hook_of_the_users_own_finds_the_cache_empty() -> None:
    """It asks for a value as soon as the step is done."""
    twins = warm_twins()
    twins.learn(B)
    twins.copy_gradients()
    twins.act(A, "policy")
    for model in (twins.cached, twins.plain):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
        values: list[Any] = []
        optimizer.register_step_post_hook(lambda *_, m=model, v=values: v.append(m.compute(A, "value")[0]))
        optimizer.step()
        assert_same(values, [model.compute(A, "value")[0]])


def test_a_step_inside_compute_is_seen_by_the_role_after_it() -> None:
    """A policy that adapts its trunk before it acts."""

    def make(base: Any) -> Any:
        model = naive(base)

        class Adapting(type(model)):  # type: ignore[misc]
            optimizer: Any = None

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                result: tuple[Any, ...] = super().compute(inputs, role)
                if role == "policy" and self.optimizer is not None:
                    self.optimizer.step()
                return result

        model.__class__ = Adapting
        return model

    twins = warm_twins(make)
    twins.learn(B)
    twins.copy_gradients()
    for model in (twins.cached, twins.plain):
        model.__dict__["optimizer"] = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    with torch.no_grad():
        assert refusal(twins) == "parameters changed"


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_a_step_inside_the_trunk_spoils_what_it_returns_for_the_other_role(optimizer: Any) -> None:
    """A pass that a step interrupts is not kept: half of it used the old weights."""

    class Stepping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(6, 16), nn.Linear(16, 16)
            self.step: list[Any] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            features = self.first(x)
            for step in self.step:
                step()
            result: torch.Tensor = self.second(features)
            return result

    def make(base: Any) -> Any:
        return naive(base, trunk=Stepping)

    twins = warm_twins(make)
    twins.learn(B)
    twins.copy_gradients()
    for model in (twins.cached, twins.plain):
        model.net.step.append(optimizer(model.parameters(), lr=0.1, fused=True).step)
    with torch.no_grad():  # one model after the other: any step drops what any model keeps
        cached, plain = ([seeded_act(m, A, role) for role in ("policy", "value")] for m in (twins.cached, twins.plain))
    assert_same(cached, plain)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@both_grad_modes
def test_an_offered_shared_output_is_that_of_the_changed_model(change: Any, grad: bool, tmp_path: Path) -> None:
    """Where glue between two networks makes the model offer its last features to the next role."""
    a, b = (make_inputs(observations(seed=seed, size=132)) for seed in (1, 2))
    twins, donor = warm_twins(camera_and_body_pattern, a), build(camera_and_body_pattern, TwoPass, seed=5)
    with in_grad_mode(grad):
        refusal(twins, a, between=lambda: twins.each(lambda model: change(model, donor, tmp_path)))
        twins.pair(b)
