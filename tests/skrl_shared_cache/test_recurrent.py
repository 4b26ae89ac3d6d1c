"""Recurrent agents: states in and out, sequences in the update, and episodes that end within them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn as nn
from skrl.resources.preprocessors.torch import RunningStandardScaler

from skrl_shared_cache import SharedModel, cached_preprocessor

from .support import recurrent
from .support.agents import EPOCHS, MINI_BATCHES, ROLLOUT, trained
from .support.lines import SKRL_2, make_inputs
from .support.passes import Passes
from .support.shadow import Shadow
from .support.twins import Make, Twins, TwoPass, build
from .support.zoo import FEATURES, OBSERVATION_SIZE, observations
from .test_training import Syncs

MODELS = {
    "plain": recurrent.plain,
    "resetting": recurrent.resetting,
    "named": recurrent.named,
    "pattern": recurrent.pattern,
}

all_agents = pytest.mark.parametrize("agent", ["PPO_RNN", "A2C_RNN", "RPO_RNN"])
all_kinds = pytest.mark.parametrize("kind", recurrent.KINDS)
all_models = pytest.mark.parametrize("models", MODELS)


def scaled(scaler: Any) -> dict[str, Any]:
    """Return the settings of an agent that standardizes its observations."""
    return {
        "observation_preprocessor": scaler,
        "observation_preprocessor_kwargs": {"size": OBSERVATION_SIZE, "device": "cpu"},
    }


OPTIONS: dict[str, dict[str, Any]] = {
    "raw": {},
    "scaler": scaled(RunningStandardScaler),
    "cached scaler": scaled(cached_preprocessor(RunningStandardScaler)),
}
all_options = pytest.mark.parametrize("overrides", OPTIONS.values(), ids=OPTIONS)


@all_agents
@all_kinds
@all_models
@all_options
def test_every_output_of_a_training_is_the_uncached_models(
    agent: str, kind: str, models: str, overrides: dict[str, Any]
) -> None:
    make = MODELS[models][kind]
    model = build(make, SharedModel)
    shadow = Shadow(model, make)
    trained(agent, model, 5, **overrides)
    assert shadow.calls == 5 * (2 * (ROLLOUT + pairs_of_update(agent)) + 1)


@all_agents
@all_kinds
@all_models
def test_one_update_changes_the_parameters_as_without_the_cache(agent: str, kind: str, models: str) -> None:
    vectors = []
    for base in (SharedModel, TwoPass):
        model = build(MODELS[models][kind], base)
        trained(agent, model, 1)
        vectors.append(nn.utils.parameters_to_vector(model.parameters()).detach())
    assert (vectors[0] - vectors[1]).abs().max() <= 1e-6


@pytest.mark.parametrize("kind", recurrent.KINDS)
@pytest.mark.parametrize("models", ["plain", "resetting"])
def test_every_output_of_separate_models_on_one_trunk_is_the_uncached_models(kind: str, models: str) -> None:
    """skrl then keeps states for each of the two, and zeroes both in place where an episode ends."""
    make = MODELS[models][kind]
    policy, value = (build(make, SharedModel, seed) for seed in (0, 1))
    value.net = policy.net
    shadows = [Shadow(model, make) for model in (policy, value)]
    with pytest.warns(UserWarning, match="duplicate"):  # parameters in the optimizer
        trained("PPO_RNN", (policy, value), 4, time_limit_bootstrap=True)
    assert all(shadow.calls >= 4 * (ROLLOUT + pairs_of_update("PPO_RNN")) for shadow in shadows)
    assert policy.cache_info().hits + value.cache_info().hits > 3 * ROLLOUT


def pairs_of_update(agent: str) -> int:
    """Return the minibatches of one update."""
    return MINI_BATCHES * (1 if agent == "A2C_RNN" else EPOCHS)


def passes_of_one_update(agent: str, make: Make, base: Any, **overrides: Any) -> int:
    """Return the trunk passes of a rollout and its update, after the two in which probation ends."""
    totals = []
    for updates in (2, 3):
        model = build(make, base)
        passes = Passes(model.net)
        trained(agent, model, updates, **overrides)
        totals.append(passes.take())
    return totals[1] - totals[0]


@all_agents
@all_kinds
@all_options
def test_the_trunk_runs_once_per_pair(agent: str, kind: str, overrides: dict[str, Any]) -> None:
    pairs = ROLLOUT + pairs_of_update(agent)
    make = recurrent.plain[kind]
    assert passes_of_one_update(agent, make, TwoPass, **overrides) == 2 * pairs + 1
    assert passes_of_one_update(agent, make, SharedModel, **overrides) == pairs + 1


@all_agents
@all_kinds
def test_a_trunk_whose_states_are_zeroed_in_place_is_shared_in_the_rollout_alone(agent: str, kind: str) -> None:
    """Here an episode ends in every minibatch: the update takes as many passes as the plain model's."""
    make = recurrent.resetting[kind]
    plain, cached = (passes_of_one_update(agent, make, base) for base in (TwoPass, SharedModel))
    assert cached == plain - ROLLOUT


@all_kinds
@pytest.mark.parametrize(("ends", "passes"), [([], 1), ([3], 2), ([1], 4), ([0, 2], 6)])
def test_such_a_trunk_runs_again_for_the_value_only_where_an_episode_ended(
    kind: str, ends: list[int], passes: int
) -> None:
    """One sequence of four steps, and the steps with which an episode ends."""
    ended = torch.zeros(4, 1, dtype=torch.bool)
    ended[ends] = True
    states = [torch.ones(1, 4, FEATURES) for _ in range(recurrent.KINDS[kind][1])]
    twins = Twins(recurrent.resetting[kind])
    twins.warm(make_inputs(observations(batch=4), rnn=states))
    count = Passes(twins.cached.net)
    twins.learn(make_inputs(observations(batch=4, seed=1), rnn=states, terminated=ended))
    assert count.take() == passes


@all_agents
@all_kinds
@all_options
def test_that_trunk_runs_half_as_often_when_it_is_named(agent: str, kind: str, overrides: dict[str, Any]) -> None:
    """The writes are within the unit then. A sequence in which episodes end takes a pass for each part."""
    plain = passes_of_one_update(agent, recurrent.resetting[kind], TwoPass, **overrides)
    cached = passes_of_one_update(agent, recurrent.named[kind], SharedModel, **overrides)
    assert cached == (plain + 1) / 2


def comparisons_of_one_update(agent: str, kind: str, **overrides: Any) -> int:
    """Return how often tensors were compared, for which the host waits, in a rollout and its update."""
    counts: list[int] = []
    for updates in (2, 3):
        with Syncs() as syncs:
            trained(agent, build(recurrent.named[kind], SharedModel), updates, **overrides)
        counts.append(syncs.counts["aten.equal.default"])
    return counts[1] - counts[0]


@all_agents
@all_kinds
def test_with_the_cached_scaler_the_value_is_recognized_without_a_comparison(agent: str, kind: str) -> None:
    assert comparisons_of_one_update(agent, kind, **OPTIONS["raw"]) == 0
    assert comparisons_of_one_update(agent, kind, **OPTIONS["cached scaler"]) == 0
    assert comparisons_of_one_update(agent, kind, **OPTIONS["scaler"]) == ROLLOUT


@all_kinds
def test_an_episode_ends_within_a_sequence_of_the_training(kind: str) -> None:
    """So that the tests above say something: the resetting model runs in more parts than there are sequences."""
    calls = passes_of_one_update("PPO_RNN", recurrent.resetting[kind], TwoPass)
    assert calls > 2 * (ROLLOUT + pairs_of_update("PPO_RNN")) + 1


@all_kinds
@pytest.mark.parametrize("index", [0, -1])
@pytest.mark.parametrize("is_training", [True, False])
def test_other_states_are_other_inputs(kind: str, index: int, is_training: bool) -> None:
    """The same observations, and the first or the last state differs in one element."""
    states = [torch.ones(1, 4, FEATURES) for _ in range(recurrent.KINDS[kind][1])]
    other = [state.clone() for state in states]
    other[index][0, 0, 0] += 1.0
    twins = Twins(recurrent.plain[kind])
    twins.warm(make_inputs(observations(batch=4), rnn=states))
    twins.train(is_training)
    current = observations(batch=4, seed=1)
    for value_states, hits in ((states, 1), (other, 0)):
        before = twins.cached.cache_info().hits
        twins.act(make_inputs(current, rnn=states), "policy")
        twins.act(make_inputs(current, rnn=value_states), "value")
        assert twins.cached.cache_info().hits == before + hits


@pytest.mark.skipif(SKRL_2, reason="skrl 2 has mended it")
def test_a2c_with_a_recurrent_model_needs_a_scheduler_on_skrl_1() -> None:
    model = build(recurrent.plain["LSTM"], TwoPass)
    with pytest.raises(AttributeError, match="scheduler"):
        trained("A2C_RNN", model, 1, learning_rate_scheduler=None)
