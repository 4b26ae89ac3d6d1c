"""What explain_cache prints: for each trunk, what the roles met with in the last pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn as nn

from skrl_shared_cache import SharedModel

from .support.lines import OBSERVATIONS, ActorCritic, act, make_inputs
from .support.pairs import A, B
from .support.twins import build
from .support.zoo import FEATURES, mlp, naive, observations


def explained(model: Any, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    model.explain_cache()
    return [line.strip() for line in capsys.readouterr().out.splitlines()]


def pair(model: Any, inputs: dict[str, Any], value_inputs: dict[str, Any] | None = None) -> None:
    act(model, inputs, "policy")
    act(model, inputs if value_inputs is None else value_inputs, "value")


@pytest.fixture
def model() -> Iterator[Any]:
    """A model that has passed its probation without grad."""
    model: Any = build(naive, SharedModel)
    with torch.no_grad():
        for seed in range(6):
            pair(model, make_inputs(observations(seed=seed)))
        yield model


def test_a_pair_that_hits(model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pair(model, A)
    lines = explained(model, capsys)
    assert "`net` (child module Sequential): shared by 'policy', 'value'" in lines
    assert lines.index("'policy' ran: the first call of a pair") < lines.index(
        "'value' hit: the same tensors, and nothing has changed"
    )
    count = len(list(model.net.parameters()))
    modules = len(list(model.net.modules()))
    assert any(f"{count} parameters, 0 buffers and train/eval flags of {modules} modules" in line for line in lines)


def test_a_pair_of_equal_tensors(model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pair(model, A, make_inputs(A[OBSERVATIONS].clone()))
    assert any(line.startswith("'value' hit: other tensors with the same bits") for line in explained(model, capsys))


def halve(model: Any) -> None:
    model.net[0].weight.mul_(0.5)


REASONS: dict[str, tuple[Callable[[Any], Any], dict[str, Any], str]] = {
    "parameters": (halve, A, "'value' ran again: parameters changed"),
    "flags": (lambda model: model.net.eval(), A, "'value' ran again: train/eval mode changed"),
    "inputs": (lambda model: None, B, "'value' ran again: inputs differ (got other tensors of the same form: [5, 6] "),
    "shapes": (
        lambda model: None,
        make_inputs(observations(batch=2)),
        "'value' ran again: inputs differ (got [2, 6] torch.float32; kept [5, 6] torch.float32)",
    ),
}


@pytest.mark.parametrize(("change", "value_inputs", "line"), REASONS.values(), ids=REASONS)
def test_the_reason_of_a_refusal(
    model: Any, change: Any, value_inputs: Any, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model.train()
    pair(model, A)
    pair(model, A)
    act(model, A, "policy")
    change(model)
    act(model, value_inputs, "value")
    lines = explained(model, capsys)
    assert any(each.startswith(line) for each in lines), lines
    assert any(each.startswith("Not shared so far: ") and line.split(": ")[1].split(" (")[0] in each for each in lines)


def test_a_bypass(model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with torch.inference_mode():
        act(model, A, "policy")
    assert "'policy' bypassed the cache: inference mode" in explained(model, capsys)


def test_probation(model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with torch.enable_grad():
        pair(model, A)
    lines = explained(model, capsys)
    assert "'value' ran on probation: compared with the pass that it could have got" in lines
    assert "'value' has passed 1 of 2 comparisons of its probation in train mode, with grad" in lines


@pytest.mark.filterwarnings("ignore::skrl_shared_cache.SharedCacheWarning")
def test_a_trunk_that_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    class ByRole(ActorCritic, SharedModel):
        def __init__(self) -> None:
            ActorCritic.__init__(self, SharedModel)
            self.net: Any = mlp()
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            self.net[0].weight.data[0] = float(len(role))  # no version counter moves
            return self.answer(self.net(inputs[OBSERVATIONS]), role, inputs)

    model = ByRole()
    for _ in range(6):
        pair(model, A)
    assert any(
        line.startswith("`net` (child module Sequential): left alone, since ") for line in explained(model, capsys)
    )


def test_separate_networks(capsys: pytest.CaptureFixture[str]) -> None:
    class Separate(ActorCritic, SharedModel):
        def __init__(self) -> None:
            ActorCritic.__init__(self, SharedModel)
            self.nets = nn.ModuleDict({"policy": mlp(), "value": mlp()})
            self.add_heads(FEATURES)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Any, ...]:
            return self.answer(self.nets[role](inputs[OBSERVATIONS]), role, inputs)

    model = Separate()
    assert "Nothing is shared" in explained(model, capsys)[-1]
    pair(model, A)
    lines = explained(model, capsys)
    assert "`nets.policy` (child module Sequential): called by 'policy' only" in lines
    assert "Nothing is shared" in lines[-1]
