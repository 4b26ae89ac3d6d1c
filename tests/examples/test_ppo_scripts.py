"""The training scripts, as a reader runs them, but with few environments and steps."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import json
from pathlib import Path
from types import ModuleType

import pytest
import torch

from timed_run import CallCount, TimedRun

NO_LOGS = {"write_interval": 0, "checkpoint_interval": 0}


@pytest.fixture(params=["ppo_snake", "ppo_snake_cnn", "ppo_pendulum"])
def script(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


@functools.cache
def one_iteration(script: ModuleType, base: str) -> tuple[torch.Tensor, int]:
    """Train with a base class from the same seed; return the parameters, and how often the trunk ran."""
    torch.manual_seed(0)
    if script.__name__ == "ppo_pendulum":
        env = script.make_env(num_envs=16, seed=0)
    else:
        env = script.make_env(num_envs=32, board=6, device="cpu", seed=0)
    run = TimedRun(script.make_agent(base, env, NO_LOGS), env)
    trunk = CallCount(run.agent.policy.net[0])
    run.iterate()
    return run.parameters(), trunk.calls


def test_help_lists_the_options_and_their_defaults(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        script.main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "--base {plain,cached} last base class of the model (default: cached)" in text
    assert all(f"--{name} " in text for name in ("timesteps", "num-envs", "seed", "device", "output"))


@pytest.mark.parametrize("base", ["plain", "cached"])
def test_a_run_names_the_folder_of_its_logs_checkpoints_and_results_at_the_end(
    script: ModuleType, base: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.main(["--base", base, "--timesteps", "256", "--num-envs", "4", "--device", "cpu", "--output", str(tmp_path)])
    (folder,) = tmp_path.iterdir()
    assert capsys.readouterr().out.rstrip().endswith(str(folder))
    assert list(folder.glob("events.out.tfevents.*"))
    assert {path.name for path in folder.glob("checkpoints/*.pt")} >= {"agent_128.pt", "agent_256.pt"}
    results = json.loads((folder / "results.json").read_text())
    assert -2000 < results["mean_return"] < 100
    assert ("hits" in results) == (base == "cached")


def test_the_snake_says_how_fast_it_trains_and_where_the_time_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = importlib.import_module("ppo_snake")
    arguments = [
        "--units",
        "16",
        "--rollouts",
        "8",
        "--timesteps",
        "64",
        "--num-envs",
        "4",
        "--device",
        "cpu",
        "--output",
    ]
    script.main([*arguments, str(tmp_path)])
    results = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines() if ": " in line)
    shares = [float(results[f"share_{name}"]) for name in ("env", "inference", "update")]
    assert all(share > 0.0 for share in shares)
    assert sum(shares) <= 1.0
    assert int(results["samples_per_second"]) > 0


def test_both_bases_learn_the_same_from_the_first_rollout(script: ModuleType) -> None:
    plain, cached = (one_iteration(script, base)[0] for base in ("plain", "cached"))
    torch.testing.assert_close(cached, plain, rtol=0, atol=1e-5)  # float32, up to 160 optimizer steps


def test_the_trunk_runs_half_as_often_with_the_cached_base(script: ModuleType) -> None:
    plain, cached = (one_iteration(script, base)[1] for base in ("plain", "cached"))
    alone = 1  # the value of the last observation has no partner
    on_probation = 5  # the first pair, by which the trunk is known, and two verified hits with and without gradients
    assert cached <= (plain - alone) / 2 + alone + on_probation


def test_nothing_but_the_base_class_and_the_preprocessor_comes_from_the_cache(script: ModuleType) -> None:
    tree = ast.parse(inspect.getsource(script))
    tables = [node for node in tree.body if isinstance(node, ast.Assign) and "SharedModel" in ast.unparse(node)]
    tables += [
        node for node in tree.body if isinstance(node, ast.Assign) and "cached_preprocessor" in ast.unparse(node)
    ]
    used = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Name)]
    assert used.count("SharedModel") + used.count("cached_preprocessor") == len(tables)
    assert ast.unparse(tables[0]) == "BASES = {'plain': Model, 'cached': SharedModel}"
    (model,) = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert [ast.unparse(node) for node in ast.walk(model) if isinstance(node, ast.Name)].count("base") == 2
