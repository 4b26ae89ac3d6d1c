"""Which modules of a model may be a trunk."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from skrl_shared_cache.session import active

if TYPE_CHECKING:
    from skrl_shared_cache.model import SharedModel

_CONTAINERS = (nn.ModuleList, nn.ModuleDict)
_NEVER_SHARED = ("", "act", "compute", "forward")

Children = dict[str, nn.Module | None]


def find_candidates(model: SharedModel) -> tuple[list[Children], dict[nn.Module, str]]:
    """Find the children of a model, and what several of them contain.

    :param model: Model. ModuleList and ModuleDict are looked through, they are never called.

    :return: The live dictionaries that they were found in; the modules, with their names.
    """
    dictionaries: list[Children] = []
    children: dict[nn.Module, str] = {}

    _look_through(model, "", dictionaries, children)
    owners: dict[nn.Module, str] = {}
    contained: dict[nn.Module, str] = {}
    for child, name in children.items():
        for path, module in _called(child, name):
            if owners.setdefault(module, name) != name:
                contained[module] = path
    return dictionaries, {**contained, **children}


def _called(module: nn.Module, path: str) -> Iterator[tuple[str, nn.Module]]:
    # what a compiled module contains is traced: a shim there would be one more thing that the compiler sees change
    yield path, module
    if "_orig_mod" not in module._modules:
        for name, child in module._modules.items():
            if child is not None:
                yield from _called(child, f"{path}.{name}")


def _look_through(module: nn.Module, prefix: str, dictionaries: list[Children], children: dict[nn.Module, str]) -> None:
    dictionaries.append(module._modules)
    for name, child in module._modules.items():
        if isinstance(child, _CONTAINERS):
            _look_through(child, f"{prefix}{name}.", dictionaries, children)
        elif child is not None:
            children.setdefault(child, f"{prefix}{name}")


def named_modules(model: SharedModel) -> dict[nn.Module, str]:
    """Resolve the class attribute ``shared_modules``, and make units of the methods that it names.

    :param model: Model.

    :return: The modules among them, with their names.

    :raises TypeError: If ``shared_modules`` is not a sequence of names, or names what is no module or method.
    :raises AttributeError: If it names what is not there.
    """
    kind = type(model)
    names = model.shared_modules
    if not (isinstance(names, (tuple, list)) and all(isinstance(name, str) for name in names)):
        raise TypeError(f'{kind.__name__}.shared_modules must be a tuple of names, such as ("net",), not {names!r}')
    modules = {}
    for name in names:
        if name in _NEVER_SHARED:
            raise TypeError(
                f"{kind.__name__}.shared_modules names {name!r}, which answers each role differently: "
                "name what is the same for all roles, a child module or a method of yours"
            )
        attribute = inspect.getattr_static(kind, name, None)
        if inspect.isfunction(attribute):
            if not hasattr(attribute, _UNIT):
                setattr(kind, name, _as_unit(attribute))
            continue
        try:
            found = operator.attrgetter(name)(model)
        except AttributeError as error:
            children = ", ".join(repr(child) for child, _ in model.named_children()) or "none"
            raise AttributeError(
                f"{kind.__name__}.shared_modules names {name!r}, which the model does not have. Its child modules: "
                f"{children}. Name a child, a submodule (dotted) or a method"
            ) from error
        if not isinstance(found, nn.Module):
            raise TypeError(
                f"{kind.__name__}.shared_modules names {name!r}, which is of type {type(found).__name__}: "
                "name a child module, a submodule (dotted) or a method of the class"
            )
        modules[found] = name
    return modules


_UNIT = "_is_shared_unit"


def _as_unit(method: Any) -> Any:
    @functools.wraps(method)
    def unit(self: SharedModel, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or active.session is None:
            return method(self, *args, **kwargs)
        return self._shared_cache.call_method(self, method, args, kwargs)

    setattr(unit, _UNIT, True)
    return unit
