"""One policy/value pair with something in between, and what the cache made of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .lines import make_inputs
from .twins import Make, Twins
from .zoo import naive, observations

A, B = (make_inputs(observations(seed=seed)) for seed in (1, 2))


def nothing() -> None:
    """Do nothing between the calls."""


def warm_twins(make: Make = naive, inputs: dict[str, Any] = A, roles: tuple[str, ...] = ("policy", "value")) -> Twins:
    """Return twins of which the cached one serves its hits without verifying them, in every mode."""
    twins = Twins(make)
    twins.warm(inputs, roles)
    assert refusal(twins, inputs, roles=roles) is None, "an ordinary pair does not hit"
    twins.plain.load_state_dict(twins.cached.state_dict())  # the twin has updated a BatchNorm twice
    return twins


def refusal(
    twins: Twins,
    inputs: dict[str, Any] = A,
    value_inputs: dict[str, Any] | None = None,
    between: Callable[[], Any] = nothing,
    roles: tuple[str, ...] = ("policy", "value"),
) -> str | None:
    """Let both act as one role, do something, let both act as the other, and assert the same outputs.

    :param twins: Twins.
    :param inputs: Inputs of the first role.
    :param value_inputs: Inputs of the last role. If ``None``, the very same.
    :param between: What happens in between. It has to happen to both models, and may write into the inputs.
    :param roles: Roles. The outcome is that of the last one.

    :return: ``None`` if the last role was served from the cache, else the reason that the cache gave, or ``"no entry"``
        if it gave none.
    """
    for role in roles[:-1]:
        twins.act(inputs, role)
    between()
    before = twins.cached.cache_info()
    twins.act(inputs if value_inputs is None else value_inputs, roles[-1])
    after = twins.cached.cache_info()
    if after.hits > before.hits:
        assert after.misses == before.misses
        return None
    reasons = [reason for reason, count in after.reasons.items() if count > before.reasons.get(reason, 0)]
    return ", ".join(reasons) or "no entry"


def in_grad_mode(enabled: bool) -> Any:
    """Return a context in which grad mode is as given."""
    return torch.enable_grad() if enabled else torch.no_grad()
