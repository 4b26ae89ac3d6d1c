"""The backends that can be tested here."""

from __future__ import annotations

import importlib.util

import pytest

HAS_NUMBA = importlib.util.find_spec("numba") is not None
needs_numba = pytest.mark.skipif(not HAS_NUMBA, reason="numba is not installed")
BACKENDS = ["torch", pytest.param("numba", marks=needs_numba)]
INSTALLED = ["torch", "numba"] if HAS_NUMBA else ["torch"]
