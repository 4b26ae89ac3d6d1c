"""Every kind of trunk: right in every order of calls, and run once per round where that is promised."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from skrl_shared_cache import SharedCacheWarning, SharedModel

from .support.lines import OBSERVATIONS, ActorCritic, act, box, make_inputs
from .support.passes import CountedLinear, CountedLSTM, Passes
from .support.twins import Make, Twins, TwoPass, assert_same, build, seeded_act
from .support.zoo import FEATURES, OBSERVATION_SIZE, Recurrent, mlp, naive, observations, recurrent


class Camera(ActorCritic):
    """Observations of a camera, f32 ``(N, 2, 8, 8)``."""

    OBSERVATION_SPACE = box((2, 8, 8))


def cnn() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(2, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(36, FEATURES), nn.ReLU())


def cnn_trunk(base: Any) -> Any:
    class CnnTrunk(Camera, base):
        def __init__(self) -> None:
            Camera.__init__(self, base)
            self.net = cnn()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            # agents keep observations flat: the view is a new object at every call
            return self.answer(self.net(inputs[OBSERVATIONS].view(-1, 2, 8, 8)), role, inputs)

    return CnnTrunk()


def lstm_method(base: Any) -> Any:
    """The whole recurrent step as one unit."""

    class LstmMethod(Recurrent, base):
        shared_modules = ("run_lstm",)

        def __init__(self) -> None:
            Recurrent.__init__(self, base)
            self.net = CountedLSTM(OBSERVATION_SIZE, FEATURES, batch_first=True)
            self.add_heads(FEATURES)

        def run_lstm(self, inputs: dict[str, Any]) -> tuple[torch.Tensor, list[torch.Tensor]]:
            return super().run_lstm(inputs)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            features, states = self.run_lstm({key: inputs[key] for key in (OBSERVATIONS, "rnn")})
            return self.answer(features, role, inputs, rnn=states)

    return LstmMethod()


def siamese(base: Any) -> Any:
    """One encoder, called for the left and the right half of the observation within one compute."""

    class Siamese(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp(size=3, features=FEATURES // 2)
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            left, right = inputs[OBSERVATIONS].split(3, dim=-1)
            return self.answer(torch.cat([self.net(left), self.net(right)], dim=-1), role, inputs)

    return Siamese()


def siamese_in_another_order(base: Any) -> Any:
    """The same, where the value asks for the right half first."""

    class SiameseInAnotherOrder(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp(size=3, features=FEATURES // 2)
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            left, right = inputs[OBSERVATIONS].split(3, dim=-1)
            if role == "policy":
                return self.answer(torch.cat([self.net(left), self.net(right)], dim=-1), role, inputs)
            second = self.net(right)
            return self.answer(torch.cat([self.net(left), second], dim=-1), role, inputs)

    return SiameseInAnotherOrder()


def one_activation(base: Any) -> Any:
    """One activation module after every layer, the heads' layers included."""

    class OneActivation(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.first = CountedLinear(OBSERVATION_SIZE, FEATURES)
            self.second = CountedLinear(FEATURES, FEATURES)
            self.policy_layer = nn.Linear(FEATURES, FEATURES)
            self.value_layer = nn.Linear(FEATURES, FEATURES)
            self.activation = nn.ELU()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            features = self.activation(self.second(self.activation(self.first(inputs[OBSERVATIONS]))))
            layer = self.policy_layer if role == "policy" else self.value_layer
            return self.answer(self.activation(layer(features)), role, inputs)

    return OneActivation()


def functional_glue(base: Any) -> Any:
    """Functional activations between children: right, but in grad mode every child after the first runs again."""

    class FunctionalGlue(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.first = CountedLinear(OBSERVATION_SIZE, FEATURES)
            self.second = CountedLinear(FEATURES, FEATURES)
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(F.elu(self.second(F.elu(self.first(inputs[OBSERVATIONS])))), role, inputs)

    return FunctionalGlue()


def named_method(base: Any) -> Any:
    """The documented remedy for functional glue."""

    class NamedMethod(ActorCritic, base):
        shared_modules = ("trunk",)

        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.first = CountedLinear(OBSERVATION_SIZE, FEATURES)
            self.second = CountedLinear(FEATURES, FEATURES)
            self.add_heads(FEATURES)

        def trunk(self, x: torch.Tensor) -> torch.Tensor:
            return F.elu(self.second(F.elu(self.first(x))))

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(self.trunk(inputs[OBSERVATIONS]), role, inputs)

    return NamedMethod()


def plain_call(function: Any, *args: Any, **kwargs: Any) -> Any:
    """What ``self.shared`` is without the cache."""
    return function(*args, **kwargs)


def shared_call(base: Any) -> Any:
    """The same trunk through ``self.shared``, which the uncached twin replaces by a plain call."""

    class SharedCall(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.first = CountedLinear(OBSERVATION_SIZE, FEATURES)
            self.second = CountedLinear(FEATURES, FEATURES)
            self.add_heads(FEATURES)

        def trunk(self, x: torch.Tensor, scale: float) -> torch.Tensor:
            return F.elu(self.second(F.elu(self.first(x)))) * scale

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            call = getattr(self, "shared", plain_call)
            return self.answer(call(self.trunk, inputs[OBSERVATIONS], scale=0.5), role, inputs)

    return SharedCall()


def named_child(base: Any) -> Any:
    """``shared_modules`` names one child; another one, that only the policy calls, stays out."""

    class NamedChild(ActorCritic, base):
        shared_modules = ("net",)

        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp()
            self.extra = nn.Linear(FEATURES, FEATURES)
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            features = self.net(inputs[OBSERVATIONS])
            return self.answer(self.extra(features) if role == "policy" else features, role, inputs)

    return NamedChild()


def named_submodule(base: Any) -> Any:
    """``shared_modules`` names a submodule by its dotted path: the wrapper around it differs by role."""

    class RoleScaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp()

        def forward(self, x: torch.Tensor, scale: float) -> torch.Tensor:
            features: torch.Tensor = self.net(x)
            return features * scale

    class NamedSubmodule(ActorCritic, base):
        shared_modules = ("encoder.net",)

        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.encoder = RoleScaled()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(self.encoder(inputs[OBSERVATIONS], 1.0 if role == "policy" else 0.5), role, inputs)

    return NamedSubmodule()


def heads_that_share(base: Any) -> Any:
    """Two heads that hold one and the same encoder: no child is called in both roles, what they contain is."""

    class HeadsThatShare(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            encoder = mlp()
            self.policy_net = nn.Sequential(encoder, nn.Linear(FEATURES, FEATURES), nn.ELU())
            self.value_net = nn.Sequential(encoder, nn.Linear(FEATURES, FEATURES), nn.ELU())
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            net = self.policy_net if role == "policy" else self.value_net
            return self.answer(net(inputs[OBSERVATIONS]), role, inputs)

    return HeadsThatShare()


def in_a_module_dict(base: Any) -> Any:
    """The encoder is an item of a ``ModuleDict`` within a ``ModuleList``."""

    class InAModuleDict(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.nets: Any = nn.ModuleList([nn.ModuleDict({"encoder": mlp()})])
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(self.nets[0]["encoder"](inputs[OBSERVATIONS]), role, inputs)

    return InAModuleDict()


def lazy_modules(base: Any) -> Any:
    """Parameters that do not exist before the first call."""

    class LazyModules(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = nn.Sequential(nn.LazyLinear(FEATURES), nn.ELU())
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)

    return LazyModules()


class Nest(nn.Module):
    """A trunk that takes a nested structure and returns one."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.sensors = nn.Linear(4, FEATURES), nn.Linear(5, FEATURES)

    def forward(self, nest: dict[str, Any], *, scale: float) -> dict[str, Any]:
        left, right = nest["sensors"]
        body = self.body(nest["body"]).tanh() * scale
        return {"features": body + self.sensors(torch.cat([left, right], dim=-1)).tanh(), "rest": (body, [None, "x"])}


def nested_inputs(base: Any) -> Any:
    class NestedInputs(ActorCritic, base):
        OBSERVATION_SPACE = gymnasium.spaces.Dict({"body": box(4), "sensors": gymnasium.spaces.Tuple((box(2), box(3)))})

        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = Nest()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            nest = self.net(inputs[OBSERVATIONS], scale=2.0)
            features = nest.pop("features")  # whoever takes a nest apart must not do it to the other role
            return self.answer(features + nest.pop("rest")[0], role, inputs)

    return NestedInputs()


class CameraAndBody(ActorCritic):
    """Flat observations f32 ``(N, 132)``: a camera of ``(2, 8, 8)``, then four numbers of the body."""

    OBSERVATION_SPACE = box(132)


def camera_and_body(base: Any) -> Any:
    """A CNN and an MLP, concatenated for another MLP: in grad mode that one runs again."""

    class Concatenated(CameraAndBody, base):
        def __init__(self) -> None:
            CameraAndBody.__init__(self, base)
            self.cnn = cnn()
            self.body = mlp(size=4)
            self.net = mlp(size=2 * FEATURES)
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            camera, body = inputs[OBSERVATIONS].split([128, 4], dim=-1)
            features = torch.cat([self.cnn(camera.reshape(-1, 2, 8, 8)), self.body(body)], dim=-1)
            return self.answer(self.net(features), role, inputs)

    return Concatenated()


def camera_and_body_pattern(base: Any) -> Any:
    """The same with skrl's ``_shared_output``, which then serves the whole of it."""

    class ConcatenatedPattern(CameraAndBody, base):
        def __init__(self) -> None:
            CameraAndBody.__init__(self, base)
            self.cnn = cnn()
            self.body = mlp(size=4)
            self.net = mlp(size=2 * FEATURES)
            self.add_heads(FEATURES)

        def features(self, inputs: dict[str, Any]) -> torch.Tensor:
            camera, body = inputs[OBSERVATIONS].split([128, 4], dim=-1)
            both = torch.cat([self.cnn(camera.reshape(-1, 2, 8, 8)), self.body(body)], dim=-1)
            result: torch.Tensor = self.net(both)
            return result

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            if role == "policy":
                self._shared_output: Any = self.features(inputs)
                return self.answer(self._shared_output, role, inputs)
            features = self.features(inputs) if self._shared_output is None else self._shared_output
            self._shared_output = None
            return self.answer(features, role, inputs)

    return ConcatenatedPattern()


def three_roles(base: Any) -> Any:
    """A third head on the features, say for a cost."""

    class ThreeRoles(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp()
            self.add_heads(FEATURES)
            self.cost_head = nn.Linear(FEATURES, 1)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            features = self.net(inputs[OBSERVATIONS])
            return (self.cost_head(features), {}) if role == "cost" else self.answer(features, role, inputs)

    return ThreeRoles()


@dataclass(frozen=True)
class Kind:
    """A kind of trunk.

    :param make: Builds a model on a base class.
    :param trunk: Name of the module whose passes are counted.
    :param passes: Its passes in a round of all roles, without grad.
    :param passes_in_grad: The same in grad mode: with the policy first, and with the value first. None: as without.
    :param inputs: Kind of inputs.
    :param roles: Roles of a round.
    """

    make: Make
    trunk: str = "net"
    passes: int = 1
    passes_in_grad: tuple[int, int] | None = None
    inputs: str = "flat"
    roles: tuple[str, ...] = ("policy", "value")


KINDS = {
    "CNN": Kind(cnn_trunk, inputs="camera"),
    "LSTM": Kind(recurrent, inputs="rnn"),
    "LSTM in a named method": Kind(lstm_method, inputs="rnn"),
    "siamese": Kind(siamese, passes=2),
    # the second role's first call finds the other half in the place of its own
    "siamese in another order": Kind(siamese_in_another_order, passes=4),
    "one activation, first layer": Kind(one_activation, "first"),
    "one activation, second layer": Kind(one_activation, "second"),
    "functional glue, first layer": Kind(functional_glue, "first"),
    "functional glue, second layer": Kind(functional_glue, "second", passes_in_grad=(2, 2)),
    "named method, first layer": Kind(named_method, "first"),
    "named method, second layer": Kind(named_method, "second"),
    "self.shared": Kind(shared_call, "second"),
    "named child": Kind(named_child),
    "named submodule": Kind(named_submodule, "encoder.net"),
    "heads that share a submodule": Kind(heads_that_share, "policy_net.0"),
    "in a ModuleDict": Kind(in_a_module_dict, "nets.0.encoder"),
    "three roles": Kind(three_roles, roles=("policy", "value", "cost")),
    "lazy": Kind(lazy_modules),
    "nested": Kind(nested_inputs, inputs="nested"),
    "camera, of camera and body": Kind(camera_and_body, "cnn", inputs="camera and body"),
    "net, of camera and body": Kind(camera_and_body, "net", passes_in_grad=(2, 2), inputs="camera and body"),
    "net, of camera and body, pattern": Kind(
        # only the policy leaves its features
        camera_and_body_pattern,
        "net",
        passes_in_grad=(1, 2),
        inputs="camera and body",
    ),
}

IN_VAIN = {
    "siamese in another order": "net",
    "functional glue, second layer": "second",
    "net, of camera and body": "net",
}
"""Kinds of which a module runs again in grad mode, and the module."""

all_kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def batch(kind: Kind, size: int, seed: int) -> dict[str, Any]:
    """Return inputs for a kind of trunk."""
    if kind.inputs == "camera":
        return make_inputs(observations(size, seed, size=(2, 8, 8)).flatten(1))
    if kind.inputs == "rnn":
        states = torch.randn((2, 1, size, FEATURES), generator=torch.Generator().manual_seed(seed))
        return make_inputs(observations(size, seed), rnn=list(states))
    if kind.inputs == "nested":
        body, left, right = (observations(size, seed + i, size=width) for i, width in enumerate((4, 2, 3)))
        return make_inputs({"body": body, "sensors": (left, right)})
    return make_inputs(observations(size, seed, size=132 if kind.inputs == "camera and body" else OBSERVATION_SIZE))


@pytest.mark.filterwarnings("ignore::skrl_shared_cache.SharedCacheWarning")
@all_kinds
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_every_order_of_calls_returns_what_the_model_returns_without_the_cache(
    kind: Kind, grad: bool, training: bool
) -> None:
    twins = Twins(kind.make)
    twins.train(training)
    with torch.set_grad_enabled(grad):
        twins.walk([batch(kind, 8, 1), batch(kind, 8, 2), batch(kind, 4, 3)], kind.roles, calls=50)


@pytest.mark.filterwarnings("ignore::skrl_shared_cache.SharedCacheWarning")
@all_kinds
def test_gradients_are_those_of_the_model_without_the_cache(kind: Kind) -> None:
    twins = Twins(kind.make)
    for seed in range(4):
        twins.learn(batch(kind, 8, seed), kind.roles)
        twins.learn(batch(kind, 8, seed), kind.roles[::-1])


@pytest.mark.filterwarnings("ignore::skrl_shared_cache.SharedCacheWarning")
@all_kinds
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("reverse", [False, True], ids=["policy first", "value first"])
def test_after_probation_a_round_runs_the_trunk_as_often_as_promised(kind: Kind, grad: bool, reverse: bool) -> None:
    twins = Twins(kind.make)
    roles = kind.roles[::-1] if reverse else kind.roles
    twins.warm(batch(kind, 4, 3), roles, rounds=10)
    passes = Passes(twins.cached.get_submodule(kind.trunk))
    expected = kind.passes_in_grad[reverse] if grad and kind.passes_in_grad is not None else kind.passes
    with torch.set_grad_enabled(grad):
        for seed in (1, 2):
            twins.pair(batch(kind, 8, seed), roles)
            assert passes.take() == expected


def warnings_in(run: Callable[[], None]) -> list[str]:
    """Return what the cache says while a function runs."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(warning.message) for warning in caught if warning.category is SharedCacheWarning]


def warnings_of(make: Make, batches: list[dict[str, Any]], roles: Sequence[str]) -> list[str]:
    """Return what the cache says while twins learn from some batches."""
    twins = Twins(make)

    def run() -> None:
        for inputs in batches:
            twins.learn(inputs, roles)

    return warnings_in(run)


@pytest.mark.parametrize(
    "name", [name for name in KINDS if name not in IN_VAIN and not name.startswith(("functional", "camera"))]
)
def test_there_is_no_warning_about_a_trunk_that_runs_once(name: str) -> None:
    kind = KINDS[name]
    assert warnings_of(kind.make, [batch(kind, 8, seed) for seed in range(25)], kind.roles) == []


@pytest.mark.parametrize(("name", "module"), IN_VAIN.items())
def test_one_warning_names_the_module_that_runs_again_and_the_remedy(name: str, module: str) -> None:
    kind = KINDS[name]
    (message,) = warnings_of(kind.make, [batch(kind, 8, seed) for seed in range(60)], kind.roles)
    assert f"`{module}`" in message
    assert "shared_modules" in message


class ScaledByAttribute(nn.Module):
    """A trunk that reads an attribute of itself, which ``compute`` sets by role."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()
        self.scale: Any = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.layers(x) * self.scale
        return features


class ScaledByAList(ScaledByAttribute):
    """A trunk that reads a tensor in a list: no buffer, so no state dict and no cache knows of it."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = [torch.ones(())]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.hidden[0] = torch.full((), self.scale)
        features: torch.Tensor = self.layers(x)
        return features * self.hidden[0]


@pytest.mark.parametrize("trunk", [ScaledByAttribute, ScaledByAList])
@pytest.mark.parametrize("grad", [True, False])
def test_a_trunk_conditioned_by_role_is_right_and_ends_up_unmemoized(trunk: type[Any], grad: bool) -> None:
    def make(base: Any) -> Any:
        class ByRole(ActorCritic, base):
            def __init__(self) -> None:
                ActorCritic.__init__(self, base)
                self.net = trunk()
                self.add_heads(FEATURES)

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                self.net.scale = 1.0 if role == "policy" else 0.5
                return self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)

        return ByRole()

    twins = Twins(make)
    passes = Passes(twins.cached.net)

    def run() -> None:
        for seed in range(6):
            passes.take()
            twins.pair(make_inputs(observations(seed=seed)))

    with torch.set_grad_enabled(grad):
        (message,) = warnings_in(run)
    assert "`net` alone from now on" in message
    assert passes.take() == 2


def writing_head(writer: str, view: bool) -> Make:
    """Make models in which one role doubles the features in place, or a view of them."""

    def make(base: Any) -> Any:
        class WritingHead(ActorCritic, base):
            def __init__(self) -> None:
                ActorCritic.__init__(self, base)
                self.net = nn.Sequential(nn.Linear(OBSERVATION_SIZE, FEATURES), nn.Identity())
                self.add_heads(FEATURES)

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                features = self.net(inputs[OBSERVATIONS])
                if role == writer:
                    (features[:, 1:] if view else features).mul_(2.0)
                return self.answer(features, role, inputs)

        return WritingHead()

    return make


BATCHES = [make_inputs(observations(seed=seed)) for seed in range(60)]


@pytest.mark.parametrize("roles", [("policy", "value"), ("value", "policy")])
@pytest.mark.parametrize("view", [False, True])
def test_a_role_that_writes_into_the_features_it_was_given_ends_their_sharing(
    roles: tuple[str, ...], view: bool
) -> None:
    (message,) = warnings_of(writing_head(roles[1], view), BATCHES, roles)
    assert f"role '{roles[1]}' writes in place" in message


@pytest.mark.parametrize("roles", [("policy", "value"), ("value", "policy")])
@pytest.mark.parametrize("view", [False, True])
def test_a_role_that_writes_into_the_features_it_computed_makes_the_cache_useless(
    roles: tuple[str, ...], view: bool
) -> None:
    (message,) = warnings_of(writing_head(roles[0], view), BATCHES, roles)
    assert "does not help `net`" in message
    assert "output was written" in message


@pytest.mark.parametrize("writer", ["policy", "value"])
@pytest.mark.parametrize("view", [False, True])
@pytest.mark.filterwarnings("ignore::skrl_shared_cache.SharedCacheWarning")
def test_a_role_that_writes_into_the_features_changes_no_other(writer: str, view: bool) -> None:
    twins = Twins(writing_head(writer, view))
    with torch.no_grad():
        twins.walk(BATCHES[:3])


class Noisy(nn.Module):
    """A trunk with noise of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.layers(x)
        return features + torch.rand_like(features)


@pytest.mark.parametrize("noise", [Noisy, lambda: nn.Sequential(mlp(), nn.Dropout(0.5))], ids=["noise", "dropout"])
def test_a_trunk_with_random_numbers_stays_memoized_and_draws_them_once(noise: Any) -> None:
    """The twins agree because each pair of theirs draws from the same seed."""
    twins = Twins(partial(naive, trunk=noise))
    passes = Passes(twins.cached.net)
    for seed in range(6):
        passes.take()
        twins.pair(make_inputs(observations(seed=seed)))
    assert passes.take() == 1


def test_batch_norm_is_updated_once_per_pair_in_training() -> None:
    def trunk() -> nn.Sequential:
        return nn.Sequential(nn.Linear(OBSERVATION_SIZE, FEATURES), nn.BatchNorm1d(FEATURES))

    twins = Twins(partial(naive, trunk=trunk))
    twins.warm(make_inputs(observations()))
    before = int(twins.cached.net[1].num_batches_tracked)
    for seed in range(5):
        twins.pair(make_inputs(observations(seed=seed)))
    assert int(twins.cached.net[1].num_batches_tracked) == before + 5
    assert int(twins.plain.net[1].num_batches_tracked) == before + 10


def test_two_models_that_hold_one_encoder_share_its_pass() -> None:
    encoder = mlp()

    def holder(base: Any) -> Any:
        return naive(base, trunk=lambda: encoder)

    policy, value = (build(holder, SharedModel, seed) for seed in (1, 2))
    plain_policy, plain_value = (build(holder, TwoPass, seed) for seed in (1, 2))
    passes = Passes(encoder)
    for seed in range(6):
        inputs = make_inputs(observations(seed=seed))
        passes.take()
        actual = seeded_act(policy, inputs, "policy"), act(value, inputs, "value")
        used = passes.take()
        assert_same(actual, (seeded_act(plain_policy, inputs, "policy"), act(plain_value, inputs, "value")))
    assert used == 1


def test_a_fresh_lambda_never_hits_and_the_cache_says_so() -> None:
    def make(base: Any) -> Any:
        class Lambda(ActorCritic, base):
            def __init__(self) -> None:
                ActorCritic.__init__(self, base)
                self.net = CountedLinear(OBSERVATION_SIZE, FEATURES)
                self.add_heads(FEATURES)

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                call = getattr(self, "shared", plain_call)
                return self.answer(call(lambda x: F.linear(x, self.net.weight), inputs[OBSERVATIONS]), role, inputs)

        return Lambda()

    twins = Twins(make)
    for seed in range(5):
        twins.pair(make_inputs(observations(seed=seed)))
    assert twins.cached.cache_info().hits == 0
    assert "lambda" in str(twins.cached.cache_info().last_miss)
