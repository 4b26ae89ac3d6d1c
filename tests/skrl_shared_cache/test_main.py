"""`python -m skrl_shared_cache script.py`: the script runs as with `python script.py`, but with cached models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from skrl_shared_cache.__main__ import main

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
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--timesteps", type=int)
arguments = parser.parse_args()

import gymnasium
from skrl.envs.wrappers.torch import wrap_env
from skrl.utils.runner.torch import Runner


def main():
    network = [{"name": "net", "input": "OBSERVATIONS", "layers": [8], "activations": "elu"}]
    roles = {
        "value": {"class": "DeterministicMixin", "network": network, "output": "ONE"},
        "policy": {"class": "GaussianMixin", "network": network, "output": "ACTIONS"},
    }
    experiment = {"write_interval": 0, "checkpoint_interval": 0}
    trainer = {"class": "SequentialTrainer", "timesteps": arguments.timesteps, "headless": True}
    cfg = {
        "seed": 1,
        "models": {"separate": False, **roles},
        "memory": {"class": "RandomMemory", "memory_size": -1},
        "agent": {"class": "PPO", "rollouts": 8, "mini_batches": 8, "experiment": experiment},
        "trainer": {**trainer, "disable_progressbar": True, "close_environment_at_exit": False},
    }
    env = wrap_env(gymnasium.make_vec("Pendulum-v1", num_envs=2), wrapper="gymnasium", verbose=False)
    runner = Runner(env, cfg)
    runner.run()
    print("hits:", runner.agent.policy.cache_info().hits)


if __name__ == "__main__":
    main()
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


def test_an_unedited_script_trains_a_cached_model(folder: Path) -> None:
    """The script imports and does what Isaac Lab's does, and lists the value first: skrl's own pass fails there."""
    arguments = ("scripts/training.py", "--timesteps", "16")
    through, without = (run(*arguments, cwd=folder, through=through) for through in (True, False))
    assert through.returncode == 0, through.stderr
    assert int(through.stdout.split()[-1]) > 16
    assert "backward through the graph a second time" in without.stderr


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("import sys; sys.exit(7)", 7),
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
def test_without_a_script_it_says_how_it_is_used(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as error:
        main(list(arguments))
    assert error.value.code == 2
    printed = capsys.readouterr()
    assert "usage: python -m skrl_shared_cache script.py" in printed.err
    assert (arguments or ("nothing",))[0] in printed.err
    assert not printed.out


def test_help_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    assert "usage: python -m skrl_shared_cache script.py" in capsys.readouterr().out
