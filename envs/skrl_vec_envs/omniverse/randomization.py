"""Noise on actions and observations, as OmniIsaacGymEnvs' Randomizer reads it from a task's configuration."""

from __future__ import annotations

import math
from typing import Any

import torch

_NEEDED = {
    "on_reset": ("operation", "distribution", "distribution_parameters"),
    "on_interval": ("frequency_interval", "operation", "distribution", "distribution_parameters"),
}
_OPERATIONS = ("additive", "scaling", "direct")


class Randomizer:
    """Domain randomization of a task, ``task_config["domain_randomization"]``.

    ``"randomize"`` switches it on; ``"randomization_params"`` holds ``"observations"`` and ``"actions"``, each with
    ``"on_reset"`` (noise that is drawn when an episode begins and stays) or ``"on_interval"`` (noise that is drawn
    every ``frequency_interval`` steps and lasts for one), or both. A ``distribution`` is ``"gaussian"`` (mean, standard
    deviation), ``"uniform"`` or ``"loguniform"`` (bounds), an ``operation`` ``"additive"``, ``"scaling"`` or
    ``"direct"``. It works from the call of :meth:`set_up_domain_randomization`, which is the task's to make.

    :param main_config: Configuration of the run.
    :param task_config: Configuration of the task.
    """

    def __init__(self, main_config: dict[str, Any], task_config: dict[str, Any]) -> None:
        section = task_config.get("domain_randomization") or {}
        self._params: dict[str, Any] = section.get("randomization_params") or {}
        self.randomize = bool(section.get("randomize", False) and self._params)
        """Whether anything is randomized."""
        self.min_frequency = section.get("min_frequency", 1)
        self._noises: dict[str, _Noise] = {}

    def set_up_domain_randomization(self, task: Any) -> None:
        """Begin to randomize.

        :param task: Task whose ``randomize_actions`` and ``randomize_observations`` are set.

        :raises NotImplementedError: Something of the simulator is to be randomized.
        :raises ValueError: A parameter is missing or unknown.
        """
        if not self.randomize:
            return
        for what, params in self._params.items():
            if what not in ("observations", "actions"):
                raise NotImplementedError(
                    f"domain randomization of {what!r} needs Isaac Sim: here only 'observations' and 'actions' are "
                    "randomized; vary the parameters of the dynamics instead"
                )
            width = getattr(task, f"num_{what}")
            self._noises[what] = _Noise(what, params, (task.num_envs, width), task.rl_device)
            setattr(task, f"randomize_{what}", True)

    def apply_on_startup_domain_randomization(self, task: Any) -> None:
        """Randomize scale, mass and density of bodies.

        :raises NotImplementedError: Something of that kind is asked for.
        """
        for what in self._params if self.randomize else ():
            if what in ("rigid_prim_views", "articulation_views"):
                raise NotImplementedError(f"domain randomization of {what!r} on startup needs Isaac Sim")

    def apply_actions_randomization(self, actions: torch.Tensor, reset_buf: torch.Tensor) -> torch.Tensor:
        """Return noisy actions.

        :param actions: Actions. Shape: (N, A).
        :param reset_buf: 1 where an episode begins. Shape: (N,).
        """
        return self._noises["actions"](actions, reset_buf)

    def apply_observations_randomization(self, observations: torch.Tensor, reset_buf: torch.Tensor) -> torch.Tensor:
        """Return noisy observations.

        :param observations: Observations. Shape: (N, O).
        :param reset_buf: 1 where an episode ended. Shape: (N,).
        """
        return self._noises["observations"](observations, reset_buf)


class _Noise:
    def __init__(self, what: str, params: dict[str, Any] | None, shape: tuple[int, int], device: str) -> None:
        if not params or not set(params) <= set(_NEEDED):
            raise ValueError(f"randomization of {what} must have 'on_reset', 'on_interval' or both, got {params!r}")
        for when, values in params.items():
            if missing := [name for name in _NEEDED[when] if name not in values]:
                raise ValueError(f"randomization of {what} {when} needs {', '.join(missing)}, got {sorted(values)}")
            if values["operation"] not in _OPERATIONS:
                raise ValueError(f"operation must be one of {_OPERATIONS}, got {values['operation']!r}")
            _draw((0, 0), values, "cpu")
        self._params = params
        self._age = torch.zeros(shape[0], dtype=torch.int64, device=device)
        self._kept = torch.zeros(shape, device=device)
        self._fresh = True

    def __call__(self, values: torch.Tensor, reset_buf: torch.Tensor) -> torch.Tensor:
        ended = reset_buf.to(values.device) > 0
        self._age = torch.where(ended, 0, self._age) + 1
        if params := self._params.get("on_reset"):
            drawn = _draw(values.shape, params, values.device)
            renewed = torch.ones_like(ended) if self._fresh else ended
            self._kept, self._fresh = torch.where(renewed[:, None], drawn, self._kept), False
            values = _apply(values, self._kept, params["operation"])
        if params := self._params.get("on_interval"):
            due = self._age >= params["frequency_interval"]
            self._age = torch.where(due, 0, self._age)
            noisy = _apply(values, _draw(values.shape, params, values.device), params["operation"])
            values = torch.where(due[:, None], noisy, values)
        return values


def _draw(shape: tuple[int, ...], params: dict[str, Any], device: str | torch.device) -> torch.Tensor:
    first, second = params["distribution_parameters"]
    drawn = torch.empty(shape, device=device)
    if params["distribution"] in ("gaussian", "normal"):
        return drawn.normal_(first, second)
    if params["distribution"] == "uniform":
        return drawn.uniform_(first, second)
    if params["distribution"] in ("loguniform", "log_uniform"):
        return drawn.uniform_(math.log(first), math.log(second)).exp_()
    raise ValueError(f"distribution must be 'gaussian', 'uniform' or 'loguniform', got {params['distribution']!r}")


def _apply(values: torch.Tensor, noise: torch.Tensor, operation: str) -> torch.Tensor:
    if operation == "additive":
        return values + noise
    return values * noise if operation == "scaling" else noise
