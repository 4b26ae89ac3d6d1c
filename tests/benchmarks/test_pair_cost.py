"""The benchmark of a policy/value pair, in its quick form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pair_cost


def test_the_quick_form_prints_its_tables_and_saves_the_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "figures.json"
    pair_cost.main(["--quick", "--output", str(figures)])
    raw = json.loads(figures.read_text())
    text = capsys.readouterr().out
    assert raw["machine"] in text
    assert [(row["parameters"], row["grad"]) for row in raw["bookkeeping"]] == [
        (8, False),
        (8, True),
        (20, False),
        (20, True),
    ]
    assert "| 20 | yes |" in text
    for row in raw["pairs"]:
        assert row["plain"] > 0
        assert f"| {row['trunk']} | {row['batch']} | forward" in text
        assert f"| {row['cached']:.3f} ms | {row['ratio']:.2f} |" in text
    assert len(raw["pairs"]) == 4
