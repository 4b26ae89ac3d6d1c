"""Simulation in one thread, learning in another: the contract of Isaac Sim's VecEnvMT."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from skrl_vec_envs.omniverse.env import Observations, StepByRows, VecEnv

_Queue = queue.Queue[Any]
_POLL = 0.1  # seconds after which a thread that waits looks whether the other one has stopped


class TaskStopException(Exception):
    """The simulation has stopped: the learning thread should return."""


class TrainerMT(abc.ABC):
    """What :meth:`VecEnvMT.run` starts and stops."""

    @abc.abstractmethod
    def run(self) -> None:
        """Start a thread that learns, and return."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Stop that thread, and wait for its end."""


@dataclasses.dataclass
class Times:
    """Seconds that the learning thread spent on the simulation, in all.

    ``str(times)`` reports them in milliseconds.
    """

    send: float = 0.0
    """Handing over the actions."""
    wait: float = 0.0
    """Waiting for the simulation."""
    collect: float = 0.0
    """Taking the results over."""

    def __str__(self) -> str:
        return "\n".join(f"Total {name}: {1000 * value:.0f} ms" for name, value in dataclasses.asdict(self).items())


class VecEnvMT(VecEnv):
    """An environment that is simulated in the thread that calls :meth:`run`, and stepped from another.

    Actions and results go through two queues of length one. None instead of actions stops the simulation. A side that
    waits for longer than the timeout stops, and so does the other: the learning thread's ``step`` raises
    :class:`TaskStopException`. An exception in the simulation is raised by ``step`` too, as the cause of a
    :class:`TaskStopException`, and by :meth:`run`; one in the learning thread is raised by :meth:`run`.

    Example::

        >>> env = VecEnvMT(autoreset="lazy")
        >>> env.set_task(CartpoleTask("Cartpole", SimConfig(), env))
        >>> env.run(lambda: learn(env))  # env.reset() and env.step(...) as usual, in a thread of its own
        >>> print(env.times)

    :param parameters: See :class:`VecEnv`.
    """

    def __init__(self, *parameters: Any, **keywords: Any) -> None:
        super().__init__(*parameters, **keywords)
        self.should_run = False
        """Whether the simulation goes on."""
        self.times = Times()
        """Times of the learning thread."""
        self._action_queue: _Queue | None = None
        self._data_queue: _Queue | None = None
        self._timeout = 30.0
        self._stop = False
        self._error: BaseException | None = None

    def initialize(self, action_queue: _Queue, data_queue: _Queue, timeout: float = 30.0) -> None:
        """Take the queues.

        :param action_queue: Queue of the actions, of length one.
        :param data_queue: Queue of the results, of length one.
        :param timeout: Seconds that a side waits for the other.

        :raises ValueError: A queue's length is not one, or the timeout is not positive.
        """
        if action_queue.maxsize != 1 or data_queue.maxsize != 1:
            raise ValueError(
                f"the queues must be of length 1, got {action_queue.maxsize} and {data_queue.maxsize}: queue.Queue(1)"
            )
        if not timeout > 0:
            raise ValueError(f"timeout must be positive seconds, got {timeout}")
        self._action_queue, self._data_queue, self._timeout = action_queue, data_queue, timeout
        self._stop, self._error = False, None
        self.times = Times()

    @property
    def stop(self) -> bool:
        """Whether the learning thread is to stop at its next step."""
        return self._stop

    @stop.setter
    def stop(self, value: bool) -> None:
        self._stop = value

    def run(self, trainer: TrainerMT | Callable[[], Any], timeout: float = 30.0) -> None:
        """Simulate in this thread until the learning thread returns, stops or fails.

        :param trainer: A function, which is run in a thread of its own; or a :class:`TrainerMT`, whose ``run`` starts
            one and which may call :meth:`initialize` and ``send_actions(None)`` itself.
        :param timeout: Seconds that a side waits for the other, of a function.

        :raises TimeoutError: No actions came in time.
        :raises Exception: What was raised in either thread.
        """
        learning: _Learning | None = None
        self.should_run = True
        try:
            if isinstance(trainer, TrainerMT):
                if self._action_queue is None:
                    self.initialize(queue.Queue(1), queue.Queue(1), timeout)
                trainer.run()
            else:
                self.initialize(queue.Queue(1), queue.Queue(1), timeout)
                learning = _Learning(self, trainer)
                learning.start()
            self._serve()
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._halt()
            if learning is not None:
                learning.join(self._timeout)
            elif isinstance(trainer, TrainerMT):
                trainer.stop()
        if learning is not None and learning.error is not None:
            raise learning.error

    def _serve(self) -> None:
        while self.should_run:
            actions = self.get_actions()
            if actions is None:
                return
            self.task.pre_physics_step(actions)
            self._simulate()
            self.send_data(self._collect())

    def _halt(self) -> None:
        self.should_run, self._stop = False, True
        self.clear_queues()
        with contextlib.suppress(queue.Full):
            self._queues()[1].put_nowait(None)  # wakes a learning thread that waits for results

    def step_by_rows(self, actions: torch.Tensor) -> StepByRows:
        """Make a step, from the learning thread.

        :param actions: Actions, see :class:`VecEnv`.

        :return: Observations and states, rewards, resets, extras, what ended.

        :raises TaskStopException: The simulation has stopped.
        """
        if not self._was_reset:
            raise RuntimeError("an environment must be reset before its first step: call reset()")
        begin = time.perf_counter()
        self.send_actions(self._receive(actions))
        sent = time.perf_counter()
        data = self.get_data()
        waited = time.perf_counter()
        result = self._parse_data(data)
        self.times.send += sent - begin
        self.times.wait += waited - sent
        self.times.collect += time.perf_counter() - waited
        return result

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Observations:
        """Flag all environments, and make a step with actions that are zero, from the learning thread."""
        self._queues()
        return super().reset(seed, options)

    def send_actions(self, actions: torch.Tensor | None, block: bool = True) -> None:
        """Hand over actions, from the learning thread.

        :param actions: Actions; None stops the simulation.
        :param block: Wait until the simulation has taken the last ones.

        :raises TaskStopException: The simulation has stopped, or did not take the last actions in time.
        """
        if self._stop and actions is not None:
            raise TaskStopException("the simulation has stopped") from self._error
        if actions is None and not block:
            with contextlib.suppress(queue.Full):
                self._queues()[0].put_nowait(None)
            self.should_run = False
            return
        self._retry(lambda seconds: self._queues()[0].put(actions, True, seconds), queue.Full)

    def get_data(self, block: bool = True) -> Any:
        """Take the results, from the learning thread.

        :param block: Wait for them.

        :raises TaskStopException: The simulation has stopped, or has sent none in time.
        """
        waiting = self._queues()[1]
        data = (
            waiting.get_nowait() if not block else self._retry(lambda seconds: waiting.get(True, seconds), queue.Empty)
        )
        waiting.task_done()
        if data is None:
            raise TaskStopException("the simulation has stopped") from self._error
        return data

    def _retry(self, act: Callable[[float], Any], failure: type[Exception]) -> Any:
        """Try for as long as the timeout; the simulation may stop in the meantime, and clear the queues."""
        deadline = time.monotonic() + self._timeout
        while (left := deadline - time.monotonic()) > 0:
            try:
                return act(min(left, _POLL))
            except failure:
                if self._stop:
                    raise TaskStopException("the simulation has stopped") from self._error
        self._stop = True
        did = "took no actions" if failure is queue.Full else "sent no results"
        raise TaskStopException(f"the simulation {did} within {self._timeout} s")

    def get_actions(self, block: bool = True) -> torch.Tensor | None:
        """Take actions, from the simulating thread.

        :param block: Wait for them.

        :return: Actions, or None.

        :raises TimeoutError: None came in time.
        """
        try:
            actions: torch.Tensor | None = self._queues()[0].get(block, self._timeout)
        except queue.Empty:
            self._stop = True
            raise TimeoutError(
                f"the learning thread sent no actions within {self._timeout} s: give a longer timeout"
            ) from None
        self._queues()[0].task_done()
        return actions

    def send_data(self, data: Any, block: bool = True) -> None:
        """Hand over results, from the simulating thread.

        :param data: Results.
        :param block: Wait until the learning thread has taken the last ones.

        :raises TimeoutError: It has not, in time.
        """
        try:
            self._queues()[1].put(data, block, self._timeout)
        except queue.Full:
            self._stop = True
            raise TimeoutError(f"the learning thread took no results within {self._timeout} s") from None

    def clear_queues(self) -> None:
        """Drop what is in the queues."""
        for waiting in self._queues():
            try:
                while True:
                    waiting.get_nowait()
                    waiting.task_done()
            except queue.Empty:
                pass

    def _parse_data(self, data: StepByRows) -> StepByRows:
        return data

    def _queues(self) -> tuple[_Queue, _Queue]:
        if self._action_queue is None or self._data_queue is None:
            raise RuntimeError("the environment has no queues yet: call run(trainer), or initialize(queue, queue)")
        return self._action_queue, self._data_queue


class _Learning(threading.Thread):
    def __init__(self, env: VecEnvMT, learn: Callable[[], Any]) -> None:
        super().__init__(name="learning", daemon=True)
        self._env, self._learn = env, learn
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._learn()
        except TaskStopException as stopped:
            if stopped.__cause__ is None and not self._env.stop:
                self.error = stopped
        except BaseException as error:
            self.error = error
        finally:
            self._env.send_actions(None, block=False)
