"""Lets torchrun start skrl's distributed runs on machines without GPUs. Import it before skrl.

skrl joins the other processes while it is imported, and by NCCL, which needs a GPU for each. Without one, that import
joins them by gloo here.
"""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not torch.cuda.is_available():
    join = dist.init_process_group

    def join_by_gloo(_: str, **kwargs: Any) -> None:
        """Take the place of ``init_process_group``, which skrl calls with NCCL as its first argument."""
        join("gloo", **kwargs)

    with mock.patch.object(dist, "init_process_group", join_by_gloo), mock.patch.object(torch.cuda, "set_device"):
        import skrl  # noqa: F401
