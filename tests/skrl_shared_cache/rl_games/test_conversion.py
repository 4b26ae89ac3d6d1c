"""`convert_config`: each option of rl_games comes out as skrl's, or is listed."""

from __future__ import annotations

import copy
import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.resources.schedulers.torch import KLAdaptiveLR

from skrl_shared_cache import Runner, SharedModel
from skrl_shared_cache.rl_games import ConversionWarning, convert, convert_config

from ..support.drift import DriftEnv, DriftWrapper
from ..support.lines import SKRL_2, box
from . import cases

LAMBDA = "gae_lambda" if SKRL_2 else "lambda"
SCALER = "observation_preprocessor" if SKRL_2 else "state_preprocessor"
CONV = {"filters": 8, "kernel_size": 5, "strides": 3, "padding": 2}
CNN = {"type": "conv2d", "activation": "relu", "initializer": {"name": "default"}, "convs": [CONV]}
SPACE = "network__space__continuous__"


def at(cfg: Any, path: str) -> Any:
    """Return what stands at a path, with dots between the names and numbers."""
    for part in path.split("."):
        cfg = cfg[int(part)] if part.isdigit() else cfg[part]
    return cfg


# name: option of rl_games and its value, path in skrl's configuration and the value there; no value is a default
MAPPED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "seed": ({"seed": 31}, {"seed": 31}),
    "horizon": ({"config__horizon_length": 12}, {"agent.rollouts": 12, "agent.mini_batches": 3}),
    "minibatches": ({"config__minibatch_size": 4}, {"agent.mini_batches": 8}),
    "environments": ({"config__num_actors": 10}, {"agent.mini_batches": 5}),
    "mini-epochs": ({"config__mini_epochs": 7}, {"agent.learning_epochs": 7}),
    "epochs": ({"config__max_epochs": 11}, {"trainer.timesteps": 88}),
    "frames": ({"config__max_epochs": -1, "config__max_frames": 100}, {"trainer.timesteps": 32}),
    "frames first": ({"config__max_frames": 64}, {"trainer.timesteps": 16}),
    "gamma": ({"config__gamma": 0.5}, {"agent.discount_factor": 0.5}),
    "tau": ({"config__tau": 0.6}, {f"agent.{LAMBDA}": 0.6}),
    "learning rate": ({"config__learning_rate": 7e-4}, {"agent.learning_rate": 7e-4}),
    "text": ({"config__learning_rate": "7e-4"}, {"agent.learning_rate": 7e-4}),
    "ratio": ({"config__e_clip": 0.3}, {"agent.ratio_clip": 0.3, "agent.value_clip": 0.0}),
    "value clipping": ({"config__clip_value": True, "config__e_clip": 0.3}, {"agent.value_clip": 0.3}),
    "entropy": ({"config__entropy_coef": 0.5}, {"agent.entropy_loss_scale": 0.5}),
    "critic": ({"config__critic_coef": 5}, {"agent.value_loss_scale": 2.5}),
    "no gradient clipping": ({}, {"agent.grad_norm_clip": 0.0}),
    "gradient clipping": ({"config__truncate_grads": True}, {"agent.grad_norm_clip": 0.7}),
    "inputs": ({"config__normalize_input": True}, {f"agent.{SCALER}": "RunningStandardScaler"}),
    "values": ({"config__normalize_value": True}, {"agent.value_preprocessor": "RunningStandardScaler"}),
    "neither": ({}, {f"agent.{SCALER}": None, "agent.value_preprocessor": None}),
    "reward scale": ({"config__reward_shaper": {"scale_value": 0.01}}, {"agent.rewards_shaper_scale": 0.01}),
    "bootstrap": ({}, {"agent.time_limit_bootstrap": True}),
    "no bootstrap": ({"config__value_bootstrap": False}, {"agent.time_limit_bootstrap": False}),
    "mixed precision": ({"config__mixed_precision": True}, {"agent.mixed_precision": True}),
    "adaptive": (
        {"config__lr_schedule": "adaptive", "config__kl_threshold": 0.02},
        {
            "agent.learning_rate_scheduler": "KLAdaptiveLR",
            "agent.learning_rate_scheduler_kwargs": {"kl_threshold": 0.02, "min_lr": 1e-6, "max_lr": 1e-2},
        },
    ),
    "linear": (
        {"config__lr_schedule": "linear"},
        {"agent.learning_rate_scheduler_kwargs": {"start_factor": 1.0, "end_factor": 5e-4, "total_iters": 15}},
    ),
    "constant": ({"config__lr_schedule": "None"}, {"agent.learning_rate_scheduler": None}),
    "name": ({"config__name": "ant"}, {"agent.experiment.experiment_name": "ant"}),
    "full name": ({"config__full_experiment_name": "ant 3"}, {"agent.experiment.experiment_name": "ant 3"}),
    "folder": ({"config__train_dir": "there"}, {"agent.experiment.directory": "there"}),
    "saving": ({"config__save_frequency": 3}, {"agent.experiment.checkpoint_interval": 24}),
    "writing": ({"config__horizon_length": 12}, {"agent.experiment.write_interval": 12}),
    "shared": ({}, {"models.separate": False}),
    "separate": ({"network__separate": True}, {"models.separate": True}),
    "units": ({"network__mlp__units": [5, 4]}, {"models.policy.network.0.layers": [5, 4]}),
    "units of the value": ({"network__mlp__units": [5, 4]}, {"models.value.network.0.layers": [5, 4]}),
    "activation": ({"network__mlp__activation": "tanh"}, {"models.policy.network.0.activations": "tanh"}),
    "mean": ({f"{SPACE}mu_activation": "tanh"}, {"models.policy.output": "tanh(ACTIONS)"}),
    "value": ({"network__value_activation": "relu"}, {"models.value.output": "relu(ONE)"}),
    "deviation": ({}, {"models.policy.initial_log_std": -0.7, "models.policy.fixed_log_std": False}),
    "no bounds": ({}, {"models.policy.clip_log_std": False, "models.policy.clip_actions": False}),
    "cnn": (
        {"network__cnn": CNN},
        {
            "models.policy.network.0.input": "permute(OBSERVATIONS, (0, 3, 1, 2))",
            "models.policy.network.0.layers": [{"conv2d": [8, 5, 3, 2]}, "flatten"],
            "models.policy.network.0.activations": "relu",
            "models.policy.network.1.input": "cnn",
        },
    ),
    "channels first": (
        {"network__cnn": {**CNN, "permute_input": False}},
        {"models.policy.network.0.input": "OBSERVATIONS"},
    ),
}
# what does something in rl_games and cannot be said to skrl
NOT_MAPPED: dict[str, dict[str, Any]] = {
    "config.bounds_loss_coef": {"config__bounds_loss_coef": 1e-4},
    "config.bound_loss_type": {"config__bound_loss_type": "regularisation"},
    "config.weight_decay": {"config__weight_decay": 0.01},
    "config.ppo": {"config__ppo": False},
    "config.normalize_advantage": {"config__normalize_advantage": False},
    "config.normalize_rms_advantage": {"config__normalize_rms_advantage": True},
    "config.central_value_config": {"config__central_value_config": {"network": {}}},
    "config.use_smooth_clamp": {"config__use_smooth_clamp": True},
    "config.use_action_masks": {"config__use_action_masks": True},
    "config.schedule_entropy": {"config__schedule_entropy": True},
    "config.freeze_critic": {"config__freeze_critic": True},
    "config.epochs_between_resets": {"config__epochs_between_resets": 10},
    "config.max_epochs": {"config__max_epochs": -1},
    "config.lr_schedule": {"config__lr_schedule": "cosine"},
    "config.new_option": {"config__new_option": 3},
    "config.reward_shaper.shift_value": {"config__reward_shaper": {"shift_value": 1}},
    "config.reward_shaper.max_val": {"config__reward_shaper": {"max_val": 10.0}},
    "config.reward_shaper.min_val": {"config__reward_shaper": {"min_val": -10.0}},
    "config.reward_shaper.log_val": {"config__reward_shaper": {"log_val": True}},
    "model.name": {"model__name": "continuous_a2c_tanh"},
    "new_section": {"new_section": {}},
    "network.name": {"network__name": "resnet_actor_critic"},
    "network.rnn": {"network__rnn": {"name": "lstm", "units": 8, "layers": 1}},
    "network.normalization": {"network__normalization": "layer_norm"},
    "network.central_value": {"network__central_value": True},
    "network.new_option": {"network__new_option": 3},
    "network.mlp.d2rl": {"network__mlp__d2rl": True},
    "network.mlp.norm_only_first_layer": {"network__mlp__norm_only_first_layer": True},
    "network.mlp.initializer": {"network__mlp__initializer": {"name": "orthogonal_initializer", "gain": 2}},
    "network.cnn.type": {"network__cnn": {**CNN, "type": "coord_conv2d"}},
    "network.cnn.convs": {"network__cnn": {**{k: v for k, v in CNN.items() if k != "convs"}}},
    "network.cnn.convs[0].groups": {"network__cnn": {**CNN, "convs": [{**CONV, "groups": 2}]}},
    "network.space.continuous.fixed_sigma": {f"{SPACE}fixed_sigma": False},
    "network.space.continuous.sigma_activation": {f"{SPACE}sigma_activation": "tanh"},
    "network.space.continuous.sigma_init.name": {f"{SPACE}sigma_init": {"name": "random_uniform_initializer"}},
    "network.space.continuous.mu_init": {f"{SPACE}mu_init": {"name": "glorot_normal_initializer"}},
    "network.space.continuous.new_option": {f"{SPACE}new_option": 3},
}


@pytest.mark.parametrize("case", MAPPED)
def test_an_option_comes_out_as_skrls(case: str) -> None:
    changes, expected = MAPPED[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        converted = convert_config(cases.config(**copy.deepcopy(changes)))
    assert {path: at(converted, path) for path in expected} == {
        path: pytest.approx(value) if isinstance(value, (float, dict)) else value for path, value in expected.items()
    }


@pytest.mark.parametrize("option", NOT_MAPPED)
def test_what_skrl_cannot_be_told_is_listed_and_nothing_else(option: str) -> None:
    cfg = cases.config(**copy.deepcopy(NOT_MAPPED[option]))
    with pytest.warns(ConversionWarning, match="skrl's configuration cannot say") as caught:
        convert_config(cfg)
    (warning,) = caught
    listed = [line.split(" (")[0].strip() for line in str(warning.message).splitlines()[1:]]
    assert listed == [f"params.{option}"]


def sections(cfg: dict[str, Any], path: str) -> list[str]:
    below = [sections(value, f"{path}.{name}") for name, value in cfg.items() if isinstance(value, dict)]
    return [path, *(section for found in below for section in found)]


SECTIONS = sections(cases.config(network__cnn=CNN)["params"], "params")


@pytest.mark.parametrize("section", SECTIONS)
def test_an_option_that_the_converter_does_not_know_is_listed_wherever_it_stands(section: str) -> None:
    cfg = cases.config(network__cnn=copy.deepcopy(CNN))
    at(cfg, section)["new_option"] = 3
    assert f"{section}.new_option (3): the converter does not know it" in convert(cfg).notes.not_mapped


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"config__clip_value": True}, r"clip_value \(True\): .* rl_games' the larger of the two"),
        ({"config__lr_schedule": "adaptive", "config__kl_threshold": 0.01}, "schedule_type .* after each minibatch"),
        ({"config__mixed_precision": True}, "not in bfloat16"),
        ({"config__normalize_input": True}, "its epsilon stands outside"),
        ({}, "clamps actions to -1..1 and scales them"),
        ({}, "biases begin at 0"),
        ({"config__lr_schedule": "linear"}, "after each learning epoch"),
    ],
)
def test_what_works_in_another_way_is_said(changes: dict[str, Any], note: str) -> None:
    notes = "\n".join(convert(cases.config(**changes)).notes.different)
    with pytest.raises(AssertionError, match=note):
        raise AssertionError(notes)


def test_the_mean_over_actions_of_skrl_1_4_is_said_where_the_entropy_counts() -> None:
    notes = ["entropy_coef" in note for note in convert(cases.config()).notes.different]
    assert any(notes) is not SKRL_2
    assert not any("entropy_coef" in note for note in convert(cases.config("discrete")).notes.different)


# -------------------------------------------------------------------------------------------------------- arithmetic


def test_a_size_per_environment_needs_no_number_of_environments() -> None:
    cfg = cases.config(config__minibatch_size_per_env=2, config__num_actors=-1)
    del cfg["params"]["config"]["minibatch_size"]
    assert convert_config(cfg)["agent"]["mini_batches"] == 4


@pytest.mark.parametrize("num_actors", [-1, "${num_envs}", None])
def test_the_number_of_environments_can_be_said_aside(num_actors: Any) -> None:
    cfg = cases.config(config__num_actors=num_actors, config__max_frames=2 * 64 * 8)
    converted = convert_config(cfg, num_envs=64)
    assert (converted["agent"]["mini_batches"], converted["trainer"]["timesteps"]) == (32, 16)
    with pytest.raises(
        ValueError, match=r"num_actors must be the number of environments, got .*: say it by `num_envs`"
    ):
        convert_config(cfg)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algo": {"name": "sac"}}, "must be one of a2c_continuous, a2c_discrete, got 'sac': only PPO"),
        ({"model": {"name": "discrete_a2c"}}, "must fit the algorithm, got 'discrete_a2c'"),
        ({"config__minibatch_size": 24}, "must divide horizon_length \\* num_actors, got 24 and 32"),
        ({"config__minibatch_size": 0}, "must divide horizon_length \\* num_actors, got 0 and 32"),
        ({"config__gamma": "high"}, r"params\.config\.gamma must be a number, got 'high'"),
        ({"config__gamma": "${..gamma}"}, "resolve the references first"),
        ({"config__mini_epochs": 2.5}, r"params\.config\.mini_epochs must be a whole number, got 2\.5"),
        ({"config__normalize_input": "yes"}, r"normalize_input must be True or False, got 'yes'"),
        ({"network__mlp__activation": "mish"}, r"network\.mlp\.activation must be one of .*gelu or None, got 'mish'"),
        ({"network__value_activation": "mish"}, "value_activation must be one of rl_games' activations"),
        ({"network": [1]}, r"params\.network must be a mapping of options, got \[1\]"),
    ],
)
def test_bad_options_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        convert_config(cases.config(**changes))


@pytest.mark.parametrize("option", ["gamma", "tau", "e_clip", "horizon_length", "mini_epochs", "normalize_input"])
def test_an_option_that_rl_games_needs_is_missed(option: str) -> None:
    cfg = cases.config()
    del cfg["params"]["config"][option]
    with pytest.raises(ValueError, match=rf"params\.config\.{option} is missing"):
        convert_config(cfg)


def test_a_file_without_params_is_refused() -> None:
    with pytest.raises(ValueError, match="must have `params` on top"):
        convert_config({"agent": {}})


# ------------------------------------------------------------------------------------------------------- the Runner


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_the_runner_trains_with_all_that_was_converted(kind: str, tmp_path: Path) -> None:
    cfg = cases.config(
        kind,
        config__lr_schedule="adaptive",
        config__kl_threshold=0.02,
        config__normalize_input=True,
        config__normalize_value=True,
        config__train_dir=str(tmp_path),
    )
    converted = convert_config(cfg)
    converted["trainer"].update(close_environment_at_exit=False, disable_progressbar=True, headless=True)
    with cases.quiet():
        runner = Runner(DriftWrapper(DriftEnv(discrete=kind == "discrete")), converted)
        before = [parameter.clone() for parameter in runner.agent.policy.parameters()]
        runner.run()
    assert isinstance(runner.agent.policy, SharedModel)
    assert isinstance(runner.agent.scheduler, KLAdaptiveLR)
    assert isinstance(next(iter(cases.preprocessors(runner.agent).values())), RunningStandardScaler)
    assert not any(map(torch.equal, runner.agent.policy.parameters(), before))
    assert list(tmp_path.rglob("events.out.tfevents*"))


def test_the_linear_schedule_ends_at_rl_games_lowest_rate() -> None:
    cfg = cases.config(config__lr_schedule="linear", config__max_epochs=2)
    agent = cases.runner(cfg, box(6), cases.ACTIONS["continuous"][2]).agent
    rates = []
    for _ in range(2 * 3):  # two updates of three learning epochs
        agent.optimizer.step()
        agent.scheduler.step()
        rates.append(agent.optimizer.param_groups[0]["lr"])
    # rl_games: lowest + (first - lowest) * (1 - epoch / max_epochs)
    assert rates[2] == pytest.approx(1e-6 + (2e-3 - 1e-6) / 2)
    assert rates[5] == pytest.approx(1e-6)
    assert math.isclose(rates[0], 1e-6 + (2e-3 - 1e-6) * 5 / 6)
