"""The trunk itself: its parameters, buffers, training flags and submodules must be those of the policy's pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn as nn
import torch.nn.utils.parametrize as parametrize
from torch.nn.utils import parameters_to_vector, parametrizations, prune, vector_to_parameters

from .support.lines import OBSERVATIONS, make_inputs
from .support.pairs import A, B, in_grad_mode, refusal, warm_twins
from .support.twins import Twins, TwoPass, build
from .support.zoo import FEATURES, OBSERVATION_SIZE, mlp, naive, observations, pattern

Change = Callable[[Any], Any]

CHANGED, BUFFERS = "parameters changed", "buffers changed"
MODE = "train/eval mode changed"


def donor() -> nn.Sequential:
    """Return a trunk with other weights, the same for both twins."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(9)
        return mlp()


def write(model: Any) -> None:
    with torch.no_grad():
        model.net[0].weight.mul_(2.0)


def set_data(model: Any) -> None:
    model.net[0].weight.data = 2.0 * model.net[0].weight.data


def double_by_vector(model: Any) -> None:
    vector_to_parameters(2.0 * parameters_to_vector(model.net.parameters()), model.net.parameters())


def round_to_half(model: Any) -> None:
    model.net.half().float()


def swap(model: Any) -> None:
    torch.utils.swap_tensors(model.net[0].weight, nn.Parameter(2.0 * model.net[0].weight.detach()))


def replace_parameter(model: Any) -> None:
    model.net[0].weight = nn.Parameter(2.0 * model.net[0].weight.detach())


def delete_bias(model: Any) -> None:
    model.net[0].bias = None


def load(model: Any) -> None:
    model.net.load_state_dict(donor().state_dict())


def load_by_assignment(model: Any) -> None:
    model.net.load_state_dict(donor().state_dict(), assign=True)


def initialize(model: Any) -> None:
    model.init_parameters("constant_", val=0.1)


def initialize_with_torch(model: Any) -> None:
    nn.init.constant_(model.net[0].weight, 0.1)


def replace_layer(model: Any) -> None:
    model.net[0] = donor()[0]


def replace_activation(model: Any) -> None:
    model.net[1] = nn.Tanh()


def append_layer(model: Any) -> None:
    model.net.append(nn.Tanh())


def delete_layer(model: Any) -> None:
    del model.net[3]


def normalize_weight(model: Any) -> None:
    parametrizations.weight_norm(model.net[0])
    with torch.no_grad():
        model.net[0].parametrizations.weight.original0.mul_(2.0)


def prune_weight(model: Any) -> None:
    prune.l1_unstructured(model.net[0], "weight", 0.5)


CHANGES: list[Change] = [
    write,
    set_data,
    double_by_vector,
    round_to_half,
    replace_parameter,
    delete_bias,
    load,
    load_by_assignment,
    initialize,
    initialize_with_torch,
    replace_layer,
    replace_activation,
    append_layer,
    delete_layer,
    normalize_weight,
    prune_weight,
]


AGAIN: dict[str, Change] = {
    "the same object": lambda x: x,
    "another view": lambda x: x.view(-1, OBSERVATION_SIZE),
    "an equal copy": torch.clone,
}


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no grad"])
@pytest.mark.parametrize("again", AGAIN.values(), ids=AGAIN)
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_trunk_runs_again(change: Change, again: Change, grad: bool) -> None:
    """In whichever way the observations are recognized."""
    twins = warm_twins()
    with in_grad_mode(grad):
        assert refusal(twins, A, make_inputs(again(A[OBSERVATIONS]))) is None
        assert refusal(twins, B, make_inputs(again(B[OBSERVATIONS])), lambda: twins.each(change)) == CHANGED
        assert refusal(twins, A) is None


def test_swapped_parameters_do_not_hit() -> None:
    """torch refuses to swap a tensor that a graph holds, so there is none here."""
    twins = Twins(naive)
    twins.each(lambda model: model.eval())
    with torch.no_grad():
        for _ in range(4):
            twins.pair(A)
        assert refusal(twins, A) is None
        assert refusal(twins, B, between=lambda: twins.each(swap)) == CHANGED


def test_another_trunk_in_its_place_does_not_hit() -> None:
    twins = warm_twins()
    refusal(twins, between=lambda: twins.each(lambda model: setattr(model, "net", donor())))
    twins.warm(A)
    assert refusal(twins, B) is None


def test_a_trunk_that_was_exchanged_and_put_back_does_not_hit_with_what_it_returned_before() -> None:
    twins = warm_twins()
    trunks = [model.net for model in (twins.cached, twins.plain)]

    def exchange_and_write() -> None:
        twins.each(lambda model: setattr(model, "net", donor()))
        for model, trunk in zip((twins.cached, twins.plain), trunks):
            with torch.no_grad():
                trunk[0].weight.mul_(2.0)
            model.net = trunk

    assert refusal(twins, between=exchange_and_write) == CHANGED


@pytest.mark.parametrize("frozen_role", ["policy", "value"])
def test_a_parameter_that_began_or_ceased_to_require_grad_does_not_hit(frozen_role: str) -> None:
    twins = warm_twins()
    weights = [model.net[0].weight for model in (twins.cached, twins.plain)]
    for weight in weights:
        weight.requires_grad_(frozen_role == "value")

    def flip() -> None:
        for weight in weights:
            weight.requires_grad_(not weight.requires_grad)

    assert refusal(twins, between=flip) == CHANGED


def test_a_parameter_may_cease_to_require_grad_where_grad_mode_is_off() -> None:
    twins = warm_twins()
    with torch.no_grad():
        freeze = partial(twins.each, lambda model: model.net.requires_grad_(False))
        assert refusal(twins, between=freeze) is None


def test_gradients_of_a_parameter_that_was_frozen_between_the_calls() -> None:
    """The value's loss must not reach a weight that was frozen before the value was asked for."""
    twins = warm_twins()
    for model in (twins.cached, twins.plain):
        model.zero_grad()
    twins.act(A, "policy")
    twins.each(lambda model: model.net[0].weight.requires_grad_(False))
    for values, _, _ in twins.act(A, "value"):
        values.sum().backward()
    twins.assert_same_gradients()


def test_functional_call_with_other_parameters_does_not_hit() -> None:
    twins = warm_twins()
    other = dict(build(naive, TwoPass, seed=5).named_parameters())

    def value_with_other_parameters(model: Any) -> torch.Tensor:
        result = torch.func.functional_call(model, other, (A,), {"role": "value"})
        value: torch.Tensor = result[0]
        return value

    with torch.no_grad():
        twins.act(A, "policy")
        assert torch.equal(*(value_with_other_parameters(model) for model in (twins.cached, twins.plain)))
        assert twins.cached.cache_info().last_miss == CHANGED
        twins.act(A, "value")


def test_functional_call_of_a_pair_hits() -> None:
    twins = warm_twins()
    other = {name: parameter * 1.0 for name, parameter in build(naive, TwoPass, seed=5).named_parameters()}
    hits = twins.cached.cache_info().hits
    for role in ("policy", "value"):
        torch.manual_seed(0)
        torch.func.functional_call(twins.cached, other, (A,), {"role": role})
    assert twins.cached.cache_info().hits == hits + 1
    twins.pair(A)


def test_a_cached_parametrization_is_no_obstacle() -> None:
    """Within ``parametrize.cached`` a parametrized weight is computed once, whatever happens to its original."""
    twins = Twins(partial(naive, trunk=lambda: nn.Sequential(parametrizations.orthogonal(nn.Linear(6, FEATURES)))))
    for seed in range(5):
        with parametrize.cached():
            twins.pair(make_inputs(observations(seed=seed)))
    assert refusal(twins, A) is None


def batch_norm() -> nn.Sequential:
    return nn.Sequential(nn.Linear(OBSERVATION_SIZE, FEATURES), nn.BatchNorm1d(FEATURES), nn.ELU())


def write_buffer(model: Any) -> None:
    model.net[1].running_mean.add_(1.0)


def rebind_buffer(model: Any) -> None:
    model.net[1].running_mean = model.net[1].running_mean + 1.0


def set_data_of_buffer(model: Any) -> None:
    model.net[1].running_mean.data = model.net[1].running_mean + 1.0


def reset_statistics(model: Any) -> None:
    model.net[1].reset_running_stats()


def delete_statistics(model: Any) -> None:
    model.net[1].running_mean = model.net[1].running_var = None


def learn_statistics(model: Any) -> None:
    model.net.train()
    model.net(B[OBSERVATIONS])
    model.net.eval()


@pytest.mark.parametrize(
    "change",
    [write_buffer, rebind_buffer, set_data_of_buffer, reset_statistics, delete_statistics, learn_statistics],
)
def test_a_trunk_with_changed_buffers_runs_again(change: Change) -> None:
    twins = warm_twins(partial(naive, trunk=batch_norm))
    twins.train(False)
    assert refusal(twins) is None
    assert refusal(twins, between=lambda: twins.each(change)) == BUFFERS


def test_a_buffer_that_the_pass_itself_writes_is_no_change() -> None:
    """In training, batch normalization writes its statistics at every pass."""
    twins = warm_twins(partial(naive, trunk=batch_norm))
    assert refusal(twins) is None


def test_a_buffer_that_is_written_after_the_pass_is_a_change_in_training_too() -> None:
    class Shifting(nn.Module):
        """A trunk with a buffer that every pass reads, and writes in training."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = mlp()
            self.shift: torch.Tensor
            self.register_buffer("shift", torch.zeros(FEATURES))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            features: torch.Tensor = self.layers(x) + self.shift.clone()
            if self.training:
                self.shift.mul_(0.0)
            return features

    twins = warm_twins(partial(naive, trunk=Shifting))
    assert refusal(twins) is None
    assert refusal(twins, between=lambda: twins.each(lambda model: model.net.shift.add_(1.0))) == BUFFERS


def test_a_buffer_that_is_registered_in_between_is_a_change() -> None:
    class Scaling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = mlp()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            features: torch.Tensor = self.layers(x)
            return features * getattr(self, "scale", 1.0)

    twins = warm_twins(partial(naive, trunk=Scaling))
    register = partial(twins.each, lambda model: model.net.register_buffer("scale", torch.tensor(2.0)))
    assert refusal(twins, A, between=register) == CHANGED
    assert refusal(twins, B) is None


def dropout() -> nn.Sequential:
    return nn.Sequential(nn.Linear(OBSERVATION_SIZE, FEATURES), nn.Dropout(0.5), nn.ELU())


@pytest.mark.parametrize("trunk", [dropout, batch_norm])
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("part", ["net", "net.1"], ids=["whole trunk", "one submodule"])
def test_a_trunk_in_another_training_mode_runs_again(trunk: Callable[[], nn.Module], before: bool, part: str) -> None:
    twins = warm_twins(partial(naive, trunk=trunk))
    twins.train(before)
    flip = partial(twins.each, lambda model: model.get_submodule(part).train(not before))
    assert refusal(twins) is None
    twins.plain.load_state_dict(twins.cached.state_dict())
    assert refusal(twins, between=flip) == MODE


@pytest.mark.parametrize("make", [naive, pattern])
def test_heads_may_change_between_the_calls(make: Any) -> None:
    """They are not part of the trunk, and not memoized."""
    twins = warm_twins(make)

    def double(model: Any) -> None:
        with torch.no_grad():
            model.value_head.weight.mul_(2.0)

    assert refusal(twins, between=lambda: twins.each(double)) is None


def test_an_address_is_not_taken_for_the_memory_that_was_there_before() -> None:
    """``p.data = other`` frees the old memory, which the next tensor of that size gets: same version, same address."""
    twins = warm_twins()
    size = twins.cached.net[0].weight.shape

    def exchange(model: Any) -> None:
        weight = model.net[0].weight
        address = weight.data_ptr()
        weight.data = torch.zeros(size)
        others = [torch.ones(size) for _ in range(100)]
        weight.data = next((other for other in others if other.data_ptr() == address), others[0])

    with torch.no_grad():
        for seed in range(10):
            assert refusal(twins, make_inputs(observations(seed=seed)), between=lambda: twins.each(exchange)) == CHANGED
