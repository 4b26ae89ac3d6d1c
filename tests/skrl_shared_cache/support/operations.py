"""What may happen to a model, its weights and its inputs between two calls, by name."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import torch
import torch.nn as nn

from .lines import set_training

Model = Any

# ---------------------------------------------------------------------------------------------------------- inputs


def _unaligned(x: torch.Tensor) -> torch.Tensor:
    memory = torch.zeros(x.numel() + 1, dtype=x.dtype)
    memory[1:].copy_(x.detach().reshape(-1))
    return memory[1:].view(x.shape)


ANOTHER_TENSOR: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "clone": lambda x: x.detach().clone(),
    "view": lambda x: x.view(x.shape),
    "slice": lambda x: x[:],
    "detach": torch.Tensor.detach,
    "data": lambda x: x.data,
    "numpy": lambda x: torch.from_numpy(x.detach().numpy()),
    "other strides": lambda x: x.detach().t().contiguous().t() if x.dim() == 2 else x.detach().clone(),
    "other alignment": _unaligned,
    "row of a memory": lambda x: torch.stack([x.detach(), x.detach()])[1],
    "first half": lambda x: x[: x.shape[0] // 2] if x.shape[0] % 8 == 0 else x[:],
    "second half": lambda x: x[x.shape[0] // 2 :] if x.shape[0] % 8 == 0 else x[:],
    "leaf with grad": lambda x: x.detach().clone().requires_grad_(),
    "computed": lambda x: x * 0.5 if x.requires_grad else x.detach().clone().requires_grad_() * 0.5,
    "other sign of zero": lambda x: torch.where(x == 0, -x, x).detach(),
    "double": lambda x: x.detach().double(),
}
"""Another tensor with the same elements, or nearly so."""


def _rebind(x: torch.Tensor) -> None:
    x.data = x.data + 0.5


def _exchange_storage(x: torch.Tensor) -> None:
    x.set_(x.detach() * -1.0)  # type: ignore[call-overload]


WRITE: dict[str, Callable[[torch.Tensor], Any]] = {
    "all": lambda x: x.add_(0.5),
    "one row": lambda x: x[0].mul_(-1.0),
    "through a view": lambda x: x.view(-1)[:1].fill_(0.25),
    "through detach": lambda x: x.detach().mul_(0.5),
    "as out": lambda x: torch.add(x, 1.0, out=x),
    "not a number": lambda x: x[-1].fill_(float("nan")),
    "zeros": torch.Tensor.zero_,
    "sign of zeros": lambda x: x.mul_(-0.0),
    "other data": _rebind,
    "other storage": _exchange_storage,
}
"""Writes into inputs that torch counts, or that move them."""

UNCOUNTED_WRITE: dict[str, Callable[[torch.Tensor], Any]] = {
    "data": lambda x: x.data.add_(0.5),
    "numpy": lambda x: x.detach().numpy().__imul__(-1.0),
}
"""Writes that no version counter shows."""

# --------------------------------------------------------------------------------------------------------- weights

OPTIMIZERS = {"SGD": torch.optim.SGD, "Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW}

FORMS: dict[str, dict[str, bool]] = {
    "for-loop": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}


def fill_gradients(model: Model) -> None:
    """Bound all gradients, and give one to every parameter that may have one."""
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.grad is None:
            parameter.grad = torch.full_like(parameter, 0.3)
        if parameter.grad is not None:
            parameter.grad.nan_to_num_(0.0, 1.0, -1.0).clamp_(-1.0, 1.0)


def step(model: Model, optimizer: str, form: str) -> None:
    """Let an optimizer step with the gradients that are there."""
    fill_gradients(model)
    OPTIMIZERS[optimizer](model.parameters(), lr=0.03, **FORMS[form]).step()


def scaled_step(model: Model, optimizer: str, form: str, overflows: bool) -> None:
    """Let an optimizer step through a ``GradScaler``, which skips the step where a gradient is infinite."""
    fill_gradients(model)
    if overflows:
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.view(-1)[0] = float("inf")
                break
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    scaler.scale(torch.zeros(()))
    scaler.step(OPTIMIZERS[optimizer](model.parameters(), lr=0.03, **FORMS[form]))
    scaler.update()
    fill_gradients(model)


def _other_weights(model: Model) -> dict[str, torch.Tensor]:
    return {key: value * 0.9 if value.is_floating_point() else value for key, value in model.state_dict().items()}


def _checkpoint(model: Model) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(_other_weights(model), file)
    file.seek(0)
    return file


def _source(model: Model) -> nn.Module:
    return nn.ParameterList([nn.Parameter(parameter.detach() * 0.8 + 0.1) for parameter in model.parameters()])


def _trunk(model: Model) -> nn.Module:
    trunk: nn.Module = next(iter(model.children()))
    return trunk


def _first(model: Model) -> nn.Parameter:
    return next(_trunk(model).parameters())


def _set_data(model: Model) -> None:
    _first(model).data = _first(model).data * 0.9


def _exchange_parameter(model: Model) -> None:
    owner = next(module for module in _trunk(model).modules() if module._parameters)
    name, parameter = next((name, p) for name, p in owner._parameters.items() if p is not None)
    setattr(owner, name, nn.Parameter(parameter.detach() * 0.9))


def _exchange_submodule(model: Model) -> None:
    name, child = next(iter(model.named_children()))
    other = copy.deepcopy(child)
    with torch.no_grad():
        next(other.parameters()).mul_(-1.0)
    setattr(model, name, other)


def _write_in_place(model: Model) -> None:
    with torch.no_grad():
        _first(model).mul_(-1.0)


def _set_vector(model: Model) -> None:
    vector = nn.utils.parameters_to_vector(model.parameters()).detach()
    nn.utils.vector_to_parameters(vector * 0.95, model.parameters())


def _write_buffers(model: Model) -> None:
    for buffer in model.buffers():
        if buffer.is_floating_point():
            buffer.mul_(0.9).add_(0.1)


def _exchange_buffers(model: Model) -> None:
    for module in model.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.is_floating_point():
                setattr(module, name, buffer * 0.9 + 0.1)


NEW_WEIGHTS: dict[str, Callable[[Model], Any]] = {
    "load_state_dict": lambda model: model.load_state_dict(_other_weights(model)),
    "load_state_dict by assignment": lambda model: model.load_state_dict(_other_weights(model), assign=True),
    "load": lambda model: model.load(_checkpoint(model)),
    "hard update": lambda model: model.update_parameters(_source(model)),
    "polyak": lambda model: model.update_parameters(_source(model), polyak=0.3),
    "data": _set_data,
    "vector": _set_vector,
    "in place": _write_in_place,
    "another parameter": _exchange_parameter,
    "another submodule": _exchange_submodule,
    "half and back": lambda model: model.half().float(),
    "bfloat16 and back": lambda model: model.to(torch.bfloat16).float(),
    "double and back": lambda model: model.double().float(),
    "half and back, of the trunk": lambda model: _trunk(model).half().float(),
    "buffers": _write_buffers,
    "other buffers": _exchange_buffers,
}
"""Ways in which weights and buffers change, all of which the cache must notice by itself."""

# ------------------------------------------------------------------------------------------------ flags of a model


def _flip_one(model: Model) -> None:
    _first(model).requires_grad_(not _first(model).requires_grad)


def _scale_output(module: nn.Module, args: Any, output: Any) -> Any:
    return output * 0.5 if isinstance(output, torch.Tensor) else output


def _hook_trunk(model: Model) -> None:
    if not _trunk(model)._forward_hooks:
        _trunk(model).register_forward_hook(_scale_output)


NEW_FLAGS: dict[str, Callable[[Model], Any]] = {
    "train": lambda model: model.train(),
    "eval": lambda model: model.eval(),
    "skrl's train": lambda model: set_training(model, True),
    "skrl's eval": lambda model: set_training(model, False),
    "eval of the trunk": lambda model: _trunk(model).eval(),
    "train of the trunk": lambda model: _trunk(model).train(),
    "freeze": lambda model: model.freeze_parameters(True),
    "unfreeze": lambda model: model.freeze_parameters(False),
    "flip one": _flip_one,
    "no gradients": lambda model: model.zero_grad(),
}

NEW_HOOKS: dict[str, Callable[[Model], Any]] = {
    "hook": _hook_trunk,
    "no hook": lambda model: _trunk(model)._forward_hooks.clear(),
}
"""Changes of what a module returns that a unit which contains it cannot notice."""


def _saved_and_loaded(model: Model) -> Model:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPY: dict[str, Callable[[Model], Model]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "torch.save": _saved_and_loaded,
}
