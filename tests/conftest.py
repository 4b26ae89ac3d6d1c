"""What every test starts from: one thread, fixed seeds, and hypothesis without a clock."""

from __future__ import annotations

import logging
import os
import random
from importlib.metadata import version

import hypothesis
import numpy as np
import pytest
import torch

# Two test processes share the cores, and bits must not depend on how a sum is split over threads.
torch.set_num_threads(1)

# Deadlines measure the machine. Development searches anew in each run; CI must not turn red by chance.
hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")


class _TorchGenerator:
    """torch's default generator as hypothesis asks for it, so that a failing example fails again when replayed."""

    seed = staticmethod(torch.manual_seed)
    getstate = staticmethod(torch.get_rng_state)
    setstate = staticmethod(torch.set_rng_state)


_TORCH_GENERATOR = _TorchGenerator()  # hypothesis refers to it weakly
hypothesis.register_random(_TORCH_GENERATOR)


def pytest_unconfigure() -> None:
    """Let skrl's trainers, which log when the interpreter exits, find a stream that is closed without a word."""
    logging.raiseExceptions = False


def pytest_report_header() -> str:
    """Name the versions under test: one suite runs on both lines of skrl."""
    return f"skrl {version('skrl')}, torch {torch.__version__}"


@pytest.fixture(autouse=True)
def _fixed_seeds() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
