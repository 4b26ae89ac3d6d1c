"""The memos that hold entries now, and the optimizer steps that end those.

Fused optimizers write parameters without moving their version counters: only the step itself tells. Normally no
entry lives when one happens, since the backward before it has dropped them. Other optimizers are noticed by the version
counters, and this way as well. The hooks run before the step and after it: one of the user's own comes in between.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

if TYPE_CHECKING:
    from skrl_shared_cache.memo import Memo

memos: weakref.WeakSet[Memo] = weakref.WeakSet()
"""Those that have stored an entry since the last step."""


def _drop_at_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    for memo in list(memos):
        memo.is_live = False
        memo.drop("parameters changed")
    memos.clear()


register_optimizer_step_pre_hook(_drop_at_step)
register_optimizer_step_post_hook(_drop_at_step)
