"""`use()`: skrl's own Runner and instantiator produce cached models, and are afterwards what they were."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from skrl.agents.torch import Agent
from skrl.agents.torch.trpo import TRPO
from skrl.multi_agents.torch import MultiAgent
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.utils import model_instantiators
from skrl.utils.model_instantiators.torch import shared
from skrl.utils.model_instantiators.torch import shared_model as early_shared_model
from skrl.utils.runner.torch import Runner as EarlyRunner
from skrl.utils.runner.torch import runner as runner_module

from skrl_shared_cache import SharedModel, cached_preprocessor, shared_model, use

from .support.agents import make_agent, train
from .support.drift import DriftEnv, DriftWrapper
from .support.lines import SKRL_2, box
from .support.twins import TwoPass, build
from .support.yaml_cases import CASES, Comparisons, configuration, make_env, passes_of
from .support.zoo import naive


def state_of_skrl() -> list[Any]:
    """Return what `use` could have changed: classes, functions, and the modules that hold them."""
    owners = (EarlyRunner, Agent, MultiAgent, shared, runner_module, model_instantiators.torch)
    attributes = [dict(vars(owner)) for owner in owners]
    function = early_shared_model
    return [*attributes, function.__code__, function.__defaults__, function.__kwdefaults__, inspect.signature(function)]


@pytest.fixture(autouse=True)
def _leaves_skrl_as_it_was() -> Iterator[None]:
    before = state_of_skrl()
    yield
    assert state_of_skrl() == before


def runner_of_skrl(**settings: Any) -> Any:
    return EarlyRunner(make_env(box(6)), configuration(CASES["Gaussian"].roles(), **settings))


def is_substituted() -> bool:
    return isinstance(early_shared_model(**CASES["Gaussian"].arguments()), SharedModel)


# ------------------------------------------------------------------------------------------------- what it substitutes


def test_a_runner_that_was_imported_before_builds_cached_models() -> None:
    with use():
        runner = runner_of_skrl()
    assert type(runner) is EarlyRunner
    assert isinstance(runner.agent.policy, SharedModel)


def test_its_training_runs_every_network_once_per_pair_and_compares_no_inputs() -> None:
    with use():
        runner = EarlyRunner(
            make_env(CASES["camera and joints"].observation_space),
            configuration(CASES["camera and joints"].roles(("value", "policy")), updates=2),
        )
    passes = passes_of(runner.agent.policy)
    with Comparisons() as comparisons:
        runner.run("train")
    assert {counter.take() for counter in passes.values()} == {2 * (8 + 2 * 3) + 2 + 4}  # as counted in test_runner
    assert comparisons.counts.total() <= 4


def test_an_instantiator_that_was_imported_before_builds_our_models() -> None:
    arguments = CASES["camera, joints and goal"].arguments()
    with use():
        assert early_shared_model(**arguments, return_source=True) == shared_model(**arguments, return_source=True)
        assert type(early_shared_model(**arguments)) is type(shared_model(**arguments))


def test_positional_arguments_and_defaults_are_still_those_of_skrl() -> None:
    with use(), pytest.raises(ValueError, match="has two roles"):
        early_shared_model()
    if not SKRL_2:
        arguments = CASES["Gaussian"].arguments()
        spaces = arguments.pop("observation_space"), arguments.pop("action_space"), arguments.pop("device")
        with use():
            assert early_shared_model(*spaces, **arguments).num_actions == 2


def test_our_own_instantiator_works_within() -> None:
    with use():
        assert isinstance(shared_model(**CASES["Gaussian"].arguments()), SharedModel)


def test_the_scaler_of_a_configuration_is_cached() -> None:
    settings = {"observation_preprocessor": "RunningStandardScaler", "time_limit_bootstrap": True}
    kwargs = {"observation_preprocessor_kwargs": {"epsilon": 1e-8}}
    name = "_observation_preprocessor" if SKRL_2 else "_state_preprocessor"
    with use():
        assert type(getattr(runner_of_skrl(**settings, **kwargs).agent, name)) is cached_preprocessor(
            RunningStandardScaler
        )
    assert type(getattr(runner_of_skrl(**settings, **kwargs).agent, name)) is RunningStandardScaler


def test_trpo_with_a_shared_model_is_refused() -> None:
    with use(), pytest.raises(ValueError, match="TRPO needs one model per role"):
        runner_of_skrl(agent="TRPO")


def test_trpo_of_a_script_with_a_shared_model_is_refused_before_it_trains() -> None:
    env, model = DriftWrapper(DriftEnv()), build(naive, TwoPass)
    agent = TRPO(
        models={"policy": model, "value": model},
        observation_space=env.observation_space,
        action_space=env.action_space,
        device="cpu",
        cfg={"experiment": {"write_interval": 0, "checkpoint_interval": 0}},
    )
    with use(), pytest.raises(ValueError, match="TRPO needs one model per role"):
        train(agent, env, updates=1)


def test_a_model_that_a_script_defines_keeps_its_base_class() -> None:
    env = DriftWrapper(DriftEnv())
    with use():
        model = build(naive, TwoPass)
        train(make_agent("PPO", model, env), env, updates=1)
    assert not isinstance(model, SharedModel)


def test_a_subclass_of_skrls_runner_is_substituted_as_well() -> None:
    class Mine(EarlyRunner):
        pass

    with use():
        runner = Mine(make_env(box(6)), configuration(CASES["Gaussian"].roles()))
    assert isinstance(runner.agent.policy, SharedModel)


# ----------------------------------------------------------------------------------------------------- how it is undone


def test_a_call_lasts_until_it_is_undone() -> None:
    substitution = use()
    assert is_substituted()
    substitution.undo()
    assert not is_substituted()


def test_undoing_twice_is_undoing_once() -> None:
    first, second = use(), use()
    first.undo()
    first.undo()
    assert is_substituted()
    second.undo()
    assert not is_substituted()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_nested_calls_last_until_all_are_undone(order: tuple[int, ...]) -> None:
    substitutions = [use() for _ in range(3)]
    for i in order:
        assert is_substituted()
        substitutions[i].undo()
    assert not is_substituted()


def test_an_exception_ends_a_block_and_passes() -> None:
    with pytest.raises(ZeroDivisionError), use():
        _ = 1 // 0
    assert not is_substituted()


def test_models_and_agents_stay_cached_after_the_end() -> None:
    with use():
        runner = runner_of_skrl(updates=2)
    runner.run("train")
    assert runner.agent.policy.cache_info().hits > 0
    first, second = (
        torch.nn.utils.parameters_to_vector(each.agent.policy.parameters()) for each in (runner, runner_of_skrl())
    )
    assert first.shape == second.shape


def test_it_can_be_used_as_often_as_one_likes() -> None:
    for _ in range(3):
        with use():
            assert is_substituted()
        assert not is_substituted()
