"""The statistics of the cache in the files that skrl writes for TensorBoard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from skrl.models.torch import Model
from skrl.utils.runner.torch import Runner as SkrlRunner

from skrl_shared_cache import Runner, SharedModel, track_cache, use

from .support.agents import make_agent, make_multi_agent, train
from .support.drift import DriftEnv, DriftGame, DriftGameWrapper, DriftWrapper
from .support.lines import box
from .support.twins import build
from .support.yaml_cases import CASES, configuration, make_env
from .support.zoo import naive

event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

PASSES = "Cache / Trunk passes per pair"


def scalars(folder: Path) -> dict[str, list[float]]:
    accumulator = event_accumulator.EventAccumulator(str(folder))
    accumulator.Reload()
    return {tag: [event.value for event in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}


def experiment(folder: Path) -> dict[str, Any]:
    return {"directory": str(folder), "experiment_name": "run", "write_interval": 8, "checkpoint_interval": 0}


def write_with(folder: Path, base: Any, follow: Any, updates: int = 4) -> dict[str, list[float]]:
    env = DriftWrapper(DriftEnv())
    agent = make_agent("PPO", build(naive, base), env, experiment=experiment(folder))
    follow(agent)
    train(agent, env, updates)
    agent.writer.flush()
    return scalars(folder / "run")


def test_the_trunk_passes_per_pair_fall_to_one(tmp_path: Path) -> None:
    written = write_with(tmp_path, SharedModel, track_cache)
    assert any(tag.startswith("Loss / ") for tag in written)
    assert written[PASSES][-1] <= 1.05  # a value for the last observations comes without a policy
    assert written[PASSES][-1] < written[PASSES][0]  # probation


@pytest.mark.filterwarnings("ignore:The shared cache does not help `net`")
def test_refused_lookups_are_written_by_reason(tmp_path: Path) -> None:
    def follow(agent: Any) -> None:
        track_cache(agent)
        act = agent.policy.act

        def act_and_write(inputs: Any, role: str = "") -> Any:
            if role == "value":
                agent.policy.net.train(not agent.policy.net.training)
            return act(inputs, role=role)

        agent.policy.act = act_and_write

    reasons = write_with(tmp_path, SharedModel, follow)
    assert reasons["Cache / Not shared: train/eval mode changed"][-1] > 1


def test_tracking_twice_writes_once(tmp_path: Path) -> None:
    def follow(agent: Any) -> None:
        track_cache(agent)
        write = agent.write_tracking_data
        track_cache(agent)
        assert agent.write_tracking_data is write

    assert PASSES in write_with(tmp_path, SharedModel, follow)


def test_a_plain_model_is_left_alone(tmp_path: Path) -> None:
    assert not any(tag.startswith("Cache / ") for tag in write_with(tmp_path, Model, track_cache))


def test_one_model_of_several_agents_counts_once(tmp_path: Path) -> None:
    env = DriftGameWrapper(DriftGame())
    agent = make_multi_agent("IPPO", build(naive, SharedModel), env, experiment=experiment(tmp_path))
    track_cache(agent)
    train(agent, env, 4)
    agent.writer.flush()
    assert scalars(tmp_path / "run")[PASSES][-1] <= 1.05


def test_what_is_no_agent_is_refused() -> None:
    with pytest.raises(TypeError, match="takes an agent of skrl, not an object of type Linear"):
        track_cache(build(naive, Model).net[0])


@pytest.mark.parametrize("kind", ["Runner", "use"])
def test_the_runner_and_use_need_no_line(kind: str, tmp_path: Path) -> None:
    settings: Any = configuration(CASES["Gaussian"].roles(("policy", "value")))
    settings["agent"]["experiment"] = experiment(tmp_path)
    with use():
        runner = (Runner if kind == "Runner" else SkrlRunner)(make_env(box(6)), settings)
        runner.run("train")
    runner.agent.writer.flush()
    assert scalars(tmp_path / "run")[PASSES]
