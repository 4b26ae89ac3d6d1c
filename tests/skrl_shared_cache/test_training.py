"""Training with skrl's own agents, trainer and memory: the same parameters as without the cache, in half the passes."""

from __future__ import annotations

import contextlib
from collections import Counter
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn as nn
from skrl.resources.preprocessors.torch import RunningStandardScaler
from torch.utils._python_dispatch import TorchDispatchMode

from skrl_shared_cache import SharedModel, cached_preprocessor

from .support.agents import EPOCHS, MINI_BATCHES, ROLLOUT, trained
from .support.drift import DriftEnv
from .support.lines import SKRL_2, make_inputs
from .support.passes import Passes
from .support.shadow import Shadow
from .support.twins import Make, Twins, TwoPass, build, seeded_act
from .support.zoo import (
    OBSERVATION_SIZE,
    generated,
    naive,
    naive_discrete,
    observations,
    pattern,
    pattern_discrete,
    recurrent,
)

CASES = {
    f"{agent} {make.__name__}": (agent, make)
    for agent in ("PPO", "A2C", "RPO")
    for make in (naive, pattern, naive_discrete, pattern_discrete)
    # RPO perturbs the mean of a Gaussian
    if not (agent == "RPO" and "discrete" in make.__name__)
}
CASES["PPO_RNN recurrent"] = ("PPO_RNN", recurrent)

all_cases = pytest.mark.parametrize(("agent", "make"), CASES.values(), ids=CASES)


def scaled(scaler: Any) -> dict[str, Any]:
    """Return the settings of an agent that standardizes its observations."""
    return {
        "observation_preprocessor": scaler,
        "observation_preprocessor_kwargs": {"size": OBSERVATION_SIZE, "device": "cpu"},
    }


def parameters_after(base: Any, agent: str, make: Make, updates: int, **overrides: Any) -> torch.Tensor:
    """Return all parameters of a model of that base class after some updates, as one vector."""
    model = build(make, base)
    trained(agent, model, updates, "discrete" in getattr(make, "__name__", ""), **overrides)
    return nn.utils.parameters_to_vector(model.parameters()).detach()


def largest_difference(agent: str, make: Make, updates: int, **overrides: Any) -> float:
    """Return how far apart the parameters of the cached and of the plain model are after some updates."""
    cached, plain = (parameters_after(base, agent, make, updates, **overrides) for base in (SharedModel, TwoPass))
    start = nn.utils.parameters_to_vector(build(make, TwoPass).parameters())
    assert (plain - start).abs().max() > 1e-3  # or nothing was learned, and nothing compared
    return float((cached - plain).abs().max())


@all_cases
def test_one_update_changes_the_parameters_as_without_the_cache(agent: str, make: Make) -> None:
    assert largest_difference(agent, make, updates=1) <= 1e-6


@all_cases
def test_five_updates_change_the_parameters_as_without_the_cache(agent: str, make: Make) -> None:
    assert largest_difference(agent, make, updates=5) <= 1e-5


@pytest.mark.parametrize("roles", [("policy", "value"), ("value", "policy")])
def test_a_generated_model_learns_as_without_the_cache(roles: tuple[str, str]) -> None:
    assert largest_difference("PPO", partial(generated, roles=roles), updates=1) <= 1e-6


OPTIONS: dict[str, dict[str, Any]] = {
    "entropy": {"entropy_loss_scale": 0.01},
    "time-limit bootstrap": {"time_limit_bootstrap": True},
    "KL limit": {"kl_threshold": 1e-3, "learning_rate": 1e-2},
    "scaler": scaled(RunningStandardScaler),
    "cached scaler": scaled(cached_preprocessor(RunningStandardScaler)),
    "cached scaler, time-limit bootstrap": {
        **scaled(cached_preprocessor(RunningStandardScaler)),
        "time_limit_bootstrap": True,
    },
}


@pytest.mark.parametrize("overrides", OPTIONS.values(), ids=OPTIONS)
def test_options_of_the_agent_change_nothing_about_that(overrides: dict[str, Any]) -> None:
    assert largest_difference("PPO", naive, updates=1, **overrides) <= 1e-6


def test_a_cached_preprocessor_is_the_preprocessor() -> None:
    """The same model class, so that the same bits are asked for: only the preprocessor differs."""
    plain, cached = (
        parameters_after(SharedModel, "PPO", naive, 2, **scaled(scaler))
        for scaler in (RunningStandardScaler, cached_preprocessor(RunningStandardScaler))
    )
    assert torch.equal(plain, cached)


EVERY_OPTION = {
    **OPTIONS["entropy"],
    **OPTIONS["time-limit bootstrap"],
    **OPTIONS["cached scaler"],
    "kl_threshold": 0.02,
    "value_preprocessor": RunningStandardScaler,
    "value_preprocessor_kwargs": {"size": 1, "device": "cpu"},
}


@pytest.mark.parametrize("agent", ["PPO", "A2C", "RPO", "AMP"])
@pytest.mark.parametrize("make", [naive, pattern])
@pytest.mark.parametrize("has_options", [False, True], ids=["defaults", "all options"])
def test_every_output_of_a_training_is_the_uncached_models(agent: str, make: Make, has_options: bool) -> None:
    overrides = dict(EVERY_OPTION) if has_options else {}
    if agent in ("A2C", "AMP"):
        overrides.pop("kl_threshold", None)
    model = build(make, SharedModel)
    shadow = Shadow(model, make)
    # AMP hands the parameters of the one model to its optimizer twice
    with pytest.warns(UserWarning, match="duplicate") if agent == "AMP" else contextlib.nullcontext():
        trained(agent, model, 5, **overrides)
    assert shadow.calls > 5 * 2 * ROLLOUT


# ------------------------------------------------------------------------------------------------------ trunk passes


def learning_pairs(agent: str) -> int:
    """Return the minibatches of one update: A2C passes once over the rollout, PPO and RPO ``EPOCHS`` times."""
    return MINI_BATCHES * (1 if agent == "A2C" else EPOCHS)


def plain_passes(agent: str, updates: int) -> int:
    """Return the trunk passes of the plain model.

    skrl 2 asks for policy and value in ``act``; skrl 1.4 asks for the policy in ``act`` and for the value of the same
    observations in ``record_transition``: two per step on both. One for the value of the last observations, for GAE.
    Two per minibatch.
    """
    return updates * (2 * ROLLOUT + 1 + 2 * learning_pairs(agent))


PROBATION = 2
"""Would-be hits of a role and mode that are verified by a pass of their own."""


def cached_passes(agent: str, updates: int) -> int:
    """Return the trunk passes of the cached model.

    Half of each pair. More only at the start: one for the very first pair, before which no module has been seen in two
    roles, and those of probation, for the value in the mode of the rollout (eval, no grad) and of the update (train,
    grad).
    """
    return updates * (ROLLOUT + 1 + learning_pairs(agent)) + 1 + 2 * PROBATION


@all_cases
def test_the_trunk_runs_once_per_pair(agent: str, make: Make) -> None:
    for base, expected in ((TwoPass, plain_passes), (SharedModel, cached_passes)):
        model = build(make, base)
        passes = Passes(model.net)
        trained(agent, model, updates=2, discrete="discrete" in make.__name__)
        assert passes.take() == expected(agent, 2)


@pytest.mark.parametrize("scaler", [RunningStandardScaler, cached_preprocessor(RunningStandardScaler)])
def test_the_trunk_runs_once_per_pair_of_preprocessed_observations(scaler: Any) -> None:
    """By equality on skrl 1.4 with skrl's scaler, which makes a new tensor for the value; else by reference."""
    model = build(naive, SharedModel)
    passes = Passes(model.net)
    trained("PPO", model, updates=2, **scaled(scaler))
    assert passes.take() == cached_passes("PPO", 2)


def truncated_steps(steps: int) -> int:
    """Return in how many of the first steps an episode is truncated: the actions change nothing about the clock."""
    env = DriftEnv()
    return sum(bool(env.step(torch.zeros(env.num_envs, 2))[3].any()) for _ in range(steps))


def test_time_limit_bootstrap_adds_one_pass_for_each_step_that_truncates() -> None:
    """skrl 2 asks for the value of the next observations then; skrl 1.4 takes that of the current ones."""
    extra = truncated_steps(2 * ROLLOUT) if SKRL_2 else 0
    plain, cached = build(naive, TwoPass), build(naive, SharedModel)
    for model, expected in ((plain, plain_passes("PPO", 2)), (cached, cached_passes("PPO", 2))):
        passes = Passes(model.net)
        trained("PPO", model, updates=2, time_limit_bootstrap=True)
        # the policy of the next step could take the bootstrap's features: its own probation makes up for it
        probation = PROBATION if SKRL_2 and model is cached else 0
        assert passes.take() == expected + extra + probation


# --------------------------------------------------------------------------------------- equality checks, host syncs


class Syncs(TorchDispatchMode):
    """Counts the operations that make the host wait for the device: comparisons, and reads of single values."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.equal.default, torch.ops.aten._local_scalar_dense.default):
            self.counts[str(func)] += 1
        if func in (torch.ops.aten.nonzero.default, torch.ops.aten.is_nonzero.default):
            self.counts[str(func)] += 1
        return func(*args, **(kwargs or {}))


def syncs_of_training(base: Any, agent: str, **overrides: Any) -> tuple[Counter[str], int]:
    """Train a model that is past its probation, and return its host syncs and its trunk passes."""
    twins = Twins(naive, base=base)
    for roles in (("policy", "value"), ("value", "policy")):
        twins.warm(make_inputs(observations()), roles)
    passes = Passes(twins.cached.net)
    with Syncs() as syncs:
        trained(agent, twins.cached, updates=2, **overrides)
    return syncs.counts, passes.take()


WITHOUT_SYNCS: dict[str, dict[str, Any]] = {
    "raw observations": {},
    "cached scaler": scaled(cached_preprocessor(RunningStandardScaler)),
}
if SKRL_2:
    # here the preprocessed observations reach both roles as one object, and only the bootstrap makes them anew
    WITHOUT_SYNCS["scaler"] = scaled(RunningStandardScaler)
WITHOUT_SYNCS["cached scaler, time-limit bootstrap"] = OPTIONS["cached scaler, time-limit bootstrap"]


@pytest.mark.parametrize("agent", ["PPO", "A2C", "RPO"])
@pytest.mark.parametrize("overrides", WITHOUT_SYNCS.values(), ids=WITHOUT_SYNCS)
def test_the_cache_compares_no_elements_and_waits_for_no_device(agent: str, overrides: dict[str, Any]) -> None:
    plain, plain_count = syncs_of_training(TwoPass, agent, **overrides)
    cached, cached_count = syncs_of_training(SharedModel, agent, **overrides)
    assert cached == plain
    assert cached_count == plain_count - 2 * (ROLLOUT + learning_pairs(agent))


@pytest.mark.skipif(SKRL_2, reason="skrl 2 preprocesses the observations of a step once")
def test_skrls_scaler_costs_one_comparison_per_step_on_skrl_1() -> None:
    """It shows, too, that the count above sees a comparison."""
    plain, _ = syncs_of_training(TwoPass, "PPO", **scaled(RunningStandardScaler))
    cached, _ = syncs_of_training(SharedModel, "PPO", **scaled(RunningStandardScaler))
    assert cached - plain == Counter({"aten.equal.default": 2 * ROLLOUT})


@pytest.mark.skipif(not SKRL_2, reason="skrl 1.4 bootstraps from the current value")
def test_skrls_scaler_costs_one_comparison_per_bootstrap_on_skrl_2() -> None:
    """The policy's observations are a new tensor, to compare with those of the bootstrap's value. The step's own value
    call then leaves features that no policy has asked for: another comparison. It shows, too, that the count above sees
    them."""
    overrides = {**scaled(RunningStandardScaler), "time_limit_bootstrap": True}
    plain, _ = syncs_of_training(TwoPass, "PPO", **overrides)
    cached, _ = syncs_of_training(SharedModel, "PPO", **overrides)
    comparisons = cached - plain
    assert set(comparisons) == {"aten.equal.default"}
    assert 0 < comparisons["aten.equal.default"] <= 2 * truncated_steps(2 * ROLLOUT)


# ----------------------------------------------------------------------------------------------- recorded rollouts


def recorded_rollouts(count: int) -> list[dict[str, torch.Tensor]]:
    """Record rollouts of an untrained model, with returns and normalized advantages, in float64."""
    model, env = build(naive, TwoPass), DriftEnv()
    current, rollouts = env.reset(), []
    for i in range(count):
        steps: list[tuple[torch.Tensor, ...]] = []
        with torch.no_grad():
            for step in range(ROLLOUT):
                actions, log_prob, _ = seeded_act(model, make_inputs(current), "policy", seed=ROLLOUT * i + step)
                following, rewards, _, _ = env.step(actions)
                steps.append((current, actions, log_prob, rewards))
                current = following
        seen, actions, log_prob, rewards = (torch.stack(column).double() for column in zip(*steps, strict=True))
        returns = rewards.flip(0).cumsum(0).flip(0)
        advantages = (returns - returns.mean()) / returns.std()
        names = ("observations", "actions", "log_prob", "returns", "advantages")
        columns = (seen, actions, log_prob, returns, advantages)
        rollouts.append({name: column.flatten(0, 1) for name, column in zip(names, columns, strict=True)})
    return rollouts


def learn(model: Any, rollouts: list[dict[str, torch.Tensor]]) -> torch.Tensor:
    """Do one PPO update for each rollout: clipped surrogate, value loss, gradient clipping, Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for rollout in rollouts:
        inputs = make_inputs(rollout["observations"])
        _, log_prob, _ = seeded_act(model, {**inputs, "taken_actions": rollout["actions"]}, "policy")
        ratio = torch.exp(log_prob - rollout["log_prob"])
        surrogate = torch.min(rollout["advantages"] * ratio, rollout["advantages"] * ratio.clip(0.8, 1.2))
        values, _, _ = seeded_act(model, inputs, "value")
        loss = ((rollout["returns"] - values) ** 2).mean() - surrogate.mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    return nn.utils.parameters_to_vector(model.parameters()).detach()


@pytest.mark.parametrize("make", [naive, pattern])
def test_fifty_updates_on_recorded_rollouts_agree_in_double_precision(make: Make) -> None:
    rollouts = recorded_rollouts(50)
    cached, plain = build(make, SharedModel).double(), build(make, TwoPass).double()
    passes = Passes(cached.net)
    assert (learn(cached, rollouts) - learn(plain, rollouts)).abs().max() <= 1e-10
    # one per update, one for the first pair, and probation
    assert passes.take() == 50 + 1 + PROBATION
