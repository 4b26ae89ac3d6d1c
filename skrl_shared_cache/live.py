"""The memos that hold entries now, and the optimizer steps that end those.

Fused optimizers write parameters without moving their version counters: only the step itself tells. Normally no
entry lives when one happens, since the backward before it has dropped them. Other optimizers are noticed by the version
counters, and this way as well. The hooks run before the step and after it: one of the user's own comes in between.
"""

from __future__ import annotations

import weakref
from typing import Any, Protocol

from torch._compile import _disable_dynamo
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook


class Live(Protocol):
    """What keeps entries: the memory of a trunk, or of a preprocessor."""

    def drop(self, reason: str) -> None:
        """Forget every entry."""


memos: dict[int, weakref.ref[Live]] = {}
"""Those that have begun an entry since the last step, by their id."""


def reference_to(memo: Live) -> weakref.ref[Live]:
    """Refer to a memo without holding it.

    :param memo: Memo.

    :return: Weak reference. When the memo dies, it counts as live no more.
    """
    key = id(memo)
    return weakref.ref(memo, lambda reference: memos.pop(key, None))


def drop(reason: str) -> None:
    """Forget every entry of every memo.

    :param reason: A few words: what the next refused lookup reports.
    """
    for key, reference in list(memos.items()):  # other threads may add some meanwhile
        memos.pop(key, None)  # before the drop: what begins from now on is noted again
        memo = reference()
        if memo is not None:
            memo.drop(reason)


@_disable_dynamo  # a compiled step would trace it, while others write into `memos`
def _drop_at_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    drop("parameters changed")


register_optimizer_step_pre_hook(_drop_at_step)
register_optimizer_step_post_hook(_drop_at_step)
