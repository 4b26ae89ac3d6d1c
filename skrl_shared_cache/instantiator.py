"""skrl's instantiator of shared models, with a trunk that runs once per pair."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import linecache
import types
from typing import Any

from skrl.utils.model_instantiators.torch import shared as skrl_instantiator
from skrl.utils.model_instantiators.torch.common import generate_containers

from skrl_shared_cache.generated_source import CLASS, with_trunk
from skrl_shared_cache.model import SharedModel

_SOURCES = {"observations": "OBSERVATIONS", "states": "STATES", "taken_actions": "ACTIONS"}

# a copy: `use` makes skrl's own function lead here
_generate = types.FunctionType(
    skrl_instantiator.shared_model.__code__,
    skrl_instantiator.shared_model.__globals__,
    argdefs=skrl_instantiator.shared_model.__defaults__,
)
_generate.__kwdefaults__ = skrl_instantiator.shared_model.__kwdefaults__
_SIGNATURE = inspect.signature(skrl_instantiator.shared_model)


def shared_model(*args: Any, **kwargs: Any) -> Any:
    """Instantiate a shared model whose trunk runs once per policy/value pair.

    It takes the arguments of :py:func:`skrl.utils.model_instantiators.torch.shared_model` of the installed skrl, and
    the model has the same layers, parameter names and outputs. The networks, and all that is computed between them, are
    one method, ``trunk``, which the cache remembers as a unit: in any order of roles, however many networks there are.

    The networks are those of the first role, as with skrl. The model can be pickled and copied: as the configuration,
    from which the class is generated anew.

    :param args: Arguments of skrl's function: positional on skrl 1.4, none on skrl 2.
    :param kwargs: Arguments of skrl's function. ``single_forward_pass`` is accepted and makes no difference: there is
        one pass wherever it is safe. ``return_source`` returns the source of the class that would be run.

    :return: A :py:class:`~skrl_shared_cache.SharedModel`, or a source.

    :raises ValueError: If there are not two roles, if their networks read different inputs, or if they read states
        that the environment does not have.
    """
    call = _SIGNATURE.bind(*args, **kwargs)
    call.apply_defaults()
    arguments = call.arguments
    configuration = {name: copy.deepcopy(arguments.pop(name)) for name in ("structure", "roles", "parameters")}
    del arguments["single_forward_pass"]
    if arguments.pop("return_source"):
        return _source_of(configuration)
    kind = _class_of(configuration)
    _check_state_space(configuration["parameters"][0], **arguments)
    return kind(**arguments)


shared_model.__signature__ = _SIGNATURE  # type: ignore[attr-defined]


class _Generated(SharedModel):
    """Base of the generated classes: what pickles their instances."""

    _configuration: dict[str, Any]

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced = super().__reduce_ex__(protocol)
        if "_configuration" not in vars(type(self)):  # a subclass, which has a module to be found in
            return reduced
        return _empty_model, (self._configuration,), *reduced[2:]


def _empty_model(configuration: dict[str, Any]) -> Any:
    kind = _class_of(configuration)
    return kind.__new__(kind)


def _class_of(configuration: dict[str, Any]) -> Any:
    configuration = copy.deepcopy(configuration)
    kind = _compile(_source_of(configuration))
    if "_configuration" not in vars(kind):
        kind._configuration = configuration
    return kind


@functools.cache
def _compile(source: str) -> Any:
    file = f"<{CLASS} {_compile.cache_info().misses}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file  # for tracebacks
    namespace = {**vars(skrl_instantiator), "__name__": __name__, "SharedModel": _Generated}
    exec(compile(source, file, "exec"), namespace)
    return namespace[CLASS]


def _source_of(configuration: dict[str, Any]) -> str:
    counts = {name: len(configuration[name]) for name in ("structure", "roles", "parameters")}
    if set(counts.values()) != {2}:
        raise ValueError(
            f"A shared model has two roles, with one class and one set of parameters each, but got {counts}. "
            'Write, say, roles=["policy", "value"], or one model per role for more or fewer of them'
        )
    parameters = copy.deepcopy(configuration["parameters"])  # skrl 1.4 puts the current names into old ones
    source = _generate(**{**configuration, "parameters": parameters}, single_forward_pass=False, return_source=True)
    _check_inputs(configuration["roles"], parameters)
    return with_trunk(source)


def _check_inputs(roles: Any, parameters: Any) -> None:
    read = [_inputs_of(each["network"], each["output"]) for each in parameters]
    if read[1] and read[0] != read[1]:
        raise ValueError(
            f"A shared model has one trunk, so the networks of both roles must read the same input, but {roles[0]!r} "
            f"reads {_join(read[0])} and {roles[1]!r} reads {_join(read[1])}. Write `separate: True` under "
            "`models` for one model per role, or the same `input` in the networks of both. (skrl builds the networks "
            f"of {roles[0]!r} only, and never reads the other input.)"
        )


def _check_state_space(parameters: Any, **arguments: Any) -> None:
    if "state_space" not in arguments or arguments["state_space"] is not None:  # skrl 1.4 has one name for both
        return
    if any(name.startswith("STATES") for name in _inputs_of(parameters["network"], parameters["output"])):
        raise ValueError(
            "A network that reads STATES needs a state space, but state_space is None: the environment has no "
            "privileged states. Write `input: OBSERVATIONS`, which is what skrl 1.4 called STATES"
        )


def _join(inputs: set[str]) -> str:
    return " and ".join(sorted(inputs)) or "nothing"


def _inputs_of(network: Any, output: Any) -> set[str]:
    """Return what the networks read besides each other, such as ``OBSERVATIONS`` or ``OBSERVATIONS['camera']``."""
    containers = generate_containers(network, output, embed_output=False)[0] if network else []
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        root = node
        while isinstance(root, ast.Subscript):
            root = root.value
        if isinstance(root, ast.Name) and root.id in _SOURCES:
            root.id = _SOURCES[root.id]
            found.add(ast.unparse(node))
        else:
            for child in ast.iter_child_nodes(node):
                visit(child)

    for container in containers:
        visit(ast.parse(container["input"]))
    return found
