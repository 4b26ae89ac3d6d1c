"""`Runner`: trainings of a configuration file as with skrl's, right in any order of roles, with one pass per pair."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn as nn
from skrl.models.torch import Model
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.utils.runner.torch import Runner as SkrlRunner

from skrl_shared_cache import Runner, SharedModel, cached_preprocessor

from .support.agents import EPOCHS, MINI_BATCHES, ROLLOUT
from .support.drift import DriftGame, DriftGameWrapper
from .support.lines import SKRL_2, box
from .support.yaml_cases import (
    CAMERA,
    CAMERA_AND_GOAL,
    CASES,
    Comparisons,
    TwoPassRunner,
    configuration,
    make_env,
    network,
    passes_of,
)

SPACES = {
    "vector": ("Gaussian", box(6)),
    "camera": ("camera and joints", CAMERA),
    "camera, goal": ("camera, joints and goal", CAMERA_AND_GOAL),
}
WITHOUT_INDICES = ("vector", "camera")  # what a scaler can be used for
ORDERS = (("policy", "value"), ("value", "policy"))

all_spaces = pytest.mark.parametrize("space", SPACES)
both_orders = pytest.mark.parametrize("order", ORDERS, ids=" ".join)

SCALER: dict[str, Any] = {"observation_preprocessor": "RunningStandardScaler", "observation_preprocessor_kwargs": None}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "scaler": SCALER,
    "scaler, time-limit bootstrap": {**SCALER, "time_limit_bootstrap": True},
    "KL limit": {"kl_threshold": 1e-3, "learning_rate": 1e-2},
    "adaptive learning rate": {
        "learning_rate_scheduler": "KLAdaptiveLR",
        "learning_rate_scheduler_kwargs": {"kl_threshold": 0.008},
    },
}


def run(kind: Any, space: str, order: tuple[str, ...] = ORDERS[0], **settings: Any) -> Any:
    """Return a Runner of that kind after its training."""
    runner = make(kind, space, order, **settings)
    runner.run("train")
    return runner


def make(kind: Any, space: str, order: tuple[str, ...] = ORDERS[0], **settings: Any) -> Any:
    """Return a Runner of that kind before its training."""
    case, observation_space = SPACES[space]
    return kind(make_env(observation_space), configuration(CASES[case].roles(order), **settings))


def parameters(runner: Any) -> torch.Tensor:
    return nn.utils.parameters_to_vector(runner.agent.policy.parameters()).detach()


def assert_same_training(space: str, order: tuple[str, ...] = ORDERS[0], **settings: Any) -> None:
    """Assert that one update leaves the parameters of skrl's two-pass model, and its rollout those actions."""
    ours, plain = (run(kind, space, order, **settings) for kind in (Runner, TwoPassRunner))
    assert isinstance(ours.agent.policy, SharedModel)
    assert not isinstance(plain.agent.policy, SharedModel)
    for name in ("actions", "log_prob"):
        assert torch.equal(*(runner.agent.memory.get_tensor_by_name(name) for runner in (ours, plain)))
    start = parameters(make(TwoPassRunner, space, order, **settings))
    assert (parameters(plain) - start).abs().max() > 1e-4  # or nothing was learned, and nothing compared
    assert (parameters(ours) - parameters(plain)).abs().max() <= 1e-6


# ----------------------------------------------------------------------------------------------------------- training


@all_spaces
@both_orders
def test_a_training_is_skrls_of_two_passes_in_any_order_of_roles(space: str, order: tuple[str, ...]) -> None:
    assert_same_training(space, order)


@pytest.mark.parametrize("agent", ["A2C", "RPO"])
def test_that_holds_for_other_agents(agent: str) -> None:
    assert_same_training("camera, goal", agent=agent)


@pytest.mark.parametrize("settings", OPTIONS.values(), ids=OPTIONS)
def test_that_holds_for_options_of_the_agent(settings: dict[str, Any]) -> None:
    assert_same_training("vector", **settings)


def pairs(agent: str, updates: int) -> int:
    """Return the policy/value pairs of a training: in the rollouts, and in the minibatches."""
    return updates * (ROLLOUT + MINI_BATCHES * (1 if agent == "A2C" else EPOCHS))


@pytest.mark.parametrize("space", WITHOUT_INDICES)
@both_orders
@pytest.mark.parametrize("agent", ["PPO", "A2C"])
@pytest.mark.parametrize("settings", [{}, SCALER], ids=["plain", "scaler"])
def test_every_network_runs_once_per_pair_and_no_tensors_are_compared(
    space: str, order: tuple[str, ...], agent: str, settings: dict[str, Any]
) -> None:
    runner = make(Runner, space, order, agent=agent, updates=2, **settings)
    counters = passes_of(runner.agent.policy)
    with Comparisons() as comparisons:
        runner.run("train")
    # one for the value of the last observations, for GAE; probation: two in the rollout, two in the update
    assert {counter.take() for counter in counters.values()} == {pairs(agent, 2) + 2 + 4}
    # the verification of a would-be hit compares its output; a comparison of inputs would come with every pair
    assert comparisons.counts.total() <= 4


def test_with_skrls_scaler_the_inputs_would_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """On skrl 1.4 in each step, on skrl 2 where a step's value is bootstrapped: what the cached scaler is for."""
    monkeypatch.setattr("skrl_shared_cache.runner.cache_scalers", lambda *_: None)
    with Comparisons() as comparisons:
        run(Runner, "vector", updates=2, **OPTIONS["scaler, time-limit bootstrap"])
    assert comparisons.counts.total() > 4


def test_with_a_bootstrap_no_inputs_are_compared() -> None:
    with Comparisons() as comparisons:
        run(Runner, "vector", updates=2, **OPTIONS["scaler, time-limit bootstrap"])
    assert comparisons.counts.total() <= 6


def trained_game(kind: Any) -> Any:
    """Return the IPPO of a Runner of that kind, after a training with two agents."""
    # skrl 2.1 refuses the empty keyword arguments that are its own default
    settings = {**SCALER, "learning_rate_scheduler": "KLAdaptiveLR", "value_preprocessor": "RunningStandardScaler"}
    kwargs: dict[str, Any] = {
        "learning_rate_scheduler_kwargs": {"kl_threshold": 0.01},
        "value_preprocessor_kwargs": {"epsilon": 1e-8},
    }
    kwargs |= {"state_preprocessor_kwargs": {"epsilon": 1e-8}} if SKRL_2 else {}
    roles = CASES["Gaussian"].roles()
    runner = kind(DriftGameWrapper(DriftGame()), configuration(roles, agent="IPPO", **settings, **kwargs))
    runner.run("train")
    return runner.agent


def test_every_agent_of_a_game_has_one_cached_model() -> None:
    ours, plain = trained_game(Runner), trained_game(TwoPassRunner)
    for uid in ours.possible_agents:
        assert ours.policies[uid] is ours.values[uid]
        assert isinstance(ours.policies[uid], SharedModel)
        vectors = [nn.utils.parameters_to_vector(each.policies[uid].parameters()) for each in (ours, plain)]
        assert (vectors[0] - vectors[1]).abs().max() <= 1e-6


# --------------------------------------------------------------------------------------------------- what is replaced


SKRL_1_OR_BOOTSTRAP = [
    pytest.param({}, not SKRL_2, id="no bootstrap"),
    pytest.param({"time_limit_bootstrap": True}, True, id="bootstrap"),
]


@pytest.mark.parametrize(("settings", "is_cached"), SKRL_1_OR_BOOTSTRAP)
def test_the_scaler_is_cached_where_observations_are_scaled_twice(settings: dict[str, Any], is_cached: bool) -> None:
    agent = make(Runner, "vector", **SCALER, **settings).agent
    scaler = agent._observation_preprocessor if SKRL_2 else agent._state_preprocessor
    assert type(scaler) is (cached_preprocessor(RunningStandardScaler) if is_cached else RunningStandardScaler)


def test_with_separate_models_everything_is_skrls() -> None:
    agent = make(Runner, "vector", separate=True, time_limit_bootstrap=True, **SCALER).agent
    assert agent.policy is not agent.value
    assert not isinstance(agent.policy, SharedModel)
    assert type(agent._observation_preprocessor if SKRL_2 else agent._state_preprocessor) is RunningStandardScaler


def test_the_configuration_is_left_as_skrl_leaves_it() -> None:
    given = configuration(CASES["camera and joints"].roles(), **SCALER)
    results = []
    for kind in (Runner, SkrlRunner):
        cfg = copy.deepcopy(given)
        kind(make_env(CAMERA), cfg)
        results.append(cfg)
    assert results[0] == results[1]


def test_the_source_that_is_printed_is_ours(capsys: pytest.CaptureFixture[str]) -> None:
    case, space = SPACES["vector"]
    verbose: dict[str, Any] = {"verbose": True} if SKRL_2 else {}
    Runner(make_env(space), configuration(CASES[case].roles()), **verbose)
    assert "def trunk(self" in capsys.readouterr().out


@pytest.mark.parametrize("space", WITHOUT_INDICES)
@pytest.mark.parametrize(("source", "target"), [(SkrlRunner, Runner), (Runner, SkrlRunner)])
def test_checkpoints_load_both_ways(space: str, source: Any, target: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "agent.pt")
    saved = run(source, space, time_limit_bootstrap=True, **SCALER)
    saved.agent.save(path)
    loaded = make(target, space, time_limit_bootstrap=True, **SCALER)
    assert not torch.equal(parameters(loaded), parameters(saved))
    loaded.agent.load(path)
    for name, module in saved.agent.checkpoint_modules.items():
        theirs, ours = module.state_dict(), loaded.agent.checkpoint_modules[name].state_dict()
        assert str(theirs) == str(ours), name


# -------------------------------------------------------------------------------------------------------------- errors


def test_trpo_with_a_shared_model_is_refused_before_the_training() -> None:
    with pytest.raises(ValueError, match=r"TRPO needs one model per role, but TRPO got one.*`separate: True`"):
        make(Runner, "vector", agent="TRPO")


def test_skrls_runner_lets_trpo_die_within_autograd() -> None:
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        run(SkrlRunner, "vector", agent="TRPO")


def test_trpo_with_separate_models_is_trained() -> None:
    runner = run(Runner, "vector", agent="TRPO", separate=True)
    assert isinstance(runner.agent.policy, Model)


@pytest.mark.skipif(not SKRL_2, reason="skrl 1.4 has no privileged states")
@both_orders
def test_a_value_on_states_is_refused(order: tuple[str, ...]) -> None:
    roles = CASES["Gaussian"].roles(order)
    roles["value"]["network"] = network("STATES")
    with pytest.raises(ValueError, match=r"'policy' reads OBSERVATIONS .*'value' reads STATES|'value' reads STATES .*"):
        Runner(make_env(box(6)), configuration(roles))
