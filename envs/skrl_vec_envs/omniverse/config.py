"""The configuration of a task, in the layout of OmniIsaacGymEnvs' yaml files, with defaults and checked keys."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable, Mapping
from typing import Any

DEFAULTS: dict[str, Any] = {
    "seed": 42,
    "test": False,
    "headless": True,
    "sim_device": "cpu",
    "rl_device": None,
    "device_id": 0,
    "num_envs": None,
    "warp": False,
    "enable_livestream": False,
    "enable_recording": False,
}
_READ_BY_OTHERS = (  # what else the config.yaml of OmniIsaacGymEnvs holds; nothing here depends on it
    *("task_name", "experiment", "torch_deterministic", "max_iterations", "physics_engine", "pipeline", "multi_gpu"),
    *("num_threads", "solver_type", "checkpoint", "evaluation", "mt_timeout", "recording_interval", "recording_fps"),
    *("recording_length", "recording_dir", "wandb_activate", "wandb_group", "wandb_name", "wandb_entity"),
    *("wandb_project", "kit_app", "extras", "train", "hydra"),
)
_TASK_KEYS = ("name", "physics_engine", "env", "sim", "domain_randomization", "viewport", "renderingInterval", "dr")
_GPUS = ("gpu", "cuda")


class SimConfig:
    """What a task reads its settings from: ``config`` for the run, ``task_config`` for the task.

    Example::

        >>> sim_config = SimConfig({"seed": 1, "num_envs": 64, "task": {"env": {"controlFrequencyInv": 2}}})
        >>> sim_config.task_config["env"]["numEnvs"]
        64

    :param config: ``"seed"``, ``"test"``, ``"sim_device"`` (torch's name, or ``"gpu"`` for ``cuda:<device_id>``),
        ``"rl_device"`` (default: the former), ``"num_envs"`` (goes to ``task["env"]["numEnvs"]``), ``"task"`` with
        ``"env"`` and ``"sim"``, and whatever else OmniIsaacGymEnvs' config.yaml holds. It is copied.

    :raises ValueError: A key is unknown.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        given = copy.deepcopy(dict(config or {}))
        check_keys(given, (*DEFAULTS, *_READ_BY_OTHERS, "task"), "the configuration")
        task = dict(given.pop("task", None) or {})

        self._config: dict[str, Any] = {**DEFAULTS, **given}
        if self._config["sim_device"] in _GPUS:
            self._config["sim_device"] = f"cuda:{self._config['device_id']}"
        self._config["rl_device"] = self._config["rl_device"] or self._config["sim_device"]

        self._task_config: dict[str, Any] = task
        task["env"], task["sim"] = dict(task.get("env") or {}), dict(task.get("sim") or {})
        if self._config["num_envs"] not in (None, ""):
            task["env"]["numEnvs"] = self._config["num_envs"]
        self._config["task"] = task

    @property
    def config(self) -> dict[str, Any]:
        """Configuration of the run."""
        return self._config

    @property
    def task_config(self) -> dict[str, Any]:
        """Configuration of the task, ``config["task"]``."""
        return self._task_config

    @property
    def sim_params(self) -> dict[str, Any]:
        """Parameters of the simulation, ``task_config["sim"]``."""
        sim: dict[str, Any] = self._task_config["sim"]
        return sim

    def get_physics_params(self) -> dict[str, Any]:
        """Return what ``VecEnv.set_task`` takes as ``sim_params``."""
        return {**self.sim_params, "sim_device": self._config["sim_device"]}

    def fill_env(self, defaults: Mapping[str, Any], task: str) -> dict[str, Any]:
        """Complete the task's own settings, ``task_config["env"]``.

        :param defaults: Every setting that the task knows, with its default.
        :param task: Name of the task, for the error.

        :return: The settings.

        :raises ValueError: A setting, or a section of ``task_config``, is unknown to the task.
        """
        env: dict[str, Any] = self._task_config["env"]
        # in "sim" the settings of an actor stand under its name, so the keys there cannot be known
        check_keys(self._task_config, _TASK_KEYS, f"the configuration of {task}")
        check_keys(env, defaults, f"'env' of {task}")
        for name, value in defaults.items():
            env.setdefault(name, value)
        return env

    def parse_actor_config(self, actor_name: str) -> dict[str, Any]:
        """Return the physical settings of an actor, ``sim[actor_name]``; they are the simulator's business."""
        return dict(self.sim_params.get(actor_name) or {})

    def apply_articulation_settings(self, name: str, prim: Any, cfg: Mapping[str, Any]) -> None:
        """Accept the physical settings of an actor. They describe it to PhysX, which is replaced by given dynamics."""

    def apply_rigid_body_settings(self, name: str, prim: Any, cfg: Mapping[str, Any], is_articulation: bool) -> None:
        """Accept the physical settings of a body, see :meth:`apply_articulation_settings`."""


def check_keys(given: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse keys that nobody would read.

    :param given: Keys to check.
    :param known: Keys that are read.
    :param where: What the keys belong to, for the error.

    :raises ValueError: A key is unknown.
    """
    known = sorted(known)
    for key in given:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
            hint = f"did you mean {close[0]!r}?" if close else f"it may hold {', '.join(known)}"
            raise ValueError(f"{where} has an unknown key {key!r}: {hint}")
