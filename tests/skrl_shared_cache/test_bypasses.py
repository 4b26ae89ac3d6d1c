"""Where the cache keeps out of the way: the model there does what it does without it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
import torch.nn as nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

from skrl_shared_cache import SharedModel

from .support.lines import OBSERVATIONS, ActorCritic, act, make_inputs
from .support.pairs import A, B, in_grad_mode, refusal, warm_twins
from .support.passes import Passes
from .support.twins import Twins, TwoPass, assert_close_gradients, assert_same, build
from .support.zoo import FEATURES, OBSERVATION_SIZE, mlp, naive, observations, pattern
from .test_trunk_kinds import named_method, shared_call

# torch itself still uses what it deprecates
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")

X, Y = A[OBSERVATIONS], B[OBSERVATIONS]

KINDS = {"naive": naive, "pattern": pattern, "named method": named_method, "self.shared": shared_call}
all_kinds = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


def of(model: Any, role: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a model's answer in one role as a function of the observations."""

    def function(x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = model.compute(make_inputs(x), role)[0]
        return answer

    return function


def pair_of(model: Any) -> Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Return a policy/value pair as a function of the observations."""
    return lambda x: (of(model, "policy")(x), of(model, "value")(x))


class Answers(nn.Module):
    """The answers of a model in some roles, as torch wants to trace and to export them."""

    def __init__(self, model: Any, *roles: str) -> None:
        super().__init__()
        self.model = model
        self.roles = roles

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(of(self.model, role)(x) for role in self.roles)


def reasons(model: Any) -> set[str]:
    return set(model.cache_info().reasons)


# --------------------------------------------------------------------------------------------------- inference mode


@all_kinds
def test_a_pair_in_inference_mode(make: Any) -> None:
    twins = warm_twins(make)
    with torch.inference_mode():
        assert refusal(twins, make_inputs(observations())) == "inference mode"
        assert refusal(twins, A) == "inference mode"
    assert refusal(twins, B) is None


@pytest.mark.parametrize("first", [True, False])
def test_inference_mode_for_one_of_the_two_calls(first: bool) -> None:
    """A tensor of inference mode in the value's graph would be an error in its backward."""
    twins = warm_twins()
    with torch.inference_mode(first):
        twins.act(A, "policy")
    with torch.inference_mode(not first):
        outputs = twins.act(A, "value")
    if first:
        for model, (values, _, _) in zip((twins.cached, twins.plain), outputs):
            model.zero_grad()
            values.sum().backward()
        twins.assert_same_gradients()


def test_observations_from_inference_mode() -> None:
    """Their writes are not counted."""
    with torch.inference_mode():
        x = observations(seed=3)
    twins = warm_twins()
    with torch.no_grad():
        assert refusal(twins, make_inputs(x), between=lambda: inference_write(x)) == "an inference tensor"


def inference_write(x: torch.Tensor) -> None:
    with torch.inference_mode():
        x.mul_(2.0)


def test_a_model_that_was_built_in_inference_mode() -> None:
    with torch.inference_mode():
        twins = Twins(naive)
    with torch.no_grad():
        for inputs in (A, B) * 3:
            assert refusal(twins, inputs) in ("no entry", "an inference tensor")


# --------------------------------------------------------------------------------- tracing, compiling and exporting


@all_kinds
def test_jit_trace(make: Any) -> None:
    """What the cache holds would become a constant of the trace."""
    twins = warm_twins(make)
    with torch.no_grad():
        act(twins.cached, A, "policy")
        for roles in (["value"], ["policy", "value"]):
            traced = torch.jit.trace(Answers(twins.cached, *roles), X)
            assert_same(traced(Y), Answers(twins.plain, *roles)(Y))
        twins.pair(A)


@all_kinds
def test_a_compiled_compute(make: Any) -> None:
    twins = warm_twins(make)
    torch._dynamo.reset()
    compiled = torch.compile(pair_of(twins.cached), backend="eager", fullgraph=True)
    for inputs in (A, B, A):
        assert_same(compiled(inputs[OBSERVATIONS]), pair_of(twins.plain)(inputs[OBSERVATIONS]))
        twins.learn(inputs)


@pytest.mark.parametrize("make", [naive, pattern])
def test_a_compiled_act(make: Any) -> None:
    """As a user compiles a model: skrl's ``act`` breaks the graph, the cache must not mind."""
    twins = warm_twins(make)
    torch._dynamo.reset()
    compiled = torch.compile(lambda inputs: act(twins.cached, inputs, "value")[0], backend="eager")
    for inputs in (A, B, A):
        twins.act(inputs, "policy")
        assert_same(compiled(inputs), act(twins.plain, inputs, "value")[0])


class CountingBackend:
    """A backend that runs eagerly and counts the graphs."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        return graph.forward


COMPILATIONS = {
    "torch.compile": lambda trunk, backend: torch.compile(trunk, backend=backend),
    "module.compile": lambda trunk, backend: trunk.compile(backend=backend) or trunk,
}


class Compiled(nn.Module):
    """A trunk with code of its own: a compiler counts by code, and no other test compiles this."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.layers(x)
        return features


@pytest.mark.parametrize("compile_trunk", COMPILATIONS.values(), ids=COMPILATIONS)
@pytest.mark.parametrize("make", [naive, pattern])
@pytest.mark.parametrize("hooks", [False, True], ids=["no hooks", "hooks"])
def test_a_compiled_trunk_runs_once_and_compiles_no_more_graphs_than_without_the_cache(
    make: Any, compile_trunk: Any, hooks: bool
) -> None:
    twins = Twins(partial(make, trunk=Compiled))
    backends = [CountingBackend(), CountingBackend()]
    for model, backend in zip((twins.cached, twins.plain), backends):
        torch._dynamo.reset()
        if hooks:
            model.net.register_forward_hook(lambda *_: None)
        model.net = compile_trunk(model.net, backend)
    for training in (True, False):
        twins.train(training)
        for size in (5, 3, 5, 3):
            for _ in range(3):
                twins.learn(make_inputs(observations(size)))
                with torch.no_grad():
                    twins.pair(make_inputs(observations(size, 1)))
    assert backends[0].graphs <= backends[1].graphs
    twins.train(True)
    is_left_alone = hooks and twins.cached.net._compiled_call_impl is not None
    assert refusal(twins, A) == ("no entry" if is_left_alone else None)
    twins.learn(A)


@pytest.mark.parametrize("compile_trunk", COMPILATIONS.values(), ids=COMPILATIONS)
def test_a_trunk_that_is_compiled_after_the_first_pairs(compile_trunk: Any) -> None:
    twins = warm_twins()
    torch._dynamo.reset()
    for model in (twins.cached, twins.plain):
        model.net = compile_trunk(model.net, CountingBackend())
    for inputs in (A, B) * 4:
        twins.learn(inputs)
    assert refusal(twins) is None


class Interrupted(nn.Module):
    """A trunk in which every compiler stops."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = self.layers(x)
        torch._dynamo.graph_break()
        result: torch.Tensor = features + 1.0
        return result


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")  # torch's own
@pytest.mark.parametrize("make", [naive, pattern])
def test_a_compiled_compute_that_is_interrupted(make: Any) -> None:
    """The compiler leaves the rest to Python, which finds the cache half on."""
    twins = warm_twins(partial(make, trunk=Interrupted))
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, role: of(twins.cached, role)(x), backend="eager")
    for inputs in (A, B) * 3:
        for role in ("policy", "value"):
            assert_same(compiled(inputs[OBSERVATIONS], role), of(twins.plain, role)(inputs[OBSERVATIONS]))
        twins.learn(inputs)


@all_kinds
@pytest.mark.parametrize("strict", [False, True])
def test_export(make: Any, strict: bool) -> None:
    twins = warm_twins(make)
    with torch.no_grad(), warnings.catch_warnings():
        if make is pattern:  # it keeps its features in an attribute, with or without the cache
            warnings.filterwarnings("ignore", "While compiling, we found certain side effects")
        act(twins.cached, A, "policy")
        for roles in (["value"], ["policy", "value"]):
            exported = torch.export.export(Answers(twins.cached, *roles), (X,), strict=strict).module()
            assert_same(exported(Y), Answers(twins.plain, *roles)(Y))
        twins.pair(A)


@all_kinds
@pytest.mark.parametrize("mode", ["real", "fake"])
def test_make_fx(make: Any, mode: Any) -> None:
    twins = warm_twins(make)
    with torch.no_grad():
        act(twins.cached, A, "policy")
        for roles in (["value"], ["policy", "value"]):
            graph = make_fx(Answers(twins.cached, *roles), tracing_mode=mode, _allow_non_fake_inputs=True)(X)
            assert_same(graph(Y), Answers(twins.plain, *roles)(Y))
        twins.pair(A)


# ------------------------------------------------------------------------------------------- functions of functions


def loss(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return (function(x) ** 2).sum()


TRANSFORMS: dict[str, Callable[[Callable[[torch.Tensor], torch.Tensor], torch.Tensor], torch.Tensor]] = {
    "vmap": lambda function, x: torch.func.vmap(function)(x),
    "grad": lambda function, x: torch.func.grad(partial(loss, function))(x),
    "jacrev": lambda function, x: torch.func.jacrev(function)(x),
    "jvp": lambda function, x: torch.func.jvp(function, (x,), (torch.ones_like(x),))[1],
    "functionalize": lambda function, x: torch.func.functionalize(function)(x),
}


@all_kinds
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_a_function_transform(make: Any, transform: Any) -> None:
    twins = warm_twins(make)
    twins.act(A, "policy")
    for role in ("value", "policy", "value"):
        assert_same(*(transform(of(model, role), X).detach() for model in (twins.cached, twins.plain)))
    assert "functorch transform" in reasons(twins.cached)
    twins.pair(A)


def test_a_gradient_of_the_parameters_by_functional_call() -> None:
    twins = warm_twins()

    def gradient(model: Any) -> Any:
        parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}

        def total(parameters: Any) -> torch.Tensor:
            result = 0.0
            for role in ("policy", "value"):
                outputs = torch.func.functional_call(model, parameters, (A,), {"role": role})
                result = result + (outputs[0] ** 2).sum()
            return torch.as_tensor(result)

        torch.manual_seed(0)
        return torch.func.grad(total)(parameters)

    cached, plain = (gradient(model) for model in (twins.cached, twins.plain))
    assert_close_gradients(cached, plain)
    twins.pair(A)


def tangents(model: Any) -> list[torch.Tensor | None]:
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, torch.ones_like(X))
        return [forward_ad.unpack_dual(answer).tangent for answer in pair_of(model)(x)]


@all_kinds
def test_forward_mode_differentiation(make: Any) -> None:
    twins = warm_twins(make)
    act(twins.cached, A, "policy")
    with torch.no_grad():
        assert_same(tangents(twins.cached), tangents(twins.plain))
    assert "forward-mode AD" in reasons(twins.cached)
    twins.pair(A)


def test_forward_mode_of_a_value_after_a_policy_without_it() -> None:
    """The same tensor object gets a tangent by ``make_dual`` of a view: what was kept has none."""
    twins = warm_twins()
    with forward_ad.dual_level():
        for model in (twins.cached, twins.plain):
            model.compute(A, "policy")
        dual = forward_ad.make_dual(X, torch.ones_like(X))
        cached, plain = (forward_ad.unpack_dual(of(model, "value")(dual)) for model in (twins.cached, twins.plain))
    assert_same(cached.tangent, plain.tangent)
    assert cached.tangent is not None


@pytest.mark.parametrize("make", [naive, pattern])
@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "not reentrant"])
def test_activation_checkpointing_of_compute(make: Any, reentrant: bool) -> None:
    """Each checkpoint runs its forward again in the backward, and must save then what it saved before."""
    twins = warm_twins(make)
    for inputs in (A, B, A):
        outputs = []
        for model in (twins.cached, twins.plain):
            model.zero_grad()
            x = inputs[OBSERVATIONS].clone().requires_grad_()
            answers = [checkpoint(of(model, role), x, use_reentrant=reentrant) for role in ("policy", "value")]
            sum((answer**2).sum() for answer in answers).backward()
            outputs.append([*answers, x.grad])
        for cached, plain in zip(*outputs):
            torch.testing.assert_close(cached, plain, rtol=1e-5, atol=1e-6)
        twins.assert_same_gradients()
        twins.pair(inputs)


def test_a_checkpointed_value_after_a_policy_that_is_not() -> None:
    """The forward in the backward must not find what the first forward did not."""
    twins = warm_twins()
    for model in (twins.cached, twins.plain):
        model.zero_grad()
        policy = of(model, "policy")(X)
        value = checkpoint(of(model, "value"), X, use_reentrant=False)
        model.compute(A, "policy")
        ((policy**2).sum() + (value**2).sum()).backward()
    twins.assert_same_gradients()


class Checkpointed(nn.Module):
    """A trunk that checkpoints itself."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.layers = mlp()
        self.reentrant = reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = checkpoint(self.layers, x, use_reentrant=self.reentrant)
        return features


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning")
@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "not reentrant"])
def test_a_trunk_that_checkpoints_itself_runs_once_forward_and_once_in_the_backward(reentrant: bool) -> None:
    twins = warm_twins(partial(naive, trunk=lambda: Checkpointed(reentrant)), make_inputs(X.clone().requires_grad_()))
    passes = Passes(twins.cached.net)
    twins.learn(make_inputs(Y.clone().requires_grad_()))
    assert passes.take() == 2


@contextlib.contextmanager
def counted_saves() -> Iterator[list[torch.Tensor]]:
    saved: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(tensor)
        return tensor.clone()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed):
        yield saved


def test_saved_tensor_hooks_see_what_they_see_without_the_cache() -> None:
    twins = warm_twins()
    counts = []
    for model in (twins.cached, twins.plain):
        model.zero_grad()
        policy = of(model, "policy")(X)
        with counted_saves() as saved:
            value = of(model, "value")(X)
        ((policy**2).sum() + (value**2).sum()).backward()
        counts.append(len(saved))
    assert counts[0] == counts[1] > 0
    assert "saved-tensor hooks" in reasons(twins.cached)
    twins.assert_same_gradients()


def test_a_pass_inside_a_backward_is_not_kept() -> None:
    """A hook that asks for a value: here the graph of the outer backward is at work."""
    twins = warm_twins()
    asked: list[Any] = []
    for model in (twins.cached, twins.plain):
        x = X.clone().requires_grad_()
        x.register_hook(lambda grad, model=model: asked.append(pair_of(model)(Y)))
        of(model, "value")(x).sum().backward()
    assert_same(*asked)
    assert "inside a backward" in reasons(twins.cached)


# ------------------------------------------------------------------------------------------------------ odd tensors


class SparseTrunk(nn.Module):
    """A trunk that takes a sparse batch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(OBSERVATION_SIZE, FEATURES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sparse.mm(x, self.weight) if x.is_sparse else x @ self.weight


def test_sparse_observations() -> None:
    twins = warm_twins(partial(naive, trunk=SparseTrunk))
    sparse = (X * (X > 0)).to_sparse()
    assert refusal(twins, make_inputs(sparse)) == "a tensor of layout torch.sparse_coo"
    with torch.no_grad():
        assert "torch.sparse_coo" in str(refusal(twins, make_inputs(sparse), between=lambda: sparse.mul_(2.0)))


def test_a_sparse_output() -> None:
    class SparseOutput(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = mlp()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            features: torch.Tensor = self.layers(x)
            return features.to_sparse()

    def make(base: Any) -> Any:
        class Densifying(ActorCritic, base):
            def __init__(self) -> None:
                ActorCritic.__init__(self, base)
                self.net = SparseOutput()
                self.add_heads(FEATURES)

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                return self.answer(self.net(inputs[OBSERVATIONS]).to_dense(), role, inputs)

        return Densifying()

    twins = Twins(make)
    for inputs in (A, B) * 3:
        twins.learn(inputs)
    assert "output: a tensor of layout torch.sparse_coo" in reasons(twins.cached)


def test_a_view_that_torch_will_not_explain() -> None:
    """Without grad it may be used; where it stands in a graph, torch refuses to tell."""
    twins, base = warm_twins(), observations(seed=3)
    with torch.no_grad():
        view = base[:]
    base.mul_(torch.full((), 2.0, requires_grad=True))
    with pytest.raises(RuntimeError, match="modified inplace"):
        _ = view.grad_fn
    with torch.no_grad():
        assert refusal(twins, make_inputs(view)) is None
        assert "require grad" in str(refusal(twins, A, make_inputs(view)))
    with pytest.raises(RuntimeError, match="modified inplace"):
        act(twins.cached, make_inputs(view), "policy")


class Measured(torch.Tensor):
    """A tensor of the user's own kind."""


def test_a_tensor_subclass() -> None:
    twins = warm_twins()
    assert "Measured" in str(refusal(twins, make_inputs(X.clone().as_subclass(Measured))))


def test_a_parameter_of_the_users_own_kind() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = mlp()
            self.scale = nn.Parameter(torch.ones(FEATURES).as_subclass(Measured))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            features: torch.Tensor = self.layers(x) * self.scale.as_subclass(torch.Tensor)
            return features

    twins = Twins(partial(naive, trunk=Odd))
    for inputs in (A, B) * 3:
        twins.learn(inputs)
    assert "a parameter or buffer of type Measured, torch.strided" in reasons(twins.cached)


def test_a_sparse_buffer() -> None:
    class Graph(nn.Module):
        """A trunk with an adjacency matrix, which may be written like any buffer."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = mlp()
            self.adjacency: torch.Tensor
            self.register_buffer("adjacency", torch.eye(5).to_sparse())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            features: torch.Tensor = self.layers(torch.sparse.mm(self.adjacency, x))
            return features

    twins = Twins(partial(naive, trunk=Graph))
    for inputs in (A, B) * 3:
        twins.learn(inputs)
    assert "a parameter or buffer of type Tensor, torch.sparse_coo" in reasons(twins.cached)
    with torch.no_grad():
        refusal(twins, between=lambda: twins.each(lambda model: model.net.adjacency.mul_(2.0)))


SCRIPTED: dict[str, Callable[[], nn.Module]] = {
    "scripted": lambda: torch.jit.script(mlp()),
    "traced": lambda: torch.jit.trace(mlp(), X),
    "scripted inside": lambda: nn.Sequential(torch.jit.script(mlp()), nn.Identity()),
}


@pytest.mark.parametrize("trunk", SCRIPTED.values(), ids=SCRIPTED)
def test_a_scripted_trunk(trunk: Callable[[], nn.Module]) -> None:
    twins = Twins(partial(naive, trunk=trunk))
    for inputs in (A, B) * 4:
        twins.learn(inputs)
        with torch.no_grad():
            twins.pair(inputs)
    assert set(twins.cached.cache_info().reasons) == {"a scripted module"}


def test_meta_tensors() -> None:
    """They have no elements that could be equal."""
    cached = build(naive, SharedModel).to("meta")
    for _ in range(6):
        for role in ("policy", "value"):
            assert cached.compute(make_inputs(torch.empty(5, 6, device="meta")), role)[0].shape[0] == 5
    assert cached.cache_info().hits == 0


# -------------------------------------------------------------------------------------------------------- reentrance


@pytest.mark.filterwarnings("ignore:The shared cache does not help")
@pytest.mark.parametrize("shared_output", [False, True], ids=["naive", "pattern"])
def test_a_compute_that_calls_the_same_compute(shared_output: bool) -> None:
    """A policy that looks at the values of two batches before it decides."""

    def make(base: Any) -> Any:
        class Reentrant(ActorCritic, base):
            def __init__(self) -> None:
                ActorCritic.__init__(self, base)
                self.net = mlp()
                self.add_heads(FEATURES)
                self._shared_output: Any = None

            def features(self, inputs: dict[str, Any], role: str) -> torch.Tensor:
                if not shared_output:
                    return torch.as_tensor(self.net(inputs[OBSERVATIONS]))
                if role == "policy" or self._shared_output is None:
                    self._shared_output = self.net(inputs[OBSERVATIONS])
                return torch.as_tensor(self._shared_output)

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                if role == "value":
                    return self.answer(self.features(inputs, role), role, inputs)
                value = self.compute({OBSERVATIONS: -inputs[OBSERVATIONS]}, "value")[0]
                value = value + self.compute(inputs=inputs, role="value")[0]
                return self.answer(self.features(inputs, role) + value, role, inputs)

        return Reentrant()

    twins = Twins(make)
    for grad in (True, False):
        with in_grad_mode(grad):
            twins.walk((A, B), calls=40)
    for inputs in (A, B) * 3:
        twins.learn(inputs)


def test_a_model_that_asks_another_model_with_the_same_trunk() -> None:
    """The role is that of the outermost compute: the inner one must not take the policy's features for its own."""
    trunk = mlp()

    def make(base: Any) -> Any:
        class Outer(ActorCritic, base):
            def __init__(self, critic: Any) -> None:
                ActorCritic.__init__(self, base)
                self.net = trunk
                self.critic = [critic]
                self.add_heads(FEATURES)

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                advice = self.critic[0].compute(make_inputs(2.0 * inputs[OBSERVATIONS]), "value")[0]
                return self.answer(self.net(inputs[OBSERVATIONS]) + advice, role, inputs)

        return Outer(naive(base, trunk=lambda: trunk))

    cached, plain = build(make, SharedModel), build(make, TwoPass)
    for inputs in (A, B, A, B, A):
        for role in ("policy", "value"):
            assert_same(cached.compute(inputs, role)[0], plain.compute(inputs, role)[0])


def test_tensors_that_are_saved_on_the_cpu() -> None:
    twins = warm_twins()
    with torch.autograd.graph.save_on_cpu():
        twins.learn(A)
    assert "saved-tensor hooks" in reasons(twins.cached)
