"""`python -m skrl_shared_cache script.py`: the script runs as with `python script.py`, but with cached models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

REPORT = """
import os, pickle, sys
import neighbour

class Mine:
    pass

assert type(pickle.loads(pickle.dumps(Mine()))) is Mine
print(__name__, __file__, __spec__, sys.argv, sys.path[0], neighbour.NAME, sys.modules["__main__"].Mine is Mine)
"""

TRAINING = """
from skrl.utils.runner.torch import Runner
from skrl.utils.model_instantiators.torch import shared_model
import gymnasium

network = [{"name": "net", "input": "OBSERVATIONS", "layers": [8], "activations": "elu"}]
model = shared_model(
    observation_space=gymnasium.spaces.Box(-1, 1, (3,)),
    action_space=gymnasium.spaces.Discrete(2),
    device="cpu",
    structure=["CategoricalMixin", "DeterministicMixin"],
    roles=["policy", "value"],
    parameters=[{"network": network, "output": "ACTIONS"}, {"network": network, "output": "ONE"}],
)
print(type(model).__mro__[3].__module__, hasattr(model, "cache_info"))
"""


def run(*arguments: str, cwd: Path, through: bool = True) -> subprocess.CompletedProcess[str]:
    """Run Python on a script, through ``-m skrl_shared_cache`` or by itself."""
    module = ["-m", "skrl_shared_cache"] if through else []
    environment = {"PYTHONPATH": str(ROOT), "PATH": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *module, *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a script in it and a module beside it."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "neighbour.py").write_text("NAME = 'neighbour'\n")
    (scripts / "report.py").write_text(REPORT)
    (scripts / "training.py").write_text(TRAINING)
    return tmp_path


def test_a_script_sees_what_it_sees_without(folder: Path) -> None:
    arguments = ("scripts/report.py", "--task", "a b", "-h")
    through, without = (run(*arguments, cwd=folder, through=through) for through in (True, False))
    assert through.stdout == without.stdout, through.stderr
    assert "__main__" in through.stdout
    assert through.returncode == without.returncode == 0


def test_an_unedited_script_gets_cached_models(folder: Path) -> None:
    through, without = (run("scripts/training.py", cwd=folder, through=through) for through in (True, False))
    assert through.stdout.split()[-1] == "True", through.stderr
    assert without.stdout.split()[-1] == "False", without.stderr


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("import sys; sys.exit(7)", 7),
        ("raise SystemExit", 0),
        ("raise SystemExit('a message')", 1),
        ("raise KeyError('a key')", 1),
        ("def (", 1),
    ],
)
def test_the_exit_code_and_the_last_line_of_an_error_are_the_scripts(folder: Path, line: str, code: int) -> None:
    (folder / "script.py").write_text(line)
    through, without = (run("script.py", cwd=folder, through=through) for through in (True, False))
    assert through.returncode == without.returncode == code
    assert through.stderr.splitlines()[-1:] == without.stderr.splitlines()[-1:]


def test_what_a_script_registers_for_its_exit_still_finds_its_names(folder: Path) -> None:
    (folder / "script.py").write_text("import atexit\nNAME = 'at exit'\natexit.register(lambda: print(NAME))\n")
    assert run("script.py", cwd=folder).stdout == "at exit\n"


@pytest.mark.parametrize("arguments", [(), ("--task", "x"), ("missing.py",)])
def test_without_a_script_it_says_how_it_is_used(folder: Path, arguments: tuple[str, ...]) -> None:
    result = run(*arguments, cwd=folder)
    assert result.returncode == 2
    assert "usage: python -m skrl_shared_cache script.py" in result.stderr
    assert not result.stdout


def test_help_is_no_error(folder: Path) -> None:
    result = run("--help", cwd=folder)
    assert result.returncode == 0
    assert "usage: python -m skrl_shared_cache script.py" in result.stdout
