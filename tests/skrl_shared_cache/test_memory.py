"""What is kept alive, and that models and weights die without the garbage collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn as nn
from skrl.models.torch import Model

from skrl_shared_cache import SharedModel

from .support.agents import make_agent, train
from .support.drift import DriftEnv, DriftWrapper
from .support.lines import OBSERVATIONS, ActorCritic, make_inputs
from .support.pairs import in_grad_mode
from .support.twins import build
from .support.zoo import FEATURES, OBSERVATION_SIZE, generated, mlp, naive, observations, pattern
from .test_modes import in_a_thread
from .test_trunk_kinds import (
    camera_and_body_pattern,
    named_child,
    named_method,
    one_activation,
    shared_call,
    three_roles,
)

KINDS = {
    "naive": naive,
    "pattern": pattern,
    "generated": generated,
    "named child": named_child,
    "named method": named_method,
    "self.shared": shared_call,
    "one activation": one_activation,
    "offered features": camera_and_body_pattern,
    "three roles": three_roles,
}
both_grad_modes = pytest.mark.parametrize("grad", [True, False], ids=["grad", "no grad"])


def batch(make: Any, seed: int) -> dict[str, Any]:
    return make_inputs(observations(seed=seed, size=132 if make is camera_and_body_pattern else OBSERVATION_SIZE))


def run_pairs(model: Any, make: Any = naive, pairs: int = 6) -> None:
    """Run pairs in both grad modes and leave a policy's pass without its value's, in both."""
    for grad in (True, False):
        with in_grad_mode(grad):
            for seed in range(pairs):
                for role in ("policy", "value"):
                    model.compute(batch(make, seed), role)
            model.compute(batch(make, pairs), "policy")


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Switch the garbage collector off: reference counts alone must do."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("mode", ["on", "verify", "off"])
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_model_and_its_weights_die_without_the_garbage_collector(make: Any, mode: str) -> None:
    model = build(make, type("Base", (SharedModel,), {"shared_cache_mode": mode}))
    run_pairs(model, make)
    dead = [weakref.ref(each) for each in (model, *model.children(), *model.parameters())]
    del model
    assert [reference() for reference in dead] == [None] * len(dead)


@pytest.mark.usefixtures("no_collector")
def test_a_model_dies_with_a_function_of_its_own_and_a_bound_method_of_its_trunk() -> None:
    """``self.shared`` with what refers back to the model."""

    class Shared(ActorCritic, SharedModel):
        def __init__(self) -> None:
            ActorCritic.__init__(self, SharedModel)
            self.net = mlp()
            self.add_heads(FEATURES)
            self.function = lambda x: x + 1.0

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            x = self.shared(self.function, inputs[OBSERVATIONS])
            features = self.shared(self.net.forward, x)
            return self.answer(self.shared(torch.tanh, features), role, inputs)

    model = Shared()
    run_pairs(model)
    assert model.cache_info().hits > 0
    dead = [weakref.ref(each) for each in (model, model.net, model.net[0].weight)]
    del model
    assert [reference() for reference in dead] == [None] * 3


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("survivor", [0, 1])
def test_of_two_models_with_one_trunk_each_may_die(survivor: int) -> None:
    trunk = mlp()
    models = [build(lambda base: naive(base, trunk=lambda: trunk), SharedModel) for _ in range(2)]
    for seed in range(6):
        for model, role in zip(models, ("policy", "value")):
            model.compute(batch(naive, seed), role)
    dead = weakref.ref(models[1 - survivor])
    models = [models[survivor]]
    del model
    assert dead() is None
    run_pairs(models[0])


@pytest.mark.usefixtures("no_collector")
def test_a_replaced_trunk_dies_at_the_next_call() -> None:
    model = build(naive, SharedModel)
    run_pairs(model)
    dead = [weakref.ref(model.net), weakref.ref(model.net[0].weight)]
    model.net = mlp()
    model.compute(batch(naive, 0), "policy")
    assert [reference() for reference in dead] == [None] * 2


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("end", [lambda model: model.double(), lambda model: model.to(torch.bfloat16)])
def test_the_memory_of_the_old_weights_is_free_when_a_model_changes_its_precision(end: Any) -> None:
    model = build(naive, SharedModel)
    run_pairs(model)
    dead = [weakref.ref(parameter.untyped_storage()) for parameter in model.parameters()]
    end(model)
    assert [reference() for reference in dead] == [None] * len(dead)


@pytest.mark.usefixtures("no_collector")
def test_an_agent_and_its_model_die_as_they_do_without_the_cache() -> None:
    survivors = []
    for base in (SharedModel, Model):
        env = DriftWrapper(DriftEnv())
        model = build(pattern, base)
        agent = make_agent("PPO", model, env)
        train(agent, env, updates=2)
        dead = weakref.ref(model.net[0].weight)
        del agent, model
        survivors.append(dead() is not None)
    assert survivors[0] <= survivors[1]


saved: list[weakref.ref[torch.Tensor]] = []
"""What :class:`Activation` has saved."""


class Activation(torch.autograd.Function):
    """Doubles, and saves a tensor of its own for the backward, which lives as long as the graph is of use."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        activation = x.clone()
        ctx.save_for_backward(activation)
        saved.append(weakref.ref(activation))
        return 2.0 * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        assert len(ctx.saved_tensors) == 1
        return 2.0 * grad


class Watched(nn.Module):
    """A trunk whose features and activations can be seen to die."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Linear(OBSERVATION_SIZE, FEATURES)
        self.features: list[weakref.ref[torch.Tensor]] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = Activation.apply(self.layers(x))  # type: ignore[no-untyped-call]
        self.features.append(weakref.ref(features))
        return features


def alive(references: list[weakref.ref[torch.Tensor]]) -> int:
    return sum(reference() is not None for reference in references)


def watched_model(make: Any = naive) -> Any:
    model = build(lambda base: make(base, trunk=Watched), SharedModel)
    run_pairs(model)
    model.clear_cache()
    saved.clear()
    model.net.features.clear()
    return model


watched_kinds = pytest.mark.parametrize("make", [naive, pattern])


@watched_kinds
@pytest.mark.usefixtures("no_collector")
def test_after_an_update_nothing_of_the_graph_lives(make: Any) -> None:
    model = watched_model(make)
    optimizer = torch.optim.Adam(model.parameters())
    for seed in range(3):
        loss = sum((model.compute(batch(make, seed), role)[0] ** 2).sum() for role in ("policy", "value"))
        assert alive(saved) == 1
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        del loss
    assert (alive(saved), alive(model.net.features)) == (0, 0)


@watched_kinds
@pytest.mark.usefixtures("no_collector")
def test_after_an_update_that_broke_off_and_the_switch_to_evaluation_nothing_of_the_graph_lives(make: Any) -> None:
    """PPO leaves its minibatch loop between policy and value; skrl's agents then switch the mode."""
    model = watched_model(make)
    model.compute(batch(make, 0), "policy")
    assert alive(saved) == 1
    model.eval()
    assert (alive(saved), alive(model.net.features)) == (0, 0)


ENDS: dict[str, Callable[[Any], Any]] = {
    "clear_cache": lambda model: model.clear_cache(),
    "to": lambda model: model.to("cpu"),
    "double": lambda model: model.double(),
    "update_parameters": lambda model: model.update_parameters(build(naive, SharedModel)),
    "a backward": lambda model: model.compute(batch(naive, 1), "policy")[0].sum().backward(),
    "a step": lambda model: torch.optim.SGD(model.parameters(), lr=0.1).step(),
    "the next policy call": lambda model: model.compute(batch(naive, 1), "policy") and None,
}


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_pass_that_nobody_asked_for_dies(end: Any) -> None:
    model = build(lambda base: naive(base, trunk=WatchedMlp), SharedModel)
    run_pairs(model)
    saved.clear()
    model.compute(batch(naive, 0), "policy")
    assert alive(saved) == 1
    end(model)
    assert saved[0]() is None


class WatchedMlp(nn.Sequential):
    """The zoo's trunk, whose activations can be seen to die."""

    def __init__(self) -> None:
        super().__init__(*mlp())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = Activation.apply(super().forward(x))  # type: ignore[no-untyped-call]
        return features


@watched_kinds
@both_grad_modes
@pytest.mark.usefixtures("no_collector")
def test_a_rollout_keeps_one_batch_of_features_at_most_and_none_after_a_pair(make: Any, grad: bool) -> None:
    model = watched_model(make)
    with in_grad_mode(grad):
        for seed in range(10):
            model.compute(batch(make, seed), "policy")
            assert alive(model.net.features) == 1
            model.compute(batch(make, seed), "value")
            assert alive(model.net.features) == 0
        for seed in range(10):
            model.compute(batch(make, seed), "policy")
            assert alive(model.net.features) == 1


@pytest.mark.usefixtures("no_collector")
def test_nothing_of_what_lies_within_a_memoized_method_is_kept_after_a_pair() -> None:
    def make(base: Any, trunk: Any) -> Any:
        class Method(ActorCritic, base):
            shared_modules = ("features",)

            def __init__(self) -> None:
                ActorCritic.__init__(self, base)
                self.net = trunk()
                self.add_heads(FEATURES)

            def features(self, inputs: torch.Tensor) -> torch.Tensor:
                return torch.tanh(self.net(inputs))

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                return self.answer(self.features(inputs[OBSERVATIONS]), role, inputs)

        return Method()

    model = build(lambda base: make(base, Watched), SharedModel)
    with torch.no_grad():
        for seed, role in enumerate(("policy", "value", "policy", "value")):
            model.compute(batch(naive, seed), role)  # so that two roles call the layer within
        for seed in range(6):
            for role in ("policy", "value"):
                model.compute(batch(naive, seed), role)
    assert alive(model.net.features) == 0


@pytest.mark.filterwarnings("ignore:The shared cache leaves `net` alone")
@pytest.mark.usefixtures("no_collector")
def test_nothing_is_kept_of_a_trunk_that_was_refused_within_a_compute() -> None:
    def make(base: Any, trunk: Any) -> Any:
        class Siamese(ActorCritic, base):
            def __init__(self) -> None:
                ActorCritic.__init__(self, base)
                self.net = trunk()
                self.add_heads(FEATURES)

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                self.net.layers.weight.data[0] = float(len(role))  # no version counter moves
                x = inputs[OBSERVATIONS]
                return self.answer(self.net(x) + self.net(-x), role, inputs)

        return Siamese()

    model = build(lambda base: make(base, Watched), SharedModel)
    with torch.no_grad():
        for seed in range(6):
            for role in ("policy", "value"):
                model.compute(batch(naive, seed), role)
    assert alive(model.net.features) == 0


@pytest.mark.usefixtures("no_collector")
def test_what_the_agents_of_ippo_need_is_kept_and_sixteen_batches_at_most() -> None:
    model = watched_model()
    for _ in range(2):
        batches = [batch(naive, seed) for seed in range(40)]
        for role in ("policy", "value"):
            for inputs in batches:
                model.compute(inputs, role)
                assert alive(model.net.features) <= 16
        del batches, inputs
    model.clear_cache()
    assert alive(model.net.features) == 0


@pytest.mark.usefixtures("no_collector")
def test_observations_are_not_kept_after_a_pair() -> None:
    model = watched_model()
    for role in ("policy", "value"):
        inputs = batch(naive, 0)
        seen = weakref.ref(inputs[OBSERVATIONS])
        for each in ("policy", "value"):
            model.compute(inputs, each)
        del inputs
        assert seen() is None, role


@pytest.mark.usefixtures("no_collector")
def test_a_shared_output_that_is_set_outside_of_compute_is_the_users() -> None:
    """As some code does it, to begin with: the attribute holds what was put there until somebody takes it away."""
    model = build(pattern, SharedModel)
    run_pairs(model)
    features = torch.ones(3)
    model._shared_output = features
    assert model._shared_output is features
    seen = weakref.ref(features)
    del model._shared_output, features
    assert seen() is None
    assert model._shared_output is None


@pytest.mark.usefixtures("no_collector")
def test_the_shared_output_of_a_compute_dies_with_it() -> None:
    model = watched_model(pattern)
    with torch.no_grad():
        for role in ("policy", "value"):
            model.compute(batch(pattern, 0), role)
    assert alive(model.net.features) == 0
    assert model._shared_output is None


@pytest.mark.usefixtures("no_collector")
def test_a_hundred_threads_leave_no_batch_of_theirs() -> None:
    model = watched_model()

    def pair() -> None:
        for role in ("policy", "value"):
            model.compute(batch(naive, 0), role)

    for _ in range(100):
        in_a_thread(pair)
    assert alive(model.net.features) == 0
