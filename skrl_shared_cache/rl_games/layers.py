"""Which parameter of a skrl model is which of rl_games': told by the order in which the layers are called.

Names differ from model to model, and shapes say little (two layers of a trunk, the heads of mean and deviation). The
order of the calls is that of the computation, in any model that computes what rl_games' network does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

NETWORK = "a2c_network."
_ROLES = {"policy": ("actor", ("mu", "logits")), "value": ("critic", ("value",))}


def match(models: Mapping[str, nn.Module], weights: Mapping[str, torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
    """Tell the tensors of skrl's models by rl_games' names.

    :param models: Models of the roles policy and value; the same one, or two.
    :param weights: State of rl_games' ``a2c_network``, without that prefix.

    :return: Pairs of a name in ``weights`` and a parameter or buffer of the models, of the same shape. Where rl_games
        has one head per action and skrl one for all, it is a part of skrl's. A network that both roles share in
        rl_games, but not in skrl, is there twice.

    :raises ValueError: If the models do not compute what rl_games' network does.
    """
    pairs: dict[tuple[str, int], tuple[str, torch.Tensor]] = {}
    names: dict[int, str] = {}
    for role, model in models.items():
        called = _calls(model, role, role == "policy" and _has_deviation_head(weights))
        expected = _expected(weights, role)
        if [_shapes(layer) for layer in called] != [_joined_shapes(parts, weights) for parts in expected]:
            raise ValueError(
                f"the {role} must call the layers of rl_games' network, in their order: it calls "
                f"{_describe([_shapes(layer) for layer in called])}, the checkpoint has "
                f"{_describe([_joined_shapes(parts, weights) for parts in expected])}"
            )
        for layer, parts in zip(called, expected):
            name = names.setdefault(id(layer), parts[0])
            if name != parts[0]:
                raise ValueError(
                    f"the model has one layer for {name} and {parts[0]}: it shares what is separate in the checkpoint"
                )
            pairs.update({(name, id(layer)): (name, tensor) for name, tensor in _split(layer, parts, weights)})
    found = list(pairs.values())
    if "sigma" in weights:
        found.append(("sigma", _log_std(models["policy"], weights["sigma"])))
    left = sorted(set(weights) - {name for name, _ in found})
    if left:
        raise ValueError(f"skrl's models have nothing for {', '.join(left)} of the checkpoint")
    return found


def _has_deviation_head(weights: Mapping[str, torch.Tensor]) -> bool:
    return "sigma.weight" in weights


def _expected(weights: Mapping[str, torch.Tensor], role: str) -> list[list[str]]:
    """Return the layers of a role in rl_games' order. A layer is the prefixes of its parts: one, or one per action."""
    tower, heads = _ROLES[role]
    if not any(name.startswith("critic_") for name in weights):
        tower = "actor"  # one network for both roles
    paths = list(dict.fromkeys(name.rpartition(".")[0] for name in weights if "." in name))
    layers = [[path] for kind in ("cnn", "mlp") for path in paths if path.startswith(f"{tower}_{kind}.")]
    parts = [path for path in paths if path.partition(".")[0] in heads]
    deviation = [["sigma"]] if role == "policy" and _has_deviation_head(weights) else []
    return [*layers, parts, *deviation]


def _calls(model: nn.Module, role: str, deviation_head: bool) -> list[nn.Module]:
    """Return the layers with weights that the model calls in a role, in the order of their first calls."""
    if any(isinstance(parameter, UninitializedParameter) for parameter in model.parameters()):
        raise ValueError(f"the {role} has lazy layers: call model.init_state_dict(role={role!r}) before")
    called: dict[str, nn.Module] = {}
    layers = {name: layer for name, layer in model.named_modules() if not list(layer.children()) and layer.state_dict()}
    hooks = [
        layer.register_forward_pre_hook(lambda layer, _, name=name: called.setdefault(name, layer) and None)
        for name, layer in layers.items()
    ]
    flags = {module: module.training for module in model.modules()}
    try:
        for module in flags:
            module.training = False  # neither dropout nor statistics of batches
        inputs = {key: _random_batch(model, key) for key in ("observations", "states")}
        with torch.enable_grad():
            output = _without_memory(model).compute(inputs, role)[0]
    finally:
        for hook in hooks:
            hook.remove()
        for module, training in flags.items():
            module.training = training
    order = list(called.values())
    if deviation_head and len(order) > 1:
        weight = order[-1].get_parameter("weight")
        if torch.autograd.grad(output.sum(), weight, allow_unused=True)[0] is not None:
            order[-2:] = reversed(order[-2:])  # the last one gives the mean: this model calls the deviation first
    return order


def _without_memory(model: nn.Module) -> Any:
    """Return a model of the same modules and tensors, with a cache of its own if it has one."""
    twin = type(model).__new__(type(model))
    own = dict(vars(twin))
    vars(twin).update({**vars(model), **own})
    return twin


def _random_batch(model: Any, key: str) -> torch.Tensor | None:
    size = model.num_observations
    if key == "states" and getattr(model, "state_space", None) is not None:
        size = getattr(model, "num_states", size) or size
    # not the global generator: loading a checkpoint must not change what is sampled afterwards
    return torch.rand(2, size, generator=torch.Generator().manual_seed(0)).to(model.device)


def _log_std(model: nn.Module, sigma: torch.Tensor) -> torch.Tensor:
    layers = {id(p) for layer in model.modules() if not list(layer.children()) for p in layer.parameters()}
    found = [p for p in model.parameters() if id(p) not in layers and p.numel() == sigma.numel()]
    if len(found) != 1:
        raise ValueError(
            f"the policy must have one parameter of {sigma.numel()} elements outside of its layers, for the logarithm "
            f"of the standard deviation, and has {len(found)}"
        )
    return found[0]


def _shapes(layer: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in layer.state_dict().items()}


def _joined_shapes(parts: list[str], weights: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for part in parts:
        for name, tensor in weights.items():
            if name.rpartition(".")[0] == part:
                own = name.rpartition(".")[2]
                rows = shapes[own][0] if own in shapes else 0
                shapes[own] = (rows + tensor.shape[0], *tensor.shape[1:]) if tensor.dim() else ()
    return shapes


def _split(
    layer: nn.Module, parts: list[str], weights: Mapping[str, torch.Tensor]
) -> Iterator[tuple[str, torch.Tensor]]:
    for name, tensor in layer.state_dict(keep_vars=True).items():
        first = 0
        for part in parts:
            if len(parts) == 1:
                yield f"{part}.{name}", tensor
                continue
            last = first + len(weights[f"{part}.{name}"])
            yield f"{part}.{name}", tensor[first:last]
            first = last


def _describe(layers: list[dict[str, tuple[int, ...]]]) -> str:
    return " ".join(str(list(shapes.get("weight", ()))) for shapes in layers) or "none"
