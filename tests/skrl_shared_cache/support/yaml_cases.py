"""Shared models and trainings as a configuration file describes them, and environments for them."""

from __future__ import annotations

import copy
import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from skrl.envs.wrappers.torch import wrap_env
from skrl.utils.model_instantiators.torch import shared_model as skrl_shared_model
from skrl.utils.runner.torch import Runner as SkrlRunner
from torch.utils._python_dispatch import TorchDispatchMode

from skrl_shared_cache import SharedModel, shared_model

from .agents import EPOCHS, MINI_BATCHES, ROLLOUT, SILENT
from .lines import OBSERVATIONS, SKRL_2, box
from .passes import Passes

CAMERA_AND_GOAL = spaces.Dict(
    {"camera": spaces.Box(0.0, 1.0, (5, 5, 2), np.float32), "goal": spaces.Discrete(3), "joints": box(4)}
)


CAMERA = spaces.Dict({key: CAMERA_AND_GOAL[key] for key in ("camera", "joints")})


def network(source: str = "OBSERVATIONS", layers: int = 16) -> list[dict[str, Any]]:
    """Return one network of two layers that reads ``source``."""
    return [{"name": "net", "input": source, "layers": [layers, layers], "activations": "elu"}]


def camera_network(has_goal: bool = True) -> list[dict[str, Any]]:
    """Return a CNN and an MLP, and an MLP on both and perhaps a one-hot goal, with functions between them."""
    goal = ", one_hot_encoding(OBSERVATION_SPACE['goal'], OBSERVATIONS['goal'])" if has_goal else ""
    joint = f"concatenate([cnn, mlp{goal}])"
    return [
        {
            "name": "cnn",
            "input": "permute(OBSERVATIONS['camera'], (0, 3, 1, 2))",
            "layers": [{"conv2d": {"out_channels": 4, "kernel_size": 3, "stride": 1}}, "flatten"],
            "activations": "relu",
        },
        {"name": "mlp", "input": "OBSERVATIONS['joints']", "layers": [8], "activations": "elu"},
        {"name": "net", "input": joint, "layers": [16, 16], "activations": ["elu", "tanh"]},
    ]


@dataclass
class Case:
    """One shared model, as a configuration describes it.

    :param policy: Parameters of the policy besides its network.
    :param network: Networks of both roles.
    :param value: Parameters of the value besides its network.
    """

    policy: dict[str, Any]
    network: list[dict[str, Any]] = field(default_factory=network)
    value: dict[str, Any] = field(default_factory=lambda: {"class": "DeterministicMixin", "output": "ONE"})
    observation_space: spaces.Space[Any] = field(default_factory=lambda: box(6))
    action_space: spaces.Space[Any] = field(default_factory=lambda: box(2, 1.0))
    state_space: spaces.Space[Any] | None = None

    def roles(self, order: tuple[str, ...] = ("policy", "value")) -> dict[str, Any]:
        """Return the configuration of each role, in this order."""
        roles = {"policy": self.policy, "value": self.value}
        return {role: {**copy.deepcopy(roles[role]), "network": copy.deepcopy(self.network)} for role in order}

    def arguments(self, order: tuple[str, ...] = ("policy", "value")) -> dict[str, Any]:
        """Return the arguments of an instantiator."""
        parameters = list(self.roles(order).values())
        states = {"state_space": self.state_space} if SKRL_2 else {}
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "device": "cpu",
            "structure": [each.pop("class") for each in parameters],
            "roles": list(order),
            "parameters": parameters,
            **states,
        }

    def make(self, order: tuple[str, ...] = ("policy", "value")) -> Callable[[Any], Any]:
        """Return a function that builds the model: ours on ``SharedModel``, else skrl's with two passes."""

        def make(base: Any) -> Any:
            function = functools.partial(skrl_shared_model, single_forward_pass=False)
            model = (shared_model if issubclass(base, SharedModel) else function)(**self.arguments(order))
            for role in order:  # as a Runner does it: the layers are lazy
                model.init_state_dict(role=role)
            return model

        return make

    def inputs(self, seed: int = 0, batch: int = 5) -> dict[str, Any]:
        """Return inputs of the model, with finite numbers and valid indices."""
        generator = torch.Generator().manual_seed(seed)
        columns = {}
        for key, space in ((OBSERVATIONS, self.observation_space), ("states", self.state_space)):
            if space is not None:
                columns[key] = torch.cat([_sample(part, batch, generator) for part in _parts(space)], dim=1)
        return columns


def _parts(space: spaces.Space[Any]) -> list[spaces.Space[Any]]:
    return [space[key] for key in sorted(space.keys())] if isinstance(space, spaces.Dict) else [space]


def _sample(space: spaces.Space[Any], batch: int, generator: torch.Generator) -> torch.Tensor:
    if isinstance(space, spaces.Discrete):
        return torch.randint(int(space.n), (batch, 1), generator=generator).float()
    if isinstance(space, spaces.MultiDiscrete):
        columns = [torch.randint(int(n), (batch, 1), generator=generator) for n in space.nvec]
        return torch.cat(columns, dim=1).float()
    assert space.shape is not None
    return torch.randn((batch, int(np.prod(space.shape))), generator=generator)


GAUSSIAN = {"class": "GaussianMixin", "output": "ACTIONS", "initial_log_std": -0.5}

CASES = {
    "Gaussian": Case(GAUSSIAN),
    "Gaussian, all options": Case(
        {
            "class": "GaussianMixin",
            "output": "0.7 * tanh(ACTIONS)",
            "initial_log_std": -3.0,
            "fixed_log_std": True,
            "min_log_std": -1.0,
            "max_log_std": 1.0,
            "clip_actions": True,
            "reduction": "mean",
        },
        value={"class": "DeterministicMixin", "output": "softplus(ONE)", "clip_actions": False},
    ),
    "Gaussian that perturbs by features": Case({"class": "GaussianMixin", "output": "ACTIONS + net[:, :2]"}),
    "MultivariateGaussian": Case({"class": "MultivariateGaussianMixin", "output": "tanh(ACTIONS)"}),
    "Categorical": Case({"class": "CategoricalMixin", "output": "ACTIONS"}, action_space=spaces.Discrete(3)),
    "MultiCategorical": Case(
        {"class": "MultiCategoricalMixin", "output": "ACTIONS"}, action_space=spaces.MultiDiscrete([3, 2])
    ),
    "Discrete observations": Case(
        GAUSSIAN,
        network("one_hot_encoding(OBSERVATION_SPACE, OBSERVATIONS)"),
        observation_space=spaces.MultiDiscrete([3, 4]),
    ),
    "camera and joints": Case(GAUSSIAN, camera_network(has_goal=False), observation_space=CAMERA),
    "camera, joints and goal": Case(GAUSSIAN, camera_network(), observation_space=CAMERA_AND_GOAL),
    "head on two networks": Case(
        {"class": "GaussianMixin", "output": "ACTIONS + mlp[:, :2]"},
        camera_network(),
        observation_space=CAMERA_AND_GOAL,
    ),
}
if SKRL_2:
    CASES["states"] = Case(GAUSSIAN, network("STATES"), state_space=box(3))
    CASES["observations and states"] = Case(
        GAUSSIAN, network("concatenate([OBSERVATIONS, STATES])"), state_space=box(3)
    )


def passes_of(model: Any) -> dict[str, Passes]:
    """Return a counter for each network of a generated model."""
    return {name: Passes(child) for name, child in model.named_children() if name.endswith("_container")}


class Comparisons(TorchDispatchMode):
    """Counts comparisons of whole tensors, which make the host wait for the device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.equal.default:
            self.counts[str(func)] += 1
        return func(*args, **(kwargs or {}))


# ---------------------------------------------------------------------------------------------------- whole trainings


class Reach(gymnasium.Env[Any, Any]):
    """A point that is to reach one of three goals: seen by a camera of 5 x 5 pixels and by its joints, or as a vector.

    :param space: ``CAMERA_AND_GOAL``, or a part of it, or a Box of six numbers.
    :param seed: Seed of the goals.
    """

    def __init__(self, space: spaces.Space[Any], seed: int) -> None:
        self.observation_space = space
        self._random = np.random.default_rng(seed)
        self.action_space = box(2, 1.0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._point, self._goal, self._steps = np.zeros(2), int(self._random.integers(3)), 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._point = np.clip(self._point + 0.3 * np.asarray(action), -1.0, 1.0)
        self._steps += 1
        distance = float(np.abs(self._point - (self._goal - 1)).sum())
        return self._observe(), -distance, distance < 0.1, self._steps >= 5, {}

    def _observe(self) -> Any:
        joints = np.array([*self._point, *(self._point**2)], np.float32)
        if not isinstance(self.observation_space, spaces.Dict):
            return np.array([*joints, self._goal - 1, 0.2 * self._steps], np.float32)
        camera = np.zeros((5, 5, 2), np.float32)
        row, column = (2 * self._point + 2).round().astype(int)
        camera[row, column] = 1.0, 0.2 * self._steps
        seen = {"camera": camera, "goal": self._goal, "joints": joints}
        return {key: seen[key] for key in self.observation_space}


def make_env(space: spaces.Space[Any], num_envs: int = 4) -> Any:
    """Return skrl's view of a gymnasium vector environment of :class:`Reach`."""
    return wrap_env(
        gymnasium.vector.SyncVectorEnv([functools.partial(Reach, space, seed) for seed in range(num_envs)]),
        wrapper="gymnasium",
        verbose=False,
    )


def configuration(
    roles: dict[str, Any], agent: str = "PPO", updates: int = 1, separate: bool = False, **settings: Any
) -> dict[str, Any]:
    """Return what a configuration file of a Runner holds.

    :param roles: Configuration of the models by role.
    :param agent: Agent.
    :param updates: Updates to train for.
    :param separate: Whether each role has a model of its own.
    :param settings: Further settings of the agent. On skrl 1.4 ``observation_preprocessor`` has another name.
    """
    cfg = {"class": agent, "rollouts": ROLLOUT, "mini_batches": MINI_BATCHES, "experiment": dict(SILENT), **settings}
    if agent != "A2C":
        cfg["learning_epochs"] = EPOCHS
    if not SKRL_2:
        cfg = {key.replace("observation_preprocessor", "state_preprocessor"): value for key, value in cfg.items()}
    return {
        "seed": 3,
        "models": {"separate": separate, **roles},
        "memory": {"class": "RandomMemory", "memory_size": -1},
        "agent": cfg,
        "trainer": {
            "class": "SequentialTrainer",
            "timesteps": updates * ROLLOUT,
            "headless": True,
            "disable_progressbar": True,
            "close_environment_at_exit": False,
        },
    }


class TwoPassRunner(SkrlRunner):
    """skrl's Runner with the right values in any order of roles: without its single pass."""

    def _component(self, name: str) -> Any:
        if name.lower() == "shared":
            return functools.partial(skrl_shared_model, single_forward_pass=False)
        return super()._component(name)
