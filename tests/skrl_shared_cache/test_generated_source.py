"""The source of skrl's generated class becomes one with a trunk; of another form, it stays what it is."""

from __future__ import annotations

import ast

import pytest

from skrl_shared_cache.generated_source import with_trunk

HEAD = """
class SharedModel(GaussianMixin, Model):
    def __init__(self, device):
        Model.__init__(self, device=device)
        self.Model = "Model"
"""

COMPUTE = """
    def compute(self, inputs, role=""):
        observations = unflatten(self.observation_space, inputs.get("observations"))
        states = unflatten(self.state_space, inputs.get("states"))
        taken_actions = unflatten(self.action_space, inputs.get("taken_actions"))
        a = self.a_container(observations)
        b = self.b_container(torch.cat([a, states]))
        if role == "policy":
            return self.policy_layer(b), {}
        elif role == "value":
            return self.value_layer(b), {}
"""

TRUNK = """
def trunk(self, observations, states):
    observations = unflatten(self.observation_space, observations)
    states = unflatten(self.state_space, states)
    a = self.a_container(observations)
    b = self.b_container(torch.cat([a, states]))
    return b
"""


def method(source: str, name: str) -> str:
    """Return the source of a method."""
    (found,) = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef) and node.name == name)
    return ast.unparse(found)


def test_the_networks_move_into_a_trunk_of_what_they_read() -> None:
    source = with_trunk(HEAD + COMPUTE)
    assert method(source, "trunk") == ast.unparse(ast.parse(TRUNK))
    compute = method(source, "compute")
    assert "b = self.trunk(inputs.get('observations'), inputs.get('states'))" in compute
    assert "unflatten" not in compute
    assert "shared_modules = ('trunk',)" in source


def test_the_base_class_is_exchanged_and_no_attribute_or_string() -> None:
    source = with_trunk(HEAD + COMPUTE)
    assert "class GeneratedModel(GaussianMixin, SharedModel):" in source
    assert "SharedModel.__init__(self, device=device)" in source
    assert "self.Model = 'Model'" in source


def test_what_a_head_reads_itself_is_still_read_there() -> None:
    source = with_trunk((HEAD + COMPUTE).replace("policy_layer(b)", "policy_layer(b + a) + observations"))
    compute = method(source, "compute")
    assert "observations = unflatten(self.observation_space, inputs.get('observations'))" in compute
    assert "a, b = self.trunk(inputs.get('observations'), inputs.get('states'))" in compute
    assert method(source, "trunk").endswith("return (a, b)")


@pytest.mark.parametrize(
    ("known", "other"),
    [
        ('if role == "policy"', 'while role == "policy"'),
        ("b = self.b_container(", "print("),
        ("layer(b)", "layer(self.c)"),
    ],
    ids=["no branch by role", "a statement that is no assignment", "heads that read no network"],
)
def test_a_compute_of_another_form_stays_as_it_is(known: str, other: str) -> None:
    unknown = (HEAD + COMPUTE).replace(known, other).replace("elif", "if")
    source = with_trunk(unknown)
    assert method(source, "compute") == method(unknown, "compute")
    assert "SharedModel.__init__" in source
    assert "shared_modules" not in source
