"""rl_games' configuration of PPO as the configuration of skrl's Runner.

The meaning of rl_games' options is that of its version 1.6.5 (``common/a2c_common.py`` and what it uses).
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping
from typing import Any

import skrl
from packaging.version import Version

from skrl_shared_cache.rl_games.network import convert_network
from skrl_shared_cache.rl_games.options import ConversionWarning, Notes, Options

_SKRL_2 = Version(skrl.__version__).major >= 2
_ALGORITHMS = ("a2c_continuous", "a2c_discrete")
_SCALER = "RunningStandardScaler"

# options by the values that do nothing in rl_games either
_NOT_MAPPED: dict[str, tuple[tuple[Any, ...], str]] = {
    "bounds_loss_coef": ((None, 0, 0.0), "skrl has no loss on means outside the bounds"),
    "bound_loss_type": (("bound",), "skrl has no loss on means outside the bounds"),
    "central_value_config": ((None,), "the values are those of the policy's observations"),
    "epochs_between_resets": ((0,), "skrl resets no environments between updates"),
    "freeze_critic": ((False,), "skrl always trains the scaler of the values"),
    "normalize_advantage": ((True,), "skrl always normalizes the advantages"),
    "normalize_rms_advantage": ((False,), "skrl normalizes each rollout by itself"),
    "ppo": ((True,), "skrl's loss has the ratio in it"),
    "population_based_training": ((False,), "skrl has none"),
    "schedule_entropy": ((False,), "skrl keeps the scale of the entropy"),
    "self_play": ((False,), "skrl has none"),
    "self_play_config": ((None,), "skrl has none"),
    "use_action_masks": ((False,), "skrl has none"),
    "use_smooth_clamp": ((False,), "skrl clips the ratio"),
    "weight_decay": ((0, 0.0), "skrl's Adam has none"),
}
_NO_EFFECT = {
    **dict.fromkeys(("device", "device_name"), "skrl takes the environment's device"),
    **dict.fromkeys(("env_name", "env_config"), "the environment is made before the Runner"),
    **dict.fromkeys(("print_stats", "games_to_track", "use_diagnostics"), "what rl_games reports"),
    **dict.fromkeys(("score_to_win", "save_best_after"), "skrl's trainer runs to the end, and saves by itself"),
    **dict.fromkeys(("network_path", "log_path"), "rl_games 1.6.5 does not use it"),
    **dict.fromkeys(("seq_length", "seq_len", "bptt_length", "zero_rnn_on_done"), "for recurrent networks only"),
    "player": "for rl_games' player only",
    "multi_gpu": "skrl is distributed where torchrun starts it",
    "torch_compile": "skrl compiles no models",
    "use_experimental_cv": "for a central value only",
    "is_train": "skrl trains by Runner.run()",
}


@dataclasses.dataclass
class Conversion:
    """A configuration for skrl's Runner, and what is to be said about it."""

    config: dict[str, Any]
    """Configuration for the Runner of the installed skrl."""
    notes: Notes
    """What could not be mapped, what works in another way, what says nothing about how is trained."""


def convert_config(config: Mapping[str, Any], *, num_envs: int | None = None) -> dict[str, Any]:
    """Write rl_games' configuration as the configuration of the Runner of the installed skrl.

    :param config: rl_games' configuration, as its YAML file says it: with ``params`` on top.
    :param num_envs: Number of environments, where ``num_actors`` does not say it.

    :return: Configuration for :py:class:`skrl_shared_cache.Runner` and skrl's own. The models share their trunk if
        rl_games' do.

    :raises ValueError: If the algorithm is not PPO, or if options are missing or not of the right kind.
    :warns ConversionWarning: If options have no counterpart in skrl. The message lists them.
    """
    conversion = convert(config, num_envs=num_envs)
    if conversion.notes.not_mapped:
        lines = "".join(f"\n  {note}" for note in conversion.notes.not_mapped)
        warnings.warn(f"skrl's configuration cannot say:{lines}", ConversionWarning, stacklevel=2)
    return conversion.config


def convert(config: Mapping[str, Any], *, num_envs: int | None = None) -> Conversion:
    """Do what :py:func:`convert_config` does, without a warning, and return all that is to be said about the result.

    :param config: rl_games' configuration, with ``params`` on top.
    :param num_envs: Number of environments, where ``num_actors`` does not say it.

    :return: Conversion.

    :raises ValueError: If the algorithm is not PPO, or if options are missing or not of the right kind.
    """
    if not isinstance(config, Mapping) or "params" not in config:
        raise ValueError(
            f"the configuration must have `params` on top, as rl_games' YAML files have, got {config!r:.80}"
        )
    notes = Notes()
    params = Options("params", config["params"], notes)
    algorithm = params.section("algo")
    name = algorithm.require("name")
    if name not in _ALGORITHMS:
        raise ValueError(
            f"params.algo.name must be one of {', '.join(_ALGORITHMS)}, got {name!r}: only PPO is converted"
        )
    algorithm.rest()
    continuous = name == "a2c_continuous"
    models = convert_network(params, continuous)

    options = params.section("config")
    rollouts, mini_batches = _batches(options, num_envs)
    agent = {
        "class": "PPO",
        "rollouts": rollouts,
        "learning_epochs": options.whole("mini_epochs"),
        "mini_batches": mini_batches,
        **_returns(options),
        **_learning_rate(options, continuous),
        **_scalers(options),
        **_losses(options, continuous),
        "kl_threshold": 0.0,
        "mixed_precision": _mixed_precision(options),
        "experiment": _experiment(options, rollouts),
    }
    trainer = {
        "class": "SequentialTrainer",
        "timesteps": _timesteps(options, rollouts, num_envs),
        "environment_info": "log",
    }
    _report(options, continuous)
    converted = {
        "seed": None if params.take("seed") is None else params.whole("seed"),
        "models": models,
        "memory": {"class": "RandomMemory", "memory_size": -1},
        "agent": agent,
        "trainer": trainer,
    }
    for name in ("load_checkpoint", "load_path", "torch_threads"):
        if name in params:
            params.no_effect(name, "for the script to do")
    params.rest()
    return Conversion(converted, notes)


def _num_envs(options: Options, num_envs: int | None) -> int:
    if num_envs is not None:
        options.take("num_actors")
        return num_envs
    value = options.take("num_actors", -1)
    try:
        count = int(value)
    except (TypeError, ValueError):
        count = -1
    if count < 1:
        raise ValueError(
            f"{options.path}.num_actors must be the number of environments, got {value!r}: say it by `num_envs`"
        )
    return count


def _batches(options: Options, num_envs: int | None) -> tuple[int, int]:
    rollouts = options.whole("horizon_length")
    if "minibatch_size" not in options and "minibatch_size_per_env" in options:
        size, batch = options.whole("minibatch_size_per_env"), rollouts
    else:
        options.take("minibatch_size_per_env")
        size, batch = options.whole("minibatch_size"), rollouts * _num_envs(options, num_envs)
    if size < 1 or batch % size:
        raise ValueError(
            f"{options.path}: the minibatch size must divide horizon_length * num_actors, got {size} and {batch}; with "
            "several agents in an environment, say the number of all of them by `num_envs`"
        )
    options.different("horizon_length", "skrl shuffles the minibatches, rl_games does not")
    return rollouts, batch // size


def _timesteps(options: Options, rollouts: int, num_envs: int | None) -> int:
    updates = [options.whole("max_epochs", -1)]
    frames = options.whole("max_frames", -1)
    if frames != -1:
        updates.append(math.ceil(frames / (rollouts * _num_envs(options, num_envs))))
    options.take("num_actors")
    limits = [count for count in updates if count != -1]
    if not limits:
        options.not_mapped("max_epochs", "rl_games trains without end, the result 100000 steps")
    return min(limits) * rollouts if limits else 100_000


def _returns(options: Options) -> dict[str, Any]:
    shaper = options.section("reward_shaper", {})
    scale = shaper.number("scale_value", 1.0)
    for name, neutral in {"shift_value": 0.0, "min_val": -math.inf, "max_val": math.inf, "log_val": 0.0}.items():
        if float(shaper.take(name, neutral)) != neutral:
            shaper.not_mapped(name, "skrl's YAML can only scale the rewards")
    if "is_torch" in shaper:
        shaper.no_effect("is_torch", "skrl's rewards are tensors")
    shaper.rest()
    bootstrap = options.flag("value_bootstrap", True)
    if _SKRL_2 and bootstrap:
        options.different("value_bootstrap", "skrl adds the value of the next observations, rl_games of the last ones")
    elif _SKRL_2:
        options.different("value_bootstrap", "skrl then lets advantages run on over truncated episodes")
    return {
        "discount_factor": options.number("gamma"),
        "gae_lambda" if _SKRL_2 else "lambda": options.number("tau"),
        "rewards_shaper_scale": scale,
        "time_limit_bootstrap": bootstrap,
    }


def _learning_rate(options: Options, continuous: bool) -> dict[str, Any]:
    rate, schedule = options.number("learning_rate"), options.take("lr_schedule")
    scheduler: str | None = None
    kwargs: dict[str, Any] | None = None
    kind = options.take("schedule_type", "legacy")
    if schedule == "adaptive":
        scheduler = "KLAdaptiveLR"
        kwargs = {"kl_threshold": options.number("kl_threshold"), "min_lr": 1e-6, "max_lr": 1e-2}
        options.different("kl_threshold", "skrl estimates the divergence from the policy of the rollout, from samples")
        if kind == "legacy" and continuous:
            options.different("schedule_type", "skrl adapts the rate after each epoch, rl_games after each minibatch")
    elif schedule == "linear" and options.whole("max_epochs", -1) > 0:
        # skrl's scheduler makes a step after each learning epoch
        scheduler = "__import__('torch').optim.lr_scheduler.LinearLR"
        steps = options.whole("max_epochs") * options.whole("mini_epochs")
        kwargs = {"start_factor": 1.0, "end_factor": 1e-6 / rate, "total_iters": steps}
        options.different("lr_schedule", "skrl lowers the rate after each learning epoch, rl_games after each rollout")
    elif schedule == "linear":
        options.different("lr_schedule", "without max_epochs the rate is constant, in rl_games 1.6.5 as well")
    elif schedule not in (None, "identity", "constant", "fixed"):
        options.not_mapped("lr_schedule", "neither of rl_games knows it: the rate is constant")
    if schedule != "adaptive" and "kl_threshold" in options:
        options.no_effect("kl_threshold", "for the adaptive schedule only")
    return {
        "learning_rate": rate,
        "learning_rate_scheduler": scheduler,
        "learning_rate_scheduler_kwargs": kwargs,
    }


def _scalers(options: Options) -> dict[str, Any]:
    inputs, values = options.flag("normalize_input"), options.flag("normalize_value", False)
    difference = "skrl's variance is unbiased, and its epsilon stands outside of the root"
    if inputs:
        options.different("normalize_input", f"{difference}; rl_games collects in all mini-epochs, skrl in the first")
    if values:
        options.different("normalize_value", difference)
    name = "observation_preprocessor" if _SKRL_2 else "state_preprocessor"
    return {
        name: _SCALER if inputs else None,
        f"{name}_kwargs": None,
        "value_preprocessor": _SCALER if values else None,
        "value_preprocessor_kwargs": None,
    }


def _losses(options: Options, continuous: bool) -> dict[str, Any]:
    clip = options.number("e_clip")
    clip_value, entropy = options.flag("clip_value"), options.number("entropy_coef")
    if clip_value:
        options.different("clip_value", "skrl's value loss is the clipped one, rl_games' the larger of the two")
    if entropy and continuous and not _SKRL_2:
        options.different("entropy_coef", "skrl 1.4 takes the mean over the actions: multiply by their number")
    norm = options.number("grad_norm") if options.flag("truncate_grads", False) else 0.0
    if not norm and "grad_norm" in options:
        options.no_effect("grad_norm", "without truncate_grads nothing is clipped")
    losses: dict[str, Any] = {
        "grad_norm_clip": norm,
        "ratio_clip": clip,
        "value_clip": clip if clip_value else 0.0,
        "entropy_loss_scale": entropy,
        "value_loss_scale": 0.5 * options.number("critic_coef"),
    }
    return losses if _SKRL_2 else {**losses, "clip_predicted_values": clip_value}


def _mixed_precision(options: Options) -> bool:
    mixed: bool = options.flag("mixed_precision", False)
    if mixed:
        options.different("mixed_precision", "skrl also collects in it, and in torch's default type: not in bfloat16")
    return mixed


def _experiment(options: Options, rollouts: int) -> dict[str, Any]:
    name = options.take("name", "")
    frequency = options.whole("save_frequency", 0)
    return {
        "directory": options.take("train_dir", "runs"),
        "experiment_name": options.take("full_experiment_name") or name or "",
        "write_interval": rollouts,
        "checkpoint_interval": frequency * rollouts if frequency > 0 else "auto",
    }


def _report(options: Options, continuous: bool) -> None:
    for name, (neutral, why) in _NOT_MAPPED.items():
        value = options.take(name, neutral[0])
        if value not in neutral:
            options.not_mapped(name, why)
    for name, why in _NO_EFFECT.items():
        if name in options:
            options.no_effect(name, why)
    clips = options.flag("clip_actions", True)
    if continuous and clips:
        options.different(
            "clip_actions",
            "rl_games clamps actions to -1..1 and scales them to the bounds of the space: let the environment do so",
        )
    options.rest()
