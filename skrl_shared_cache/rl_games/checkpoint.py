"""Bring a policy that rl_games has trained into a model of skrl's."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from skrl_shared_cache.rl_games.layers import NETWORK, match

# rl_games' RunningMeanStd divides by sqrt(variance + epsilon), and clamps to these bounds
_EPSILON = 1e-5
_CLIP = 5.0
_INPUTS = "running_mean_std."
_SCALERS = {_INPUTS: ("observations", "running_mean_std"), "value_mean_std.": ("values", "reward_mean_std")}


def load_checkpoint(
    model: nn.Module | Mapping[str, nn.Module],
    preprocessors: Mapping[str, nn.Module | None] | None,
    path: str | os.PathLike[str],
    *,
    weights_only: bool = True,
) -> None:
    """Load a checkpoint of rl_games' PPO into a model, and its normalizers into skrl's scalers.

    The model must call the layers of rl_games' network in their order: those that ``convert_config`` writes do, and so
    does any model with the same layers, whatever their names. A standard deviation that depends on the observations is
    a second head of the policy. On the same observations its mean actions (or logits) and its values are then those of
    rl_games, before rl_games' player clamps the actions to -1 .. 1 and scales them to the bounds of the space.

    rl_games adds its epsilon to the variance, skrl to its root: the variances are written such that both scale alike.

    :param model: Model of both roles, or a mapping with the models of ``"policy"`` and ``"value"``.
    :param preprocessors: skrl's ``RunningStandardScaler`` by the names of an agent's configuration:
        ``"observation_preprocessor"`` (``"state_preprocessor"`` on skrl 1.4) and ``"value_preprocessor"``. None, or
        without a name, where rl_games normalizes nothing.
    :param path: Checkpoint, a ``.pth`` file.
    :param weights_only: Whether to refuse all but tensors and numbers. Whoever has written a checkpoint with other
        things in it can have written code, too, that runs when they are read.

    :raises ValueError: If model and scalers do not compute what the checkpoint does. Nothing has been changed then.
    :raises TypeError: If a preprocessor is no running scaler.
    """
    state = _read(path, weights_only)
    models = dict(model) if isinstance(model, Mapping) else {"policy": model, "value": model}
    if set(models) != {"policy", "value"}:
        raise ValueError(f"models must be given for 'policy' and 'value', got {', '.join(map(repr, models)) or 'none'}")
    weights = {name[len(NETWORK) :]: value for name, value in state.items() if name.startswith(NETWORK)}
    if not weights:
        raise ValueError(f"{os.fspath(path)} must be a checkpoint of rl_games' PPO: it has no {NETWORK}*")
    targets = match(models, weights)
    scalers = _match_scalers(preprocessors or {}, state)
    with torch.no_grad():
        for name, target in targets:
            target.copy_(weights[name].reshape(target.shape))
        for scaler, prefix in scalers:
            _load_scaler(scaler, state, prefix)


def _read(path: str | os.PathLike[str], weights_only: bool) -> dict[str, torch.Tensor]:
    """Return the state of rl_games' model, without what torch.compile has put before the names."""
    # rl_games saves its best reward, a number of NumPy's
    numbers = [np.dtype, np.ndarray, type(np.dtype(np.float32)), type(np.dtype(np.float64)), _numpy_scalar()]
    torch.serialization.add_safe_globals(numbers)
    checkpoint: Any = torch.load(path, map_location="cpu", weights_only=weights_only)
    if not isinstance(checkpoint, Mapping) or not isinstance(checkpoint.get("model"), Mapping):
        raise ValueError(f"{os.fspath(path)} must be a checkpoint of rl_games: it has no 'model' in it")
    state = {name.replace("_orig_mod.", ""): value for name, value in checkpoint["model"].items()}
    for prefix, (_, old_name) in _SCALERS.items():  # older versions keep them beside the model
        for name, value in (checkpoint.get(old_name) or {}).items():
            state[prefix + name] = value
    return state


def _numpy_scalar() -> Any:
    return np.float32(0).__reduce__()[0]


def _match_scalers(given: Mapping[str, nn.Module | None], state: Mapping[str, Any]) -> list[tuple[nn.Module, str]]:
    by_kind: dict[str, nn.Module] = {}
    for name, scaler in given.items():
        kind = name.removesuffix("_preprocessor").removesuffix("s")
        if kind not in ("observation", "state", "value"):
            raise ValueError(f"a preprocessor must be named as in an agent's configuration, got {name!r}")
        if scaler is None:
            continue
        if not hasattr(scaler, "running_variance"):
            raise TypeError(f"{name} must be a RunningStandardScaler, got {type(scaler).__name__}")
        kind = "values" if kind == "value" else "observations"
        if kind in by_kind:
            raise ValueError(f"there must be one preprocessor of the {kind}, got two: rl_games has one")
        by_kind[kind] = scaler
    pairs = []
    for prefix, (kind, _) in _SCALERS.items():
        scaler, saved = by_kind.get(kind), f"{prefix}running_mean" in state
        if saved != (scaler is not None):
            raise ValueError(
                f"the checkpoint normalizes the {kind}: pass the agent's preprocessor of them"
                if saved
                else f"the checkpoint does not normalize the {kind}: pass no preprocessor of them, and use none"
            )
        if scaler is None:
            continue
        mean: Any = scaler.running_mean
        if mean.numel() != state[f"{prefix}running_mean"].numel() or scaler.clip_threshold != _CLIP:
            raise ValueError(
                f"the preprocessor of the {kind} must have size {state[f'{prefix}running_mean'].numel()} and "
                f"clip_threshold {_CLIP}, got {mean.numel()} and {scaler.clip_threshold}"
            )
        pairs.append((scaler, prefix))
    if any(name.startswith("running_mean_std.running_mean_std.") for name in state):
        raise ValueError("the checkpoint normalizes observations of several keys, which skrl's scaler does not")
    return pairs


def _load_scaler(scaler: Any, state: Mapping[str, Any], prefix: str) -> None:
    mean, variance, count = (state[f"{prefix}{name}"] for name in ("running_mean", "running_var", "count"))
    deviation = torch.sqrt(variance.float() + _EPSILON)
    if prefix == _INPUTS:
        deviation = _without_epsilon(deviation, scaler.epsilon)
    # the nearest float32 to the square of a float32 has that as its root
    scaler.running_mean.copy_(mean.reshape(scaler.running_mean.shape))
    scaler.running_variance.copy_(deviation.double().square().reshape(scaler.running_variance.shape))
    scaler.current_count.copy_(count.reshape(()))


def _without_epsilon(deviation: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Return what gives the deviation, bit for bit, when skrl adds its epsilon: networks can amplify a last digit."""
    first = deviation - epsilon
    neighbours = [torch.nextafter(first, torch.full_like(first, limit)) for limit in (-math.inf, math.inf)]
    for neighbour in neighbours:
        first = torch.where((first + epsilon) == deviation, first, neighbour)
    return first
