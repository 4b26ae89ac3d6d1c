"""What once went wrong after the cache was made faster: writes, exchanges and threads that it did not notice."""

from __future__ import annotations

import collections
import dataclasses
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn as nn
from skrl.resources.preprocessors.torch import RunningStandardScaler

from skrl_shared_cache import SharedCacheWarning, SharedModel, cached_preprocessor

from .support.lines import OBSERVATIONS, ActorCritic, act, make_inputs
from .support.pairs import A, B, refusal, warm_twins
from .support.twins import Twins, TwoPass, assert_same, build
from .support.zoo import FEATURES, OBSERVATION_SIZE, mlp, naive, observations, returning

# ------------------------------------------------------------------------------------------------ the trunk's modules


class EqualLinear(nn.Linear):
    """A layer that equals every other one of its size."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EqualLinear) and other.in_features == self.in_features

    def __hash__(self) -> int:
        return hash(self.in_features)


def equal_layers() -> nn.Sequential:
    return nn.Sequential(EqualLinear(6, 6), nn.ELU(), EqualLinear(6, 6), nn.Linear(6, FEATURES))


def test_layers_that_cannot_be_told_apart_bypass_the_cache() -> None:
    twins = Twins(partial(naive, trunk=equal_layers))
    twins.warm(A)
    layer = EqualLinear(6, 6)
    refusal(twins, between=partial(twins.each, lambda model: model.net.__setitem__(0, layer)))
    assert twins.cached.cache_info().reasons.keys() == {"a module that defines __eq__"}


def test_hooks_of_the_trunk_run_though_their_dictionary_was_exchanged_before_the_update() -> None:
    """As by those who remove all hooks at once."""
    twins = warm_twins()
    twins.each(lambda model: setattr(model.net, "_forward_hooks", collections.OrderedDict()))
    twins.each(lambda model: model.train())
    add = partial(twins.each, lambda model: model.net.register_forward_hook(lambda module, args, output: 0.5 * output))
    assert refusal(twins, between=add) is None


class OneLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(OBSERVATION_SIZE, FEATURES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layer(x))


def doubling(graph: Any, example: Any) -> Any:
    return lambda *args: tuple(2.0 * output for output in graph(*args))


@pytest.mark.parametrize("first", [True, False], ids=["compiled first", "plain first"])
def test_a_trunk_that_was_compiled_or_not_any_more_between_the_calls_runs_again(first: bool) -> None:
    def switch(model: Any, is_compiled: bool) -> None:
        if is_compiled:
            model.net.compile(backend=doubling)
        else:
            model.net._compiled_call_impl = None

    twins = warm_twins(partial(naive, trunk=OneLayer))
    twins.each(lambda model: switch(model, first))
    refusal(twins, between=lambda: twins.each(lambda model: switch(model, not first)))
    twins.pair(B)


class ByFlag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 16)

    def forward(self, x: torch.Tensor) -> Any:
        return torch.tanh(self.layer(x)) * (2.0 if self.training else 1.0)


class FlagElsewhere(ByFlag):
    @property
    def training(self) -> Any:
        return self.__dict__.get("flag", True)

    @training.setter
    def training(self, value: bool) -> None:
        self.__dict__["flag"] = value


@pytest.mark.parametrize("layer", [lambda: torch.compile(ByFlag(), backend="eager"), FlagElsewhere])
def test_a_layer_that_keeps_its_training_flag_elsewhere(layer: Any) -> None:
    twins = warm_twins(partial(naive, trunk=lambda: nn.Sequential(layer(), nn.ELU())))
    assert refusal(twins) is None
    assert refusal(twins, between=lambda: twins.each(lambda model: model.net[0].eval())) == "train/eval mode changed"


@pytest.mark.filterwarnings("ignore:The shared cache leaves `net` alone")
def test_a_role_that_begins_to_hook_its_features_spoils_one_pair_at_most() -> None:
    """A hook of the value's head that scales its gradient, registered long after the probation."""

    def make(base: Any) -> Any:
        class Hooking(ActorCritic, base):
            def __init__(self) -> None:
                ActorCritic.__init__(self, base)
                self.net = mlp()
                self.add_heads(FEATURES)
                self.scale: float | None = None

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                features = self.net(inputs[OBSERVATIONS])
                if role == "value" and self.scale is not None:
                    features.register_hook(lambda grad: self.scale * grad)
                return self.answer(features, role, inputs)

        return Hooking()

    twins = warm_twins(make)
    twins.each(lambda model: setattr(model, "scale", 0.1))
    for role in ("policy", "value"):
        act(twins.cached, A, role)
    for _ in range(3):
        twins.learn(B)


# ---------------------------------------------------------------------------------------------------------- its inputs


def rebind_twice(x: torch.Tensor) -> None:
    """Give a tensor other data at the address that it had, which its first memory has left."""
    address, shape = x.data_ptr(), x.shape
    x.data = torch.zeros(1)
    others = [torch.full(shape, 2.0) for _ in range(100)]
    x.data = next((other for other in others if other.data_ptr() == address), others[0])


def test_an_address_of_the_observations_is_not_taken_for_the_memory_that_was_there_before() -> None:
    twins = warm_twins()
    with torch.no_grad():
        for seed in range(10):
            x = observations(seed=seed)
            assert refusal(twins, make_inputs(x), between=partial(rebind_twice, x)) == "inputs were written"


class LeavesItsStates(nn.Module):
    """Puts the new state where it found the old one: into a list or a dictionary of its caller."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(OBSERVATION_SIZE, FEATURES)

    def forward(self, x: torch.Tensor, states: Any) -> torch.Tensor:
        states[0] = self.cell(x, states[0])
        result: torch.Tensor = states[0]
        return result


class LeavesANote(nn.Module):
    """Leaves something in a dictionary of its caller that the cache does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()

    def forward(self, x: torch.Tensor, notes: dict[Any, Any]) -> torch.Tensor:
        notes[1] = object()
        result: torch.Tensor = self.layers(x)
        return result


def with_states(base: Any, trunk: Callable[[], nn.Module], container: Callable[[Any], Any]) -> Any:
    class WithStates(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = trunk()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            states = container(inputs["rnn"])
            features = self.net(inputs[OBSERVATIONS], states)
            return self.answer(features, role, inputs, rnn=[states[0]])

    return WithStates()


def as_dictionary(states: list[torch.Tensor]) -> dict[int, torch.Tensor]:
    return dict(enumerate(states))


@pytest.mark.parametrize(
    ("trunk", "container"), [(LeavesItsStates, list), (LeavesItsStates, as_dictionary), (LeavesANote, as_dictionary)]
)
def test_a_trunk_that_leaves_something_in_its_arguments_does_so_for_every_role(trunk: Any, container: Any) -> None:
    twins = Twins(partial(with_states, trunk=trunk, container=container))
    for seed in range(6):
        twins.pair(make_inputs(observations(seed=seed), rnn=[torch.zeros(5, FEATURES)]))
    assert twins.cached.cache_info().hits == 0


# --------------------------------------------------------------------------------------------------------- its outputs


class InInferenceMode(nn.Module):
    """A frozen encoder, as it comes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()

    @torch.inference_mode()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layers(x)
        return result


class WithInferenceBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()
        self.scale: torch.Tensor
        with torch.inference_mode():
            self.register_buffer("scale", torch.ones(FEATURES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layers(x) * self.scale
        return result


@pytest.mark.parametrize("trunk", [InInferenceMode, WithInferenceBuffer])
def test_a_trunk_with_inference_tensors_of_its_own_bypasses_the_cache(trunk: Any) -> None:
    twins = Twins(partial(naive, trunk=trunk))
    with torch.no_grad():
        for seed in range(5):
            twins.pair(make_inputs(observations(seed=seed)))
    assert any("an inference tensor" in reason for reason in twins.cached.cache_info().reasons)


class Doubled(NamedTuple):
    once: torch.Tensor
    twice: torch.Tensor


class OwnConstructor(Doubled):
    def __new__(cls, once: torch.Tensor) -> OwnConstructor:
        return super().__new__(cls, once, 2.0 * once)


class OwnAttribute(Doubled):
    factor = 1.0


def own_constructor(features: torch.Tensor) -> OwnConstructor:
    return OwnConstructor(features)


def own_attribute(features: torch.Tensor) -> OwnAttribute:
    result = OwnAttribute(features, features)
    result.factor = 3.0
    return result


@pytest.mark.parametrize("make_tuple", [own_constructor, own_attribute])
def test_a_named_tuple_with_more_than_its_fields(make_tuple: Any) -> None:
    class ReturnsTuple(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = mlp()

        def forward(self, x: torch.Tensor) -> Any:
            return make_tuple(self.layers(x))

    class ReadsTuple(ActorCritic):
        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            result = self.net(inputs[OBSERVATIONS])
            return self.answer(result.twice * getattr(result, "factor", 1.0), role, inputs)

    def make(base: Any) -> Any:
        class Model(ReadsTuple, base):
            def __init__(self) -> None:
                ActorCritic.__init__(self, base)
                self.net = ReturnsTuple()
                self.add_heads(FEATURES)

        return Model()

    twins = Twins(make)
    for seed in range(6):
        twins.pair(make_inputs(observations(seed=seed)))


@dataclasses.dataclass
class Latent:
    features: torch.Tensor


CONTAINERS: dict[str, tuple[Callable[[torch.Tensor], Any], Callable[[Any], torch.Tensor]]] = {
    "dataclass": (Latent, lambda latent: latent.features),
    "defaultdict": (lambda f: collections.defaultdict(int, latent=f), lambda latent: latent["latent"]),
    "deque": (lambda f: collections.deque([f[:]]), lambda latent: latent[0]),
    "array": (lambda f: f.numpy(), torch.from_numpy),
    "list of arrays": (lambda f: [f[1:].numpy()], lambda latent: torch.from_numpy(latent[0])),
}


@pytest.mark.parametrize(("pack", "unpack"), CONTAINERS.values(), ids=CONTAINERS)
def test_roles_that_return_their_features_in_any_object_return_memory_of_their_own(pack: Any, unpack: Any) -> None:
    model = build(partial(returning, pack=pack), SharedModel)

    @torch.no_grad()
    def write_into_the_values_features() -> None:
        for seed in range(6):
            inputs = make_inputs(observations(seed=seed))
            policy, value = (unpack(act(model, inputs, role)[2]["latent"]) for role in ("policy", "value"))
            expected = policy.clone()
            value.zero_()
            assert_same(policy, expected)

    with pytest.warns(SharedCacheWarning, match="no tuple, list or dict"):
        write_into_the_values_features()


# ------------------------------------------------------------------------------------------- steps and other writers


def fused_step(model: Any) -> None:
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    torch.optim.Adam(model.parameters(), lr=0.1, fused=True).step()


def test_a_fused_step_is_noticed_after_another_thread_has_stepped_beside_computes() -> None:
    twins, is_over = warm_twins(), threading.Event()
    parameter = nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    optimizer = torch.optim.SGD([parameter], lr=0.0)

    def step_again_and_again() -> None:
        while not is_over.is_set():
            optimizer.step()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=step_again_and_again)
    thread.start()
    try:
        with torch.no_grad():
            for _ in range(5000):
                act(twins.cached, A, "policy")
                act(twins.cached, A, "value")
    finally:
        is_over.set()
        thread.join()
        sys.setswitchinterval(interval)
    with torch.no_grad():
        assert refusal(twins, B, between=lambda: twins.each(fused_step)) is not None


def test_a_target_update_through_another_model_that_holds_the_trunk_is_noticed() -> None:
    """The method's memory is that of its own model, and the update writes through ``.data``."""

    def method(base: Any) -> Any:
        net = mlp()

        class Method(ActorCritic, base):
            shared_modules = ("trunk",)

            def __init__(self) -> None:
                ActorCritic.__init__(self, base)
                self.net = net
                self.add_heads(FEATURES)
                self.others = [naive(base, trunk=lambda: net)]

            def trunk(self, x: torch.Tensor) -> Any:
                return self.net(x)

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                return self.answer(self.trunk(inputs[OBSERVATIONS]), role, inputs)

        return Method()

    twins, source = warm_twins(method), build(naive, TwoPass, seed=7)
    update = partial(twins.each, lambda model: model.others[0].update_parameters(source))
    assert refusal(twins, between=update) == "parameters changed"


# ------------------------------------------------------------------------------------------------------- preprocessors


def scalers() -> tuple[Any, Any]:
    cached: Any = cached_preprocessor(RunningStandardScaler)
    return cached(size=6, device="cpu"), RunningStandardScaler(size=6, device="cpu")


def test_a_preprocessor_that_learned_in_inference_mode_works_outside_of_it() -> None:
    x, results = observations(), []
    for scaler in scalers():
        with torch.inference_mode():
            scaler(x, train=True)
        results.append([scaler(x), scaler(x)])
    assert_same(*results)


class ToDense(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to_dense() * 2.0


class DoubleInInferenceMode(nn.Module):
    @torch.inference_mode()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2.0


@pytest.mark.parametrize(("kind", "x"), [(ToDense, torch.eye(3).to_sparse()), (DoubleInInferenceMode, torch.eye(3))])
def test_a_preprocessor_of_what_counts_no_writes_does_what_its_class_does(kind: Any, x: torch.Tensor) -> None:
    cached, plain = cached_preprocessor(kind)(), kind()
    assert_same([cached(x), cached(x)], [plain(x), plain(x)])


@pytest.mark.parametrize("is_global", [True, False])
def test_hooks_of_a_preprocessor_run_at_every_call(is_global: bool) -> None:
    x, results = observations(), []
    for scaler in scalers():
        scaler(x)
        register = nn.modules.module.register_module_forward_hook if is_global else scaler.register_forward_hook
        handle = register(lambda module, args, output: 0.5 * output)
        results.append(scaler(x))
        handle.remove()
    assert_same(*results)


def test_a_fused_step_of_a_preprocessor_is_noticed() -> None:
    x, results = observations(), []
    for kind in (cached_preprocessor(OneLayer), OneLayer):
        layer = build(lambda kind: kind(), kind)
        with torch.no_grad():
            layer(x)
            fused_step(layer)
            results.append(layer(x))
    assert_same(*results)
