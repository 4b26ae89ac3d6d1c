"""The demo, in its quick form."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import demo

from ..processes import python
from .conftest import EXAMPLES

PNG = b"\x89PNG\r\n"


def test_the_quick_demo_compares_and_leaves_pictures_and_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra 'plots'")
    demo.main(["--quick", "--output", str(tmp_path)])
    for name in ("return.png", "time.png"):
        assert (tmp_path / name).read_bytes().startswith(PNG)
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["first_update_difference"] <= 1e-6
    assert results["machine"]["threads"] == 1
    assert [len(run["iterations"]) for run in results["plain"] + results["cached"]] == [3] * 6
    text = capsys.readouterr().out
    assert results["verdict"] in text
    assert "| trunk passes per policy/value pair | 2.00         | 1.0" in text
    assert text.rstrip().endswith(str(tmp_path))


def test_without_matplotlib_the_demo_names_the_missing_extra_before_it_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "demo_plots", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SystemExit, match=r'need matplotlib.*extra "plots"'):
        demo.main(["--quick", "--output", str(tmp_path)])
    assert not list(tmp_path.iterdir())


def test_a_number_that_cannot_be_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        demo.main(["--iterations", "0"])
    assert "--iterations must be at least 1, got 0" in capsys.readouterr().err


def test_the_demo_runs_as_a_script_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = [path for path in sys.path if path != str(EXAMPLES)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(elsewhere))
    assert "results.json" in python(str(EXAMPLES / "demo.py"), "--help", cwd=tmp_path)
