"""One minibatch of skrl with SharedModel and one of rl_games' own ``calc_gradients``: the same losses and gradients.

Both start from the same weights, the same statistics and the same rollout. What differs by definition is aligned: one
minibatch holds the whole rollout (shuffling), no value is clipped (rl_games takes the larger of two losses), nothing is
truncated (bootstrapping), skrl's scaler uses rl_games' formula, and on skrl 1.4, which takes the mean of the entropy
over the actions, its scale is multiplied by their number.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from skrl.resources.preprocessors.torch import RunningStandardScaler

from skrl_shared_cache import SharedModel
from skrl_shared_cache.rl_games.layers import NETWORK, match

from ..support.lines import OBSERVATIONS as KEY
from ..support.lines import SKRL_2, act, make_inputs, set_training
from . import cases

STEPS, ENVS = 8, 6
CLIP, ENTROPY, CRITIC = 0.15, 0.02, 3.0
KINDS = {"fixed sigma": "continuous", "state-dependent sigma": "continuous", "discrete": "discrete"}


class RlGamesScaler(RunningStandardScaler):
    """skrl's scaler with the formula of rl_games' RunningMeanStd."""

    def _compute(self, x: torch.Tensor, train: bool = False, inverse: bool = False) -> Any:
        if train:
            flat = x.flatten(0, -2)
            self._parallel_variance(flat.mean(dim=0), flat.var(dim=0, unbiased=False), len(flat))
        deviation = torch.sqrt(self.running_variance.float() + 1e-5)
        if inverse:
            return deviation * x.clamp(-5.0, 5.0) + self.running_mean.float()
        return ((x - self.running_mean.float()) / deviation).clamp(-5.0, 5.0)


@dataclasses.dataclass
class Minibatch:
    """What one minibatch came to. Log-probabilities are sorted: the two libraries have other orders of the samples."""

    log_prob: torch.Tensor
    entropy: float
    policy_loss: float
    value_loss: float
    gradients: dict[str, torch.Tensor]


@pytest.fixture(params=[False, True], ids=["plain", "normalized"])
def normalized(request: Any) -> bool:
    return bool(request.param)


@pytest.fixture(params=KINDS)
def kind(request: Any) -> str:
    return str(request.param)


@pytest.fixture
def cfg(kind: str, normalized: bool) -> dict[str, Any]:
    changes: dict[str, Any] = {"network__space__continuous__fixed_sigma": False} if "state" in kind else {}
    sizes = {"num_actors": ENVS, "horizon_length": STEPS, "minibatch_size": STEPS * ENVS, "mini_epochs": 1}
    # without a coefficient, or with None, rl_games 1.6.5 ends within its own bounds loss
    sizes["bounds_loss_coef"] = 0
    options = {**sizes, "value_bootstrap": False, "normalize_input": normalized, "normalize_value": normalized}
    return cases.config(KINDS[kind], **changes, **{f"config__{name}": value for name, value in options.items()})


@pytest.fixture
def theirs(cfg: dict[str, Any], kind: str, tmp_path: Path) -> Any:
    """rl_games' agent, which has seen some observations and values."""
    agent = cases.make_agent(cfg, cases.OBSERVATIONS, cases.ACTIONS[KINDS[kind]][2], tmp_path)
    for name, buffer in agent.model.named_buffers():
        buffer.copy_({"mean": 0.1, "var": 1.7, "count": 1000.0}[name.rpartition("_")[2].rpartition(".")[2]])
    return agent


@pytest.fixture
def ours(cfg: dict[str, Any], kind: str, normalized: bool) -> Any:
    """skrl's PPO with a shared model, whose cache has settled."""
    settings: dict[str, Any] = {}
    if normalized:
        names = ("observation_preprocessor" if SKRL_2 else "state_preprocessor", "value_preprocessor")
        settings.update(dict.fromkeys(names, RlGamesScaler))
    if KINDS[kind] == "continuous" and not SKRL_2:
        settings["entropy_loss_scale"] = ENTROPY * 3
    agent = cases.runner(cfg, cases.OBSERVATIONS, cases.ACTIONS[KINDS[kind]][2], ENVS, **settings).agent
    if "state" in kind:
        agent.policy = agent.value = cases.Deviation()
        agent.optimizer = torch.optim.Adam(agent.policy.parameters())
    assert isinstance(agent.policy, SharedModel)
    set_training(agent.policy, True)
    for _ in range(20):
        inputs = make_inputs(torch.randn(4, 6))
        for role in ("policy", "value"):
            act(agent.policy, inputs, role)
    return agent


def pairs(ours: Any, theirs: Any) -> list[tuple[str, torch.Tensor]]:
    """Return the names of rl_games' parameters with ours."""
    state = {name[len(NETWORK) :]: value for name, value in theirs.model.state_dict().items() if NETWORK in name}
    return match({"policy": ours.policy, "value": ours.value}, state)


def copy_statistics(ours: Any, theirs: Any) -> None:
    names = {"running_mean": "running_mean", "running_variance": "running_var", "current_count": "count"}
    normalizers = [getattr(theirs.model, name, None) for name in ("running_mean_std", "value_mean_std")]
    for scaler, normalizer in zip(cases.preprocessors(ours).values(), normalizers):
        for name, other in names.items() if scaler is not None else ():
            getattr(scaler, name).copy_(getattr(normalizer, other))


def _gradient(parameter: torch.Tensor) -> torch.Tensor:
    assert parameter.grad is not None
    return parameter.grad.clone()


def collect(theirs: Any) -> dict[str, torch.Tensor]:
    """Return a rollout of rl_games' model. Shape: (steps, environments, ...)."""
    observations = torch.randn(STEPS, ENVS, 6)
    steps = [theirs.get_action_values({"obs": seen}) for seen in observations]
    names = [name for name in ("actions", "values", "neglogpacs", "mus", "sigmas") if name in steps[0]]
    return {
        **{name: torch.stack([step[name] for step in steps]) for name in names},
        "obses": observations,
        "rewards": torch.randn(STEPS, ENVS, 1),
        "terminated": torch.rand(STEPS, ENVS) < 0.2,
        "next": torch.randn(ENVS, 6),
    }


def minibatch_of_rl_games(agent: Any, rollout: dict[str, torch.Tensor]) -> Minibatch:
    """Compute the advantages, prepare the data set and call ``calc_gradients``, as ``train_epoch`` does."""
    ended = rollout["terminated"].float()
    dones = torch.cat([torch.zeros(1, ENVS), ended[:-1]])  # of the steps before
    last = agent.get_values({"obs": rollout["next"]})
    advantages = agent.discount_values(ended[-1], last, dones, rollout["values"], rollout["rewards"])
    data = {name: value for name, value in rollout.items() if name not in ("rewards", "terminated", "next")}
    data.update(returns=advantages + rollout["values"], dones=dones)
    seen: dict[str, torch.Tensor] = {}
    hook = agent.model.register_forward_hook(lambda module, inputs, outputs: seen.update(outputs))
    with cases.quiet():
        agent.set_train()
        agent.prepare_dataset({name: value.transpose(0, 1).flatten(0, 1) for name, value in data.items()})
        agent.set_train()
        agent.calc_gradients(agent.dataset[0])
    hook.remove()
    policy_loss, critic_loss, entropy = (value.item() for value in agent.train_result[:3])
    gradients = {name[len(NETWORK) :]: parameter.grad for name, parameter in agent.model.named_parameters()}
    log_prob = -seen["prev_neglogp"].detach().flatten()
    ratio = (log_prob + agent.dataset[0]["old_logp_actions"]).exp()
    assert ((ratio - 1).abs() > CLIP).float().mean() > 0.1  # or nothing is clipped
    return Minibatch(log_prob.sort()[0], entropy, policy_loss, 0.5 * CRITIC * critic_loss, gradients)


def minibatch_of_skrl(agent: Any, rollout: dict[str, torch.Tensor], names: list[tuple[str, torch.Tensor]]) -> Minibatch:
    """Fill the memory with the rollout and call skrl's own update."""
    for step in range(STEPS):
        agent.memory.add_samples(
            **{KEY: rollout["obses"][step]},
            actions=rollout["actions"][step].reshape(ENVS, -1),
            rewards=rollout["rewards"][step],
            terminated=rollout["terminated"][step][:, None],
            truncated=torch.zeros(ENVS, 1, dtype=torch.bool),
            log_prob=-rollout["neglogpacs"][step].reshape(ENVS, 1),
            values=rollout["values"][step],
        )
    setattr(agent, f"_current_next_{KEY}", rollout["next"])
    gradients: dict[str, torch.Tensor] = {}
    log_probs: list[torch.Tensor] = []
    agent.optimizer.register_step_pre_hook(lambda *_: gradients.update((name, _gradient(p)) for name, p in names))
    original = agent.policy.act

    def recorded(inputs: Any, role: str) -> Any:
        result = original(inputs, role=role)
        if role == "policy":
            log_probs.append(result[1]["log_prob"] if SKRL_2 else result[1])
        return result

    agent.policy.act = recorded
    hits = agent.policy.cache_info().hits
    agent.update(timestep=0, timesteps=1) if SKRL_2 else agent._update(0, 1)
    assert agent.policy.cache_info().hits == hits + 1  # the value of the minibatch
    (log_prob,) = log_probs
    losses = {name: agent.tracking_data[f"Loss / {name} loss"][-1] for name in ("Policy", "Value", "Entropy")}
    log_prob = log_prob.detach().flatten().sort()[0]
    return Minibatch(log_prob, -losses["Entropy"] / ENTROPY, losses["Policy"], losses["Value"], gradients)


@pytest.mark.parametrize("direction", ["rl_games to skrl", "skrl to rl_games"])
def test_one_minibatch_gives_the_losses_and_the_gradients_of_rl_games(ours: Any, theirs: Any, direction: str) -> None:
    same = pairs(ours, theirs)
    copy_statistics(ours, theirs)
    rollout = collect(theirs)
    parameters = dict(theirs.model.named_parameters())
    with torch.no_grad():
        for name, tensor in same:
            other = parameters[NETWORK + name]
            source, target = (other, tensor) if direction == "rl_games to skrl" else (tensor, other)
            # not the policy of the rollout, or all ratios would be 1
            source.copy_(other + 0.1 * torch.randn_like(other))
            target.copy_(source)
    expected = minibatch_of_rl_games(theirs, rollout)
    got = minibatch_of_skrl(ours, rollout, same)
    close = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(got.log_prob, expected.log_prob, **close)  # type: ignore[arg-type]
    for name in ("entropy", "policy_loss", "value_loss"):
        assert getattr(got, name) == pytest.approx(getattr(expected, name), rel=1e-5, abs=1e-5), name
    assert got.gradients.keys() == expected.gradients.keys()
    for name, gradient in expected.gradients.items():
        assert gradient.abs().max() > 1e-4, name  # or nothing would be compared
        torch.testing.assert_close(got.gradients[name], gradient, **close)  # type: ignore[arg-type]


@pytest.mark.parametrize("normalized", [True], indirect=True)
def test_statistics_after_the_minibatch_are_those_of_rl_games(ours: Any, theirs: Any) -> None:
    same = pairs(ours, theirs)
    copy_statistics(ours, theirs)
    rollout = collect(theirs)
    with torch.no_grad():
        for name, tensor in same:
            other = dict(theirs.model.named_parameters())[NETWORK + name]
            other.add_(0.1 * torch.randn_like(other))
            tensor.copy_(other)
    minibatch_of_rl_games(theirs, rollout)
    minibatch_of_skrl(ours, rollout, same)
    normalizers = (theirs.model.running_mean_std, theirs.model.value_mean_std)
    for scaler, normalizer in zip(cases.preprocessors(ours).values(), normalizers):
        assert scaler.current_count == normalizer.count
        torch.testing.assert_close(scaler.running_mean, normalizer.running_mean, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(scaler.running_variance, normalizer.running_var, rtol=1e-5, atol=1e-5)
