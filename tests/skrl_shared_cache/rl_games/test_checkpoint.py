"""`load_checkpoint`: on the same observations the model says what rl_games' own player says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn as nn
from gymnasium import spaces
from skrl.resources.preprocessors.torch import RunningStandardScaler

from skrl_shared_cache import SharedModel
from skrl_shared_cache.rl_games import load_checkpoint

from ..support.lines import act, make_inputs
from . import cases

OBSERVATIONS = cases.OBSERVATIONS
ACTIONS = cases.ACTIONS["continuous"][2]

separate_or_not = pytest.mark.parametrize("separate", [False, True], ids=["shared", "separate"])
normalized_or_not = pytest.mark.parametrize("normalized", [False, True], ids=["plain", "normalized"])


def configuration(kind: str, separate: bool, normalized: bool, **changes: Any) -> dict[str, Any]:
    normalization = dict.fromkeys(("config__normalize_input", "config__normalize_value"), normalized)
    return cases.config(kind, network__separate=separate, **normalization, **changes)


def save(player: Any, path: Path) -> Path:
    """Save what rl_games saves, of a model whose weights and statistics are random."""
    state = player.model.state_dict()
    for name, tensor in state.items():
        if name.endswith("running_var"):
            tensor.uniform_(0.0, 4.0)
            tensor.view(-1)[0] = 0.0  # constant so far: all is in the epsilon
        elif name.endswith("count"):
            tensor.fill_(1234.0)
        else:
            tensor.normal_(std=0.6)
    torch.save({"model": state, "epoch": 3, "last_mean_rewards": np.float32(1.5), "env_state": None}, path)
    return path


def assert_same(player: Any, models: dict[str, Any], scalers: dict[str, Any], observations: torch.Tensor) -> None:
    """Compare actions, before they are scaled to the bounds, values and, where there is one, the deviation."""
    scaler, value_scaler = scalers.values()
    inputs = make_inputs(observations.flatten(1) if scaler is None else scaler(observations.flatten(1)))
    with torch.no_grad():
        outputs = act(models["policy"], inputs, "policy")[2]
        values = act(models["value"], inputs, "value")[0]
    expected = player.model({"is_train": False, "prev_actions": None, "obs": observations.clone()})
    torch.testing.assert_close(
        values if value_scaler is None else value_scaler(values, inverse=True), expected["values"], rtol=1e-6, atol=1e-6
    )
    actions = player.get_action(observations.clone(), is_deterministic=True)
    if "mus" in expected:
        torch.testing.assert_close(outputs["mean_actions"], expected["mus"], rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(outputs["mean_actions"].clamp(-1.0, 1.0), actions, rtol=1e-6, atol=1e-6)
        deviation = models["policy"].distribution(role="policy").stddev
        torch.testing.assert_close(deviation, expected["sigmas"], rtol=1e-6, atol=1e-6)
    else:
        logits = outputs["net_output"]
        if isinstance(expected["logits"], list):
            parts = torch.split(logits, [part.shape[1] for part in expected["logits"]], dim=-1)
            chosen = torch.stack([part.argmax(dim=-1) for part in parts], dim=-1)
        else:
            torch.testing.assert_close(logits.log_softmax(dim=-1), expected["logits"], rtol=1e-5, atol=1e-6)
            chosen = logits.argmax(dim=-1)
        assert torch.equal(chosen, actions)


@pytest.mark.parametrize("kind", cases.ACTIONS)
@separate_or_not
@normalized_or_not
def test_the_models_of_the_converted_configuration_act_as_rl_games_player(
    kind: str, separate: bool, normalized: bool, tmp_path: Path
) -> None:
    cfg, space = configuration(kind, separate, normalized), cases.ACTIONS[kind][2]
    player = cases.make_player(cfg, OBSERVATIONS, space)
    agent = cases.runner(cfg, OBSERVATIONS, space).agent
    models = {"policy": agent.policy, "value": agent.value}
    assert separate or isinstance(agent.policy, SharedModel)
    scalers = cases.preprocessors(agent)
    load_checkpoint(models, scalers, save(player, tmp_path / "x.pth"))
    for _ in range(3):
        assert_same(player, models, scalers, torch.randn(64, 6))


@pytest.mark.parametrize("deviation_first", [False, True])
@separate_or_not
@normalized_or_not
def test_a_users_model_whose_deviation_is_a_head_acts_as_rl_games_player(
    deviation_first: bool, separate: bool, normalized: bool, tmp_path: Path
) -> None:
    cfg = configuration("continuous", separate, normalized, network__space__continuous__fixed_sigma=False)
    player = cases.make_player(cfg, OBSERVATIONS, ACTIONS)
    model = cases.Deviation(deviation_first, separate)
    names = ("observation_preprocessor", "value_preprocessor")
    scalers: dict[str, Any] = {
        name: RunningStandardScaler(size) if normalized else None for name, size in zip(names, (6, 1))
    }
    load_checkpoint(model, scalers, save(player, tmp_path / "x.pth"))
    assert_same(player, {"policy": model, "value": model}, scalers, torch.randn(64, 6))


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "elu", "selu", "softplus", "swish", "gelu"])
def test_the_converted_network_has_rl_games_activations(activation: str, tmp_path: Path) -> None:
    cfg = cases.config(
        network__mlp__activation=activation,
        network__value_activation=activation,
        network__space__continuous__mu_activation=activation,
    )
    player = cases.make_player(cfg, OBSERVATIONS, ACTIONS)
    agent = cases.runner(cfg, OBSERVATIONS, ACTIONS).agent
    load_checkpoint(agent.policy, None, save(player, tmp_path / "x.pth"))
    assert_same(player, {"policy": agent.policy, "value": agent.value}, cases.preprocessors(agent), torch.randn(64, 6))


@separate_or_not
@pytest.mark.parametrize("activation", ["relu", "swish"])
def test_a_converted_cnn_acts_as_rl_games_player(separate: bool, activation: str, tmp_path: Path) -> None:
    convs = [
        {"filters": 4, "kernel_size": 3, "strides": 2, "padding": 1},
        {"filters": 5, "kernel_size": 2, "strides": 1, "padding": 0},
    ]
    cnn = {"type": "conv2d", "activation": activation, "initializer": {"name": "default"}, "convs": convs}
    cfg = configuration("discrete", separate, True, network__cnn=cnn)
    camera, space = spaces.Box(0.0, 1.0, (9, 7, 3)), spaces.Discrete(4)
    player = cases.make_player(cfg, camera, space)
    agent = cases.runner(cfg, camera, space).agent
    models, scalers = {"policy": agent.policy, "value": agent.value}, cases.preprocessors(agent)
    load_checkpoint(models, scalers, save(player, tmp_path / "x.pth"))
    assert_same(player, models, scalers, torch.rand(16, 9, 7, 3))


def test_a_network_that_rl_games_shares_goes_into_separate_ones(tmp_path: Path) -> None:
    cfg = cases.config()
    player = cases.make_player(cfg, OBSERVATIONS, ACTIONS)
    agent = cases.runner(cases.config(network__separate=True), OBSERVATIONS, ACTIONS).agent
    models = {"policy": agent.policy, "value": agent.value}
    load_checkpoint(models, {}, save(player, tmp_path / "x.pth"))
    assert_same(player, models, cases.preprocessors(agent), torch.randn(64, 6))


def test_a_model_that_has_acted_returns_nothing_of_before_the_loading(tmp_path: Path) -> None:
    cfg = configuration("continuous", False, False)
    player = cases.make_player(cfg, OBSERVATIONS, ACTIONS)
    agent = cases.runner(cfg, OBSERVATIONS, ACTIONS).agent
    observations = torch.randn(64, 6)
    for role in ("policy", "value", "policy"):
        act(agent.policy, make_inputs(observations), role)
    load_checkpoint(agent.policy, {}, save(player, tmp_path / "x.pth"))
    assert_same(player, {"policy": agent.policy, "value": agent.value}, cases.preprocessors(agent), observations)


@pytest.mark.parametrize("deviation", [0.0, 1e-4, 0.01, 0.17, 1.0, 300.0])
def test_scaled_observations_are_those_of_rl_games_in_all_bits(deviation: float, tmp_path: Path) -> None:
    cfg = configuration("continuous", False, True)
    player, agent = (make(cfg, OBSERVATIONS, ACTIONS) for make in (cases.make_player, cases.runner))
    agent, normalizer = agent.agent, player.model.running_mean_std
    with torch.no_grad():
        normalizer.running_mean.uniform_(-1.0, 1.0)
        normalizer.running_var.copy_((deviation * torch.rand(6, dtype=torch.float64)).square())
    torch.save({"model": player.model.state_dict()}, tmp_path / "x.pth")
    load_checkpoint(agent.policy, scalers := cases.preprocessors(agent), tmp_path / "x.pth")
    observations = torch.randn(256, 6) * deviation
    assert torch.equal(next(iter(scalers.values()))(observations), player.model.norm_obs(observations))


# ------------------------------------------------------------------------- without rl_games: files of the same form


def state(**changes: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """Return the state of rl_games' model of ``cases.config()``; None takes a name out."""
    shapes = {"actor_mlp.0": (16, 6), "actor_mlp.2": (16, 16), "actor_mlp.4": (8, 16), "value": (1, 8), "mu": (3, 8)}
    tensors: dict[str, Any] = {f"{name}.weight": torch.randn(shape) for name, shape in shapes.items()}
    tensors |= {f"{name}.bias": torch.randn(shape[0]) for name, shape in shapes.items()}
    tensors |= {"sigma": torch.randn(3), **changes}
    return {f"a2c_network.{name}": value for name, value in tensors.items() if value is not None}


def saved(tmp_path: Path, checkpoint: Any) -> Path:
    torch.save(checkpoint, tmp_path / "x.pth")
    return tmp_path / "x.pth"


def shared_model() -> Any:
    return cases.runner(cases.config(), OBSERVATIONS, ACTIONS).agent.policy


def test_the_names_that_torch_compile_puts_before_are_taken_off(tmp_path: Path) -> None:
    model, tensors = shared_model(), state()
    compiled = {f"_orig_mod.{name}": value for name, value in tensors.items()}
    load_checkpoint(model, {}, saved(tmp_path, {"model": compiled}))
    assert torch.equal(model.log_std_parameter, tensors["a2c_network.sigma"])


def test_a_checkpoint_of_another_network_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    model = shared_model()
    before = [parameter.clone() for parameter in model.parameters()]
    path = saved(tmp_path, {"model": state(**{"actor_mlp.2.weight": torch.zeros(16, 9)})})
    with pytest.raises(ValueError, match=r"it calls \[16, 6\] \[16, 16\] .*, the checkpoint has \[16, 6\] \[16, 9\]"):
        load_checkpoint(model, {}, path)
    assert all(map(torch.equal, model.parameters(), before))


def test_separate_networks_do_not_go_into_a_shared_one(tmp_path: Path) -> None:
    critic = {name.replace("actor", "critic")[12:]: value for name, value in state().items() if "actor" in name}
    with pytest.raises(ValueError, match=r"one layer for actor_mlp\.0 and critic_mlp\.0: it shares what is separate"):
        load_checkpoint(shared_model(), {}, saved(tmp_path, {"model": state(**critic)}))


def test_weights_that_no_layer_takes_are_named(tmp_path: Path) -> None:
    path = saved(tmp_path, {"model": state(**{"rnn.rnn.weight_ih_l0": torch.zeros(4, 4)})})
    with pytest.raises(ValueError, match=r"nothing for rnn\.rnn\.weight_ih_l0 of the checkpoint"):
        load_checkpoint(shared_model(), {}, path)


@pytest.mark.parametrize(
    ("prefix", "name", "kind", "size"),
    [
        ("running_mean_std", "observation_preprocessor", "observations", 6),
        ("value_mean_std", "value_preprocessor", "values", 1),
    ],
)
def test_a_normalizer_without_a_preprocessor_is_refused_and_the_other_way_round(
    prefix: str, name: str, kind: str, size: int, tmp_path: Path
) -> None:
    model, scaler = shared_model(), RunningStandardScaler(size)
    statistics = {"running_mean": torch.zeros(size), "running_var": torch.ones(size), "count": torch.tensor(1.0)}
    with_statistics = {**state(), **{f"{prefix}.{key}": value for key, value in statistics.items()}}
    with pytest.raises(ValueError, match=f"normalizes the {kind}: pass the agent's preprocessor"):
        load_checkpoint(model, {}, saved(tmp_path, {"model": with_statistics}))
    with pytest.raises(ValueError, match=f"does not normalize the {kind}: pass no preprocessor"):
        load_checkpoint(model, {name: scaler}, saved(tmp_path, {"model": state()}))


@pytest.mark.parametrize("checkpoint", [{"policy": {}}, [1], {"model": {"net.0.weight": torch.zeros(2)}}])
def test_a_file_that_is_no_checkpoint_of_rl_games_is_refused(checkpoint: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"x\.pth must be a checkpoint of rl_games"):
        load_checkpoint(shared_model(), {}, saved(tmp_path, checkpoint))


@pytest.mark.parametrize(
    ("scalers", "error", "message"),
    [
        ({"optimizer": None}, ValueError, "named as in an agent's configuration, got 'optimizer'"),
        ({"value_preprocessor": nn.Identity()}, TypeError, "must be a RunningStandardScaler, got Identity"),
    ],
)
def test_other_preprocessors_are_refused(scalers: Any, error: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        load_checkpoint(shared_model(), scalers, saved(tmp_path, {"model": state()}))


def test_loading_draws_no_random_numbers_and_leaves_the_statistics_of_the_cache(tmp_path: Path) -> None:
    model = shared_model()
    path, info = saved(tmp_path, {"model": state()}), model.cache_info()
    before = torch.get_rng_state()
    load_checkpoint(model, {}, path)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.cache_info() == info
