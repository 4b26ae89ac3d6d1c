"""How often the trunk runs in each order of calls, and how much is kept meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from .support.lines import OBSERVATIONS, make_inputs
from .support.pairs import in_grad_mode
from .support.passes import Passes
from .support.twins import Twins
from .support.zoo import naive, observations, pattern
from .test_trunk_kinds import three_roles

pytestmark = [
    pytest.mark.parametrize("grad", [True, False], ids=["grad", "no grad"]),
    pytest.mark.parametrize("make", [naive, pattern]),
]

P, V = "policy", "value"


class Orders:
    """Twins out of probation, and passes of the cached one's trunk."""

    def __init__(self, make: Any, roles: tuple[str, ...] = (P, V)) -> None:
        self.twins = Twins(make)
        for order in (roles, roles[::-1]):
            self.twins.warm(make_inputs(observations()), order)
        self.passes = Passes(self.twins.cached.net)
        self._seed = 100

    def play(self, order: str) -> int:
        """Act in an order such as ``"Pa Pb Va Vb"``, each letter a new batch, and return the passes that it took."""
        calls = order.split()
        batches: dict[str, Any] = {}
        self.passes.take()
        for call in calls:
            role, name = {"P": P, "V": V, "C": "cost"}[call[0]], call[1]
            if name not in batches:
                self._seed += 1
                batches[name] = make_inputs(observations(seed=self._seed))
            self.twins.act(batches[name], role)
        return self.passes.take()


@pytest.mark.parametrize(
    ("order", "passes"),
    [
        ("Pa Va", 1),
        ("Va Pa", 1),
        ("Pa Va Pb Vb", 2),
        ("Pa Va Vb Pb", 2),
        ("Pa Va Pa Va", 2),
        ("Pa Pa Va", 2),
        ("Pa Va Va", 2),
        ("Pa Va Va Pa", 2),
        ("Pa Pb Vb", 2),
        ("Pa Vb", 2),
        ("Pa Vb Pb", 2),
        ("Va Vb Vc", 3),
    ],
)
def test_a_trunk_runs_once_for_each_pair_and_for_each_single_call(
    make: Any, grad: bool, order: str, passes: int
) -> None:
    orders = Orders(make)
    with in_grad_mode(grad):
        orders.play("Pa Va")
        assert orders.play(order) == passes


@pytest.mark.parametrize("agents", [2, 3, 16])
def test_all_policies_before_all_values_take_one_pass_per_pair_after_two_rounds(
    make: Any, grad: bool, agents: int
) -> None:
    """As for the agents of skrl 1.4's IPPO that share one model: how many calls precede the others shows at once."""
    orders = Orders(make)
    names = "abcdefghijklmnop"[:agents]
    order = " ".join([f"P{name}" for name in names] + [f"V{name}" for name in names])
    with in_grad_mode(grad):
        orders.play(order)
        orders.play(order)
        assert orders.play(order) == agents
        assert orders.play("Pa Va") == 1
        assert orders.play(order) == agents


def test_more_than_sixteen_calls_before_those_of_the_other_role_are_right_and_not_all_kept(
    make: Any, grad: bool
) -> None:
    orders = Orders(make)
    names = "abcdefghijklmnopqrstuvwxyz"
    order = " ".join([f"P{name}" for name in names] + [f"V{name}" for name in names])
    with in_grad_mode(grad):
        for _ in range(3):
            assert 26 < orders.play(order) <= 52
        assert orders.play("Pa Va") == 1


def test_three_roles_take_one_pass(make: Any, grad: bool) -> None:
    orders = Orders(three_roles, (P, V, "cost"))
    with in_grad_mode(grad):
        assert orders.play("Pa Va Ca") == 1
        assert orders.play("Ca Pa Va") == 1
        assert orders.play("Pa Va Pb Vb") == 2
        assert orders.play("Pa Pb Va Vb Ca Cb") <= 6
        orders.play("Pa Pb Va Vb Ca Cb")
        assert orders.play("Pa Pb Va Vb Ca Cb") == 2


def test_an_equal_copy_of_the_inputs_is_the_same_pair(make: Any, grad: bool) -> None:
    orders = Orders(make)
    inputs = make_inputs(observations(seed=5))
    with in_grad_mode(grad):
        orders.twins.act(inputs, P)
        orders.twins.act(make_inputs(inputs[OBSERVATIONS].clone()), V)
    assert orders.passes.take() == 1


def test_bootstrap_values_between_the_calls_of_a_pair_cost_that_pair(make: Any, grad: bool) -> None:
    """Time-limit bootstrap asks for the value of the next observations: a call of its own, no pair is mixed up."""
    orders = Orders(make)
    with in_grad_mode(grad):
        assert orders.play("Pa Va Vb Pb Vb Vc") <= 4
