"""The network of rl_games' actor_critic as the ``models`` of skrl's Runner."""

from __future__ import annotations

import copy
from typing import Any

from skrl_shared_cache.rl_games.options import Options

# what the names mean in skrl; the others are functions, which its YAML can call between networks
_MODULES = ("elu", "relu", "selu", "sigmoid", "softplus", "tanh")
_FUNCTIONS = {"swish": "nn.functional.silu", "gelu": "nn.functional.gelu"}
_CONVOLUTIONS = ("conv2d", "conv2d_flatten")
_POLICIES = {
    "continuous_a2c_logstd": ("continuous", "GaussianMixin"),
    "discrete_a2c": ("discrete", "CategoricalMixin"),
    "multi_discrete_a2c": ("multi_discrete", "MultiCategoricalMixin"),
}


def convert_network(params: Options, continuous: bool) -> dict[str, Any]:
    """Write the ``models`` of a Runner's configuration.

    :param params: rl_games' ``params``, of which ``model`` and ``network`` are taken.
    :param continuous: Whether the algorithm is a2c_continuous.

    :return: Models of the roles policy and value.

    :raises ValueError: If options are missing or of a wrong kind.
    """
    network = params.section("network")
    kind, policy_class = _policy(params, continuous)
    name = network.take("name", "actor_critic")
    if name != "actor_critic":
        network.not_mapped("name", "skrl's YAML cannot say this network: the result is the MLP alone")
    if network.take("central_value", False):
        network.not_mapped("central_value", "the values are those of the policy's observations")

    containers = _convolutions(network) + _layers(network)
    spaces = network.section("space", {kind: {}})
    space = spaces.section(kind, {})
    spaces.rest()
    policy = (
        {"class": policy_class, **_gaussian(space), "network": containers}
        if kind == "continuous"
        else {"class": policy_class, "unnormalized_log_prob": True, "network": containers}
    )
    activation = space.take("mu_activation") if kind == "continuous" else None
    policy["output"] = _output("ACTIONS", activation, space, "mu_activation")
    value_activation = network.take("value_activation")
    value = {
        "class": "DeterministicMixin",
        "clip_actions": False,
        "network": copy.deepcopy(containers),
        "output": _output("ONE", value_activation, network, "value_activation"),
    }
    if network.take("normalization"):
        network.not_mapped("normalization", "skrl's YAML has no such layers")
    if network.take("rnn"):
        network.not_mapped("rnn", "skrl's Runner builds no recurrent models")
    separate = network.flag("separate", False)
    space.rest()
    network.rest()
    return {"separate": separate, "policy": policy, "value": value}


def _policy(params: Options, continuous: bool) -> tuple[str, str]:
    model = params.section("model", {"name": "continuous_a2c_logstd" if continuous else "discrete_a2c"})
    name = model.take("name")
    kind, policy_class = _POLICIES.get(name, _POLICIES["continuous_a2c_logstd" if continuous else "discrete_a2c"])
    if name not in _POLICIES:
        model.not_mapped("name", f"skrl's YAML cannot say this policy: the result is a {policy_class}")
    elif (kind == "continuous") != continuous:
        raise ValueError(f"{model.path}.name must fit the algorithm, got {name!r} for another kind of actions")
    model.rest()
    return kind, policy_class


def _convolutions(network: Options) -> list[dict[str, Any]]:
    if not network.take("cnn"):
        return []
    cnn = network.section("cnn")
    kind = cnn.take("type", "conv2d")
    if kind not in _CONVOLUTIONS:
        cnn.not_mapped("type", "skrl's YAML cannot say these layers: the result has plain 2D convolutions")
    source = "permute(OBSERVATIONS, (0, 3, 1, 2))" if cnn.flag("permute_input", True) else "OBSERVATIONS"
    layers: list[Any] = []
    if "convs" not in cnn:
        cnn.not_mapped("convs", "skrl's YAML cannot say these layers: the result has none")
    for index, values in enumerate(cnn.take("convs", [])):
        conv = Options(f"{cnn.path}.convs[{index}]", values, cnn.notes)
        layers.append({"conv2d": [conv.require(key) for key in ("filters", "kernel_size", "strides", "padding")]})
        conv.rest()
    _note_initializer(cnn)
    if cnn.take("regularizer"):
        cnn.no_effect("regularizer", "rl_games does not read it")
    containers = _containers("cnn", source, [*layers, "flatten"], _activation(cnn))
    cnn.different("type", "rl_games divides observations of bytes by 255; skrl does not: let the environment do so")
    cnn.rest()
    return containers


def _layers(network: Options) -> list[dict[str, Any]]:
    mlp = network.section("mlp", {"units": [], "activation": None})
    source = "cnn" if network.take("cnn") else "OBSERVATIONS"
    units = list(mlp.require("units"))
    for name, why in {
        "d2rl": "skrl's YAML cannot say it: the layers get no copies of the observations",
        "norm_only_first_layer": "skrl's YAML has no such layers",
    }.items():
        if mlp.take(name, False):
            mlp.not_mapped(name, why)
    _note_initializer(mlp)
    if mlp.take("regularizer"):
        mlp.no_effect("regularizer", "rl_games does not read it")
    containers = _containers("net", source, units, _activation(mlp))
    mlp.rest()
    return containers


def _activation(section: Options) -> str | None:
    activation: str | None = section.take("activation")
    if activation is not None and activation not in _MODULES and activation not in _FUNCTIONS:
        raise ValueError(
            f"{section.path}.activation must be one of rl_games', {', '.join([*_MODULES, *_FUNCTIONS])} or None, "
            f"got {activation!r}"
        )
    return activation


def _containers(name: str, source: str, layers: list[Any], activation: str | None) -> list[dict[str, Any]]:
    """Write layers as one network, or, where skrl knows the activation as a function only, as a chain of them."""
    if activation not in _FUNCTIONS:
        return [{"name": name, "input": source, "layers": layers, "activations": activation or []}]
    chain: list[dict[str, Any]] = []
    last = [layer for layer in layers if layer == "flatten"]
    for index, layer in enumerate(layers[: len(layers) - len(last)]):
        chain.append({"name": f"{name}_{index}", "input": source, "layers": [layer], "activations": []})
        source = f"{_FUNCTIONS[activation]}({name}_{index})"
    return [*chain, {"name": name, "input": source, "layers": last, "activations": []}]


def _output(token: str, activation: str | None, section: Options, option: str) -> str:
    if activation is None:
        return token
    if activation not in _MODULES and activation not in _FUNCTIONS:
        raise ValueError(f"{section.path}.{option} must be one of rl_games' activations or None, got {activation!r}")
    return f"{_FUNCTIONS.get(activation, activation)}({token})"


def _gaussian(space: Options) -> dict[str, Any]:
    log_std = 0.0
    if not space.flag("fixed_sigma", True):
        space.not_mapped("fixed_sigma", "skrl's YAML knows no standard deviation that depends on the observations")
        space.no_effect("sigma_init", "the standard deviation begins at 1")
    else:
        initializer = space.section("sigma_init", {"name": "default"})
        kind = initializer.take("name")
        if kind == "const_initializer":
            log_std = initializer.number("val", 0.0)
        elif kind != "default":
            initializer.not_mapped("name", "the logarithm of the standard deviation begins at 0")
        initializer.rest()
    if space.take("sigma_activation"):
        space.not_mapped("sigma_activation", "the logarithm of the standard deviation is the parameter itself")
    _note_initializer(space, "mu_init")
    # rl_games neither clips nor bounds what it samples; `fixed` means here that there is no gradient
    return {"clip_actions": False, "clip_log_std": False, "initial_log_std": log_std, "fixed_log_std": False}


def _note_initializer(section: Options, name: str = "initializer") -> None:
    initializer = section.section(name, {"name": "default"})
    if initializer.take("name", "default") == "default":
        section.different(name, "torch's default for the weights in both; rl_games' biases begin at 0")
        initializer.rest()
    else:
        section.not_mapped(name, "skrl's YAML knows no initializers: weights and biases begin as torch's default")
