"""Simulation in one thread, learning in another."""

from __future__ import annotations

import queue
import re
import threading
from typing import Any

import pytest
import torch

from skrl_vec_envs.omniverse.threaded import TaskStopException, TrainerMT, VecEnvMT

from .support import Recorder, make, recorder


def threaded(**keywords: Any) -> tuple[VecEnvMT, Recorder]:
    env = VecEnvMT(**keywords)
    task = Recorder(env)
    env.set_task(task)
    return env, task


@pytest.mark.parametrize("autoreset", ["lazy", "same_step"])
def test_a_threaded_environment_makes_the_steps_of_a_direct_one(autoreset: Any) -> None:
    env, _ = threaded(autoreset=autoreset)
    direct, _ = recorder(autoreset)
    steps: list[Any] = []

    def learn() -> None:
        steps.append(env.reset()["obs"])
        steps.extend(env.step(env.zero_actions()) for _ in range(12))

    env.run(learn)
    assert torch.equal(steps[0], direct.reset()["obs"])
    for obs, rewards, resets, extras in steps[1:]:
        expected = direct.step(direct.zero_actions())
        assert torch.equal(obs["obs"], expected[0]["obs"])
        assert torch.equal(rewards, expected[1])
        assert torch.equal(resets, expected[2])
        assert set(extras) == set(expected[3])


def test_the_task_is_called_by_the_thread_that_runs_and_the_learning_goes_on_in_another() -> None:
    env, task = threaded()
    threads: dict[str, int] = {}
    task.simulate = lambda dt: threads.__setitem__("simulates", threading.get_ident())  # type: ignore[method-assign]

    def learn() -> None:
        env.reset()
        threads["learns"] = threading.get_ident()

    env.run(learn)
    assert threads["simulates"] == threading.get_ident() != threads["learns"]


def test_none_stops_the_simulation() -> None:
    env, task = threaded()
    env.initialize(queue.Queue(1), queue.Queue(1))
    env.send_actions(None)
    task.calls.clear()
    env.should_run = True
    env._serve()
    assert task.calls == []


def test_an_exception_of_the_learning_thread_is_raised_by_run() -> None:
    env, _ = threaded()

    def learn() -> None:
        env.reset()
        raise ZeroDivisionError("learning failed")

    with pytest.raises(ZeroDivisionError, match="learning failed"):
        env.run(learn)


def test_an_exception_of_the_simulation_is_raised_by_run_and_is_the_cause_of_what_the_learning_thread_gets() -> None:
    env, task = threaded()
    caught: list[BaseException] = []

    def fail(dt: float) -> None:
        raise ZeroDivisionError("simulation failed")

    def learn() -> None:
        env.reset()
        task.simulate = fail  # type: ignore[method-assign]
        try:
            env.step(env.zero_actions())
        except TaskStopException as stopped:
            caught.append(stopped)
            raise

    with pytest.raises(ZeroDivisionError, match="simulation failed"):
        env.run(learn)
    assert isinstance(caught[0].__cause__, ZeroDivisionError)


def test_a_learning_thread_that_is_too_slow_stops_both() -> None:
    env, _ = threaded()
    released, stopped = threading.Event(), threading.Event()

    def learn() -> None:
        env.reset()
        released.wait(30)
        try:
            env.step(env.zero_actions())
        except TaskStopException:
            stopped.set()

    with pytest.raises(TimeoutError, match=r"the learning thread sent no actions within 0.05 s"):
        env.run(learn, timeout=0.05)
    released.set()
    assert stopped.wait(30)


def test_a_simulation_that_is_too_slow_stops_the_learning_thread() -> None:
    env, _ = threaded()
    env.initialize(queue.Queue(1), queue.Queue(1), timeout=0.05)
    env._was_reset = True
    with pytest.raises(TaskStopException, match=r"the simulation sent no results within 0.05 s"):
        env.step(env.zero_actions())
    with pytest.raises(TaskStopException, match="the simulation has stopped"):
        env.step(env.zero_actions())


def test_it_can_be_run_again_after_it_stopped() -> None:
    env, _ = threaded()
    env.run(lambda: env.reset())
    with pytest.raises(ZeroDivisionError):
        env.run(lambda: 1 // 0)
    seen: list[torch.Tensor] = []
    env.run(lambda: seen.append(env.reset()["obs"]))
    assert len(seen) == 1


def test_a_trainer_of_isaac_sims_kind_is_started_and_stopped() -> None:
    env, _ = threaded()
    calls: list[str] = []

    class Trainer(TrainerMT):
        def run(self) -> None:
            calls.append("run")
            self.actions: queue.Queue[Any] = queue.Queue(1)
            env.initialize(self.actions, queue.Queue(1), 30)
            self.thread = threading.Thread(target=self.learn)
            self.thread.start()

        def learn(self) -> None:
            env.reset()
            calls.append("learned")
            env.send_actions(None)

        def stop(self) -> None:
            self.thread.join()
            calls.append("stop")

    env.run(Trainer())
    assert calls == ["run", "learned", "stop"]


def test_the_times_of_a_run_are_reported_in_milliseconds() -> None:
    env, _ = threaded()
    env.run(lambda: [env.reset(), *(env.step(env.zero_actions()) for _ in range(3))])
    assert min(env.times.send, env.times.wait, env.times.collect) > 0
    assert re.fullmatch(r"Total send: \d+ ms\nTotal wait: \d+ ms\nTotal collect: \d+ ms", str(env.times))


def test_queues_of_another_length_and_a_step_without_queues_are_refused() -> None:
    env, _ = threaded()
    with pytest.raises(ValueError, match=r"of length 1, got 1 and 0: queue.Queue\(1\)"):
        env.initialize(queue.Queue(1), queue.Queue())
    with pytest.raises(ValueError, match="timeout must be positive seconds, got 0"):
        env.initialize(queue.Queue(1), queue.Queue(1), 0)
    with pytest.raises(RuntimeError, match=r"no queues yet: call run\(trainer\)"):
        env.reset()


def test_clearing_the_queues_lets_a_side_that_waits_for_room_go_on() -> None:
    env, _ = threaded()
    actions: queue.Queue[Any] = queue.Queue(1)
    env.initialize(actions, queue.Queue(1))
    env.send_actions(torch.zeros(3, 2))
    env.clear_queues()
    assert actions.empty()
    actions.join()


def test_a_direct_environment_has_no_run() -> None:
    assert not hasattr(make(), "run")


def test_a_learning_thread_whose_queue_was_cleared_sees_that_the_simulation_has_stopped() -> None:
    env, _ = threaded()
    env.initialize(queue.Queue(1), queue.Queue(1), timeout=60.0)
    waiting, caught = threading.Event(), threading.Event()

    def wait() -> None:
        waiting.set()
        try:
            env.get_data()
        except TaskStopException:
            caught.set()

    threading.Thread(target=wait, daemon=True).start()
    assert waiting.wait(30)
    env.stop = True
    env.clear_queues()
    assert caught.wait(30)
