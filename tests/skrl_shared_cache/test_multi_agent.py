"""IPPO and MAPPO, with one model for each agent and with one for all: the right values, in as few passes as can be."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn as nn
from skrl.models.torch import Model
from skrl.resources.preprocessors.torch import RunningStandardScaler

from skrl_shared_cache import SharedCacheWarning, SharedModel, cached_preprocessor

from .support.agents import EPOCHS, MINI_BATCHES, ROLLOUT, make_multi_agent, train, trained_game
from .support.drift import DriftGame, DriftGameWrapper
from .support.lines import SKRL_2, ActorCritic
from .support.passes import Passes
from .support.shadow import Shadow
from .support.twins import Make, TwoPass, build
from .support.zoo import FEATURES, OBSERVATION_SIZE, mlp, naive, pattern

AGENTS = DriftGame.possible_agents

all_names = pytest.mark.parametrize("name", ["IPPO", "MAPPO"])
all_makes = pytest.mark.parametrize("make", [naive, pattern])
one_or_many = pytest.mark.parametrize("is_one", [True, False], ids=["one model", "one for each agent"])


def models_of(make: Make, base: Any, is_one: bool) -> dict[str, Any]:
    """Return a model for each agent: all the same one, or each its own."""
    model = build(make, base)
    return {uid: model if is_one else build(make, base, seed) for seed, uid in enumerate(AGENTS)}


@contextlib.contextmanager
def may_be_in_vain(name: str) -> Iterator[None]:
    """Expect the warning that nothing is saved where skrl gives the roles other inputs: MAPPO on skrl 1.4."""
    with pytest.warns(SharedCacheWarning, match="does not help") if in_vain(name) else contextlib.nullcontext():
        yield


def in_vain(name: str) -> bool:
    """Whether the value sees the state of the game, and the policy what its agent observes."""
    return name == "MAPPO" and not SKRL_2


def settings(scaler: Any) -> dict[str, Any]:
    """Return the settings of a multi-agent whose agents standardize their observations."""
    return {
        "observation_preprocessor": scaler,
        "observation_preprocessor_kwargs": {uid: {"size": OBSERVATION_SIZE, "device": "cpu"} for uid in AGENTS},
    }


OPTIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "KL limit": {"kl_threshold": 1e-4, "learning_rate": 1e-2},
    "time-limit bootstrap": {"time_limit_bootstrap": True},
    "scaler": settings(RunningStandardScaler),
    "cached scaler": settings(cached_preprocessor(RunningStandardScaler)),
}


@all_names
@all_makes
@one_or_many
@pytest.mark.parametrize("overrides", OPTIONS.values(), ids=OPTIONS)
def test_every_output_of_a_training_is_the_uncached_models(
    name: str, make: Make, is_one: bool, overrides: dict[str, Any]
) -> None:
    models = models_of(make, SharedModel, is_one)
    shadows = [Shadow(model, make) for model in dict.fromkeys(models.values())]
    with may_be_in_vain(name):
        trained_game(name, models, 4, **overrides)
    assert sum(shadow.calls for shadow in shadows) >= 4 * len(AGENTS) * (2 * ROLLOUT + 1)


@all_names
@one_or_many
def test_one_update_changes_the_parameters_as_without_the_cache(name: str, is_one: bool) -> None:
    vectors = []
    for base in (SharedModel, TwoPass):
        models = models_of(naive, base, is_one)
        with may_be_in_vain(name) if is_one and base is SharedModel else contextlib.nullcontext():
            trained_game(name, models, updates=1)
        vectors.append(nn.utils.parameters_to_vector(models["right"].parameters()).detach())
    assert (vectors[0] - vectors[1]).abs().max() <= 1e-6


def passes_of_one_update(name: str, make: Make, base: Any, is_one: bool, **overrides: Any) -> int:
    """Return the trunk passes of a rollout and its update, after two in which it shows how many entries to keep."""
    totals = []
    for updates in (2, 3):
        models = models_of(make, base, is_one)
        counts = [Passes(model.net) for model in dict.fromkeys(models.values())]
        with may_be_in_vain(name) if base is SharedModel else contextlib.nullcontext():
            trained_game(name, models, updates, **overrides)
        totals.append(sum(count.take() for count in counts))
    return totals[1] - totals[0]


PAIRS = ROLLOUT + EPOCHS * MINI_BATCHES
LAST_VALUE = 1


@all_names
@all_makes
@one_or_many
def test_the_trunk_runs_once_per_pair_where_the_roles_see_the_same(name: str, make: Make, is_one: bool) -> None:
    plain = len(AGENTS) * (2 * PAIRS + LAST_VALUE)
    assert passes_of_one_update(name, make, TwoPass, is_one) == plain
    expected = plain if in_vain(name) else plain - len(AGENTS) * PAIRS
    assert passes_of_one_update(name, make, SharedModel, is_one) == expected


@one_or_many
def test_the_trunk_runs_once_per_pair_with_the_cached_scaler(is_one: bool) -> None:
    scaler = settings(cached_preprocessor(RunningStandardScaler))
    assert passes_of_one_update("IPPO", naive, SharedModel, is_one, **scaler) == len(AGENTS) * (PAIRS + LAST_VALUE)


def on_states(base: Any) -> Any:
    """A model whose value reads the state of the game."""

    class OnStates(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(self.net(inputs["observations" if role == "policy" else "states"]), role, inputs)

    return OnStates()


class GameWithState(DriftGameWrapper):
    """Its state is the mean of all views."""

    @property
    def state_spaces(self) -> Any:
        return self.observation_spaces

    def state(self) -> Any:
        return dict.fromkeys(self.possible_agents, torch.stack([*self._last.values()]).mean(dim=0))


@pytest.mark.skipif(not SKRL_2, reason="skrl 1.4 gives the value the state of the game as its only input")
@all_names
@one_or_many
def test_a_value_on_the_state_of_the_game_is_the_uncached_models(name: str, is_one: bool) -> None:
    models = models_of(on_states, SharedModel, is_one)
    shadows = [Shadow(model, on_states) for model in dict.fromkeys(models.values())]
    env = GameWithState(DriftGame())
    with pytest.warns(SharedCacheWarning, match="does not help `net`.*inputs differ"):
        train(make_multi_agent(name, models, env), env, 3)
    assert sum(shadow.calls for shadow in shadows) >= 3 * len(AGENTS) * 2 * ROLLOUT


@pytest.mark.skipif(SKRL_2, reason="skrl 2 asks for policy and value of one agent, then of the next")
@all_names
def test_skrls_own_single_pass_is_wrong_at_every_step_with_one_model_for_all_agents(name: str) -> None:
    """On skrl 1.4, all policies come first: the first agent then gets the value of the last one's observations."""
    model = build(pattern, Model)
    shadow = Shadow(model, pattern, is_tolerant=True)
    trained_game(name, model, 1)
    assert shadow.wrong >= ROLLOUT


@pytest.mark.skipif(SKRL_2, reason="skrl 1.4 gives the value the state of the game as its only input")
@one_or_many
def test_skrls_own_single_pass_never_looks_at_the_state_of_the_game(is_one: bool) -> None:
    """MAPPO on skrl 1.4: with the features that the policy left, the value is one of an agent's view."""
    models = models_of(pattern, Model, is_one)
    shadows = [Shadow(model, pattern, is_tolerant=True) for model in dict.fromkeys(models.values())]
    trained_game("MAPPO", models, 1)
    assert sum(shadow.wrong for shadow in shadows) >= (ROLLOUT if is_one else len(AGENTS) * ROLLOUT)


@pytest.mark.skipif(not SKRL_2, reason="on skrl 1.4 it is wrong in the rollout already")
@all_names
def test_skrls_own_single_pass_is_wrong_after_an_update_that_stopped_at_its_kl_limit(name: str) -> None:
    model = build(pattern, Model)
    shadow = Shadow(model, pattern, is_tolerant=True)
    # a minibatch is as large as a step of the environments: any other size ends in an error about shapes
    trained_game(name, model, 1, mini_batches=ROLLOUT, kl_threshold=1e-4, learning_rate=1e-2)
    assert shadow.wrong > 0
