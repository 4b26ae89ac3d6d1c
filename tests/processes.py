"""A fresh interpreter, for what cannot be seen from within the test process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HANGS = 600  # seconds: far more than any of them takes


def python(*arguments: str, cwd: Path | None = None) -> str:
    """Run Python with these arguments and return what it printed; fail with all of its output if it fails or hangs."""
    result = subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=HANGS)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
