"""The snake script in two processes on the CPU, started by torchrun: they share a model, and each has its own cache."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import torch

from ..processes import python
from .conftest import EXAMPLES

PROCESSES = 2
WORKER = """
import json, sys
import ppo_snake, torch
from skrl import config
from timed_run import CallCount

make_agent, agents = ppo_snake.make_agent, []

def kept_agent(*args, **options):
    agents.append(make_agent(*args, **options))
    agents.append(CallCount(agents[0].policy.net[0]))
    agents.append(torch.nn.utils.parameters_to_vector(agents[0].policy.parameters()).tolist())
    return agents[0]

ppo_snake.make_agent = kept_agent
ppo_snake.main(sys.argv[2:])
agent, trunk, start = agents
with open(f"{sys.argv[1]}.{config.torch.rank}", "w") as file:
    end = torch.nn.utils.parameters_to_vector(agent.policy.parameters()).tolist()
    json.dump({"start": start, "end": end, "passes": trunk.calls}, file)
"""
PAIRS = 32 + 4 * 4
"""Policy/value pairs of a rollout and its update."""


class Results:
    """What the processes of one training say at its end.

    :param folder: Folder to work in.
    :param base: Base class of the model.
    :param updates: Number of updates.
    """

    def __init__(self, folder: Path, base: str, updates: int) -> None:
        (folder / "worker.py").write_text(WORKER)
        sizes = ["--timesteps", str(32 * updates), "--num-envs", "8", "--board", "5", "--device", "cpu"]
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={PROCESSES}"]
        self.folder, results = folder / base, folder / f"{base}.json"
        python(*launcher, "worker.py", str(results), "--base", base, "--output", base, *sizes, cwd=folder)
        self.ranks = [json.loads(Path(f"{results}.{rank}").read_text()) for rank in range(PROCESSES)]

    def parameters(self, rank: int, when: str = "end") -> torch.Tensor:
        """Return all parameters of a process."""
        return torch.tensor(self.ranks[rank][when])


@pytest.fixture(autouse=True)
def _environment_of_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(EXAMPLES), *sys.path]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def test_one_update_ends_with_the_parameters_of_the_uncached_model_in_all_processes(tmp_path: Path) -> None:
    plain, cached = (Results(tmp_path, base, updates=1) for base in ("plain", "cached"))
    for results in (plain, cached):
        assert torch.equal(results.parameters(0, "start"), results.parameters(1, "start"))
        assert torch.equal(results.parameters(0), results.parameters(1))
        assert (results.parameters(0) - results.parameters(0, "start")).abs().max() > 1e-3
    assert (plain.parameters(0) - cached.parameters(0)).abs().max() <= 1e-6
    # each process has a cache of its own, with a probation of its own
    last_value, on_probation = 1, 5
    assert [rank["passes"] for rank in plain.ranks] == [2 * PAIRS + last_value] * PROCESSES
    assert [rank["passes"] for rank in cached.ranks] == [PAIRS + last_value + on_probation] * PROCESSES


def test_several_updates_leave_the_same_parameters_in_all_processes_and_one_report(tmp_path: Path) -> None:
    results = Results(tmp_path, "cached", updates=3)
    assert torch.equal(results.parameters(0), results.parameters(1))
    (folder,) = results.folder.iterdir()
    assert json.loads((folder / "results.json").read_text())["trunk_passes_per_pair"] < 1.1
