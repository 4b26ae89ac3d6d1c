"""What the cache did for the last pair, in words: to read, and to paste into a bug report."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import NamedTuple

import skrl
import torch
from torch import nn

from skrl_shared_cache.info import CacheInfo
from skrl_shared_cache.memo import PROBATION, Memo


class Trunk(NamedTuple):
    """What a model may share."""

    memo: Memo
    description: str
    root: nn.Module
    """Module whose parameters and buffers it depends on."""


def explain(title: str, info: CacheInfo, trunks: list[Trunk]) -> str:
    """Write the explanation.

    :param title: First words: the model and the mode of its cache.
    :param info: Statistics of its cache.
    :param trunks: What it may share.

    :return: Text of several lines.
    """
    lines = [
        f"{title}: {info.trunk_passes_per_pair:.2f} trunk passes per pair "
        f"({info.hits} hits, {info.misses} misses, {info.bypasses} bypasses)",
        f"skrl {skrl.__version__}, torch {torch.__version__}, Python {platform.python_version()}",
    ]
    for trunk in trunks:
        lines += [f"`{trunk.memo.name}` ({trunk.description}): {_status(trunk.memo)}", *_last_pair(trunk)]
    if not any(trunk.memo.is_shared for trunk in trunks):
        lines.append("Nothing is shared: no child module was called by two roles, and `shared_modules` names none.")
    if info.reasons:
        counts = sorted(info.reasons.items(), key=lambda item: -item[1])
        lines.append("Not shared so far: " + ", ".join(f"{reason} ({count})" for reason, count in counts))
    return "\n".join(lines)


def _status(memo: Memo) -> str:
    roles = ", ".join(sorted(map(repr, memo.roles)))
    if memo.refusal:
        return f"left alone, since {memo.refusal}"
    if memo.is_shared:
        return f"shared by {roles}" if roles else "named, not called yet"
    return f"called by {roles} only" if roles else "not called yet"


def _last_pair(trunk: Trunk) -> Iterator[str]:
    memo = trunk.memo
    events = memo.events()
    if not events or memo.refusal:
        return
    for role, what in events:
        yield f"    {role!r} {what}"
    yield f"    compared with the pass before: inputs, output, mode, {memo.describe(trunk.root)}"
    for (role, (training, grad)), count in memo.trials().items():
        if count < PROBATION:
            mode = f"{'train' if training else 'eval'} mode, {'with' if grad else 'without'} grad"
            yield f"    {role!r} has passed {count} of {PROBATION} comparisons of its probation in {mode}"
