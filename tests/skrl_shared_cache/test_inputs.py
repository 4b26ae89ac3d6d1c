"""The inputs: the value is served what the policy's pass returned only if both got the same ones."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn as nn

from .support.lines import OBSERVATIONS, ActorCritic, make_inputs
from .support.pairs import A, B, in_grad_mode, refusal, warm_twins
from .support.twins import Twins, assert_same, seeded_act
from .support.zoo import FEATURES, mlp, observations

X = A[OBSERVATIONS]

both_grad_modes = pytest.mark.parametrize("grad", [True, False], ids=["grad", "no grad"])


def fresh() -> torch.Tensor:
    return observations(seed=4)


def taking(base: Any, trunk: nn.Module, pick: Callable[[dict[str, Any]], Any] = lambda inputs: inputs) -> Any:
    """Return a model whose trunk gets what ``pick`` makes of the inputs, as its arguments."""

    class Taking(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = trunk
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            arguments = pick(inputs)
            features = self.net(arguments) if arguments is not inputs else self.net(inputs[OBSERVATIONS])
            return self.answer(features, role, inputs)

    return Taking()


def test_the_same_tensor_hits() -> None:
    assert refusal(warm_twins(), A, A) is None


def test_the_same_tensor_in_other_dictionaries_hits() -> None:
    assert refusal(warm_twins(), make_inputs(X), make_inputs(X)) is None


def test_other_observations_do_not_hit() -> None:
    assert refusal(warm_twins(), A, B) == "inputs differ"


def test_another_batch_size_does_not_hit() -> None:
    assert refusal(warm_twins(), A, make_inputs(X[:3])) == "inputs differ"


def test_another_dtype_does_not_hit() -> None:
    twins = warm_twins()
    twins.each(lambda model: model.to(torch.bfloat16))
    x = torch.ones(5, 6)
    with torch.no_grad():
        assert refusal(twins, make_inputs(x.bfloat16()), make_inputs(x.bfloat16())) is None
        with torch.autocast("cpu", torch.bfloat16):
            assert refusal(twins, make_inputs(x), make_inputs(x.bfloat16())) == "inputs differ"


@both_grad_modes
def test_a_tensor_that_was_written_in_place_does_not_hit(grad: bool) -> None:
    twins, x = warm_twins(), fresh()
    with in_grad_mode(grad):
        assert refusal(twins, make_inputs(x), between=lambda: x.mul_(2.0)) == "inputs were written"


def test_a_tensor_that_was_written_through_a_view_does_not_hit() -> None:
    twins, x = warm_twins(), fresh()
    assert refusal(twins, make_inputs(x), between=lambda: x[1:].zero_()) == "inputs were written"


def test_another_view_of_what_was_written_does_not_hit() -> None:
    twins, x = warm_twins(), fresh()
    other = make_inputs(x.view(-1, 6))
    assert refusal(twins, make_inputs(x), other, between=lambda: x.mul_(2.0)) == "inputs were written"


def test_a_view_of_a_buffer_that_was_written_does_not_hit() -> None:
    """An environment that hands out a view of its one buffer, and steps by writing into that."""
    twins, buffer = warm_twins(), fresh()
    inputs = make_inputs(buffer[:4])
    assert refusal(twins, inputs) is None
    assert refusal(twins, inputs, between=lambda: buffer.mul_(2.0)) == "inputs were written"


def set_data(x: torch.Tensor, other: torch.Tensor) -> None:
    x.data = other


def test_a_tensor_that_was_given_other_data_does_not_hit() -> None:
    """``x.data = y`` moves no version counter."""
    twins, x = warm_twins(), fresh()
    assert refusal(twins, make_inputs(x), between=lambda: set_data(x, 2.0 * x)) == "inputs were written"


@pytest.mark.parametrize("change", ["t_", "squeeze_", "resize_"])
def test_a_tensor_that_was_given_another_shape_does_not_hit(change: str) -> None:
    twins, x = warm_twins(), observations(batch=6)
    arguments = {"t_": (), "squeeze_": (), "resize_": (3, 6)}[change]
    assert refusal(twins, make_inputs(x), between=lambda: getattr(x, change)(*arguments)) == "inputs were written"


@pytest.mark.parametrize("before", [True, False])
def test_a_tensor_that_began_or_ceased_to_require_grad_does_not_hit(before: bool) -> None:
    twins, x = warm_twins(), fresh().requires_grad_(before)
    assert refusal(twins, make_inputs(x)) is None
    assert refusal(twins, make_inputs(x), between=lambda: x.requires_grad_(not before)) == "inputs were written"


def test_a_tensor_that_was_detached_in_place_does_not_hit() -> None:
    twins, leaf = warm_twins(), fresh().requires_grad_()
    x = 2.0 * leaf
    assert refusal(twins, make_inputs(x), between=lambda: x.detach_()) == "inputs were written"


def test_a_tensor_that_became_a_leaf_in_place_gets_its_gradient() -> None:
    """As truncated backpropagation cuts the graph of a state: its version and its flag stay what they were."""
    twins, x = warm_twins(), 2.0 * fresh().requires_grad_()
    twins.act(make_inputs(x), "policy")
    x.detach_().requires_grad_()
    outputs = twins.act(make_inputs(x), "value")
    assert_same(*(torch.autograd.grad(values.sum(), x, allow_unused=True)[0] for values, _, _ in outputs))


def test_gradients_reach_the_inputs_of_both_roles() -> None:
    """Equal inputs that require grad are different leaves: each must get the gradient of its own role."""
    twins = warm_twins()
    inputs = [[make_inputs(fresh().requires_grad_()) for _ in range(2)] for _ in range(2)]
    for model, (for_policy, for_value) in zip((twins.cached, twins.plain), inputs):
        seeded_act(model, for_policy, "policy")
        seeded_act(model, for_value, "value")[0].sum().backward()
    assert inputs[0][0][OBSERVATIONS].grad is None
    torch.testing.assert_close(inputs[0][1][OBSERVATIONS].grad, inputs[1][1][OBSERVATIONS].grad)


def test_an_equal_tensor_without_gradient_gets_nothing_of_one_with() -> None:
    """With all parameters frozen, the value of observations without gradient has none."""
    twins, x = warm_twins(), fresh()
    twins.each(lambda model: model.freeze_parameters(True))
    assert refusal(twins, make_inputs(x.clone().requires_grad_()), make_inputs(x)) == "inputs differ"


def test_gradients_reach_each_of_two_leaves_in_the_same_memory() -> None:
    twins, x = warm_twins(), fresh()
    with torch.no_grad():
        leaves = [x.view_as(x), x.view_as(x)]
    for leaf in leaves:
        leaf.requires_grad_()
    twins.act(make_inputs(leaves[0]), "policy")
    outputs = twins.act(make_inputs(leaves[1]), "value")
    assert_same(*(torch.autograd.grad(values.sum(), leaves[1], allow_unused=True)[0] for values, _, _ in outputs))


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "view_as": lambda x: x.view_as(x),
    "slice": lambda x: x[:],
    "reshape": lambda x: x.view(-1).view(5, 6),
    "clone": lambda x: x.clone(),
    "detach": lambda x: x.detach(),
}


@both_grad_modes
@pytest.mark.parametrize("name", VIEWS)
def test_an_unwritten_view_or_copy_hits(name: str, grad: bool) -> None:
    twins = warm_twins()
    with in_grad_mode(grad):
        alias = VIEWS[name](X)
        if name == "detach":  # it shares memory without a common view, and could be compared with itself only
            assert refusal(twins, A, make_inputs(alias)) == "inputs differ"
            return
        assert refusal(twins, A, make_inputs(alias)) is None
        assert refusal(twins, make_inputs(alias), A) is None
        assert refusal(twins, make_inputs(alias), make_inputs(VIEWS[name](X))) is None


def test_views_hit_without_a_comparison_of_their_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU a comparison waits for the device."""
    twins = warm_twins()
    monkeypatch.setattr(torch, "equal", None)
    with torch.no_grad():
        seeded_act(twins.cached, make_inputs(X.view_as(X)), "policy")
        before = twins.cached.cache_info().hits
        seeded_act(twins.cached, make_inputs(X.view_as(X)), "value")
    assert twins.cached.cache_info().hits == before + 1


@both_grad_modes
@pytest.mark.parametrize("name", ["view_as", "slice", "reshape"])
def test_a_view_of_what_was_written_in_between_does_not_hit(name: str, grad: bool) -> None:
    twins, x = warm_twins(), fresh()
    inputs, alias = make_inputs(x), make_inputs(VIEWS[name](x))
    with in_grad_mode(grad):
        assert refusal(twins, inputs, alias, between=lambda: x.mul_(2.0)) == "inputs were written"


def test_another_part_of_the_same_memory_does_not_hit() -> None:
    twins, x = warm_twins(), observations(batch=8)
    assert refusal(twins, make_inputs(x[:4]), make_inputs(x[4:])) == "inputs differ"


def test_the_same_memory_in_another_order_does_not_hit() -> None:
    twins, x = warm_twins(), observations(batch=6)
    assert refusal(twins, make_inputs(x), make_inputs(x.t())) == "inputs differ"


class Numbers(nn.Module):
    """A trunk that takes complex, integer and quantized numbers as well."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.is_complex():
            x = torch.cat([x.real, x.imag], dim=-1)
        if x.is_quantized:
            x = x.dequantize()
        features: torch.Tensor = self.layers(x.float())
        return features


def number_twins(x: torch.Tensor) -> Twins:
    twins = Twins(lambda base: taking(base, Numbers()))
    for _ in range(4):
        twins.pair(make_inputs(x))
    assert refusal(twins, make_inputs(x)) is None
    return twins


PAIRS_OF_COMPLEX: dict[
    str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[torch.Tensor], torch.Tensor], Any]
] = {
    "a copy": (lambda z: z, lambda z: z.clone(), None),
    "a conjugate view": (lambda z: z, lambda z: z.conj(), "inputs differ"),
    "a conjugate": (lambda z: z, lambda z: z.conj().resolve_conj(), "inputs differ"),
    "two conjugate views": (lambda z: z.conj(), lambda z: z.clone().conj(), None),
    "a view and its copy": (lambda z: z.conj(), lambda z: z.conj().resolve_conj(), "inputs differ"),
}


@pytest.mark.parametrize(("one", "other", "reason"), PAIRS_OF_COMPLEX.values(), ids=PAIRS_OF_COMPLEX)
def test_complex_numbers_hit_and_their_conjugates_do_not(one: Any, other: Any, reason: str | None) -> None:
    z = torch.complex(observations(size=3), observations(size=3, seed=1))
    x = 2.0 * z
    assert refusal(number_twins(z), make_inputs(one(x)), make_inputs(other(x))) == reason


def test_views_that_negate_hit_only_each_other() -> None:
    z = torch.complex(observations(), observations(seed=1))
    twins = number_twins(X)
    assert refusal(twins, make_inputs(z.conj().imag), make_inputs(z.conj().imag)) is None
    assert refusal(twins, make_inputs(z.conj().imag), make_inputs(z.clone().conj().imag)) is None
    assert refusal(twins, make_inputs(z.imag), make_inputs(z.conj().imag)) == "inputs differ"


def test_the_same_bits_of_another_dtype_do_not_hit() -> None:
    twins = number_twins(X)
    assert refusal(twins, make_inputs(X), make_inputs(X.view(torch.int32).clone())) == "inputs differ"
    assert refusal(number_twins(X), make_inputs(X), make_inputs(X.view(torch.int32))) == "inputs differ"


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_quantized_numbers_of_another_scale_do_not_hit() -> None:
    one, other = (torch.quantize_per_tensor(scale * X, scale, 0, torch.qint8) for scale in (0.1, 0.2))
    assert torch.equal(one.int_repr(), other.int_repr())
    twins = number_twins(one)
    assert refusal(twins, make_inputs(one), make_inputs(one.clone())) is None
    assert refusal(twins, make_inputs(one), make_inputs(other)) == "inputs differ"


def numpy_write(x: torch.Tensor) -> Callable[[], Any]:
    array = x.numpy()
    return lambda: np.multiply(array, 2.0, out=array)


UNCOUNTED_ALIASES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "from_numpy": lambda x: torch.from_numpy(x.numpy()),
    "data": lambda x: x.data,
    "detach": lambda x: x.detach(),
    "DLPack": torch.utils.dlpack.from_dlpack,
}


@pytest.mark.parametrize("name", UNCOUNTED_ALIASES)
def test_another_tensor_of_memory_that_was_written_past_torch_does_not_hit(name: str) -> None:
    """An environment that wraps its one NumPy buffer at every step: compared with itself it would always be equal."""
    twins, x = warm_twins(), fresh()
    inputs, alias = make_inputs(x), make_inputs(UNCOUNTED_ALIASES[name](x))
    assert refusal(twins, inputs, alias, between=numpy_write(x)) == "inputs differ"


def test_views_of_other_tensors_of_memory_that_was_written_past_torch_do_not_hit() -> None:
    """An environment that wraps its one NumPy buffer at every step and reshapes it: same address, same version."""
    twins, buffer = warm_twins(), np.random.default_rng(0).standard_normal(30).astype(np.float32)
    inputs, alias = (make_inputs(torch.from_numpy(buffer).view(5, 6)) for _ in range(2))

    def write() -> None:
        buffer[:] = 2.0

    assert refusal(twins, inputs, alias, between=write) == "inputs differ"


def test_overlapping_parts_of_memory_that_was_written_past_torch_do_not_hit() -> None:
    buffer = np.random.default_rng(0).standard_normal((6, 6)).astype(np.float32)
    buffer[1:] = buffer[0]
    twins, (first, second) = warm_twins(), (torch.from_numpy(buffer[i : i + 5]) for i in (0, 1))

    def write() -> None:
        buffer[:] = 2.0

    assert refusal(twins, make_inputs(first), make_inputs(second), between=write) == "inputs differ"


def test_nan_equals_itself() -> None:
    twins, x = warm_twins(), fresh()
    x[0] = float("nan")
    assert refusal(twins, make_inputs(x), make_inputs(x.clone())) is None


def test_zeros_of_other_signs_differ() -> None:
    class Signs(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.copysign(torch.ones(len(x), FEATURES), x[:, :1])

    twins = warm_twins(lambda base: taking(base, Signs()))
    x = torch.zeros(5, 6)
    assert refusal(twins, make_inputs(x), make_inputs(x.clone())) is None
    assert refusal(twins, make_inputs(x), make_inputs(-x)) == "inputs differ"


def test_equal_elements_at_an_address_that_is_aligned_in_another_way_do_not_hit() -> None:
    """A kernel may sum them in another order there, too."""
    twins, x, memory = warm_twins(), fresh(), torch.zeros(31)
    shifted = memory[1:].view(5, 6)
    shifted.copy_(x)
    assert refusal(twins, make_inputs(x), make_inputs(shifted)) == "inputs differ"


def test_equal_elements_in_other_strides_do_not_hit() -> None:
    """A kernel may sum them in another order."""
    twins, x = warm_twins(), observations(batch=6)
    assert refusal(twins, make_inputs(x), make_inputs(x.t().contiguous().t())) == "inputs differ"


class Take(nn.Module):
    """A trunk that takes any nest, and makes its features of all that is in it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()

    def forward(self, nest: Any) -> torch.Tensor:
        features: torch.Tensor = self.layers(self.total(nest))
        return features

    def total(self, nest: Any) -> Any:
        if isinstance(nest, dict):
            # in order: a dictionary in another order is another one
            return sum(i * self.total(key) + self.total(value) for i, (key, value) in enumerate(nest.items(), 1))
        if isinstance(nest, (tuple, list)):
            scale = {tuple: 1.0, list: 0.5}.get(type(nest), 0.25)
            return sum(i * scale * self.total(item) for i, item in enumerate(nest, 1))
        if isinstance(nest, torch.Tensor):
            return nest
        return float(np.frombuffer(repr(nest).encode(), np.uint8).sum()) / 1000.0


def nest_twins() -> Twins:
    return warm_twins(lambda base: taking(base, Take(), lambda inputs: inputs["nest"]), nest_inputs([X, (X, X)]))


def nest_inputs(nest: Any) -> dict[str, Any]:
    return make_inputs(X, nest=nest)


class Color(Enum):
    RED = 1
    BLUE = 2


class Point(NamedTuple):
    x: torch.Tensor
    y: int


NESTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "dict": lambda x: {"a": x, "b": {"c": x}},
    "tuple": lambda x: (x, (x, x)),
    "list": lambda x: [x, [x]],
    "named tuple": lambda x: Point(x, 1),
    "constants": lambda x: [x, None, True, 1, 1.0, -0.0, "s", b"b", torch.float32, torch.device("cpu"), Color.RED],
}


@pytest.mark.parametrize("nest", NESTS.values(), ids=NESTS)
def test_a_nest_of_the_same_or_of_equal_leaves_hits(nest: Callable[[torch.Tensor], Any]) -> None:
    twins = nest_twins()
    assert refusal(twins, nest_inputs(nest(X))) is None
    assert refusal(twins, nest_inputs(nest(X)), nest_inputs(nest(X))) is None
    assert refusal(twins, nest_inputs(nest(X)), nest_inputs(nest(X.clone()))) is None


@pytest.mark.parametrize("nest", NESTS.values(), ids=NESTS)
def test_a_nest_with_another_leaf_does_not_hit(nest: Callable[[torch.Tensor], Any]) -> None:
    assert refusal(nest_twins(), nest_inputs(nest(X)), nest_inputs(nest(B[OBSERVATIONS]))) == "inputs differ"


def test_a_nest_of_which_the_second_leaf_was_written_does_not_hit() -> None:
    y = fresh()
    assert refusal(nest_twins(), nest_inputs([X, {"y": y}]), between=lambda: y.mul_(2.0)) == "inputs were written"


def test_a_nest_with_its_leaves_exchanged_does_not_hit() -> None:
    y = fresh()
    assert refusal(nest_twins(), nest_inputs((X, y)), nest_inputs((y, X))) == "inputs differ"


OTHER_NESTS: dict[str, tuple[Any, Any]] = {
    "1 and True": (1, True),
    "1 and 1.0": (1, 1.0),
    "0.0 and -0.0": (0.0, -0.0),
    "0 and False": (0, False),
    "None and False": (None, False),
    "two strings": ("a", "b"),
    "a string and bytes": ("a", b"a"),
    "two enumerators": (Color.RED, Color.BLUE),
    "an enumerator and its value": (Color.RED, 1),
    "two dtypes": (torch.float32, torch.float64),
    "two devices": (torch.device("cpu"), torch.device("meta")),
    "a tuple and a list": ((1, 2), [1, 2]),
    "a named tuple and a tuple": (Point(X, 1), (X, 1)),
    "another length": ((1, 2), (1, 2, 3)),
    "other keys": ({"a": 1}, {"b": 1}),
    "keys in another order": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "keys 1 and True": ({1: 1}, {True: 1}),
    "a tensor and a number": (X[:1], 1),
}


@pytest.mark.parametrize(("one", "other"), OTHER_NESTS.values(), ids=OTHER_NESTS)
def test_another_constant_or_container_does_not_hit(one: Any, other: Any) -> None:
    for first, second in ((one, other), (other, one)):
        twins = nest_twins()
        assert refusal(twins, nest_inputs([X, first])) is None
        assert refusal(twins, nest_inputs([X, first]), nest_inputs([X, second])) == "inputs differ"


class Mutable:
    """Something of the user's, which changes without becoming another object."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Mutable({self.value})"


class Bag(dict):  # type: ignore[type-arg]
    """A dictionary that may hold more than its items."""


@pytest.mark.parametrize("kind", [Mutable(1), Bag(a=1), {1, 2}, np.ones(1)], ids=lambda kind: type(kind).__name__)
def test_a_call_with_something_unknown_bypasses_the_cache(kind: Any) -> None:
    reason = refusal(nest_twins(), nest_inputs([X, kind]))
    assert reason == f"a value of type {type(kind).__module__}.{type(kind).__qualname__}"


def test_an_unknown_object_may_change() -> None:
    twins, mutable = nest_twins(), Mutable(1)
    assert "Mutable" in str(refusal(twins, nest_inputs([X, mutable]), between=lambda: setattr(mutable, "value", 2)))
