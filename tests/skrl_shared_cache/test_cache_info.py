"""What users see: figures, modes and warnings."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from skrl_shared_cache import CacheInfo, CacheMismatchError, SharedCacheWarning, SharedModel

from .support.lines import OBSERVATIONS, ActorCritic, act, make_inputs
from .support.pairs import A, B
from .support.passes import Passes
from .support.twins import build
from .support.zoo import FEATURES, OBSERVATION_SIZE, mlp, naive, observations, pattern


def run_pairs(model: Any, pairs: int, roles: tuple[str, ...] = ("policy", "value")) -> CacheInfo:
    """Run pairs, each with observations of its own, and return the figures."""
    for seed in range(pairs):
        for role in roles:
            act(model, make_inputs(observations(seed=seed)), role)
    info: CacheInfo = model.cache_info()
    return info


def test_figures_of_a_model_that_has_not_been_called() -> None:
    info = build(naive, SharedModel).cache_info()
    assert info == CacheInfo(hits=0, misses=0, bypasses=0, last_miss=None, reasons={})
    assert math.isnan(info.trunk_passes_per_pair)


def test_the_figures_are_those_of_the_passes_that_were_made() -> None:
    model = build(naive, SharedModel)
    passes = Passes(model.net)
    before = run_pairs(model, 4)
    passes.take()
    after = run_pairs(model, 10)
    assert (after.hits - before.hits, after.misses - before.misses) == (10, 10)
    assert passes.take() == 10


def test_trunk_passes_per_pair() -> None:
    assert CacheInfo(10, 10, 0, None, {}).trunk_passes_per_pair == 1.0
    assert CacheInfo(0, 20, 0, None, {}).trunk_passes_per_pair == 2.0
    assert CacheInfo(5, 15, 0, None, {}).trunk_passes_per_pair == 1.5


def test_the_first_call_of_a_pair_overwrites_no_reason() -> None:
    model = build(naive, SharedModel)
    run_pairs(model, 4)
    act(model, A, "policy")
    act(model, B, "value")
    assert model.cache_info().last_miss == "inputs differ"
    info = run_pairs(model, 5)
    assert info.last_miss == "inputs differ"
    assert info.reasons == {"inputs differ": 1}


def test_an_ordinary_training_has_no_refused_lookup() -> None:
    model = build(pattern, SharedModel)
    optimizer = torch.optim.Adam(model.parameters())
    for seed in range(30):
        policy, value = (act(model, make_inputs(observations(seed=seed)), role)[0] for role in ("policy", "value"))
        ((policy**2).sum() + (value**2).sum()).backward()
        optimizer.step()
        with torch.no_grad():
            run_pairs(model, 2)
    assert model.cache_info().last_miss is None


def test_bypasses_are_counted_and_do_not_count_as_misses() -> None:
    model = build(naive, SharedModel)
    before = run_pairs(model, 4)
    with torch.inference_mode():
        after = run_pairs(model, 3)
    assert after.bypasses == 6
    assert (after.hits, after.misses) == (before.hits, before.misses)
    assert after.reasons["inference mode"] == 6


def test_the_figures_are_a_copy() -> None:
    model = build(naive, SharedModel)
    run_pairs(model, 4)
    model.cache_info().reasons["mine"] = 1
    assert "mine" not in model.cache_info().reasons


def test_a_deep_copy_begins_with_figures_of_its_own() -> None:
    model = build(naive, SharedModel)
    with torch.no_grad():
        run_pairs(model, 6)
    assert copy.deepcopy(model).cache_info().hits == 0
    assert model.cache_info().hits > 0


# ------------------------------------------------------------------------------------------------------------ modes


def passes_of_a_pair(model: Any) -> int:
    """Return the passes of a pair after probation."""
    run_pairs(model, 5)
    passes = Passes(model.net)
    run_pairs(model, 1)
    return passes.take()


def is_verifying(model: Any) -> bool:
    """Tell whether a write past torch is noticed."""
    run_pairs(model, 5)
    x = observations(seed=30)
    act(model, make_inputs(x), "policy")
    x.numpy()[:] = 0.0
    try:
        act(model, make_inputs(x), "value")
    except CacheMismatchError:
        return True
    return False


@pytest.mark.parametrize("make", [naive, pattern])
def test_the_environment_variable_is_read_when_a_model_is_built(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKRL_SHARED_CACHE", "off")
    off = build(make, SharedModel)
    monkeypatch.setenv("SKRL_SHARED_CACHE", "verify")
    verify = build(make, SharedModel)
    monkeypatch.setenv("SKRL_SHARED_CACHE", "on")
    on = build(make, SharedModel)
    monkeypatch.delenv("SKRL_SHARED_CACHE")
    default = build(make, SharedModel)
    monkeypatch.setenv("SKRL_SHARED_CACHE", "nonsense")
    assert [passes_of_a_pair(model) for model in (off, on, default)] == [2, 1, 1]
    assert [is_verifying(model) for model in (verify, default)] == [True, False]


def test_an_empty_environment_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKRL_SHARED_CACHE", "")
    assert passes_of_a_pair(build(naive, SharedModel)) == 1


class Off(SharedModel):
    """A base class that is off."""

    shared_cache_mode = "off"


def test_the_class_wins_over_the_environment_and_the_instance_over_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKRL_SHARED_CACHE", "verify")
    model = build(naive, Off)
    assert passes_of_a_pair(model) == 2
    assert not is_verifying(model)
    model.shared_cache_mode = "on"
    assert passes_of_a_pair(model) == 1
    assert not is_verifying(model)
    model.shared_cache_mode = "verify"
    assert is_verifying(model)
    model.shared_cache_mode = None
    assert is_verifying(model)
    del model.shared_cache_mode
    assert passes_of_a_pair(model) == 2


def test_a_model_that_is_off_counts_nothing_and_stores_nothing() -> None:
    model = build(pattern, Off)
    assert run_pairs(model, 5) == CacheInfo(0, 0, 0, None, {})


def test_a_pattern_model_that_is_off_never_sees_the_features_of_another_call() -> None:
    model = build(pattern, Off)
    act(model, A, "policy")
    assert torch.equal(act(model, B, "value")[0], model.value_head(model.net(B[OBSERVATIONS])))


# --------------------------------------------------------------------------------------------------------- warnings


def caught(run: Callable[[], Any]) -> list[str]:
    """Return what the cache warns of."""
    with warnings.catch_warnings(record=True) as all_warnings:
        warnings.simplefilter("always")
        run()
    return [str(warning.message) for warning in all_warnings if warning.category is SharedCacheWarning]


class Glue(ActorCritic, SharedModel):
    """Functional activations between layers: in grad mode the second layer gets a new tensor each time."""

    def __init__(self) -> None:
        ActorCritic.__init__(self, SharedModel)
        self.first, self.second = nn.Linear(OBSERVATION_SIZE, FEATURES), nn.Linear(FEATURES, FEATURES)
        self.add_heads(FEATURES)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
        return self.answer(F.elu(self.second(F.elu(self.first(inputs[OBSERVATIONS])))), role, inputs)


def test_twenty_pairs_with_functional_glue_are_one_warning_with_the_remedy() -> None:
    model = Glue()
    assert caught(lambda: run_pairs(model, 20)) == []
    (message,) = caught(lambda: run_pairs(model, 60))
    for words in (
        "does not help `second`",
        "20 pairs in a row",
        "inputs are new tensors that require grad",
        'shared_modules = ("trunk",)',
        "one method of the model",
    ):
        assert words in message


def test_the_remedy_of_the_warning_helps() -> None:
    class Remedied(Glue):
        shared_modules = ("trunk",)

        def trunk(self, x: torch.Tensor) -> torch.Tensor:
            return F.elu(self.second(F.elu(self.first(x))))

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(self.trunk(inputs[OBSERVATIONS]), role, inputs)

    model = Remedied()
    assert caught(lambda: run_pairs(model, 60)) == []
    assert model.cache_info().hits == 58


def test_roles_with_different_inputs_are_one_warning() -> None:
    """An asymmetric critic with the policy's network."""
    model = build(naive, SharedModel)

    def run() -> None:
        for seed in range(40):
            act(model, make_inputs(observations(seed=seed)), "policy")
            act(model, make_inputs(-observations(seed=seed)), "value")

    (message,) = caught(run)
    for words in ("does not help `net`", "inputs differ", "If they get different inputs", "separate networks"):
        assert words in message


def test_a_hit_now_and_then_is_no_reason_to_warn() -> None:
    model = build(naive, SharedModel)
    run_pairs(model, 4)

    def run() -> None:
        for seed in range(60):
            act(model, make_inputs(observations(seed=seed)), "policy")
            act(model, make_inputs(observations(seed=seed if seed % 15 == 0 else -seed)), "value")

    assert caught(run) == []


def test_separate_networks_are_one_warning_that_there_is_nothing_to_share() -> None:
    class Separate(ActorCritic, SharedModel):
        def __init__(self) -> None:
            ActorCritic.__init__(self, SharedModel)
            self.policy_net, self.value_net = mlp(), mlp()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            net = self.policy_net if role == "policy" else self.value_net
            return self.answer(net(inputs[OBSERVATIONS]), role, inputs)

    model = Separate()
    assert caught(lambda: run_pairs(model, 19)) == []
    (message,) = caught(lambda: run_pairs(model, 60))
    for words in (
        "does not help Separate",
        "no child module was called in two of them",
        "Separate networks for each role are right, but gain nothing from SharedModel",
        'shared_modules = ("trunk",)',
    ):
        assert words in message


@pytest.mark.parametrize("role", ["policy", "value"])
def test_a_model_of_one_role_is_no_reason_to_warn(role: str) -> None:
    model = build(naive, SharedModel)
    assert caught(lambda: run_pairs(model, 60, (role,))) == []


def test_an_evaluation_of_the_policy_alone_is_no_reason_to_warn() -> None:
    model = build(naive, SharedModel)
    run_pairs(model, 5)
    assert caught(lambda: run_pairs(model, 60, ("policy",))) == []
    assert model.cache_info().last_miss is None


def test_a_deterministic_evaluation_between_updates_is_no_reason_to_warn() -> None:
    model = build(naive, SharedModel)

    def run() -> None:
        for _ in range(10):
            run_pairs(model, 3)
            run_pairs(model, 25, ("policy",))

    assert caught(run) == []


def test_a_model_that_is_off_does_not_warn() -> None:
    model = Glue()
    model.shared_cache_mode = "off"
    assert caught(lambda: run_pairs(model, 60)) == []


def test_warnings_of_the_cache_are_users_warnings_that_can_be_turned_off() -> None:
    assert issubclass(SharedCacheWarning, UserWarning)
    model = Glue()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SharedCacheWarning)
        run_pairs(model, 60)
