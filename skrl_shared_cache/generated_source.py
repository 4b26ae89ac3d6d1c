"""Rewrite the source of a shared class that skrl generates: on the cached base class, with the trunk as one method.

skrl writes a ``compute`` that reads its inputs, runs the networks one after the other, and then branches by role. What
lies before the branch is the trunk, whatever functions it calls between its networks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

CLASS = "GeneratedModel"
TRUNK = "trunk"


def with_trunk(source: str) -> str:
    """Rewrite a class of skrl's instantiator that was generated without its own single pass.

    :param source: Source of one class, on the base class ``Model``.

    :return: Source of the class ``GeneratedModel`` on ``SharedModel``. Where ``compute`` has another form than the one
        that is known, it stays as it is: the cache then works on the networks one by one.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "Model":
            node.id = "SharedModel"
        elif isinstance(node, ast.ClassDef):
            node.name = CLASS
            _extract_trunk(node)
    return ast.unparse(tree)


def _extract_trunk(kind: ast.ClassDef) -> None:
    (compute,) = (node for node in kind.body if isinstance(node, ast.FunctionDef) and node.name == "compute")
    *common, heads = compute.body
    if not isinstance(heads, ast.If) or not all(isinstance(statement, ast.Assign) for statement in common):
        return
    # `observations = unflatten_tensorized_space(self.observation_space, inputs.get("observations"))`
    reading = [statement for statement in common if "inputs" in _loaded([statement])]
    networks = [statement for statement in common if statement not in reading]
    raw = {name: _ReadInput(name) for statement in reading for name in _stored([statement])}
    arguments = [name for name in raw if name in _loaded(networks)]
    features = [name for name in dict.fromkeys(_stored(networks)) if name in _loaded([heads])]
    if not features:
        return

    in_heads = [statement for statement in reading if _loaded([heads]).intersection(_stored([statement]))]
    in_trunk = [statement for statement in reading if set(arguments).intersection(_stored([statement]))]
    compute.body = [*(ast.parse(ast.unparse(statement)).body[0] for statement in in_heads), heads]
    trunk = _parse(f"def {TRUNK}(self{''.join(f', {name}' for name in arguments)}):\n    return {', '.join(features)}")
    assert isinstance(trunk, ast.FunctionDef)
    # raw tensors go in: the memory recognizes them, but not the views and copies that unflattening makes of them
    trunk.body[:0] = [raw[name].visit(statement) for statement in in_trunk for name in _stored([statement])] + networks
    passed = ", ".join(ast.unparse(raw[name].found) for name in arguments)
    compute.body.insert(-1, _parse(f"{', '.join(features)} = self.{TRUNK}({passed})"))
    kind.body.insert(kind.body.index(compute), trunk)
    kind.body.insert(0, _parse(f"shared_modules = ({TRUNK!r},)"))


class _ReadInput(ast.NodeTransformer):
    """Put a name in the place of ``inputs.get(...)``, and remember the call."""

    def __init__(self, name: str) -> None:
        self.found: ast.expr = ast.Constant(None)
        self._name = name

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Attribute) and _loaded([node.func]) == {"inputs"}:
            self.found = node
            return ast.Name(self._name, ast.Load())
        return self.generic_visit(node)


def _parse(statement: str) -> ast.stmt:
    return ast.parse(statement).body[0]


def _loaded(nodes: Iterable[ast.AST]) -> set[str]:
    names = (name for node in nodes for name in ast.walk(node) if isinstance(name, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Load)}


def _stored(nodes: Iterable[ast.AST]) -> list[str]:
    names = (name for node in nodes for name in ast.walk(node) if isinstance(name, ast.Name))
    return [name.id for name in names if isinstance(name.ctx, ast.Store)]
