"""The README and the pages of docs/: their code runs, their links lead somewhere, and their quotes are quotes."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from skrl.utils.model_instantiators.torch import shared

from .skrl_shared_cache.support.lines import SKRL_2

ROOT = Path(__file__).parents[1]
TEXTS = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in (ROOT / "README.md", *ROOT.glob("docs/*.md"))
}
TROUBLESHOOTING = TEXTS["docs/troubleshooting.md"]

all_pages = pytest.mark.parametrize("page", TEXTS)


def blocks(page: str) -> list[tuple[str, str, int]]:
    """Return the language and the text of each block of code, and the number of lines before it."""
    text = TEXTS[page]
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(block[1], block[2], text.count("\n", 0, block.start(2))) for block in found]


def for_installed_line(code: str) -> str:
    """Put in what the comments say for skrl 1.4."""
    return code if SKRL_2 else re.sub(r"^( *).*# skrl 1\.4: (.*)$", r"\1\2", code, flags=re.MULTILINE)


def without_versions(text: str) -> str:
    """Leave out what is another on each machine."""
    return re.sub(r"skrl [\d.]+, torch [\w.+]+, Python [\d.]+", "versions", text)


def anchors(text: str) -> set[str]:
    """Return the names by which the headings of a page can be linked to."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def quotable() -> list[str]:
    """Return the strings in the package's source."""
    trees = (ast.parse(path.read_text("utf-8")) for path in ROOT.glob("skrl_shared_cache/*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [node.value.replace("{}", "…").replace("{!r}", "…") for node in nodes if isinstance(node.value, str)]


def is_quoted(message: str) -> bool:
    """Whether each part of a message, between dots and colons, occurs in the package's source."""
    strings = quotable()
    return all(any(part.strip() in string for string in strings) for part in re.split("…|: ", message))


@pytest.mark.parametrize("page", [page for page in TEXTS if "```python" in TEXTS[page]])
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(
    page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shared, "Model", shared.Model)  # a page exchanges it
    namespace: dict[str, Any] = {"__name__": "page"}
    printed = ""
    for language, text, lines_before in blocks(page):
        if language == "python":
            assert not printed, f"no block says that this is printed: {printed}"
            exec(compile("\n" * lines_before + for_installed_line(text), ROOT / page, "exec"), namespace)
            printed = capsys.readouterr().out
        elif language == "text":
            assert without_versions(printed) == without_versions(text)
            printed = ""
    assert not printed


@all_pages
def test_every_link_leads_to_a_file_and_to_a_heading_in_it(page: str) -> None:
    prose = re.sub(r"^```.*?^```$", "", TEXTS[page], flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\((?!https?:)([^)]*)\)", prose):
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target.read_text("utf-8")), link


@all_pages
def test_every_make_target_and_every_example_that_is_named_is_there(page: str) -> None:
    targets = re.findall(r"^([a-z0-9.-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"`make ([a-z0-9.-]+)`", TEXTS[page])) <= set(targets)
    for example in re.findall(r"`((?:examples|benchmarks|tests)/[\w/]+\.py)", TEXTS[page]):
        assert (ROOT / example).is_file(), example


@pytest.mark.parametrize("message", re.findall(r"^### (.*)$", TROUBLESHOOTING, re.MULTILINE))
def test_every_message_that_is_explained_is_one_of_the_package(message: str) -> None:
    assert is_quoted(message)


@pytest.mark.parametrize(
    "reason",
    [
        reason
        for row in re.findall(r"^\| (`.*?) \|", TROUBLESHOOTING, re.MULTILINE)
        for reason in re.findall(r"`([^`]*)`", row)
    ],
)
def test_every_reason_that_is_explained_is_one_of_the_package(reason: str) -> None:
    assert is_quoted(reason.removesuffix(" changed")) or is_quoted(reason)


def test_a_message_that_is_not_the_packages_is_noticed() -> None:
    assert is_quoted("….shared_modules names …, which the model does not have")
    assert not is_quoted("….shared_modules names …, which the model lacks")
