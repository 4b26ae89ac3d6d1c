"""A machine that does the same random things to a cached model and to its uncached twin, and compares the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import hypothesis.strategies as st
import torch
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from torch.utils._pytree import tree_leaves, tree_map

from skrl_shared_cache import SharedModel

from . import operations
from .lines import OBSERVATIONS, act
from .sides import Side, call_modes
from .subjects import Subject, build_for_all
from .twins import TwoPass, assert_close_gradients, assert_same

AUTOCAST = {"off": None, "bfloat16": torch.bfloat16, "float16": torch.float16}
MOST_LOSSES = 6
WARMING_PAIRS = 4  # one until a trunk counts as shared, two on probation, one that hits

index = st.integers(0, 5)
around = st.sampled_from([(0, 1), (1, 0), (0, 2), (), (0, 0)])
"""Roles to call before and after an operation: without them, few changes would meet a filled cache."""


@dataclass
class Loss:
    """What a backward may start from.

    :param terms: Losses of the cached and the uncached model.
    :param is_shared: Whether the cached model's graph may be a part of another call's.
    :param tolerance: Tolerance of its gradients, None for that of their dtype.
    :param is_used_up: Whether a backward has freed a graph that it may be a part of.
    """

    terms: list[Any]
    is_shared: bool
    tolerance: float | None
    is_used_up: bool = False


class AnyOrder(RuleBasedStateMachine):
    """Random operations on the two sides. Subclasses say on what."""

    subject: ClassVar[Subject]
    tally: ClassVar[Counter[str]]
    """Statistics of the caches, by which a test can tell whether they were ever at work."""

    def __init__(self) -> None:
        super().__init__()
        self.cached = Side(build_for_all(self.subject.make, SharedModel))
        self.plain = Side(build_for_all(self.subject.make, TwoPass))
        self.now = 0  # counted from the newest batch
        self.grad, self.autocast = "grad", "off"
        self.losses: list[Loss] = []
        self.has_scribbled = False

    # ------------------------------------------------------------------------------------------------ both sides

    def each(self, do: Callable[[Side], Any]) -> bool:
        """Do the same to both sides, with the same random numbers.

        :return: Whether it worked. If not, both have raised the same.
        """
        errors: list[Exception | None] = []
        generators = []
        for side in (self.cached, self.plain):
            torch.default_generator.manual_seed(0)  # a tenth of the time that torch.manual_seed takes
            try:
                do(side)
                errors.append(None)
            except Exception as error:
                errors.append(error)
            generators.append(torch.default_generator.get_state())
        if type(errors[0]) is not type(errors[1]):
            raise AssertionError(f"cached: {errors[0]!r}, plain: {errors[1]!r}") from errors[0] or errors[1]
        if not self.subject.is_random:
            assert torch.equal(*generators), "the cache has drawn random numbers"
        return errors[0] is None

    def change(self, do: Callable[[Side], Any], around: tuple[int, ...]) -> None:
        """Do something between the calls of two roles, or alone."""
        for role in around[:1]:
            self.call(role)
        self.each(do)
        for role in around[1:]:
            self.call(role)

    def call(self, role: int, batch: int | None = None) -> None:
        """Let both sides answer to the batch in use, and compare what they return."""
        name = self.subject.roles[role % len(self.subject.roles)]
        which = -1 - (self.now if batch is None else batch) % len(self.cached.batches)

        def run(side: Side) -> None:
            side.result = None
            if self.subject.is_random:
                side.result = side.model.compute(side.batches[which], name)
            else:
                side.result = act(side.model, side.batches[which], name)

        hits = self.cached.model.cache_info().hits
        before = self.cached.buffers()
        with call_modes(self.grad, AUTOCAST[self.autocast]):
            self.each(run)
            assert_same(self.cached.result, self.plain.result)
        has_hit = self.cached.model.cache_info().hits > hits
        self._compare_buffers(before, has_hit)
        self._keep_loss(has_hit)

    def _compare_buffers(self, before: list[torch.Tensor], has_hit: bool) -> None:
        if not self.subject.has_batch_norm:
            return
        after = list(self.plain.model.buffers())
        assert_same(list(self.cached.model.buffers()), before if has_hit else after)
        if has_hit:  # the twin has made one update more, as intended
            for buffer, once in zip(after, before, strict=True):
                with torch.no_grad():
                    buffer.copy_(once)

    def _keep_loss(self, has_hit: bool) -> None:
        terms = [side.loss_of_result() for side in (self.cached, self.plain)]
        if None in terms:
            return
        tolerance = None if self.autocast == "off" else 3e-2
        if has_hit:
            for loss in self.losses:
                loss.is_shared = True
        self.losses = [*self.losses, Loss(terms, has_hit, tolerance)][-MOST_LOSSES:]

    # ------------------------------------------------------------------------------------------------------ calls

    @initialize(
        is_warm=st.sampled_from([True, True, True, False]), training=st.booleans(), rows=st.sampled_from([4, 8])
    )
    def begin(self, is_warm: bool, training: bool, rows: int) -> None:
        self.add_batch(rows, 0)
        if is_warm:
            for mode in (not training, training):
                self.each(partial(Side.train, mode=mode))
                for self.grad in ("no_grad", "grad"):
                    for _ in range(WARMING_PAIRS):
                        self.round(range(len(self.subject.roles)))
            self.losses = []
        self.each(partial(Side.train, mode=training))

    def round(self, roles: Any) -> None:
        for role in roles:
            self.call(role)

    @rule(role=index, batch=index)
    def any_call(self, role: int, batch: int) -> None:
        self.call(role, batch)

    @rule(roles=st.lists(index, min_size=1, max_size=4))
    def calls(self, roles: list[int]) -> None:
        self.round(roles)

    @rule(roles=st.permutations(range(3)), seed=st.integers(0, 9))
    def ordinary_pair(self, roles: list[int], seed: int) -> None:
        self.add_batch(8, seed)
        self.round(role for role in roles if role < len(self.subject.roles))

    @rule(batches=st.integers(2, 5))
    def all_policies_then_all_values(self, batches: int) -> None:
        """The order of several agents that share one model."""
        for role in range(len(self.subject.roles)):
            for batch in range(batches):
                self.call(role, batch)

    @rule(role=index, wrong_shape=st.booleans())
    def failing_call(self, role: int, wrong_shape: bool) -> None:
        if wrong_shape and isinstance(self.cached.batches[-1][OBSERVATIONS], torch.Tensor):
            self.each(lambda side: side.replace_observations(-1, side.batches[-1][OBSERVATIONS][:, :-1]))
            self.call(role, 0)
            self.each(lambda side: side.batches.pop())
            return
        self.each(lambda side: setattr(side.model, "fails", True))
        self.call(role)
        self.each(lambda side: setattr(side.model, "fails", False))

    @precondition(lambda self: self.subject.make.__name__ == "in_place_heads")
    @rule(around=around)
    def scribble_into_the_features(self, around: tuple[int, ...]) -> None:
        self.has_scribbled = True
        self.each(lambda side: setattr(side.model, "scribbles", True))
        self.round(around)
        self.each(lambda side: setattr(side.model, "scribbles", False))

    @rule(other=index)
    def overwrite_the_result(self, other: int) -> None:
        """A caller may do what it likes with the tensors that it got."""

        def overwrite(side: Side) -> None:
            for leaf in tree_leaves(side.result):
                if isinstance(leaf, torch.Tensor) and not leaf.requires_grad and not leaf.is_inference():
                    leaf.add_(1.0)

        self.each(overwrite)
        self.call(other)

    # ------------------------------------------------------------------------------------------------------ modes

    @rule(grad=st.sampled_from(["grad", "grad", "no_grad", "no_grad", "inference"]), around=around)
    def set_grad_mode(self, grad: str, around: tuple[int, ...]) -> None:
        self.change(lambda side: setattr(self, "grad", grad), around)

    @rule(autocast=st.sampled_from(list(AUTOCAST)), around=around)
    def set_autocast(self, autocast: str, around: tuple[int, ...]) -> None:
        self.change(lambda side: setattr(self, "autocast", autocast), around)

    @rule(mode=st.sampled_from(["on", "on", "off", "verify", None]))
    def set_cache_mode(self, mode: str | None) -> None:
        self.cached.model.shared_cache_mode = mode

    @rule(around=around)
    def clear_cache(self, around: tuple[int, ...]) -> None:
        self.change(lambda side: side is self.cached and side.model.clear_cache(), around)

    # ----------------------------------------------------------------------------------------------------- inputs

    @rule(rows=st.sampled_from([1, 4, 8]), seed=st.integers(0, 9))
    def add_batch(self, rows: int, seed: int) -> None:
        for side in (self.cached, self.plain):
            side.add_batch(self.subject.batch(rows, seed))
        self.now = 0

    @rule(roles=st.lists(index, min_size=1, max_size=3))
    def use_inference_tensors(self, roles: list[int]) -> None:
        with torch.inference_mode():
            self.add_batch(8, 0)
        self.round(roles)
        self.each(lambda side: side.batches.pop())

    @rule(kind=st.sampled_from(list(operations.ANOTHER_TENSOR)), around=around)
    def use_another_tensor(self, kind: str, around: tuple[int, ...]) -> None:
        make = operations.ANOTHER_TENSOR[kind]

        def add(side: Side) -> None:
            side.add_batch(tree_map(make, side.batches[-1 - self.now % len(side.batches)]))

        for role in around[:1]:
            self.call(role)
        if self.each(add):
            self.now = 0
        for role in around[1:]:
            self.call(role)

    @rule(batch=index)
    def use_another_batch(self, batch: int) -> None:
        self.now = batch % len(self.cached.batches)

    @rule(kind=st.sampled_from(list(operations.WRITE)), leaf=index, around=around)
    def write_into_the_inputs(self, kind: str, leaf: int, around: tuple[int, ...]) -> None:
        with torch.no_grad():
            self.change(lambda side: operations.WRITE[kind](side.leaf(self._now, leaf)), around)

    @rule(kind=st.sampled_from(list(operations.UNCOUNTED_WRITE)), leaf=index, around=around)
    def write_uncounted(self, kind: str, leaf: int, around: tuple[int, ...]) -> None:
        def write(side: Side) -> None:
            operations.UNCOUNTED_WRITE[kind](side.leaf(self._now, leaf))

        self.change(write, ())
        self.cached.model.clear_cache()
        self.round(around)

    @rule(kind=st.sampled_from(list(operations.UNCOUNTED_WRITE)), leaf=index, again=st.permutations(range(3)))
    def write_uncounted_between_rounds(self, kind: str, leaf: int, again: list[int]) -> None:
        """Every role has had what the one before computed: no ``clear_cache()`` is needed."""
        self.call(0)
        before = self.cached.model.cache_info()
        self.round(range(1, len(self.subject.roles)))
        info = self.cached.model.cache_info()
        self.each(lambda side: operations.UNCOUNTED_WRITE[kind](side.leaf(self._now, leaf)))
        if info.misses > before.misses:
            self.cached.model.clear_cache()  # one that was refused has left something for the others
        self.round(role for role in again if role < len(self.subject.roles))

    @rule(leaf=index, around=around)
    def flip_requires_grad_of_the_inputs(self, leaf: int, around: tuple[int, ...]) -> None:
        def flip(side: Side) -> None:
            tensor = side.leaf(self._now, leaf)
            tensor.requires_grad_(not tensor.requires_grad)

        self.change(flip, around)

    @property
    def _now(self) -> int:
        return -1 - self.now % len(self.cached.batches)

    # ------------------------------------------------------------------------------------------------ the weights

    @rule(kind=st.sampled_from(list(operations.NEW_WEIGHTS)), around=around)
    def change_weights(self, kind: str, around: tuple[int, ...]) -> None:
        with torch.no_grad():
            self.change(lambda side: operations.NEW_WEIGHTS[kind](side.model), around)

    @rule(around=around)
    def change_weights_uncounted(self, around: tuple[int, ...]) -> None:
        self.change(lambda side: next(side.model.net.parameters()).data.mul_(0.9), ())
        self.cached.model.clear_cache()
        self.round(around)

    @rule(kind=st.sampled_from(list(operations.NEW_FLAGS)), around=around)
    def change_flags(self, kind: str, around: tuple[int, ...]) -> None:
        self.change(lambda side: operations.NEW_FLAGS[kind](side.model), around)

    @rule(kind=st.sampled_from(list(operations.NEW_HOOKS)), around=around)
    def change_hooks(self, kind: str, around: tuple[int, ...]) -> None:
        change = operations.NEW_HOOKS[kind]
        if self.subject.is_unit:
            self.change(lambda side: change(side.model), ())
            self.cached.model.clear_cache()
            self.round(around)
        else:
            self.change(lambda side: change(side.model), around)

    @rule(
        optimizer=st.sampled_from(list(operations.OPTIMIZERS)),
        form=st.sampled_from(list(operations.FORMS)),
        around=around,
    )
    def step(self, optimizer: str, form: str, around: tuple[int, ...]) -> None:
        self.change(lambda side: operations.step(side.model, optimizer, form), around)

    @rule(
        optimizer=st.sampled_from(list(operations.OPTIMIZERS)),
        form=st.sampled_from(list(operations.FORMS)),
        overflows=st.booleans(),
        around=around,
    )
    def scaled_step(self, optimizer: str, form: str, overflows: bool, around: tuple[int, ...]) -> None:
        self.change(lambda side: operations.scaled_step(side.model, optimizer, form, overflows), around)

    @rule(kind=st.sampled_from(list(operations.COPY)), around=around)
    def go_on_with_a_copy(self, kind: str, around: tuple[int, ...]) -> None:
        """The copies answer like the originals, also when the weights of those have changed."""
        for role in around[:1]:
            self.call(role)
        originals, copies = [], []

        def make_copy(side: Side) -> None:
            side.model._g_distribution = None  # of skrl's policy: it may hold a graph, which cannot be copied
            side.model._shared_output = None
            originals.append(side.model)
            copies.append(operations.COPY[kind](side.model))

        if not self.each(make_copy):
            return
        for role in around[1:]:
            self.call(role)
        for original in originals:
            with torch.no_grad():
                for parameter in original.parameters():
                    parameter.mul_(2.0)
        self._count(self.cached)
        self.cached.model, self.plain.model = copies
        self.losses = []
        self.round(around)

    # --------------------------------------------------------------------------------------------------- backward

    @rule(chosen=st.lists(index, min_size=1, max_size=3), retains=st.booleans(), around=around)
    def backward(self, chosen: list[int], retains: bool, around: tuple[int, ...]) -> None:
        """Go backward from one or more of the last calls, once or (with ``retain_graph``) several times."""
        self.round(around[:1])
        if not self.losses:
            return
        latest = self.losses[::-1]
        losses = list({id(loss): loss for loss in (latest[i % len(latest)] for i in chosen)}.values())
        errors: list[RuntimeError | None] = []
        for i in range(2):
            try:
                torch.stack([loss.terms[i] for loss in losses]).sum().backward(retain_graph=retains)
                errors.append(None)
            except RuntimeError as error:
                errors.append(error)
        if not retains or any(errors):
            self.losses = [loss for loss in self.losses if loss not in losses]
            for loss in self.losses:
                loss.is_used_up |= loss.is_shared
        if any(errors):
            self._check_errors(errors, losses)
            self.each(self._forget_gradients)
            return
        self._compare_gradients([loss.tolerance for loss in losses])
        self.round(around[1:])

    def _check_errors(self, errors: list[RuntimeError | None], losses: list[Loss]) -> None:
        cached, plain = map(str, errors)
        if errors[1] is None:
            # two calls that share a pass share its graph: the first of two backwards must retain it
            is_used_up = any(loss.is_used_up for loss in losses) and "through the graph a second time" in cached
            assert is_used_up or (self.has_scribbled and "inplace operation" in cached), cached
        elif errors[0] is None:
            # the twin has updated the buffers of its batch normalization once more
            assert self.subject.has_batch_norm, plain
            assert "inplace operation" in plain

    def _compare_gradients(self, tolerances: list[float | None]) -> None:
        actual, expected = self.cached.gradients(), self.plain.gradients()
        tolerance = max((t for t in tolerances if t is not None), default=None)
        if all(gradient is None or gradient.isfinite().all() for gradient in expected.values()):
            assert_close_gradients(actual, expected, tolerance)
        for a, e in zip(self.cached.leaves_with_gradient(), self.plain.leaves_with_gradient(), strict=True):
            e.grad = None if a.grad is None else a.grad.clone()

    @staticmethod
    def _forget_gradients(side: Side) -> None:
        for leaf in side.leaves_with_gradient():
            leaf.grad = None

    # ---------------------------------------------------------------------------------------------------- the end

    def _count(self, side: Side) -> None:
        info = side.model.cache_info()
        self.tally["hits"] += info.hits
        self.tally["misses"] += info.misses
        self.tally["bypasses"] += info.bypasses
        self.tally.update({f"reason: {reason}": count for reason, count in info.reasons.items()})

    def teardown(self) -> None:
        self._count(self.cached)
        assert_same(list(self.cached.model.state_dict().items()), list(self.plain.model.state_dict().items()))
