"""Whatever happens in whatever order, a cached model and its uncached twin return the same."""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from . import test_trunk_kinds as kinds
from .support.machine import AnyOrder
from .support.subjects import (
    Subject,
    features_as_output,
    in_place_heads,
    in_place_trunk,
    model_in_a_model,
    normalized_and_dropped,
)
from .support.twins import Make
from .support.zoo import generated, naive, pattern, recurrent


def subject(make: Make, inputs: str = "flat", **kwargs: Any) -> Subject:
    """Return a subject with inputs of that kind."""
    return Subject(make, partial(kinds.batch, kinds.Kind(make, inputs=inputs)), **kwargs)


SUBJECTS = {
    "naive": subject(naive),
    "pattern": subject(pattern, is_unit=True),
    "generated": subject(generated, is_unit=True),
    "batch normalization and dropout": subject(normalized_and_dropped, is_random=True, has_batch_norm=True),
    "in-place heads": subject(in_place_heads),
    "in-place trunk": subject(in_place_trunk, never_hits=True),
    "features as output": subject(features_as_output),
    "functional glue": subject(kinds.functional_glue),
    "camera and body": subject(kinds.camera_and_body, inputs="camera and body"),
    "camera and body, pattern": subject(kinds.camera_and_body_pattern, inputs="camera and body", is_unit=True),
    "siamese": subject(kinds.siamese),
    "one activation": subject(kinds.one_activation),
    "LSTM": subject(recurrent, inputs="rnn"),
    "LSTM in a named method": subject(kinds.lstm_method, inputs="rnn", is_unit=True),
    "named method": subject(kinds.named_method, is_unit=True),
    "self.shared": subject(kinds.shared_call, is_unit=True),
    "nested": subject(kinds.nested_inputs, inputs="nested"),
    "heads that share a submodule": subject(kinds.heads_that_share),
    "model in a model": subject(model_in_a_model),
    "three roles": subject(kinds.three_roles, roles=("policy", "value", "cost")),
}

EXAMPLES = int(os.environ.get("ANY_ORDER_EXAMPLES", "40"))
"""Sequences of operations for each model. A long search takes some thousands."""


def machine_for(subject: Subject) -> type[AnyOrder]:
    """Return a machine that runs a subject."""
    return type("Machine", (AnyOrder,), {"subject": subject, "tally": Counter()})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)
def test_any_order_of_operations_returns_what_the_model_returns_without_the_cache(subject: Subject) -> None:
    machine = machine_for(subject)
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=EXAMPLES, stateful_step_count=40, suppress_health_check=list(HealthCheck)),
    )
    hits = machine.tally["hits"]
    assert hits == 0 if subject.never_hits else hits > EXAMPLES
