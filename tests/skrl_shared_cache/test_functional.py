"""What people build from torch.func and higher derivatives on a model is the same with the cache."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn as nn
from torch.func import functional_call, grad, hessian, jacfwd, stack_module_state, vmap
from torch.utils.checkpoint import checkpoint_sequential

from .support.lines import OBSERVATIONS, ActorCritic, make_inputs
from .support.pairs import A, B, refusal, warm_twins
from .support.passes import Passes
from .support.twins import Twins, assert_same
from .support.zoo import FEATURES, mlp, naive, pattern

# torch itself still uses what it deprecates
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")

X = A[OBSERVATIONS]
ROLES = ("policy", "value")
both_models = pytest.mark.parametrize("make", [naive, pattern])
both_roles = pytest.mark.parametrize("role", ROLES)


def answer(model: Any, parameters: dict[str, torch.Tensor], role: str, x: torch.Tensor) -> torch.Tensor:
    """Return a model's answer with other parameters."""
    result: torch.Tensor = functional_call(model, parameters, (make_inputs(x),), {"role": role})[0]
    return result


def value_of(model: Any, x: torch.Tensor) -> torch.Tensor:
    value: torch.Tensor = model.compute(make_inputs(x), "value")[0].sum()
    return value


def detached(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@both_models
def test_an_ensemble_of_models_in_one_call(make: Any) -> None:
    """Parameters of several copies, stacked: each member answers as the model that it was copied from."""
    twins = Twins(make)
    ensembles = []
    families = [[copy.deepcopy(model) for _ in range(3)] for model in (twins.cached, twins.plain)]
    twins.warm(A)
    for model, members in zip((twins.cached, twins.plain), families):
        for i, member in enumerate(members):
            with torch.no_grad():
                member.net[0].weight.mul_(1.0 + i)
        parameters, _ = stack_module_state(members)
        model.compute(A, "policy")
        ensembles.append(vmap(partial(answer, model), in_dims=(0, None, None))(parameters, "value", X).detach())
    assert_same(*ensembles)
    assert not torch.equal(ensembles[0][0], ensembles[0][1])
    twins.pair(A)


@both_models
def test_gradients_of_each_sample(make: Any) -> None:
    twins = warm_twins(make)

    def loss(model: Any, parameters: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return answer(model, parameters, "value", x[None]).square().sum()

    samples = []
    for model in (twins.cached, twins.plain):
        model.compute(A, "policy")
        samples.append(vmap(grad(partial(loss, model)), in_dims=(None, 0))(detached(model), X))
    assert_same(*samples)
    twins.pair(A)


@both_models
@pytest.mark.parametrize("derivative", [jacfwd, hessian])
def test_derivatives_by_the_observations(make: Any, derivative: Any) -> None:
    twins = warm_twins(make)
    twins.each(lambda model: model.compute(A, "policy"))
    assert_same(*(derivative(partial(value_of, model))(X).detach() for model in (twins.cached, twins.plain)))
    assert refusal(twins, B) is None


@both_models
def test_a_gradient_of_a_gradient(make: Any) -> None:
    """A gradient penalty: the graph of the first backward is kept and differentiated."""
    twins = warm_twins(make)
    for inputs in (A, B, A):
        for model in (twins.cached, twins.plain):
            model.zero_grad()
            x = inputs[OBSERVATIONS].clone().requires_grad_()
            total = sum(model.compute(make_inputs(x), role)[0].square().sum() for role in ROLES)
            (slope,) = torch.autograd.grad(torch.as_tensor(total), x, create_graph=True)
            (slope.square().sum() + total).backward()
        twins.assert_same_gradients()
        twins.pair(inputs)


@both_roles
def test_a_product_with_the_hessian_of_the_parameters(role: str) -> None:
    """What TRPO does, beside a value that came from the same pass."""
    twins = warm_twins()
    products = []
    for model in (twins.cached, twins.plain):
        outputs = {each: model.compute(A, each)[0] for each in ROLES}
        parameters = list(model.net.parameters())
        first = torch.autograd.grad(outputs[role].square().mean(), parameters, create_graph=True)
        product = sum((each * torch.ones_like(each)).sum() for each in first)
        products.append(torch.autograd.grad(torch.as_tensor(product), parameters))
    for cached, plain in zip(*products, strict=True):
        torch.testing.assert_close(cached, plain, rtol=1e-5, atol=1e-7)


def test_a_transform_within_compute() -> None:
    """A trunk that is mapped over the rows of the batch, in every role."""

    def make(base: Any) -> Any:
        class Mapped(ActorCritic, base):
            def __init__(self) -> None:
                ActorCritic.__init__(self, base)
                self.net = mlp()
                self.add_heads(FEATURES)

            def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
                return self.answer(vmap(self.net)(inputs[OBSERVATIONS]), role, inputs)

        return Mapped()

    twins = Twins(make)
    for inputs in (A, B) * 3:
        twins.learn(inputs)
    assert twins.cached.cache_info().hits == 0
    assert "functorch transform" in twins.cached.cache_info().reasons


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning")
@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "not reentrant"])
def test_a_trunk_of_checkpointed_segments_runs_once_forward_and_once_in_the_backward(reentrant: bool) -> None:
    class Segments(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = mlp()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            features: torch.Tensor = checkpoint_sequential(self.layers, 2, x, use_reentrant=reentrant)
            return features

    twins = warm_twins(partial(naive, trunk=Segments), make_inputs(X.clone().requires_grad_()))
    passes = Passes(twins.cached.net)
    twins.learn(make_inputs(B[OBSERVATIONS].clone().requires_grad_()))
    assert passes.take() == 2
