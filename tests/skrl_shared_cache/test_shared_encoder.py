"""Separate models that hold the same encoder: policy and value, and the twin critics of SAC and TD3."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
import torch.nn as nn
from skrl.agents.torch.sac import SAC
from skrl.agents.torch.td3 import TD3
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin

from skrl_shared_cache import SharedModel

from .support.agents import SILENT, make_agent, train
from .support.drift import DriftEnv, DriftWrapper
from .support.lines import OBSERVATIONS, act, box, gaussian_output, init_model, make_inputs
from .support.passes import Passes
from .support.shadow import Shadow
from .support.twins import Make, TwoPass, assert_close_gradients, assert_same, build, gradients
from .support.zoo import FEATURES, OBSERVATION_SIZE, mlp, observations

# skrl hands the encoder's parameters to its optimizers once for each model
pytestmark = pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate:UserWarning")


def actor(base: Any, encoder: nn.Module | None = None) -> Any:
    """A Gaussian policy on an encoder, its own one if none is given."""

    class Actor(GaussianMixin, base):
        def __init__(self) -> None:
            init_model(self, base, box(OBSERVATION_SIZE), box(2))
            GaussianMixin.__init__(self, role="policy")
            self.encoder = mlp() if encoder is None else encoder
            self.head = nn.Linear(FEATURES, 2)
            self.log_std = nn.Parameter(torch.zeros(2))

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return gaussian_output(self.head(self.encoder(inputs[OBSERVATIONS])), self.log_std, {})

    return Actor()


def critic(base: Any, encoder: nn.Module | None = None, actions: int = 0, outputs: int = 1) -> Any:
    """A value on an encoder, or with ``actions`` a critic of actions, or with ``outputs`` a deterministic policy."""

    class Critic(DeterministicMixin, base):
        def __init__(self) -> None:
            init_model(self, base, box(OBSERVATION_SIZE), box(2))
            DeterministicMixin.__init__(self)
            self.encoder = mlp() if encoder is None else encoder
            self.head = nn.Linear(FEATURES + actions, outputs)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            features = self.encoder(inputs[OBSERVATIONS])
            if actions:
                features = torch.cat([features, inputs["taken_actions"]], dim=-1)
            return self.head(features), {}

    return Critic()


MODELS: tuple[Make, Make] = actor, critic


def policy_and_value(base: Any) -> tuple[Any, Any]:
    """Return two models on one encoder."""
    policy = build(actor, base)
    return policy, build(partial(critic, encoder=policy.encoder), base, seed=1)


def test_the_encoder_runs_once_per_pair_of_separate_models() -> None:
    policy, value = policy_and_value(SharedModel)
    passes, pairs = Passes(policy.encoder), 20
    for seed in range(pairs):
        inputs = make_inputs(observations(seed=seed))
        act(policy, inputs, "policy")
        act(value, inputs, "value")
    assert passes.take() == pairs + 1 + 2  # the first pair, and probation


def test_gradients_reach_the_encoder_from_both_models() -> None:
    plain, cached = policy_and_value(TwoPass), policy_and_value(SharedModel)
    for seed in range(6):
        inputs = make_inputs(observations(seed=seed))
        outputs = []
        for policy, value in (cached, plain):
            outputs.append((policy.compute(inputs, "policy")[0], value.compute(inputs, "value")[0]))
            for model in (policy, value):
                model.zero_grad()
            (outputs[-1][0].square().sum() + outputs[-1][1].square().sum()).backward()
        assert_same(*outputs)
        for each in range(2):
            assert_close_gradients(gradients(cached[each]), gradients(plain[each]))


def test_each_model_alone_leaves_its_own_gradient() -> None:
    """The policy goes backward before the value is asked for, and the other way round."""
    plain, cached = policy_and_value(TwoPass), policy_and_value(SharedModel)
    roles = ("policy", "value")
    for seed in range(8):
        inputs = make_inputs(observations(seed=seed))
        for models in (cached, plain):
            for model in models:
                model.zero_grad()
            for each in (0, 1) if seed % 2 else (1, 0):
                models[each].compute(inputs, roles[each])[0].square().sum().backward()
        for each in range(2):
            assert_close_gradients(gradients(cached[each]), gradients(plain[each]))


def training_of_separate_models(base: Any, updates: int) -> tuple[tuple[Any, Any], Passes, list[Shadow]]:
    models = policy_and_value(base)
    passes = Passes(models[0].encoder)
    shadows = [Shadow(model, make) for model, make in zip(models, MODELS)]
    env = DriftWrapper(DriftEnv())
    train(make_agent("PPO", models, env), env, updates)
    return models, passes, shadows


def test_ppo_with_separate_models_on_one_encoder_learns_as_without_the_cache() -> None:
    parameters, counts = [], []
    for base in (SharedModel, TwoPass):
        totals = []
        for updates in (1, 2):
            models, passes, shadows = training_of_separate_models(base, updates)
            assert sum(shadow.calls for shadow in shadows) == updates * (2 * (8 + 6) + 1)
            totals.append(passes.take())
            if updates == 1:
                vectors = [nn.utils.parameters_to_vector(model.parameters()) for model in models]
                parameters.append(torch.cat(vectors).detach())
        counts.append(totals[1] - totals[0])
    torch.testing.assert_close(*parameters, rtol=0, atol=1e-6)
    assert counts == [8 + 6 + 1, 2 * (8 + 6) + 1]


@pytest.mark.parametrize("is_shared", [True, False], ids=["one encoder", "two encoders"])
def test_every_output_of_trpo_is_the_uncached_models(is_shared: bool) -> None:
    """It differentiates the policy's loss twice, and needs two models."""
    policy, value = policy_and_value(SharedModel) if is_shared else (build(make, SharedModel) for make in MODELS)
    shadows = [Shadow(model, make) for model, make in zip((policy, value), MODELS)]
    env = DriftWrapper(DriftEnv())
    train(make_agent("TRPO", (policy, value), env), env, updates=3)
    assert all(shadow.calls >= 3 * 8 for shadow in shadows)
    assert (policy.cache_info().hits + value.cache_info().hits > 2 * 8) == is_shared


# ------------------------------------------------------------------------------------------------------ twin critics

STEPS = 24
AGENTS: dict[str, Any] = {"SAC": SAC, "TD3": TD3}
q_critic = partial(critic, actions=2)
deterministic_policy = partial(critic, outputs=2)
MAKES: dict[str, Make] = {
    "policy": actor,
    "target_policy": deterministic_policy,
    **dict.fromkeys(("critic_1", "critic_2", "target_critic_1", "target_critic_2"), q_critic),
}


def twin_critics(name: str, base: Any, is_compared: bool = False) -> tuple[dict[str, Any], list[int], list[Shadow]]:
    """Train an agent whose critics share an encoder, and whose target critics share another one.

    :return: The models, the passes of the two encoders, and the shadows of the models.
    """
    makes: dict[str, Any] = MAKES if name == "SAC" else {**MAKES, "policy": deterministic_policy}
    models: dict[str, Any] = {}
    for seed, (role, make) in enumerate(makes.items()):
        other = models.get(role.replace("_2", "_1"))
        models[role] = build(make if other is None else partial(make, encoder=other.encoder), base, seed)
    if name == "SAC":
        del models["target_policy"]
    shadows = [Shadow(model, makes[role]) for role, model in models.items()] if is_compared else []
    passes = [Passes(models[role].encoder) for role in ("critic_1", "target_critic_1")]
    env = DriftWrapper(DriftEnv())
    agent = AGENTS[name](
        models=models,
        memory=RandomMemory(memory_size=64, num_envs=env.num_envs, device="cpu"),
        observation_space=env.observation_space,
        action_space=env.action_space,
        device="cpu",
        cfg={"batch_size": 16, "experiment": dict(SILENT)},
    )
    train(agent, env, updates=STEPS // 8)
    return models, [each.take() for each in passes], shadows


@pytest.mark.parametrize("name", AGENTS)
def test_every_output_of_agents_with_twin_critics_is_the_uncached_models(name: str) -> None:
    _, _, shadows = twin_critics(name, SharedModel, is_compared=True)
    assert all(shadow.calls >= STEPS for shadow in shadows)


# per gradient step: SAC asks both critics twice, for their own losses and for the policy's; TD3 both once, and every
# second step the first one, for the policy
CRITICS = {"SAC": (4 * STEPS, 2 * STEPS), "TD3": (2 * STEPS + STEPS // 2, STEPS + STEPS // 2)}


@pytest.mark.parametrize("name", AGENTS)
def test_the_encoder_of_twin_critics_runs_once_for_both(name: str) -> None:
    on_probation = 1 + 2
    plain, cached = (twin_critics(name, base)[1] for base in (TwoPass, SharedModel))
    assert plain == [CRITICS[name][0], 2 * STEPS]
    assert cached == [CRITICS[name][1] + on_probation, STEPS + on_probation]


@pytest.mark.parametrize("name", AGENTS)
def test_twin_critics_on_one_encoder_learn_as_without_the_cache(name: str) -> None:
    models = [twin_critics(name, base)[0] for base in (SharedModel, TwoPass)]
    for role, model in models[0].items():
        for ours, theirs in zip(model.parameters(), models[1][role].parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
