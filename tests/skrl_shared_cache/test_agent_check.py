"""`check_agent`: parameters that skrl's agents hold twice, with fixes that are what they are said to be; and TRPO."""

from __future__ import annotations

import copy
import re
import warnings
from typing import Any

import pytest
import torch
import torch.nn as nn
from skrl.agents.torch.sac import SAC
from skrl.models.torch import DeterministicMixin, GaussianMixin

from skrl_shared_cache import SharedCacheWarning, SharedModel, check_agent, use

from .support.agents import SILENT, make_agent, make_multi_agent, train
from .support.drift import DriftEnv, DriftGame, DriftGameWrapper, DriftWrapper
from .support.lines import OBSERVATIONS, SKRL_2, box, gaussian_output, init_model
from .support.twins import build
from .support.zoo import naive

OPTIMIZER = re.escape("are in `agent.optimizer` twice")
CLIPPING = "gradient clipping of {} must see each parameter once"

# torch says so by itself, but neither where it comes from nor what to write
pytestmark = pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate parameters")


class Policy(GaussianMixin, SharedModel):
    """A policy on a given encoder."""

    def __init__(self, encoder: nn.Module, head: nn.Module, log_std: torch.Tensor) -> None:
        init_model(self, SharedModel, box(6), box(2))
        GaussianMixin.__init__(self)
        self.encoder, self.head, self.log_std = encoder, head, nn.Parameter(log_std)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
        return gaussian_output(self.head(self.encoder(inputs[OBSERVATIONS])), self.log_std, {})


class Value(DeterministicMixin, SharedModel):
    """A value on a given encoder; with ``actions``, a critic of these."""

    def __init__(self, encoder: nn.Module, head: nn.Module, actions: bool = False) -> None:
        init_model(self, SharedModel, box(6), box(2))
        DeterministicMixin.__init__(self)
        self.encoder, self.head, self._actions = encoder, head, actions

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
        features = self.encoder(inputs[OBSERVATIONS])
        return self.head(torch.cat([features, inputs["taken_actions"]], dim=1) if self._actions else features), {}


def one_model() -> Any:
    """Return a model for both roles."""
    return build(naive, SharedModel)


def two_models() -> tuple[Policy, Value]:
    """Return the same as two models on one encoder."""
    joint = copy.deepcopy(one_model())
    return Policy(joint.net, joint.policy_head, joint.log_std.detach()), Value(joint.net, joint.value_head)


ENV = DriftWrapper(DriftEnv())


def agent_of(name: str, models: Any, **settings: Any) -> Any:
    """Return an agent that clips at a norm which is always exceeded, unless ``settings`` say otherwise."""
    return make_agent(name, models, ENV, **{"grad_norm_clip": 1e-3, **settings})


def messages(agent: Any) -> list[str]:
    """Return what the check warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_agent(agent)
    assert all(warning.category is SharedCacheWarning for warning in caught)
    return [str(warning.message) for warning in caught]


def apply_fixes(agent: Any) -> list[str]:
    """Do what the warnings say, word by word, and return them."""
    found, namespace = messages(agent), {"agent": agent, "torch": torch}
    for code in re.findall("`([^`]*)`", " ".join(found)):
        if code != "grad_norm_clip: 0":
            exec(code, namespace)
        elif SKRL_2:
            agent.cfg.grad_norm_clip = 0
        else:
            agent.cfg["grad_norm_clip"] = agent._grad_norm_clip = 0
    return found


def parameters_after_an_update(agent: Any, *modules: nn.Module) -> torch.Tensor:
    """Train for one update and return the parameters of these modules."""
    train(agent, DriftWrapper(DriftEnv()), updates=1)
    return torch.cat([nn.utils.parameters_to_vector(module.parameters()).detach() for module in modules])


# ------------------------------------------------------------------------------------------------- what is warned of


@pytest.mark.parametrize("name", ["PPO", "A2C", "RPO", "AMP"])
def test_separate_models_on_one_encoder_are_warned_of(name: str) -> None:
    optimizer, clipping = messages(agent_of(name, two_models()))
    encoder = len(list(one_model().net.parameters()))
    assert re.search(f"{encoder} of the models' parameters {OPTIMIZER}", optimizer)
    assert re.search(CLIPPING.format(name), clipping)


def test_amp_with_one_model_is_warned_of() -> None:
    model = one_model()
    optimizer, clipping = messages(agent_of("AMP", model))
    assert re.search(f"{len(list(model.parameters()))} of the models' parameters {OPTIMIZER}", optimizer)
    assert re.search(CLIPPING.format("AMP"), clipping)


@pytest.mark.parametrize("name", ["PPO", "A2C", "RPO"])
def test_of_one_model_for_both_roles_there_is_nothing_to_say(name: str) -> None:
    assert not messages(agent_of(name, one_model()))


def test_of_models_that_share_nothing_there_is_nothing_to_say() -> None:
    policy, value = two_models()
    value.encoder = copy.deepcopy(value.encoder)
    for name in ("PPO", "AMP", "TRPO"):
        assert not messages(agent_of(name, (policy, value)))


def test_without_clipping_only_the_optimizer_is_warned_of() -> None:
    (optimizer,) = messages(agent_of("PPO", two_models(), grad_norm_clip=0))
    assert re.search(OPTIMIZER, optimizer)


def test_the_twin_critics_of_sac_on_one_encoder_are_warned_of() -> None:
    policy, critic = two_models()[0], one_model().net
    models = {"policy": policy}
    for name in ("critic_1", "critic_2", "target_critic_1", "target_critic_2"):
        encoder = copy.deepcopy(critic) if "target" in name else critic
        models[name] = Value(encoder, nn.Linear(18, 1), actions=True)
    agent = SAC(
        models=models,
        observation_space=ENV.observation_space,
        action_space=ENV.action_space,
        device="cpu",
        cfg={"experiment": dict(SILENT), "grad_norm_clip": 0.5},
    )
    optimizer, clipping = messages(agent)
    assert "are in `agent.critic_optimizer` twice" in optimizer
    assert "agent.critic_optimizer.register_step_pre_hook" in clipping


def test_each_agent_of_a_game_is_looked_at() -> None:
    env = DriftGameWrapper(DriftGame())
    agent = make_multi_agent("IPPO", one_model(), env)
    assert not messages(agent)  # one model for all: each agent's optimizer holds it once
    policy, agent.values["right"] = two_models()
    agent.policies["right"] = policy
    (clipping,) = messages(agent)
    assert "`agent.optimizers['right'].register_step_pre_hook" in clipping
    agent.optimizers["left"].param_groups[0]["params"] *= 2
    assert "in `agent.optimizers['left']` twice" in messages(agent)[0]


# ----------------------------------------------------------------------------------------------------- whether it is so


def test_a_parameter_that_is_held_twice_is_moved_twice_as_far() -> None:
    separate, joint, other = two_models(), one_model(), one_model()
    cases: list[Any] = [("PPO", separate, separate[0].encoder, 0.2)]
    cases += [("AMP", joint, joint.net, 0.2), ("PPO", other, other.net, 0.1)]
    for name, models, encoder, distance in cases:
        weight = encoder[0].weight
        before, weight.grad = weight.detach().clone(), torch.ones_like(weight)
        agent_of(name, models, learning_rate=0.1).optimizer.step()
        torch.testing.assert_close(before - weight, torch.full_like(weight, distance))


@pytest.mark.parametrize("name", ["PPO", "A2C"])
def test_the_fixes_make_the_update_that_of_one_model_for_both_roles(name: str) -> None:
    joint = one_model()
    expected = parameters_after_an_update(agent_of(name, joint), joint.net, joint.policy_head, joint.value_head)
    updated = []
    for is_fixed in (False, True):
        policy, value = two_models()
        agent = agent_of(name, (policy, value))
        if is_fixed:
            assert len(apply_fixes(agent)) == 2
            assert not messages(agent)
        updated.append(parameters_after_an_update(agent, policy.encoder, policy.head, value.head))
    assert (updated[0] - expected).abs().max() > 1e-4
    assert (updated[1] - expected).abs().max() <= 1e-6


def test_the_fixes_make_amp_with_one_model_step_once_and_clip_once() -> None:
    model = one_model()
    agent = agent_of("AMP", model, learning_rate=0.1)
    apply_fixes(agent)
    assert not messages(agent)
    before = model.net[0].weight.detach().clone()
    parameters = [*model.parameters(), *agent.discriminator.parameters()]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    agent.optimizer.step()
    torch.testing.assert_close(before - model.net[0].weight, torch.full_like(before, 0.1), rtol=1e-3, atol=0)
    norm = torch.cat([parameter.grad.flatten() for parameter in parameters if parameter.grad is not None]).norm()
    assert float(norm) == pytest.approx(1e-3, rel=1e-3)


def test_nothing_is_changed_unasked() -> None:
    agent = agent_of("AMP", one_model())
    before = copy.deepcopy(agent.optimizer.state_dict())
    messages(agent)
    assert agent.optimizer.state_dict() == before
    assert len(agent.optimizer.param_groups[0]["params"]) > len(set(agent.optimizer.param_groups[0]["params"]))


# ---------------------------------------------------------------------------------------------------------- TRPO, use


@pytest.mark.parametrize("name", ["TRPO", "TRPO_RNN"])
def test_trpo_with_one_model_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"TRPO needs one model per role, but {name} got one Naive"):
        check_agent(agent_of(name, one_model()))


def test_a_subclass_of_trpo_is_refused_as_well() -> None:
    agent = agent_of("TRPO", one_model())
    agent.__class__ = type("Mine", (type(agent),), {})
    with pytest.raises(ValueError, match="but Mine got one"):
        check_agent(agent)


def test_use_warns_when_a_trainer_is_built() -> None:
    agent = agent_of("AMP", one_model())
    with use(), pytest.warns(SharedCacheWarning, match=OPTIMIZER), pytest.warns(SharedCacheWarning, match="clip"):
        train(agent, DriftWrapper(DriftEnv()), updates=1)


def test_use_says_nothing_of_an_agent_that_was_mended() -> None:
    agent = agent_of("PPO", two_models())
    apply_fixes(agent)
    with use():
        train(agent, DriftWrapper(DriftEnv()), updates=1)
