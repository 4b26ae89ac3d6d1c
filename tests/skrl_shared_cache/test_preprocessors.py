"""A cached preprocessor returns the same object again only for what it can know to be the same batch."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn as nn
from skrl.resources.preprocessors.torch import RunningStandardScaler

from skrl_shared_cache import SharedModel, cached_preprocessor

from .support.lines import act, make_inputs
from .support.twins import assert_same, build
from .support.zoo import naive, observations

Cached: Any = cached_preprocessor(RunningStandardScaler)


class Scalers:
    """A cached scaler and a plain one, which have seen the same batches."""

    def __init__(self, kind: Any = Cached) -> None:
        self.cached = kind(size=6, device="cpu")
        self.plain = RunningStandardScaler(size=6, device="cpu")
        for scaler in (self.cached, self.plain):
            scaler(3.0 * observations() + 1.0, train=True)

    def __call__(self, x: Any, **kwargs: Any) -> Any:
        """Scale with both, and assert that the results are the same."""
        result = self.cached(x, **kwargs)
        assert_same(result, self.plain(x, **kwargs))
        return result

    def each(self, change: Callable[[Any], Any]) -> None:
        """Do the same to both."""
        change(self.cached)
        change(self.plain)


def test_the_same_batch_gets_the_same_object() -> None:
    scalers, x = Scalers(), observations(seed=1)
    first = scalers(x)
    assert scalers(x) is first
    assert scalers(x) is first


def test_another_batch_and_an_equal_copy_do_not() -> None:
    scalers, x = Scalers(), observations(seed=1)
    first = scalers(x)
    assert scalers(observations(seed=2)) is not first
    first = scalers(x)
    assert scalers(x.clone()) is not first


def test_a_batch_that_was_written_does_not() -> None:
    scalers, x = Scalers(), observations(seed=1)
    first = scalers(x)
    x.add_(1.0)
    assert scalers(x) is not first


def test_a_batch_that_was_given_other_data_does_not() -> None:
    scalers, x = Scalers(), observations(seed=1)
    first = scalers(x)
    x.data = x + 1.0
    assert scalers(x) is not first


def test_a_result_that_was_written_does_not() -> None:
    scalers, x = Scalers(), observations(seed=1)
    first = scalers(x)
    first.zero_()
    assert scalers(x) is not first


def write_statistics(scaler: Any) -> None:
    scaler.running_mean.add_(1.0)


def rebind_statistics(scaler: Any) -> None:
    scaler.running_variance = scaler.running_variance * 2.0


def set_data_of_statistics(scaler: Any) -> None:
    scaler.running_mean.data = scaler.running_mean + 1.0


def load_statistics(scaler: Any) -> None:
    scaler.load_state_dict({name: tensor * 2.0 for name, tensor in scaler.state_dict().items()})


def learn(scaler: Any) -> None:
    scaler(observations(seed=3), train=True)


@pytest.mark.parametrize(
    "change", [write_statistics, rebind_statistics, set_data_of_statistics, load_statistics, learn]
)
def test_other_statistics_give_another_result(change: Any) -> None:
    scalers, x = Scalers(), observations(seed=1)
    first = scalers(x)
    scalers.each(change)
    assert scalers(x) is not first


def test_statistics_that_were_learned_from_the_same_batch_give_another_result() -> None:
    """As skrl's agents do it at the beginning of a learning epoch."""
    scalers, x = Scalers(), observations(seed=1)
    first = scalers(x)
    second = scalers(x, train=True)
    third = scalers(x)
    assert first is not second
    assert torch.equal(second, third)
    assert scalers(x) is third


def test_each_training_call_learns() -> None:
    scalers, x = Scalers(), observations(seed=1)
    for _ in range(3):
        scalers(x, train=True)
    assert_same(dict(scalers.cached.state_dict()), dict(scalers.plain.state_dict()))
    assert float(scalers.cached.current_count) == 1.0 + 4 * 5


def test_the_inverse_is_another_call() -> None:
    scalers, x = Scalers(), observations(seed=1)
    first = scalers(x)
    inverse = scalers(x, inverse=True)
    assert inverse is not first
    assert scalers(x, inverse=True) is inverse
    assert scalers(x) is not inverse


def test_arguments_by_position_are_passed_on() -> None:
    class Scale(nn.Module):
        def forward(self, x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
            return x * factor

    scaler, x = cached_preprocessor(Scale)(), observations()
    assert torch.equal(scaler(x), 2.0 * x)
    assert torch.equal(scaler(x, 3.0), 3.0 * x)
    assert torch.equal(scaler(x), 2.0 * x)


class Weighted(nn.Module):
    """A preprocessor of the user's own, with odd arguments, a parameter, and nothing to save."""

    def __init__(self, scale: float = 2.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((6,), scale), requires_grad=False)
        self.calls = 0

    def forward(self, x: torch.Tensor, *, weights: Any = None, factor: Any = 1) -> Any:
        self.calls += 1
        scale = 1.0 if weights is None else weights
        return x * self.weight * scale * (2.0 if factor is True else float(factor))


def test_a_users_own_module_is_cached_and_keeps_its_arguments() -> None:
    scaler, x = cached_preprocessor(Weighted)(scale=3.0), observations()
    first = scaler(x)
    assert torch.equal(first, 3.0 * x)
    assert scaler(x) is first
    assert scaler.calls == 1
    scaler.weight.mul_(2.0)
    assert torch.equal(scaler(x), 6.0 * x)


def test_keyword_arguments_that_are_equal_and_not_the_same_are_told_apart() -> None:
    scaler, x = cached_preprocessor(Weighted)(), observations()
    for factor in (1, True, 1, 1.5, True):
        assert torch.equal(scaler(x, factor=factor), Weighted()(x, factor=factor))


def test_tensors_among_the_keyword_arguments_may_change_and_be_exchanged() -> None:
    scaler, x, weights = cached_preprocessor(Weighted)(), observations(), torch.ones(6)
    assert torch.equal(scaler(x, weights=weights), 2.0 * x)
    weights.mul_(3.0)
    assert torch.equal(scaler(x, weights=weights), 6.0 * x)
    assert torch.equal(scaler(x, weights=torch.zeros(6)), 0.0 * x)
    assert torch.equal(scaler(x, weights=np.float32(2.0)), 4.0 * x)


def test_none_is_passed_through_and_forgets_nothing() -> None:
    """skrl 2 has no states in most environments."""
    scaler, x = Cached(size=6, device="cpu"), observations()
    first = scaler(x)
    assert scaler(None) is None
    assert scaler(None, train=True) is None
    assert scaler(x) is first


def test_a_result_with_a_graph_is_not_kept() -> None:
    """Its graph would be used up by the first backward."""
    scaler, x = Cached(size=6, device="cpu"), observations().requires_grad_()
    for _ in range(2):
        scaler(x, no_grad=False).sum().backward()
    first = scaler(x)
    assert not first.requires_grad
    x.requires_grad_(False)
    assert not scaler(x, no_grad=False).requires_grad


def test_grad_mode_is_part_of_the_call() -> None:
    scalers, x = Scalers(), observations().requires_grad_()
    with torch.no_grad():
        scalers(x, no_grad=False)
    assert scalers(x, no_grad=False).requires_grad


def test_autocast_is_part_of_the_call() -> None:
    class Linear(nn.Linear):
        """A preprocessor whose result depends on autocast."""

    scaler, x = cached_preprocessor(Linear)(6, 6), observations()
    scaler.requires_grad_(False)
    with torch.autocast("cpu", torch.bfloat16):
        assert scaler(x).dtype is torch.bfloat16
    assert scaler(x).dtype is torch.float32


def test_training_and_evaluation_mode_are_part_of_the_call() -> None:
    class Noise(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1.0 if self.training else 2.0 * x

    scaler, x = cached_preprocessor(Noise)(), observations()
    assert torch.equal(scaler(x), x + 1.0)
    scaler.eval()
    assert torch.equal(scaler(x), 2.0 * x)


@pytest.mark.parametrize("inference_input", [True, False])
def test_inference_mode(inference_input: bool) -> None:
    scalers = Scalers()
    with torch.inference_mode(inference_input):
        x = observations(seed=1)
    with torch.inference_mode():
        scalers(x)
        x.add_(1.0)
        scalers(x)
    if inference_input:
        scalers(x)
    else:
        assert not scalers(x.clone()).is_inference()


def test_a_function_transform() -> None:
    scalers, x = Scalers(), observations(seed=1)
    first = scalers(x)
    assert_same(torch.func.vmap(scalers.cached)(x), torch.func.vmap(scalers.plain)(x))
    assert scalers(x) is first


def test_a_compiled_preprocessor() -> None:
    scalers, x = Scalers(), observations(seed=1)
    torch._dynamo.reset()
    compiled = torch.compile(lambda batch: scalers.cached(batch), backend="eager", fullgraph=True)
    for batch in (x, x, observations(seed=2)):
        assert_same(compiled(batch), scalers.plain(batch))


@pytest.mark.parametrize("kinds", [(Cached, RunningStandardScaler), (RunningStandardScaler, Cached)])
def test_its_checkpoint_is_that_of_the_class(kinds: tuple[Any, Any]) -> None:
    source, target = (kind(size=6, device="cpu") for kind in kinds)
    source(3.0 * observations() + 1.0, train=True)
    source(observations(seed=1))
    target(observations(seed=1))
    buffer = io.BytesIO()
    torch.save(source.state_dict(), buffer)
    buffer.seek(0)
    assert list(source.state_dict()) == list(target.state_dict())
    target.load_state_dict(torch.load(buffer, weights_only=True))
    assert_same(target(observations(seed=1)), source(observations(seed=1)))


COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda scaler: pickle.loads(pickle.dumps(scaler)),
}


@pytest.mark.parametrize("copy_of", COPIES.values(), ids=COPIES)
def test_a_copy_scales_by_its_own_statistics(copy_of: Any) -> None:
    scalers, x = Scalers(), observations(seed=1)
    first = scalers(x)
    clone = copy_of(scalers.cached)
    assert type(clone) is Cached
    clone.running_mean = clone.running_mean + 1.0
    other = copy.deepcopy(scalers.plain)
    other.running_mean = other.running_mean + 1.0
    assert_same(clone(x), other(x))
    assert_same(scalers(x), first)


def test_the_class_pickles() -> None:
    assert pickle.loads(pickle.dumps(Cached)) is Cached
    assert pickle.loads(pickle.dumps(cached_preprocessor(Weighted))) is cached_preprocessor(Weighted)
    assert copy.deepcopy(Cached) is Cached


def test_two_calls_give_one_class() -> None:
    assert cached_preprocessor(RunningStandardScaler) is Cached
    assert cached_preprocessor(Cached) is Cached


def test_it_is_a_subclass_with_a_name_of_its_own() -> None:
    scaler = Cached(size=6, device="cpu")
    assert isinstance(scaler, RunningStandardScaler)
    assert Cached.__name__ == "CachedRunningStandardScaler"
    assert Cached.__doc__ == RunningStandardScaler.__doc__


@pytest.mark.parametrize(
    "wrong", [RunningStandardScaler(size=6, device="cpu"), len, int, None, "RunningStandardScaler"]
)
def test_anything_but_a_class_of_modules_is_an_error(wrong: Any) -> None:
    with pytest.raises(
        TypeError, match=r"takes a class that inherits from torch\.nn\.Module, not .*pass the class itself"
    ):
        cached_preprocessor(wrong)


def test_an_identity_returns_its_input_and_an_output_of_another_kind_is_passed_on() -> None:
    class Several(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x, 2.0 * x

    x = observations()
    identity, several = cached_preprocessor(nn.Identity)(), cached_preprocessor(Several)()
    for _ in range(2):
        assert identity(x) is x
        assert torch.equal(several(x)[1], 2.0 * x)
    x.add_(1.0)
    assert torch.equal(several(x)[1], 2.0 * x)


def test_dictionaries_are_passed_on() -> None:
    class Named(nn.Module):
        def forward(self, x: dict[str, torch.Tensor]) -> torch.Tensor:
            return 2.0 * x["a"]

    named, x = cached_preprocessor(Named)(), {"a": observations()}
    assert torch.equal(named(x), 2.0 * observations())
    x["a"].zero_()
    assert torch.equal(named(x), torch.zeros(5, 6))


def test_it_dies_without_the_garbage_collector() -> None:
    scaler, x = Cached(size=6, device="cpu"), observations()
    result = weakref.ref(scaler(x))
    dead = weakref.ref(scaler)
    gc.disable()
    try:
        del scaler
        assert dead() is None
        assert result() is None
    finally:
        gc.enable()


def test_the_model_behind_it_hits_without_a_comparison_of_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in skrl 1.4 and its recurrent agents, which preprocess the same observations for each role."""
    model, scaler = build(naive, SharedModel), Cached(size=6, device="cpu")
    for seed in range(6):
        raw = observations(seed=seed)
        for role in ("policy", "value"):
            with torch.no_grad():
                act(model, make_inputs(scaler(raw)), role)
        monkeypatch.setattr(torch, "equal", torch.equal if seed < 3 else None)
    assert model.cache_info().hits == 3


def test_batches_of_one_preprocessor_are_known_to_differ_without_a_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """The values of other observations between the calls of a pair, as time-limit bootstrap asks for them."""
    model, scaler = build(naive, SharedModel), Cached(size=6, device="cpu")
    with torch.no_grad():
        for seed in range(6):
            raw = observations(seed=seed)
            for role in ("policy", "value"):
                act(model, make_inputs(scaler(raw)), role)
        monkeypatch.setattr(torch, "equal", None)
        for seed in range(6, 9):
            raw, other = observations(seed=seed), observations(seed=-seed)
            act(model, make_inputs(scaler(raw)), "policy")
            value = act(model, make_inputs(scaler(other)), "value")[0]
            monkeypatch.undo()
            assert_same(value, model.value_head(model.net(scaler(other))))
            monkeypatch.setattr(torch, "equal", None)


class Doubling(Cached):
    """A class of the user's that inherits from a cached one."""

    def _compute(self, *args: Any, **kwargs: Any) -> Any:
        return 2.0 * super()._compute(*args, **kwargs)


def test_a_class_that_inherits_from_a_cached_one_pickles_as_itself() -> None:
    assert pickle.loads(pickle.dumps(Doubling)) is Doubling
    scaler = pickle.loads(pickle.dumps(Doubling(size=6, device="cpu")))
    assert type(scaler) is Doubling
    x = observations()
    assert scaler(x) is scaler(x)
    assert_same(scaler(x), 2.0 * RunningStandardScaler(size=6, device="cpu")(x))
