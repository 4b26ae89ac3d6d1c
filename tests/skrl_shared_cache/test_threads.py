"""Several threads at once in one model, in two that hold the same encoder, or beside a compute that runs."""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn as nn

from skrl_shared_cache import SharedModel

from .support.lines import OBSERVATIONS, make_inputs
from .support.pairs import in_grad_mode
from .support.subjects import build_for_all
from .support.twins import TwoPass, assert_same, build
from .support.zoo import mlp, naive, observations, pattern
from .test_trunk_kinds import functional_glue, heads_that_share, named_method, shared_call, siamese

ROLES = ("policy", "value")
ROUNDS = 60

pytestmark = [
    pytest.mark.filterwarnings("ignore::skrl_shared_cache.SharedCacheWarning"),
    pytest.mark.usefixtures("impatient_interpreter"),
]


@pytest.fixture
def impatient_interpreter() -> Iterator[None]:
    """Let threads take turns after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def at_once(*tasks: Callable[[], Any]) -> list[Any]:
    """Run each task in a thread of its own, all from the same moment on, and return what they return."""
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[], Any]) -> Any:
        start.wait()
        return task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        return [future.result() for future in [pool.submit(run, task) for task in tasks]]


class Stage:
    """A cached model, batches, and what the model has to return for them: features of Gaussian and value.

    Nothing samples, since all threads draw from one generator.

    :param make: Builds the model.
    :param grad: Whether it runs in grad mode.
    """

    def __init__(self, make: Any, grad: bool) -> None:
        self.grad = grad
        self.model = build_for_all(make, SharedModel)
        self.batches = [make_inputs(observations(seed=seed)) for seed in range(8)]
        self.expected = {
            role: [self._compute(build_for_all(make, TwoPass), batch, role) for batch in self.batches] for role in ROLES
        }
        for _ in range(4):
            self.play(self.model, range(8), rounds=1)
        self.at_rest = attributes(self.model)

    def _compute(self, model: Any, batch: dict[str, Any], role: str) -> Any:
        with in_grad_mode(self.grad):
            return model.compute(batch, role)

    def play(self, model: Any, batches: range, rounds: int = ROUNDS) -> None:
        """Let a model answer in both roles, round after round, and compare."""
        for i in range(rounds * len(batches)):
            which = batches[i % len(batches)]
            for role in ROLES if i % 3 else ROLES[::-1]:
                assert_same(self._compute(model, self.batches[which], role), self.expected[role][which])


def attributes(model: nn.Module) -> dict[str, set[str]]:
    """Return the names of all that the modules hold."""
    return {name: set(vars(module)) for name, module in model.named_modules()}


def saved_and_loaded(model: Any) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "torch.save": saved_and_loaded,
}

both_grad_modes = pytest.mark.parametrize("grad", [True, False], ids=["grad", "no grad"])
all_kinds = pytest.mark.parametrize(
    "make", [naive, pattern, siamese, functional_glue, named_method, shared_call, heads_that_share]
)


@both_grad_modes
@all_kinds
@pytest.mark.parametrize("copy_of", COPIES.values(), ids=COPIES)
def test_two_threads_get_their_own_values_and_a_third_clean_copies(make: Any, copy_of: Any, grad: bool) -> None:
    stage = Stage(make, grad)

    def copy_often() -> None:
        for _ in range(12):
            clone = copy_of(stage.model)
            assert attributes(clone) == stage.at_rest
            stage.play(clone, range(2), rounds=5)
            with torch.no_grad():
                for parameter in clone.parameters():
                    parameter.fill_(0.5)
            zeroed = stage._compute(clone, stage.batches[0], "value")
            assert not torch.equal(zeroed[0], stage.expected["value"][0][0])

    at_once(partial(stage.play, stage.model, range(4)), partial(stage.play, stage.model, range(4, 8)), copy_often)
    assert attributes(stage.model) == stage.at_rest
    assert stage.model.cache_info().hits > 0


def keep_output(module: nn.Module, args: Any, output: Any) -> None:
    """A hook that changes nothing."""


@both_grad_modes
def test_a_copy_of_a_model_whose_trunk_has_a_hook_runs_its_own_forward(grad: bool) -> None:
    """The forward of a hooked trunk is exchanged while it runs. A copy may get one, then it is that of its class."""
    stage = Stage(naive, grad)
    stage.model.net.register_forward_hook(keep_output)

    def copy_often() -> None:
        for _ in range(40):
            clone = copy.deepcopy(stage.model)
            forward = vars(clone.net).pop("forward", clone.net.forward)
            assert (forward.__self__, forward.__func__) == (clone.net, nn.Sequential.forward)
            assert attributes(clone) == stage.at_rest
            stage.play(clone, range(2), rounds=5)

    at_once(partial(stage.play, stage.model, range(4)), partial(stage.play, stage.model, range(4, 8)), copy_often)
    assert attributes(stage.model) == stage.at_rest


@both_grad_modes
def test_two_models_that_hold_one_encoder_run_in_two_threads(grad: bool) -> None:
    encoder = build(lambda base: mlp(), None, seed=3)
    stages = []
    for _ in range(2):
        stages.append(Stage(partial(naive, trunk=lambda: encoder), grad))
    at_once(*(partial(stage.play, stage.model, range(8)) for stage in stages))
    assert [attributes(stage.model) for stage in stages] == [stage.at_rest for stage in stages]


@both_grad_modes
def test_a_policy_in_one_thread_and_a_value_in_another_are_no_pair(grad: bool) -> None:
    stage = Stage(naive, grad)

    def play(role: str) -> None:
        for i in range(8 * ROUNDS):
            assert_same(stage._compute(stage.model, stage.batches[i % 8], role), stage.expected[role][i % 8])

    hits = stage.model.cache_info().hits
    at_once(partial(play, "policy"), partial(play, "value"))
    assert stage.model.cache_info().hits == hits


@both_grad_modes
@pytest.mark.parametrize("make", [naive, siamese])
def test_a_direct_call_of_the_trunk_beside_a_compute_passes_through(make: Any, grad: bool) -> None:
    stage = Stage(make, grad)
    size = next(stage.model.net.parameters()).shape[1]
    inputs = [batch[OBSERVATIONS][:, :size] for batch in stage.batches]
    with in_grad_mode(grad):
        expected = [stage.model.net(x) for x in inputs]

    def call_directly() -> None:
        with in_grad_mode(grad):
            for i in range(16 * ROUNDS):
                assert_same(stage.model.net(inputs[i % 8]), expected[i % 8])

    def lookups() -> int:
        info = stage.model.cache_info()
        return sum((info.hits, info.misses, info.bypasses))

    before = lookups()
    stage.play(stage.model, range(8))
    alone = lookups() - before
    at_once(partial(stage.play, stage.model, range(8)), call_directly)
    assert lookups() - before == 2 * alone
    assert attributes(stage.model) == stage.at_rest


@both_grad_modes
@all_kinds
def test_what_one_thread_clears_or_breaks_does_not_disturb_the_other(make: Any, grad: bool) -> None:
    stage = Stage(make, grad)

    def disturb() -> None:
        for i in range(4 * ROUNDS):
            stage.model.clear_cache()
            stage.model.train()
            stage.model.cache_info()
            with contextlib.suppress(RuntimeError, ValueError):
                stage._compute(stage.model, make_inputs(torch.zeros(3, 1)), ROLES[i % 2])

    at_once(partial(stage.play, stage.model, range(8)), disturb)
    assert attributes(stage.model) == stage.at_rest
