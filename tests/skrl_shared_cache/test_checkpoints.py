"""Checkpoints, saved models, copies and running averages, also those that come between the calls of a pair."""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn as nn
from skrl.resources.preprocessors.torch import RunningStandardScaler
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, get_swa_multi_avg_fn

from skrl_shared_cache import SharedModel, cached_preprocessor

from .support import recurrent
from .support.agents import ROLLOUT, SILENT, make_agent, make_multi_agent, train
from .support.drift import DriftEnv, DriftGame, DriftGameWrapper, DriftWrapper
from .support.lines import OBSERVATIONS, SKRL_2, ActorCritic, act, make_inputs
from .support.pairs import A, B, in_grad_mode
from .support.passes import Passes
from .support.shadow import Shadow
from .support.twins import Make, Twins, TwoPass, assert_same, build
from .support.zoo import FEATURES, OBSERVATION_SIZE, mlp, naive, pattern

BASES = {"to skrl": (SharedModel, TwoPass), "from skrl": (TwoPass, SharedModel)}
both_ways = pytest.mark.parametrize("bases", BASES.values(), ids=BASES)

AGENTS: dict[str, Make] = {
    "PPO": pattern,
    "A2C": naive,
    "AMP": naive,
    "PPO_RNN": recurrent.plain["LSTM"],
    "IPPO": naive,
}


class Training:
    """An agent with a scaler, and its environment.

    :param name: Agent.
    :param base: Base class of its model. The cached one comes with the cached scaler.
    :param folder: Where skrl writes a checkpoint after each update.
    :param seed: Seed of the weights.
    """

    def __init__(self, name: str, base: Any, folder: Path, seed: int = 0) -> None:
        self.model = build(AGENTS[name], base, seed)
        scaler: Any = RunningStandardScaler if base is TwoPass else cached_preprocessor(RunningStandardScaler)
        kwargs: dict[str, Any] = {"size": OBSERVATION_SIZE, "device": "cpu"}
        if name == "IPPO":
            self.env: Any = DriftGameWrapper(DriftGame())
            kwargs = dict.fromkeys(self.env.possible_agents, kwargs)
            make: Any = make_multi_agent
        else:
            self.env, make = DriftWrapper(DriftEnv()), make_agent
        experiment = {**SILENT, "directory": str(folder), "experiment_name": "run", "checkpoint_interval": ROLLOUT}
        settings = {"observation_preprocessor": scaler, "observation_preprocessor_kwargs": kwargs}
        # skrl's AMP hands the parameters of the one model to its optimizer twice
        with pytest.warns(UserWarning, match="duplicate") if name == "AMP" else contextlib.nullcontext():
            self.agent = make(name, self.model, self.env, experiment=experiment, **settings)
        self.checkpoint = folder / "run" / "checkpoints" / f"agent_{ROLLOUT}.pt"

    def update(self) -> None:
        """Train for one update."""
        train(self.agent, self.env, updates=1)

    def modules(self) -> Any:
        """Return the states of all that a checkpoint holds."""
        modules = self.agent.checkpoint_modules
        if "policy" not in modules:  # by agent
            modules = {f"{uid} {name}": m for uid, of_agent in modules.items() for name, m in of_agent.items()}
        return {name: dict(module.state_dict()) for name, module in modules.items()}


@both_ways
@pytest.mark.parametrize("name", AGENTS)
def test_a_checkpoint_of_a_training_resumes_on_the_other_base_class(
    name: str, bases: tuple[Any, Any], tmp_path: Path
) -> None:
    """Everything in it is restored bit for bit, and the next update is that of the base class that wrote it."""
    source = Training(name, bases[0], tmp_path / "source")
    source.update()
    saved = source.modules()
    vectors = []
    for base in bases:
        resumed = Training(name, base, tmp_path / base.__name__, seed=5)
        resumed.agent.load(str(source.checkpoint))
        assert_same(resumed.modules(), saved)
        resumed.update()
        vectors.append(nn.utils.parameters_to_vector(resumed.model.parameters()).detach())
    torch.testing.assert_close(*vectors, rtol=0, atol=1e-6)


@both_ways
def test_a_checkpoint_of_the_other_line_of_skrl_loads(bases: tuple[Any, Any], tmp_path: Path) -> None:
    """skrl 1.4 and 2.x name the scaler of the observations differently, and nothing else."""
    source, target = (Training("PPO", base, tmp_path / base.__name__, seed) for seed, base in enumerate(bases))
    source.update()
    names = ("observation_preprocessor", "state_preprocessor")
    ours, theirs = names if SKRL_2 else names[::-1]
    modules = torch.load(source.checkpoint, weights_only=True)
    assert set(modules) == {"policy", "value", "optimizer", ours}
    modules[theirs] = modules.pop(ours)
    torch.save(modules, tmp_path / "other.pt")
    target.agent.load(str(tmp_path / "other.pt"))
    loaded, saved = target.modules(), source.modules()
    assert_same({**loaded, ours: None}, {**saved, ours: None})


class Saved(ActorCritic, SharedModel):
    """A model that `torch.save` can save: its class has a name in a module. The layers are those of :func:`naive`."""

    def __init__(self) -> None:
        ActorCritic.__init__(self, SharedModel)
        self.net = mlp()
        self.add_heads(FEATURES)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
        return self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)


def saved_and_loaded(model: Any) -> Any:
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


copies = pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, saved_and_loaded])


def saved_twins() -> Twins:
    """Return twins out of probation, the cached one of which can be saved."""
    twins = Twins(naive)
    twins.cached = Saved()
    twins.plain.load_state_dict(twins.cached.state_dict())
    twins.warm(A)
    return twins


@copies
def test_a_copy_between_policy_and_value_is_right_and_so_is_its_original(copied: Callable[[Any], Any]) -> None:
    twins = saved_twins()
    with torch.no_grad():
        twins.act(A, "policy")
        clone = copied(twins.cached)
        for _ in range(2):
            assert_same(act(clone, A, "value"), act(twins.plain, A, "value"))
        twins.act(A, "value")
    twins.learn(B)


@pytest.mark.parametrize("copied", [copy.deepcopy, saved_and_loaded])
def test_a_copy_from_the_middle_of_an_update_goes_its_own_way(copied: Callable[[Any], Any]) -> None:
    """In grad mode skrl's Gaussian keeps a graph, which torch refuses to copy: so between the calls of `compute`."""
    twins = saved_twins()
    with torch.no_grad():
        twins.pair(A)  # the last `act`
    optimizer = torch.optim.SGD(twins.cached.parameters(), lr=0.1)
    loss = twins.cached.compute(A, "policy")[0].square().sum()
    clone = copied(twins.cached)
    (loss + twins.cached.compute(A, "value")[0].sum()).backward()
    before = twins.cached.compute(A, "value")[0]
    assert all(parameter.grad is None for parameter in clone.parameters())
    optimizer.step()
    assert_same(clone.compute(A, "value")[0], before)
    twins.plain.load_state_dict(twins.cached.state_dict())
    twins.learn(A)


@copies
def test_a_copy_saves_passes_of_its_own(copied: Callable[[Any], Any]) -> None:
    clone = copied(saved_twins().cached)
    passes = Passes(clone.net)
    for seed in range(20):
        inputs = make_inputs(torch.randn(5, OBSERVATION_SIZE, generator=torch.Generator().manual_seed(seed)))
        for role in ("policy", "value"):
            act(clone, inputs, role)
    assert passes.take() <= 20 + 1 + 2
    assert clone.cache_info().hits >= 17


AVERAGES = {"mean": get_swa_multi_avg_fn, "exponential mean": lambda: get_ema_multi_avg_fn(0.9)}


@pytest.mark.parametrize("average", AVERAGES.values(), ids=AVERAGES)
@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no grad"])
def test_a_running_average_returns_what_one_of_uncached_models_returns(average: Callable[[], Any], grad: bool) -> None:
    """Both models and both averages act; the average moves on between its policy and its value."""
    twins, means = Twins(naive), Twins(naive)
    averaged = [AveragedModel(model, multi_avg_fn=average()) for model in (twins.cached, twins.plain)]
    means.cached, means.plain = (each.module for each in averaged)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (twins.cached, twins.plain)]
    for inputs in (A, B) * 6:
        twins.learn(inputs)
        twins.copy_gradients()
        with in_grad_mode(grad):
            means.act(inputs, "policy")
        for optimizer in optimizers:
            optimizer.step()
        for each, model in zip(averaged, (twins.cached, twins.plain)):
            each.update_parameters(model)
        with in_grad_mode(grad):
            means.pair(inputs, ("value", "policy"))
            twins.pair(inputs, ("value", "policy"))


def test_a_running_average_of_a_training_saves_passes_and_is_right() -> None:
    """Every call of it is compared with the uncached twin's, while PPO trains the model that it follows."""
    env = DriftWrapper(DriftEnv())
    model = build(naive, SharedModel)
    mean: Any = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    shadow, passes = Shadow(mean.module, naive), Passes(mean.module.net)
    agent = make_agent("PPO", model, env)
    step, seen = agent.optimizer.step, env.reset()[0]

    def step_and_follow(*args: Any, **kwargs: Any) -> Any:
        step(*args, **kwargs)
        mean.update_parameters(model)
        for role in ("policy", "value"):
            mean.module.act(make_inputs(seen), role=role)

    agent.optimizer.step = step_and_follow
    train(agent, env, updates=4)
    assert shadow.calls == 2 * 4 * 6
    assert passes.take() == shadow.calls / 2 + 1 + 2  # the first pair, and probation
