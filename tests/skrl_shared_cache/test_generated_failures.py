"""Where the single pass of skrl's generated class goes wrong, and where the class of our instantiator is right.

Every scenario is one function of the side to look at: skrl's class with its single pass, or ours. Each is compared with
skrl's class of two passes.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from skrl.models.torch import Model
from skrl.utils.model_instantiators.torch import shared_model as skrl_shared_model

from skrl_shared_cache import SharedModel, shared_model

from .support.agents import ROLLOUT, trained_game
from .support.lines import act
from .support.twins import Twins, TwoPass, assert_same, build
from .support.yaml_cases import CASES

CASE = CASES["camera and joints"]
A, B = CASE.inputs(seed=1), CASE.inputs(seed=2)

SCENARIOS: list[Any] = []


def fails(match: str, error: type[Exception] = AssertionError) -> Callable[[Any], Any]:
    """Register a scenario with what it has to end in with skrl's single pass."""

    def register(scenario: Any) -> Any:
        SCENARIOS.append(pytest.param(scenario, error, match, id=scenario.__name__))
        return scenario

    return register


def instantiate(base: Any, case: Any = CASE, order: tuple[str, ...] = ("policy", "value")) -> Any:
    """Return our model on ``SharedModel``, skrl's single pass on ``Model``, and skrl's two passes on ``TwoPass``."""
    two_passes = functools.partial(skrl_shared_model, single_forward_pass=False)
    function = {SharedModel: shared_model, Model: skrl_shared_model, TwoPass: two_passes}[base]
    model = function(**case.arguments(order))
    for role in order:
        model.init_state_dict(role=role)
    return model


def twins_of(base: Any, order: tuple[str, ...] = ("policy", "value")) -> Twins:
    """Return a model of that side, at work, and its twin of two passes."""
    twins = Twins(functools.partial(instantiate, order=order), base=base)
    twins.warm(CASE.inputs(seed=9))
    return twins


@pytest.mark.parametrize(("scenario", "error", "match"), SCENARIOS)
def test_skrls_single_pass_fails(scenario: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        scenario(Model)


@pytest.mark.parametrize(("scenario", "error", "match"), SCENARIOS)
def test_our_instantiator_is_right(scenario: Any, error: type[Exception], match: str) -> None:
    scenario(SharedModel)


@fails("other values")
def value_of_other_observations(base: Any) -> None:
    twins = twins_of(base)
    twins.act(A, "policy")
    twins.act(B, "value")


@fails("other shape")
def value_of_another_batch_size(base: Any) -> None:
    twins = twins_of(base)
    twins.act(A, "policy")
    twins.act(CASE.inputs(batch=3), "value")


@fails("other values")
def policy_that_is_listed_second_and_asked_first(base: Any) -> None:
    """As in a Runner's rollout, with the value first in the file: the policy acts on the step before."""
    twins = Twins(functools.partial(instantiate, order=("value", "policy")), base=base)
    with torch.no_grad():
        for seed in range(4):
            twins.pair(CASE.inputs(seed))


@fails("backward through the graph a second time", RuntimeError)
def policy_backward_and_then_value_backward(base: Any) -> None:
    twins = twins_of(base)
    twins.each(lambda model: model.zero_grad())
    for role in ("policy", "value"):
        for result in twins.act(A, role):
            (result[0] ** 2).sum().backward()
    twins.assert_same_gradients()


@fails("other values")
def optimizer_step_between(base: Any) -> None:
    twins = twins_of(base)
    twins.learn(A)
    twins.copy_gradients()
    twins.act(B, "policy")
    twins.each(lambda model: torch.optim.Adam(model.parameters(), lr=0.1, fused=True).step())
    twins.act(B, "value")


@fails("other values")
def checkpoint_loaded_between(base: Any) -> None:
    twins, other = twins_of(base), build(instantiate, TwoPass, seed=5)
    twins.act(A, "policy")
    twins.each(lambda model: model.load_state_dict(other.state_dict()))
    twins.act(A, "value")


@fails("other values")
def polyak_update_between(base: Any) -> None:
    twins, other = twins_of(base), build(instantiate, TwoPass, seed=5)
    twins.act(A, "policy")
    twins.each(lambda model: model.update_parameters(other, polyak=0.3))
    twins.act(A, "value")


@fails("other requires_grad|gradient missing")
def value_with_grad_after_a_policy_without(base: Any) -> None:
    twins = twins_of(base)
    twins.each(lambda model: model.zero_grad())
    with torch.no_grad():
        twins.act(A, "policy")
    for value in twins.act(A, "value"):
        value[0].sum().backward()
    twins.assert_same_gradients()


@fails("must have the same dtype", RuntimeError)
def value_in_full_precision_after_autocast(base: Any) -> None:
    twins = twins_of(base)
    with torch.autocast("cpu", torch.bfloat16):
        twins.act(A, "policy")
    twins.act(A, "value")


@fails("deepcopy", RuntimeError)
def deepcopy_while_a_graph_is_alive(base: Any) -> None:
    twins = twins_of(base)
    with torch.no_grad():
        twins.act(A, "policy")
    mean_actions = twins.cached.compute(A, "policy")[0]
    clone = copy.deepcopy(twins.cached)
    assert mean_actions.requires_grad
    assert_same(act(clone, A, "value"), act(twins.plain, A, "value"))


@fails("_shared_output", AttributeError)
def value_first_on_a_fresh_model(base: Any) -> None:
    function = shared_model if base is SharedModel else skrl_shared_model
    assert act(function(**CASE.arguments()), A, "value")[0].shape == (5, 1)


@fails("other values")
def one_model_for_all_agents_of_a_game(base: Any) -> None:
    """skrl 1.4: wrong at every step. skrl 2: the last values, after an agent has stopped at its KL limit."""
    make = functools.partial(instantiate, case=CASES["Gaussian"])
    settings: dict[str, Any] = {"mini_batches": ROLLOUT, "kl_threshold": 1e-4, "learning_rate": 1e-2}
    returns = []
    for each in (base, TwoPass):
        agent = trained_game("IPPO", build(make, each), 1, **settings)
        returns.append([agent.memories[uid].get_tensor_by_name("returns") for uid in agent.possible_agents])
    for actual, expected in zip(*returns, strict=True):
        assert (actual - expected).abs().max() < 1e-4, "other values"
