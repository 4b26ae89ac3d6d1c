"""A cached model beside the same model without the cache, and what it means that they agree."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from skrl.models.torch import Model
from torch.utils._pytree import tree_flatten, tree_map

from skrl_shared_cache import SharedModel

from .lines import act

Make = Callable[[Any], Any]
"""Builds a model on the given base class, from the global random generator only."""

GRADIENT_TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 3e-2, torch.float16: 3e-2}
"""Largest difference between two gradients, relative to the largest gradient of the model."""

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class TwoPass(Model):
    """skrl's own model, made correct: no call ever sees a ``_shared_output`` that another call has left.

    For models that do not use that attribute this is ``Model`` itself.
    """

    _shared_output: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        compute = cls.compute
        if compute is Model.compute:
            return

        @functools.wraps(compute)
        def compute_afresh(self: Any, *args: Any, **kwargs: Any) -> Any:
            self._shared_output = None
            return compute(self, *args, **kwargs)

        cls.compute = compute_afresh


def build(make: Make, base: Any, seed: int = 0) -> Any:
    """Build a model with the weights that this seed gives, whatever the base class.

    :param make: Builds the model on a base class.
    :param base: Base class.
    :param seed: Seed of the global random generator while it is built.

    :return: Model.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make(base)


def seeded_act(model: Any, inputs: dict[str, Any], role: str, seed: int = 0) -> tuple[Any, ...]:
    """Call ``act`` with the global random generator at ``seed``, and leave the generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return act(model, inputs, role)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of the tensor's bits as integers, in which NaN equals itself and +0 differs from -0."""
    tensor = tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.view(_INTEGERS[tensor.element_size()])


def assert_same(actual: Any, expected: Any) -> None:
    """Assert that two nests agree in structure and every tensor in type, shape, requires_grad and every bit."""
    actual_leaves, actual_spec = tree_flatten(actual)
    expected_leaves, expected_spec = tree_flatten(expected)
    assert actual_spec == expected_spec
    for a, e in zip(actual_leaves, expected_leaves, strict=True):
        assert type(a) is type(e)
        if not isinstance(e, torch.Tensor):
            assert a == e
            continue
        for attribute in ("dtype", "shape", "device", "requires_grad"):
            assert getattr(a, attribute) == getattr(e, attribute), f"other {attribute}"
        assert torch.equal(bits(a), bits(e)), "other values"


def is_same(actual: Any, expected: Any) -> bool:
    """Tell whether :func:`assert_same` passes."""
    try:
        assert_same(actual, expected)
    except AssertionError:
        return False
    return True


def assert_close_gradients(
    actual: dict[str, torch.Tensor | None], expected: dict[str, torch.Tensor | None], tolerance: float | None = None
) -> None:
    """Assert that two sets of gradients agree up to the order of summation, and are None where the other is.

    :param actual: Gradients by name.
    :param expected: Gradients of the uncached twin by name.
    :param tolerance: Largest difference, relative to the largest expected gradient.
        If ``None``, that of :data:`GRADIENT_TOLERANCE` for the dtype.
    """
    assert actual.keys() == expected.keys()
    largest = max((g.abs().max().item() for g in expected.values() if g is not None and g.numel()), default=0.0)
    for name, e in expected.items():
        a = actual[name]
        assert (a is None) == (e is None), f"{name}: gradient missing or unexpected"
        if a is None or e is None:
            continue
        assert (a.dtype, a.shape) == (e.dtype, e.shape), f"{name}: gradient of other dtype or shape"
        allowed = GRADIENT_TOLERANCE[e.dtype] if tolerance is None else tolerance
        difference = (a - e).abs().max().item() if e.numel() else 0.0
        assert difference <= allowed * largest, f"{name}: gradient differs by {difference} > {allowed} * {largest}"


def gradients(model: torch.nn.Module) -> dict[str, torch.Tensor | None]:
    """Return the gradients of all parameters by name, None where there is none."""
    return {name: parameter.grad for name, parameter in model.named_parameters()}


class Twins:
    """A model on the cached base and the same model, with the same weights, without the cache.

    :param make: Builds the model on a base class.
    :param seed: Seed of the weights.
    :param base: Base class of the cached one.
    """

    def __init__(self, make: Make, seed: int = 0, base: Any = SharedModel) -> None:
        self.cached = build(make, base, seed)
        self.plain = build(make, TwoPass, seed)
        self._calls = 0

    def act(self, inputs: dict[str, Any], role: str, plain_inputs: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Let both act with the same random numbers, and assert that the outputs are the same, bit for bit.

        :param inputs: Inputs of both.
        :param role: Role.
        :param plain_inputs: Inputs of the uncached twin, where it must not see the very same tensors.

        :return: Outputs of the cached and of the uncached model.
        """
        # by role: a policy and a value pass draw the same Dropout mask, as they do when the trunk runs once
        self._calls += role == "policy"
        actual = seeded_act(self.cached, inputs, role, self._calls)
        expected = seeded_act(self.plain, inputs if plain_inputs is None else plain_inputs, role, self._calls)
        assert_same(actual, expected)
        return actual, expected

    def warm(self, inputs: dict[str, Any], roles: Sequence[str] = ("policy", "value"), rounds: int = 6) -> None:
        """Run ordinary rounds in every mode until the cache has stopped verifying its hits, and leave equal weights.

        What a test does afterwards meets a cache at work, not one that recomputes to be sure.

        :param inputs: Inputs, of which every round gets another multiple.
        :param roles: Roles, in the order in which they are called.
        :param rounds: Rounds in every mode. In a chain of children, each begins its probation when the one before has
            ended its own.
        """
        training = self.cached.training
        for mode in (True, False):
            self.train(mode)
            for grad in (True, False):
                with torch.set_grad_enabled(grad):
                    for i in range(rounds):
                        self.pair(tree_map(lambda leaf, i=i: leaf * (1.0 + 0.01 * i), inputs), roles)
            # one update of a BatchNorm per pair is intended, the twin has made two
            self.plain.load_state_dict(self.cached.state_dict())
        self.train(training)

    def pair(self, inputs: dict[str, Any], roles: Sequence[str] = ("policy", "value")) -> None:
        """Let both act in every role with the same inputs, and assert the same outputs."""
        for role in roles:
            self.act(inputs, role)

    def walk(
        self, batches: Sequence[dict[str, Any]], roles: Sequence[str] = ("policy", "value"), calls: int = 80
    ) -> None:
        """Let both act in random roles on random ones of some batches, or on equal copies of them.

        :param batches: Inputs to draw from.
        :param roles: Roles to draw from.
        :param calls: Number of calls.
        """
        draw = random.Random(calls)
        for _ in range(calls):
            inputs = draw.choice(batches)
            if draw.random() < 0.3:
                inputs = tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, inputs)
            self.act(inputs, draw.choice(roles))

    def learn(self, inputs: dict[str, Any], roles: Sequence[str] = ("policy", "value")) -> None:
        """Act in every role, go backward once through the sum of all outputs, and assert the same gradients."""
        losses: list[Any] = [0.0, 0.0]
        for role in roles:
            for i, (actions, log_prob, _) in enumerate(self.act(inputs, role)):
                losses[i] = losses[i] + (actions**2).sum() + (0.0 if log_prob is None else (log_prob**2).sum())
        for model, loss in zip((self.cached, self.plain), losses, strict=True):
            model.zero_grad()
            loss.backward()
        self.assert_same_gradients()

    def assert_same_gradients(self, tolerance: float | None = None) -> None:
        """Assert that the gradients of both agree."""
        assert_close_gradients(gradients(self.cached), gradients(self.plain), tolerance)

    def copy_gradients(self) -> None:
        """Give the uncached twin the very bits of the cached one's gradients, so that a step keeps them equal."""
        for plain, cached in zip(self.plain.parameters(), self.cached.parameters(), strict=True):
            plain.grad = None if cached.grad is None else cached.grad.clone()

    def train(self, mode: bool) -> None:
        """Put both into training or evaluation mode."""
        self.each(lambda model: model.train(mode))

    def each(self, change: Callable[[Any], Any]) -> None:
        """Do the same to both models."""
        change(self.cached)
        change(self.plain)
