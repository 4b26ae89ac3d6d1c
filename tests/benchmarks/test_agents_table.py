"""The table of docs/agents.md: what it says about the installed line of skrl is what is measured now."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import agents_table
from skrl_shared_cache import conditions


def test_the_table_of_the_page_is_what_is_measured_now() -> None:
    assert agents_table.table_of_page().splitlines() == agents_table.table().splitlines()


def test_the_other_line_and_the_text_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, text = tmp_path / "page.md", agents_table.PAGE.read_text("utf-8")
    old = agents_table.table_of_page()
    page.write_text(text.replace(old, "| old |"), "utf-8")
    monkeypatch.setattr(agents_table, "PAGE", page)
    monkeypatch.setattr(agents_table, "table", lambda: old)
    agents_table.main([])
    assert page.read_text("utf-8") == text


def test_a_page_without_a_place_for_the_table_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("no table")
    monkeypatch.setattr(agents_table, "PAGE", page)
    with pytest.raises(ValueError, match=r"page\.md must have a place for the table"):
        agents_table.table_of_page()


def test_comparisons_are_told_apart() -> None:
    x = torch.randn(3, 4)
    with agents_table.watched_comparisons() as counts:
        is_alias, equals = (getattr(conditions, name) for name in agents_table.COMPARISONS)
        assert is_alias(x.view(-1, 4), x)
        assert equals(x, x.clone())
        assert not equals(x, x + 1.0)
    assert counts == {"view": 1, "bits": 1}
