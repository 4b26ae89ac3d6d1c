"""Where skrl's own single pass goes wrong, as a user meets it, and the same model right on the cached base class.

Every scenario is one function of the base class. Run with skrl's ``Model`` it has to fail in the way that its decorator
says; run with ``SharedModel`` under the very same class body it has to pass. It compares with a two-pass twin.
"""

from __future__ import annotations

import copy
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn as nn
from skrl.models.torch import Model
from skrl.utils.model_instantiators.torch import shared as instantiator
from skrl.utils.runner.torch import Runner

from skrl_shared_cache import SharedCacheWarning, SharedModel

from .support.agents import MINI_BATCHES, ROLLOUT, SILENT, make_agent, train, trained_game
from .support.drift import DriftEnv, DriftWrapper
from .support.lines import OBSERVATIONS, SKRL_2, ActorCritic, act, box, make_inputs
from .support.twins import Twins, TwoPass, assert_same, build
from .support.zoo import FEATURES, OBSERVATION_SIZE, mlp, network, observations, pattern, roles_configuration

Scenario = Callable[[Any], None]

SCENARIOS: list[Any] = []

WRONG_VALUES = AssertionError, "other values"
WRONG_GRAPH = RuntimeError, "Trying to backward through the graph a second time"


def fails(error: type[Exception], match: str) -> Callable[[Scenario], Scenario]:
    """Register a scenario with the error that skrl's own single pass has to end in."""

    def register(scenario: Scenario) -> Scenario:
        SCENARIOS.append(pytest.param(scenario, error, match, id=scenario.__name__))
        return scenario

    return register


@pytest.mark.parametrize(("scenario", "error", "match"), SCENARIOS)
def test_skrls_own_single_pass_fails(scenario: Scenario, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        scenario(Model)


@pytest.mark.parametrize("mode", ["on", "off", "verify"])
@pytest.mark.parametrize(("scenario", "error", "match"), SCENARIOS)
def test_the_cached_model_is_right(scenario: Scenario, error: type[Exception], match: str, mode: str) -> None:
    scenario(type("Base", (SharedModel,), {"shared_cache_mode": mode}))


A, B = make_inputs(observations(seed=1)), make_inputs(observations(seed=2))


def warm_twins(base: Any, make: Callable[[Any], Any] = pattern) -> Twins:
    """Return twins of which the cached one no longer verifies its hits."""
    twins = Twins(make, base=base)
    twins.warm(make_inputs(observations(seed=9)))
    if getattr(base, "shared_cache_mode", "") == "on":
        assert twins.cached.cache_info().hits > 0
    return twins


# ---------------------------------------------------------------------------------------------------- other inputs


@fails(*WRONG_VALUES)
def value_of_other_observations(base: Any) -> None:
    twins = warm_twins(base)
    twins.act(A, "policy")
    twins.act(B, "value")


@fails(AssertionError, "other shape")
def value_of_another_batch_size(base: Any) -> None:
    twins = warm_twins(base)
    twins.act(A, "policy")
    twins.act(make_inputs(observations(batch=3)), "value")


@fails(*WRONG_VALUES)
def value_of_observations_written_in_place(base: Any) -> None:
    """A simulator that steps by writing into the one observation tensor that it hands out."""
    twins = warm_twins(base)
    inputs = make_inputs(observations())
    twins.act(inputs, "policy")
    inputs[OBSERVATIONS].mul_(2.0)
    twins.act(inputs, "value")


@fails(*WRONG_VALUES)
def value_after_a_policy_call_that_raised(base: Any) -> None:
    """The policy's head refuses the features of A, the caller goes on with B."""
    twins = warm_twins(base)
    for model in (twins.cached, twins.plain):
        head, model.policy_head = model.policy_head, nn.Linear(FEATURES + 1, 2)
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            act(model, A, "policy")
        model.policy_head = head
    twins.act(B, "value")


@fails(AttributeError, "_shared_output")
def value_first_on_a_fresh_generated_model(base: Any) -> None:
    """skrl's Runner evaluates every role once; who builds the generated class by hand may ask for the value first."""
    configuration = roles_configuration()
    spaces: dict[str, Any] = {"observation_space": box(OBSERVATION_SIZE), "action_space": box(2)}
    source = instantiator.shared_model(
        **spaces,
        structure=[role["class"] for role in configuration.values()],
        roles=list(configuration),
        parameters=list(configuration.values()),
        return_source=True,
    )
    namespace = {**vars(instantiator), "Model": base}
    exec(source, namespace)
    model = namespace["SharedModel"](**spaces, **({"state_space": None} if SKRL_2 else {}), device="cpu")
    value, _, _ = act(model, A, "value")
    features = model.net_container(A[OBSERVATIONS])
    assert_same(value, model.value_layer(features))


# -------------------------------------------------------------------------------- something changes between the two


@fails(*WRONG_VALUES)
def optimizer_step_between(base: Any) -> None:
    twins = warm_twins(base)
    twins.learn(A)
    twins.copy_gradients()
    twins.act(B, "policy")
    twins.each(lambda model: torch.optim.SGD(model.parameters(), lr=0.1).step())
    twins.act(B, "value")


@fails(*WRONG_VALUES)
def fused_optimizer_step_between(base: Any) -> None:
    """Fused optimizers write the weights without raising their version counters."""
    twins = warm_twins(base)
    optimizers = [torch.optim.Adam(model.parameters(), lr=0.1, fused=True) for model in (twins.cached, twins.plain)]
    twins.learn(A)
    twins.copy_gradients()
    twins.act(B, "policy")
    for optimizer in optimizers:
        optimizer.step()
    twins.act(B, "value")


@fails(*WRONG_VALUES)
def checkpoint_loaded_between(base: Any) -> None:
    twins = warm_twins(base)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.pt")
        build(pattern, TwoPass, seed=5).save(path)
        twins.train(False)
        twins.act(A, "policy")
        twins.each(lambda model: model.load(path))
        twins.act(A, "value")


@fails(*WRONG_VALUES)
def polyak_update_between(base: Any) -> None:
    """skrl averages into ``parameters.data``, which raises no version counter."""
    twins = warm_twins(base)
    other = build(pattern, TwoPass, seed=5)
    twins.act(A, "policy")
    twins.each(lambda model: model.update_parameters(other, polyak=0.3))
    twins.act(A, "value")


def dropout_mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(OBSERVATION_SIZE, FEATURES), nn.Dropout(0.5), nn.ELU())


def batch_norm_mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(OBSERVATION_SIZE, FEATURES), nn.BatchNorm1d(FEATURES), nn.ELU())


@fails(*WRONG_VALUES)
def evaluation_of_a_trunk_with_dropout_between(base: Any) -> None:
    twins = warm_twins(base, partial(pattern, trunk=dropout_mlp))
    twins.act(A, "policy")
    twins.train(False)
    twins.act(A, "value")


@fails(*WRONG_VALUES)
def training_of_a_trunk_with_batch_norm_between(base: Any) -> None:
    twins = warm_twins(base, partial(pattern, trunk=batch_norm_mlp))
    twins.train(False)
    twins.act(A, "policy")
    twins.train(True)
    twins.act(A, "value")


@fails(RuntimeError, "must have the same dtype")
def value_in_full_precision_after_autocast(base: Any) -> None:
    twins = warm_twins(base)
    with torch.autocast("cpu", torch.bfloat16):
        twins.act(A, "policy")
    twins.act(A, "value")


@fails(*WRONG_VALUES)
def value_under_autocast_after_full_precision(base: Any) -> None:
    twins = warm_twins(base)
    twins.act(A, "policy")
    with torch.autocast("cpu", torch.bfloat16):
        twins.act(A, "value")


def frozen_heads(base: Any) -> Any:
    """A model of which only the trunk still learns."""
    model = pattern(base)
    for parameter in (*model.value_head.parameters(), *model.policy_head.parameters(), model.log_std):
        parameter.requires_grad_(False)
    return model


@fails(AssertionError, "other requires_grad")
def value_with_grad_after_a_policy_without(base: Any) -> None:
    """The trunk gets no gradient from the value: with trained heads it would not even be noticed."""
    twins = warm_twins(base, frozen_heads)
    with torch.no_grad():
        twins.act(A, "policy")
    twins.act(A, "value")


@fails(AssertionError, "gradient missing")
def value_loss_after_a_policy_without_grad(base: Any) -> None:
    twins = warm_twins(base)
    with torch.no_grad():
        twins.act(A, "policy")
    for model, value in zip((twins.cached, twins.plain), twins.act(A, "value"), strict=True):
        model.zero_grad()
        value[0].sum().backward()
    twins.assert_same_gradients()


@fails(AssertionError, "other requires_grad")
def freeze_between(base: Any) -> None:
    twins = warm_twins(base)
    twins.act(A, "policy")
    twins.each(lambda model: model.freeze_parameters(True))
    twins.act(A, "value")


# ------------------------------------------------------------------------------------------------------ the graph


@fails(*WRONG_GRAPH)
def policy_and_value_losses_in_separate_backwards(base: Any) -> None:
    twins = warm_twins(base)
    twins.each(lambda model: model.zero_grad())
    for role in ("policy", "value"):
        for actions, _, _ in twins.act(A, role):
            (actions**2).sum().backward(retain_graph=False)
    twins.assert_same_gradients()


@fails(*WRONG_GRAPH)
def policy_backward_before_the_value_is_asked_for(base: Any) -> None:
    twins = warm_twins(base)
    twins.each(lambda model: model.zero_grad())
    for actions, _, _ in twins.act(A, "policy"):
        (actions**2).sum().backward()
    for values, _, _ in twins.act(A, "value"):
        (values**2).sum().backward()
    twins.assert_same_gradients()


@fails(RuntimeError, "deepcopy")
def deepcopy_while_a_graph_is_alive(base: Any) -> None:
    """Imitation on the mean actions, without ``act``: after that, skrl's Gaussian keeps a graph of its own."""
    twins = warm_twins(base)
    with torch.no_grad():
        twins.act(A, "policy")
    mean_actions = twins.cached.compute(A, "policy")[0]
    clone = copy.deepcopy(twins.cached)
    assert mean_actions.requires_grad
    assert_same(act(clone, A, "value"), act(twins.plain, A, "value"))


def in_place_head(base: Any) -> Any:
    """A policy branch that rectifies the features in place, as soon as ``in_place`` says so."""

    class InPlaceHead(ActorCritic, base):
        def __init__(self) -> None:
            ActorCritic.__init__(self, base)
            self.net = mlp()
            self.add_heads(FEATURES)
            self._shared_output: Any = None
            self.in_place = True

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            if role == "policy":
                self._shared_output = self.net(inputs[OBSERVATIONS])
                activate = torch.relu_ if self.in_place else torch.relu
                return self.answer(activate(self._shared_output), role, inputs)
            features = self.net(inputs[OBSERVATIONS]) if self._shared_output is None else self._shared_output
            self._shared_output = None
            return self.answer(features, role, inputs)

    return InPlaceHead()


@fails(*WRONG_VALUES)
def policy_head_that_writes_into_the_features(base: Any) -> None:
    twins = Twins(in_place_head, base=base)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SharedCacheWarning)
        for _ in range(5):
            twins.pair(A)


@fails(*WRONG_VALUES)
def policy_head_that_starts_to_write_into_the_features(base: Any) -> None:
    """After a hundred well-behaved pairs, say when a schedule switches the activation."""
    twins = Twins(in_place_head, base=base)
    twins.each(lambda model: setattr(model, "in_place", False))
    twins.warm(A)
    twins.each(lambda model: setattr(model, "in_place", True))
    with torch.no_grad():
        twins.pair(A)
    twins.learn(A)


# ---------------------------------------------------------------------------------------------------- skrl's agents


@pytest.fixture(autouse=True)
def _undo_the_swap_of_the_generated_base_class() -> Iterator[None]:
    yield
    instantiator.Model = Model


def runner(base: Any) -> Runner:
    """Return a Runner of a configuration with ``separate: False`` that lists the value first, with its base swapped.

    A minibatch is as large as a step of the environments: any other size ends in an error about shapes instead.
    """
    instantiator.Model = base
    roles = roles_configuration()
    configuration = {
        "seed": 3,
        "models": {"separate": False, "value": roles["value"], "policy": roles["policy"]},
        "memory": {"class": "RandomMemory", "memory_size": -1},
        "agent": {"class": "PPO", "rollouts": ROLLOUT, "mini_batches": ROLLOUT, "experiment": dict(SILENT)},
        "trainer": {
            "class": "SequentialTrainer",
            "timesteps": ROLLOUT,
            "headless": True,
            "disable_progressbar": True,
            "close_environment_at_exit": False,
        },
    }
    return Runner(DriftWrapper(DriftEnv()), configuration)


@fails(*WRONG_VALUES)
def runner_with_the_value_listed_first_in_the_rollout(base: Any) -> None:
    """From the second step on, the policy acts on the observations that the value saw at the step before."""
    model, twin = (runner(b).agent.policy for b in (base, TwoPass))
    with torch.no_grad():
        for step in range(6):
            inputs = make_inputs(observations(seed=step))
            for role in ("policy", "value"):
                torch.manual_seed(step)
                actual = act(model, inputs, role)
                torch.manual_seed(step)
                assert_same(actual, act(twin, inputs, role))


@fails(*WRONG_GRAPH)
def runner_with_the_value_listed_first_in_the_update(base: Any) -> None:
    trained = []
    for b in (base, TwoPass):
        r = runner(b)
        r.run("train")
        trained.append(nn.utils.parameters_to_vector(r.agent.policy.parameters()))
    torch.testing.assert_close(*trained, rtol=0, atol=1e-6)


def one_model_for_all_agents(name: str, base: Any) -> None:
    """Compare what the memories hold after a rollout and an update that stops at a small KL divergence.

    A minibatch is as large as a step of the environments: any other size ends in an error about shapes on skrl 2.
    """
    runs = []
    for b in (base, TwoPass):
        model = build(pattern, b)
        agent = trained_game(name, model, 1, mini_batches=ROLLOUT, kl_threshold=1e-4, learning_rate=1e-2)
        runs.append(
            {
                f"{uid} {name}": agent.memories[uid].get_tensor_by_name(name)
                for uid in agent.possible_agents
                for name in ("values", "returns")
            }
        )
    for key, expected in runs[1].items():
        assert (runs[0][key] - expected).abs().max() < 1e-4, f"other values: {key}"


@fails(*WRONG_VALUES)
def ippo_with_one_model_for_all_agents(base: Any) -> None:
    """skrl 1.4: every step. skrl 2: the second agent's last values, when the first has stopped at its KL limit."""
    one_model_for_all_agents("IPPO", base)


@fails(*WRONG_VALUES)
def mappo_with_one_model_for_all_agents(base: Any) -> None:
    one_model_for_all_agents("MAPPO", base)


@fails(*WRONG_VALUES)
def value_after_an_update_that_stopped_at_its_kl_limit(base: Any) -> None:
    """PPO leaves its minibatch loop between the policy and the value pass; a script then asks for a value."""
    env = DriftWrapper(DriftEnv())
    model = build(pattern, base)
    train(make_agent("PPO", model, env, kl_threshold=1e-9, learning_rate=1e-2), env, updates=1)
    twin = build(pattern, TwoPass)
    twin.load_state_dict(model.state_dict())
    inputs = make_inputs(observations(batch=ROLLOUT * env.num_envs // MINI_BATCHES))
    with torch.no_grad():
        assert_same(act(model, inputs, "value"), act(twin, inputs, "value"))


@pytest.mark.skipif(not SKRL_2, reason="skrl 1.4 has no privileged states")
@pytest.mark.parametrize("single_forward_pass", [True, False])
def test_skrls_generated_value_on_states_never_reads_them(single_forward_pass: bool) -> None:
    """A fault of skrl's generator, single pass or not, that no base class can mend: the network is the policy's."""
    configuration = roles_configuration()
    configuration["value"]["network"] = network("STATES")
    model = instantiator.shared_model(
        observation_space=box(OBSERVATION_SIZE),
        state_space=box(4),
        action_space=box(2),
        device="cpu",
        structure=[role["class"] for role in configuration.values()],
        roles=list(configuration),
        parameters=list(configuration.values()),
        single_forward_pass=single_forward_pass,
    )
    model._shared_output = None
    values = [act(model, {**A, "states": torch.full((5, 4), fill)}, "value")[0] for fill in (0.0, 1.0)]
    assert_same(*values)
