"""The diffs of docs/migrating.md: applied to the scripts above them, these print what the page says."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from .test_readme import blocks, for_installed_line

PAGE = "docs/migrating.md"


class Step(NamedTuple):
    """A script of the page, what changes it, and what it prints then."""

    script: str
    diff: str
    output: str


def steps() -> list[Step]:
    """Return the scripts of the page that a diff follows. Each stands on the ones before it, unchanged."""
    before, script, diff, found = "", "", "", []
    for language, text, _ in blocks(PAGE):
        if language == "python":
            before, script = before + script, text
        elif language == "diff":
            diff = text
        elif language == "output":
            found.append(Step(before + "# begin\n" + script, diff, text))
    return found


def apply(diff: str, script: str) -> str:
    """Apply a diff without line numbers: what it takes and keeps must stand in the script as one piece.

    :raises ValueError: If it does not.
    """
    lines = diff.splitlines()
    old = "\n".join(line[1:] for line in lines if line[0] in " -")
    new = "\n".join(line[1:] for line in lines if line[0] in " +")
    if script.count(old) != 1:
        raise ValueError(f"stands {script.count(old)} times in the script:\n{old}")
    return script.replace(old, new)


def run(script: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a script and return what its last part prints."""
    first, _, last = script.partition("# begin\n")
    namespace: dict[str, Any] = {"__name__": "page"}
    exec(compile(for_installed_line(first), PAGE, "exec"), namespace)
    capsys.readouterr()
    exec(compile(for_installed_line(last), PAGE, "exec"), namespace)
    return capsys.readouterr().out


@pytest.mark.parametrize("step", steps(), ids=["plain model", "_shared_output", "YAML", "Isaac Lab"])
def test_a_script_with_its_diff_prints_what_the_page_says(step: Step, capsys: pytest.CaptureFixture[str]) -> None:
    before, marker, script = step.script.partition("# begin\n")
    assert run(before + marker + apply(step.diff, script), capsys) == step.output


def test_a_diff_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(ValueError, match="stands 0 times"):
        apply("-three\n+3\n", "one\ntwo\n")
    assert apply(" one\n-two\n+2\n", "one\ntwo\nthree\n") == "one\n2\nthree\n"
