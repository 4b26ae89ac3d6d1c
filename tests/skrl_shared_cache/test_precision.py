"""Mixed precision, half precision and TF32: the same bits out of the model, and gradients as close as the precision."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn as nn

from skrl_shared_cache import CacheMismatchError, SharedModel

from .support.agents import make_agent, train, trained
from .support.devices import inputs_on, needs_cuda, twins_on
from .support.drift import DriftEnv, DriftWrapper
from .support.lines import make_inputs
from .support.pairs import in_grad_mode, refusal
from .support.passes import Passes
from .support.shadow import Shadow
from .support.twins import Make, Twins, TwoPass, assert_close_gradients, build, gradients, seeded_act
from .support.zoo import FEATURES, OBSERVATION_SIZE, naive, pattern, recurrent
from .test_training import cached_passes, plain_passes

ROLES = ("policy", "value")
HALF = {"bfloat16": torch.bfloat16, "float16": torch.float16}
TOLERANCE = 3e-2

both_dtypes = pytest.mark.parametrize("dtype", HALF.values(), ids=HALF)
both_models = pytest.mark.parametrize("make", [naive, pattern])
all_devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])


@pytest.fixture(autouse=True)
def _settings_of_torch() -> Iterator[None]:
    precision, dtype = torch.get_float32_matmul_precision(), torch.get_autocast_dtype("cpu")
    with torch.backends.cudnn.flags(deterministic=True, allow_tf32=torch.backends.cudnn.allow_tf32):
        yield
    torch.set_float32_matmul_precision(precision)
    torch.set_autocast_dtype("cpu", dtype)


# ---------------------------------------------------------------------- whole trainings with mixed_precision, on CPUs

MIXED: dict[str, tuple[str, Make]] = {
    f"{agent} {make.__name__}": (agent, make) for agent in ("PPO", "A2C", "RPO") for make in (naive, pattern)
}
TRAININGS = {f"{name}, {dtype}": (*case, HALF[dtype]) for name, case in MIXED.items() for dtype in HALF}
# torch has no LSTM in float16 on CPUs
TRAININGS["PPO_RNN recurrent, bfloat16"] = ("PPO_RNN", recurrent, torch.bfloat16)

all_trainings = pytest.mark.parametrize(("agent", "make", "dtype"), TRAININGS.values(), ids=TRAININGS)


@all_trainings
def test_every_output_of_a_mixed_training_is_the_uncached_models_in_half_the_passes(
    agent: str, make: Make, dtype: torch.dtype
) -> None:
    torch.set_autocast_dtype("cpu", dtype)  # skrl's agents ask for autocast without a dtype
    model = build(make, SharedModel)
    shadow, passes = Shadow(model, make), Passes(model.net)
    trained(agent, model, 2, mixed_precision=True)
    assert passes.take() == cached_passes(agent, 2)
    assert shadow.calls == plain_passes(agent, 2)


class FirstStep:
    """What an agent hands to its optimizer at the first step that the GradScaler does not skip.

    :param agent: Agent.
    :param model: Its model.
    """

    def __init__(self, agent: Any, model: nn.Module) -> None:
        self.gradients: dict[str, torch.Tensor | None] = {}
        self._model = model
        agent.optimizer.register_step_pre_hook(self._record)

    def _record(self, *_: Any) -> None:
        if not self.gradients:
            found = gradients(self._model)
            self.gradients = {name: None if grad is None else grad.clone() for name, grad in found.items()}


@all_trainings
def test_a_mixed_update_learns_from_the_gradients_of_the_uncached_model(
    agent: str, make: Make, dtype: torch.dtype
) -> None:
    torch.set_autocast_dtype("cpu", dtype)
    epochs = {} if agent == "A2C" else {"learning_epochs": 8}
    results = []
    for base in (SharedModel, TwoPass):
        model, env = build(make, base), DriftWrapper(DriftEnv())
        trainee = make_agent(agent, model, env, mixed_precision=True, **epochs)
        # the usual first scale overflows in float16, and A2C skips its two steps
        trainee.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
        first = FirstStep(trainee, model)
        start = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
        train(trainee, env, 1)
        change = nn.utils.parameters_to_vector(model.parameters()).detach() - start
        results.append((first.gradients, change, trainee.scaler.get_scale()))
    (cached, cached_change, cached_scale), (plain, plain_change, plain_scale) = results
    assert_close_gradients(cached, plain, TOLERANCE)
    assert cached_scale == plain_scale
    assert plain_change.norm() > 1e-3
    assert (cached_change - plain_change).norm() <= TOLERANCE * plain_change.norm()


def test_skrl_has_mixed_precision() -> None:
    """Or the trainings above would be in full precision."""
    agent = make_agent("PPO", build(naive, TwoPass), DriftWrapper(DriftEnv()), mixed_precision=True)
    assert agent.scaler.is_enabled()


# ------------------------------------------------------------------------------------------------- autocast, scaler


def backward(twins: Twins, outputs: list[tuple[Any, Any]], scalers: list[Any] | None = None) -> None:
    """Go backward from the outputs of some roles of both models."""
    models = twins.cached, twins.plain
    for i, model in enumerate(models):
        model.zero_grad()
        loss = sum(answers[i][0].float().square().sum() for answers in outputs)
        (scalers[i].scale(loss) if scalers else loss).backward()


def warm_twins_on(device: str, make: Any, **options: Any) -> Twins:
    twins = twins_on(device, make, **options)
    twins.warm(inputs_on(device, 9))
    return twins


@all_devices
@both_dtypes
@both_models
def test_a_gradscaler_skips_the_steps_that_it_skips_without_the_cache(
    device: str, make: Any, dtype: torch.dtype
) -> None:
    twins = warm_twins_on(device, make)
    models = twins.cached, twins.plain
    scalers = [torch.amp.GradScaler(device, init_scale=2.0**4, growth_interval=2) for _ in models]
    optimizers = [torch.optim.Adam(model.parameters(), lr=1e-3) for model in models]
    hits = twins.cached.cache_info().hits
    for step in range(8):
        inputs = inputs_on(device, step)
        with torch.autocast(device, dtype):
            outputs = [twins.act(inputs, role) for role in ROLES]
        backward(twins, outputs, scalers)
        if step in (2, 5):
            twins.each(lambda model: model.net[0].weight.grad.fill_(float("inf")))
        else:
            twins.assert_same_gradients(TOLERANCE)
        twins.copy_gradients()
        for scaler, optimizer in zip(scalers, optimizers):
            scaler.step(optimizer)
            scaler.update()
        assert scalers[0].get_scale() == scalers[1].get_scale()
    assert scalers[0].get_scale() == 2.0**5  # two good steps double it, a skipped one halves it
    assert twins.cached.cache_info().hits == hits + 8


@all_devices
@both_dtypes
def test_a_value_out_of_autocast_is_computed_in_full_precision(device: str, dtype: torch.dtype) -> None:
    twins, inputs = warm_twins_on(device, naive), inputs_on(device, 1)
    with torch.autocast(device, dtype):
        twins.act(inputs, "policy")
        with torch.autocast(device, enabled=False):
            values, _ = twins.act(inputs, "value")
        assert values[0].dtype is torch.float32
    assert twins.cached.cache_info().last_miss == "autocast changed"


@all_devices
@both_dtypes
@pytest.mark.parametrize("cache_enabled", [True, False], ids=["cast weights kept", "cast weights not kept"])
def test_weights_that_autocast_keeps_give_the_gradients_that_they_give_without_the_cache(
    device: str, dtype: torch.dtype, cache_enabled: bool
) -> None:
    """A pass without grad in the same block casts the weights, and autocast hands these to the pass with grad."""
    twins = warm_twins_on(device, naive)
    for first, second in ((False, True), (True, False)):
        inputs = inputs_on(device, 1)
        outputs = []
        with torch.autocast(device, dtype, cache_enabled=cache_enabled):
            for grad in (first, second, True):
                for role in ROLES:
                    with in_grad_mode(grad):
                        outputs.append(twins.act(inputs, role))
        backward(twins, outputs[-2:])
        twins.assert_same_gradients(TOLERANCE)


@all_devices
@both_dtypes
@both_models
@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no grad"])
def test_a_model_in_half_precision(device: str, make: Any, dtype: torch.dtype, grad: bool) -> None:
    twins = twins_on(device, make)
    twins.each(lambda model: model.to(dtype))

    def half(seed: int) -> Any:
        return {key: value.to(dtype) for key, value in inputs_on(device, seed).items()}

    with in_grad_mode(grad):
        twins.warm(half(9))
        twins.walk([half(seed) for seed in range(3)], calls=30)
        assert refusal(twins, half(4)) is None
    if grad:
        twins.learn(half(5))


@all_devices
def test_a_trunk_with_a_block_of_its_own_precision(device: str) -> None:
    """It leaves autocast, as layers do that need full precision."""

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(OBSERVATION_SIZE, FEATURES)
            self.second = nn.Linear(FEATURES, FEATURES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            features = self.first(x).relu()
            with torch.autocast(x.device.type, enabled=False):
                result: torch.Tensor = self.second(features.float())
            return result

    twins = warm_twins_on(device, partial(naive, trunk=Mixed))
    with torch.autocast(device, torch.bfloat16):
        inputs = inputs_on(device, 1)
        assert refusal(twins, inputs) is None
        outputs = [twins.act(inputs, role) for role in ROLES]
    backward(twins, outputs)
    twins.assert_same_gradients(TOLERANCE)


# ---------------------------------------------------------------------------------- the precision of matrix products

PRECISIONS = ["highest", "high", "medium"]  # on a GPU the last two are TF32


@all_devices
@pytest.mark.parametrize("precision", PRECISIONS)
@both_models
def test_a_precision_that_is_set_before_the_training_changes_nothing_about_the_cache(
    device: str, make: Any, precision: str
) -> None:
    torch.set_float32_matmul_precision(precision)
    twins = twins_on(device, make)
    for seed in range(6):
        inputs = inputs_on(device, seed)
        with torch.no_grad():
            twins.pair(inputs)
        outputs = [twins.act(inputs, role) for role in ROLES]
        backward(twins, outputs)
        twins.assert_same_gradients(1e-5 if precision == "highest" else TOLERANCE)
    with torch.no_grad():
        assert refusal(twins, inputs_on(device, 7)) is None


def products_of(precision: str, x: torch.Tensor) -> torch.Tensor:
    torch.set_float32_matmul_precision(precision)
    return x @ x.T


@needs_cuda
@pytest.mark.parametrize("remedy", ["verify", "clear_cache", None])
def test_a_precision_that_changes_between_the_two_calls_on_cuda(remedy: str | None) -> None:
    """It is a setting of the whole process, which nothing announces: a limit that the documentation names."""
    x = torch.randn(256, OBSERVATION_SIZE, device="cuda")
    if torch.equal(products_of("highest", x), products_of("high", x)):
        pytest.skip("this GPU has no TF32")
    torch.set_float32_matmul_precision("highest")
    model = warm_twins_on("cuda", naive).cached
    model.shared_cache_mode = "verify" if remedy == "verify" else "on"
    plain = build(naive, TwoPass).to("cuda")
    plain.load_state_dict(model.state_dict())
    with torch.no_grad():
        seeded_act(model, make_inputs(x), "policy")
        torch.set_float32_matmul_precision("high")
        if remedy == "clear_cache":
            model.clear_cache()
        expectation: Any = contextlib.nullcontext()
        if remedy == "verify":
            expectation = pytest.raises(CacheMismatchError, match="`net` was about to serve role 'value'")
        with expectation:
            values = seeded_act(model, make_inputs(x), "value")[0]
            is_of_now = torch.equal(values, seeded_act(plain, make_inputs(x), "value")[0])
            assert is_of_now is (remedy == "clear_cache")
