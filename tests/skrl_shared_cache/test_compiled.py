"""A compiled trunk keeps its compiler and the single pass; a compiled or exported ``compute`` is the plain model's."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch._dynamo.backends.debugging import aot_eager
from torch._dynamo.utils import counters

from skrl_shared_cache import SharedModel

from .support.agents import trained
from .support.devices import inputs_on, needs_cuda, twins_on
from .support.lines import OBSERVATIONS, ActorCritic, act, make_inputs
from .support.pairs import A, B, in_grad_mode, refusal
from .support.twins import Make, Twins, TwoPass, assert_close_gradients, assert_same, build, gradients, seeded_act
from .support.zoo import FEATURES, OBSERVATION_SIZE, mlp, naive, observations, pattern
from .test_bypasses import Answers
from .test_training import cached_passes, plain_passes

# torch's own: it still uses what it deprecates, and looks at the `grad` of whatever it compiles for
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]

ROLES = ("policy", "value")
LIMIT = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"

Compile = Callable[[Any, Any], None]
"""Compiles a part of a model with a backend."""


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    """At the usual limit of eight graphs per function the compiler gives up, and two counts of eight say nothing."""
    torch._dynamo.reset()
    counters.clear()
    with torch._dynamo.config.patch({LIMIT: 64}):
        yield
    torch._dynamo.reset()


class Counting:
    """A backend without a compiler of machine code, which counts the graphs, and how often they run.

    :param backend: What makes a graph run.
    """

    def __init__(self, backend: Callable[..., Any] = lambda graph, inputs: graph.forward) -> None:
        self.graphs = self.runs = 0
        self._backend = backend

    def __call__(self, graph: Any, inputs: Any) -> Callable[..., Any]:
        self.graphs += 1
        run = self._backend(graph, inputs)

        def counted(*args: Any) -> Any:
            self.runs += 1
            return run(*args)

        return counted


class Trunk(nn.Module):
    """A trunk with code of its own: ``nn.Sequential.compile()`` compiles nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(OBSERVATION_SIZE, FEATURES)
        self.block = Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.block(torch.tanh(self.first(x)))
        return features


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, FEATURES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.elu(self.layer(x))


MODES: dict[str, Callable[[], Any]] = {
    "grad": nullcontext,
    "no grad": torch.no_grad,
    "bfloat16": lambda: torch.autocast("cpu", torch.bfloat16),
    "inference": torch.inference_mode,
}
SIZES = (5, 3, 7)
SEEDS = 3
ROUNDS = 2 * len(MODES) * SEEDS * len(SIZES)
BYPASSED = ROUNDS // len(MODES)  # inference mode
EXTRA = 1 + 2 * 4  # the very first pair; probation of the value in train and eval mode, with grad and without


def outputs_of(model: Any, modes: Iterable[str] = MODES) -> list[Any]:
    """Let a model act in train and eval mode, in some modes of torch, on batches of several sizes, and learn."""
    outputs = []
    for training in (True, False):
        model.train(training)
        for seed in range(SEEDS):
            for mode in modes:
                for size in SIZES:
                    inputs = make_inputs(observations(size, seed))
                    with MODES[mode]():
                        answers = [seeded_act(model, inputs, role)[0] for role in ROLES]
                    outputs.append([answer.detach().clone() for answer in answers])
                    if answers[0].requires_grad:
                        model.zero_grad()
                        sum(answer.float().square().sum() for answer in answers).backward()
    return outputs


def compare(
    make: Make, compile_it: Compile, backend: Any = None, modes: Iterable[str] = MODES
) -> tuple[Counting, Counting, Any]:
    """Compile the same in the plain and in the cached model, and assert the same outputs and gradients.

    :param make: Builds the model.
    :param compile_it: Compiles a part of it.
    :param backend: What makes a graph run.
    :param modes: Modes of torch to act in.

    :return: The counts of the cached model, those of the plain one, and the cached model.
    """
    results = []
    for base in (SharedModel, TwoPass):
        torch._dynamo.reset()
        model, counting = build(make, base), Counting(backend) if backend else Counting()
        compile_it(model, counting)
        results.append((model, counting, outputs_of(model, modes)))
    (cached, cached_counts, actual), (plain, plain_counts, expected) = results
    assert_same(actual, expected)
    assert_close_gradients(gradients(cached), gradients(plain), 3e-2)  # bfloat16 is among the modes
    return cached_counts, plain_counts, cached


# -------------------------------------------------------------------------------------------------- compiled trunks


def by_torch_compile(model: Any, backend: Any, **options: Any) -> None:
    model.net = torch.compile(model.net, backend=backend, **options)


def by_compile_in_place(model: Any, backend: Any) -> None:
    model.net.compile(backend=backend)


WAYS: dict[str, Compile] = {
    "torch.compile": by_torch_compile,
    "dynamic": partial(by_torch_compile, dynamic=True),
    "fullgraph": partial(by_torch_compile, fullgraph=True),
    "in place": by_compile_in_place,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_compiled_trunk_runs_once_per_pair_in_no_more_graphs_than_the_plain_models(way: Compile) -> None:
    cached, plain, _ = compare(partial(naive, trunk=Trunk), way)
    assert 0 < cached.graphs <= plain.graphs
    assert (cached.runs, plain.runs) == (ROUNDS + BYPASSED + EXTRA, 2 * ROUNDS)


@pytest.mark.parametrize("make", [naive, pattern])
def test_a_trunk_that_is_compiled_with_its_backward_is_no_different(make: Any) -> None:
    cached, plain, _ = compare(partial(make, trunk=Trunk), by_torch_compile, aot_eager)
    assert 0 < cached.graphs <= plain.graphs
    assert cached.runs == ROUNDS + BYPASSED + EXTRA


@pytest.mark.parametrize("make", [naive, pattern])
@pytest.mark.parametrize("way", [by_torch_compile, by_compile_in_place])
def test_ppo_with_a_compiled_trunk_learns_the_same_in_half_the_passes_and_no_more_graphs(make: Any, way: Any) -> None:
    results = []
    for base, passes in ((SharedModel, cached_passes), (TwoPass, plain_passes)):
        torch._dynamo.reset()
        model, backend = build(partial(make, trunk=Trunk), base), Counting()
        way(model, backend)
        trained("PPO", model, updates=2)
        assert backend.runs == passes("PPO", 2)
        results.append((backend.graphs, nn.utils.parameters_to_vector(model.parameters()).detach()))
    (cached_graphs, cached), (plain_graphs, plain) = results
    assert 0 < cached_graphs <= plain_graphs
    assert (cached - plain).abs().max() <= 1e-5


@pytest.mark.parametrize("mode", ["verify", "off"])
def test_the_modes_of_the_cache_compile_no_more_graphs(mode: str) -> None:
    def compile_it(model: Any, backend: Any) -> None:
        model.shared_cache_mode = mode
        by_torch_compile(model, backend)

    cached, plain, _ = compare(partial(naive, trunk=Trunk), compile_it)
    assert 0 < cached.graphs <= plain.graphs


# --------------------------------------------------------------------------------------- compiled parts of a model


def with_named_method(base: Any) -> Any:
    class NamedMethod(ActorCritic, base):
        shared_modules = ("trunk",)

        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = Trunk()
            self.add_heads(FEATURES)

        def trunk(self, x: torch.Tensor) -> torch.Tensor:
            return F.normalize(self.net(x))

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(self.trunk(inputs[OBSERVATIONS]), role, inputs)

    return NamedMethod()


def with_function(base: Any) -> Any:
    class Function(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = Trunk()
            self.function: Any = self.trunk
            self.add_heads(FEATURES)

        def trunk(self, x: torch.Tensor) -> torch.Tensor:
            return F.normalize(self.net(x))

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            shared = getattr(self, "shared", lambda function, x: function(x))
            return self.answer(shared(self.function, inputs[OBSERVATIONS]), role, inputs)

    return Function()


def with_two_trunks(base: Any) -> Any:
    class TwoTrunks(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net, self.other = Trunk(), Trunk()
            self.add_heads(2 * FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            x = inputs[OBSERVATIONS]
            return self.answer(torch.cat([self.net(x), self.other(x)], dim=-1), role, inputs)

    return TwoTrunks()


def compile_children(*names: str) -> Compile:
    def compile_them(model: Any, backend: Any) -> None:
        for name in names:
            parent, _, child = name.rpartition(".")
            owner = model.get_submodule(parent)
            setattr(owner, child, torch.compile(getattr(owner, child), backend=backend))

    return compile_them


def compile_in_place(*names: str) -> Compile:
    def compile_them(model: Any, backend: Any) -> None:
        for name in names:
            model.get_submodule(name).compile(backend=backend)

    return compile_them


def compile_function(model: Any, backend: Any) -> None:
    model.function = torch.compile(model.trunk, backend=backend)


PARTS: dict[str, tuple[Make, Compile]] = {
    "a block of the trunk": (partial(naive, trunk=Trunk), compile_children("net.block")),
    "a block of the trunk, in place": (partial(naive, trunk=Trunk), compile_in_place("net.block")),
    "a block, and the trunk": (partial(naive, trunk=Trunk), compile_in_place("net.block", "net")),
    "trunk and heads": (partial(naive, trunk=Trunk), compile_children("net", "policy_head", "value_head")),
    "two trunks": (with_two_trunks, compile_children("net", "other")),
    "two trunks, in place": (with_two_trunks, compile_in_place("net", "other")),
    "a child in a named method": (with_named_method, compile_children("net")),
    "a child in self.shared": (with_function, compile_in_place("net")),
    "the function of self.shared": (with_function, compile_function),
}


@pytest.mark.parametrize(("make", "compile_it"), PARTS.values(), ids=PARTS)
def test_compiled_parts_of_a_model_are_cached_and_compile_no_more_graphs(make: Make, compile_it: Compile) -> None:
    cached, plain, model = compare(make, compile_it, modes=["grad"])
    assert 0 < cached.graphs <= plain.graphs
    pairs = ROUNDS // len(MODES)
    assert cached.runs <= plain.runs - (pairs - EXTRA)
    assert model.cache_info().hits >= pairs - EXTRA


# --------------------------------------------------------------------------- all of compute, or of act, is compiled


def compiled(function: Any, backend: Any = "eager", fullgraph: bool = True) -> Any:
    return torch.compile(function, backend=backend, fullgraph=fullgraph)


WHOLE: dict[str, Make] = {
    "naive": partial(naive, trunk=Trunk),
    "pattern": partial(pattern, trunk=Trunk),
    "named method": with_named_method,
    "self.shared": with_function,
}


@pytest.mark.parametrize(
    ("name", "make"),
    [*(("compute", make) for make in WHOLE.values()), ("act", WHOLE["naive"]), ("act", WHOLE["pattern"])],
)
def test_a_compiled_method_is_the_plain_models_in_as_many_graphs_without_another_break(name: str, make: Make) -> None:
    breaks = []
    backends = [Counting(), Counting()]
    for base, backend in zip((SharedModel, TwoPass), backends):
        torch._dynamo.reset()
        counters.clear()
        model = build(make, base)
        setattr(model, name, compiled(getattr(model, name), backend, fullgraph=name == "compute"))
        answers = outputs_of(model, ["grad"])
        breaks.append((answers, Counter(counters["graph_break"])))
    (actual, cached_breaks), (expected, plain_breaks) = breaks
    assert_same(actual, expected)
    assert cached_breaks.total() <= plain_breaks.total()
    assert 0 < backends[0].graphs <= backends[1].graphs


def test_pairs_that_are_not_compiled_make_no_graphs_of_compute_anew() -> None:
    twins = Twins(partial(naive, trunk=Trunk))
    backends = [Counting(), Counting()]
    models = twins.cached, twins.plain
    computes = [compiled(model.compute, backend) for model, backend in zip(models, backends)]
    for seed in range(8):
        inputs = make_inputs(observations(seed=seed))
        for role in ROLES:
            assert_same(*(compute(inputs, role) for compute in computes))
            twins.act(inputs, role)
            assert_same(*(compute(inputs, role) for compute in computes))
    assert backends[0].graphs == backends[1].graphs == len(ROLES)
    assert refusal(twins) is None


def test_a_value_after_a_compiled_policy_and_a_compiled_value_after_a_policy() -> None:
    twins = Twins(partial(naive, trunk=Trunk))
    twins.warm(A)
    computes = [compiled(model.compute) for model in (twins.cached, twins.plain)]
    for inputs in (A, B, A):
        assert_same(*(compute(inputs, "policy") for compute in computes))
        twins.act(B, "value")
        twins.act(A, "policy")
        assert_same(*(compute(inputs, "value") for compute in computes))


# ------------------------------------------------------------------------------------------------------ exporting


@pytest.mark.filterwarnings("ignore:While compiling, we found certain side effects:UserWarning")
@pytest.mark.parametrize("make", WHOLE.values(), ids=WHOLE)
@pytest.mark.parametrize("strict", [False, True], ids=["not strict", "strict"])
def test_the_exported_program_is_that_of_the_plain_model_for_every_batch_size(make: Make, strict: bool) -> None:
    twins = Twins(make)
    twins.warm(A)
    batch = {"x": {0: torch.export.Dim("batch", min=2)}}
    programs = [
        torch.export.export(Answers(model, *ROLES), (A[OBSERVATIONS],), dynamic_shapes=batch, strict=strict)
        for model in (twins.cached, twins.plain)
    ]
    cached, plain = (
        Counter((node.op, str(node.target)) for node in program.graph.nodes if node.op == "call_function")
        for program in programs
    )
    assert cached == plain
    for size in (2, 7):
        x = observations(size, 3)
        assert_same(programs[0].module()(x), Answers(twins.plain, *ROLES)(x))


@pytest.mark.parametrize("make", [naive, pattern])
@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no grad"])
def test_a_pair_hits_after_an_export_in_between_and_returns_no_tensor_of_it(make: Any, grad: bool) -> None:
    twins = Twins(partial(make, trunk=Trunk))
    twins.warm(A)

    def export() -> None:
        for model in (twins.cached, twins.plain):
            torch.export.export(Answers(model, "value"), (B[OBSERVATIONS],), strict=False)

    with in_grad_mode(grad):
        assert refusal(twins, A, between=export) is None


# ------------------------------------------------------------------------------------------- compiled all around it


def test_the_step_of_a_compiled_optimizer_is_noticed() -> None:
    twins = Twins(naive)
    twins.warm(A)
    steps = []
    for model in (twins.cached, twins.plain):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)  # it moves no version counter
        steps.append(compiled(optimizer.step, fullgraph=False))
    for _ in range(3):
        twins.learn(A)
        twins.copy_gradients()
        assert refusal(twins, A, between=lambda: [step() for step in steps]) is not None


def test_gradients_by_a_compiled_backward() -> None:
    if not hasattr(torch._dynamo.compiled_autograd, "_enable"):
        pytest.skip("this torch has no compiled backward")
    twins = Twins(naive)
    for seed in range(5):
        inputs = make_inputs(observations(seed=seed))
        for model in (twins.cached, twins.plain):
            model.zero_grad()
            loss = sum(seeded_act(model, inputs, role)[0].square().sum() for role in ROLES)
            with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
                torch.as_tensor(loss).backward()
        twins.assert_same_gradients()
    assert refusal(twins, A) is None


def test_a_model_that_is_compiled_in_place_acts_and_caches_as_before() -> None:
    """skrl's agents call ``act`` and not the model, so ``model.compile()`` compiles nothing."""
    twins = Twins(naive)
    twins.each(lambda model: model.compile(backend="eager"))
    for inputs in (A, B) * 4:
        twins.learn(inputs)
    assert refusal(twins, A) is None
    assert act(twins.cached, A, "value")[0].shape == (5, 1)


def test_a_trunk_of_the_standard_library_of_layers_is_cached_when_it_is_compiled_in_place() -> None:
    twins = Twins(partial(naive, trunk=mlp))
    twins.each(lambda model: model.net.compile(backend="eager"))
    for inputs in (A, B) * 4:
        twins.learn(inputs)
    assert refusal(twins, A) is None


# ------------------------------------------------------------------------------------------------------- on a GPU


def has_compiler_for_gpus() -> bool:
    if not torch.cuda.is_available() or not (shutil.which("cc") or shutil.which("gcc")):
        return False
    from torch.utils._triton import has_triton

    return bool(has_triton())


@needs_cuda
@pytest.mark.parametrize("inner", ["aot_eager", "inductor"])
@pytest.mark.parametrize("make", [naive, pattern])
def test_a_trunk_that_is_compiled_on_cuda_runs_once_per_pair(make: Any, inner: str) -> None:
    if inner == "inductor" and not has_compiler_for_gpus():
        pytest.skip("no triton, or no C compiler")
    twins = twins_on("cuda", partial(make, trunk=Trunk))
    backends = [Counting(torch._dynamo.lookup_backend(inner)) for _ in range(2)]
    for model, backend in zip((twins.cached, twins.plain), backends):
        by_torch_compile(model, backend)
    twins.warm(inputs_on("cuda", 9))
    for backend in backends:
        backend.runs = 0
    for seed in range(4):
        twins.learn(inputs_on("cuda", seed))
        with torch.no_grad():
            twins.pair(inputs_on("cuda", seed))
    assert [backend.runs for backend in backends] == [8, 16]
    assert 0 < backends[0].graphs <= backends[1].graphs


class Tower(nn.Module):
    """A head with a trunk that another one holds as well."""

    def __init__(self, trunk: nn.Module, outputs: int) -> None:
        super().__init__()
        self.trunk = trunk
        self.head = nn.Linear(FEATURES, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.head(self.trunk(x))
        return answer


def with_two_towers(base: Any) -> Any:
    class TwoTowers(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = Trunk()
            self.add_heads(FEATURES)
            self.policy_head, self.value_head = Tower(self.net, 2), Tower(self.net, 1)  # type: ignore[assignment]

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(inputs[OBSERVATIONS], role, inputs)

    return TwoTowers()


def compile_the_trunk_of_both_towers(model: Any, backend: Any) -> None:
    compiled_trunk = torch.compile(model.net, backend=backend)
    model.policy_head.trunk = model.value_head.trunk = compiled_trunk
    del model.net


def test_a_compiled_trunk_in_two_towers_compiles_no_more_graphs() -> None:
    cached, plain, model = compare(with_two_towers, compile_the_trunk_of_both_towers, modes=["grad"])
    assert 0 < cached.graphs <= plain.graphs
    assert model.cache_info().hits >= ROUNDS // len(MODES) - EXTRA


def test_a_compiled_role_of_a_model_with_shared_output_is_compiled_once() -> None:
    """Whatever the other role has left there, compiled or not."""
    twins, counting = Twins(partial(pattern, trunk=Trunk)), Counting()
    compute = compiled(twins.cached.compute, counting)
    for inputs in (A, B, A):
        for role in ("policy", "policy", "value", "value"):
            assert_same(compute(inputs, role), twins.plain.compute(inputs, role))
            twins.act(inputs, "policy")
    assert counting.graphs == len(ROLES)
