"""rl_games' configurations, environments for them, and rl_games itself where it is installed."""

# mypy: disable-error-code="import-not-found,import-untyped"
from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import gymnasium
import pytest
import torch
import torch.nn as nn
from gymnasium import spaces
from skrl.models.torch import DeterministicMixin, GaussianMixin

from skrl_shared_cache import Runner, SharedModel
from skrl_shared_cache.rl_games import convert

from ..support.drift import DriftWrapper
from ..support.lines import SKRL_2, box, gaussian_output, init_model

OBSERVATIONS = box(6)
CONTINUOUS = {
    "mu_activation": "None",
    "sigma_activation": "None",
    "mu_init": {"name": "default"},
    "sigma_init": {"name": "const_initializer", "val": -0.7},
    "fixed_sigma": True,
}
ACTIONS: dict[str, tuple[str, str, gymnasium.Space[Any]]] = {
    "continuous": ("a2c_continuous", "continuous_a2c_logstd", box(3, 1.0)),
    "discrete": ("a2c_discrete", "discrete_a2c", spaces.Discrete(4)),
    "multi_discrete": ("a2c_discrete", "multi_discrete_a2c", spaces.MultiDiscrete([3, 2])),
}


class Deviation(GaussianMixin, DeterministicMixin, SharedModel):
    """A model of a user's, with a standard deviation that depends on the observations, and other names."""

    def __init__(self, deviation_first: bool = False, separate: bool = False) -> None:
        init_model(self, SharedModel, OBSERVATIONS, ACTIONS["continuous"][2])
        GaussianMixin.__init__(self, clip_log_std=False, role="policy")
        DeterministicMixin.__init__(self, role="value")
        self.deviation_first = deviation_first
        self.scale, self.critic, self.mean = nn.Linear(8, 3), nn.Linear(8, 1), nn.Linear(8, 3)
        self.body = self._body()
        self.other_body = self._body() if separate else None

    def _body(self) -> nn.Module:
        return nn.Sequential(nn.Linear(6, 16), nn.ELU(), nn.Linear(16, 16), nn.ELU(), nn.Linear(16, 8), nn.ELU())

    def act(self, inputs: Any, role: str = "") -> Any:
        return (GaussianMixin if role == "policy" else DeterministicMixin).act(self, inputs, role=role)

    def compute(self, inputs: Any, role: str = "") -> Any:
        observations = inputs.get("observations", inputs.get("states"))
        if role == "value":
            return self.critic((self.other_body or self.body)(observations)), {}
        features = self.body(observations)
        if self.deviation_first:
            log_std = self.scale(features)
            return gaussian_output(self.mean(features), log_std, {})
        return gaussian_output(self.mean(features), self.scale(features), {})


def config(kind: str = "continuous", **changes: Any) -> dict[str, Any]:
    """Return a configuration of rl_games, that of a small PPO.

    :param kind: Kind of the actions.
    :param changes: Changed options, by their paths below ``params`` with ``__`` for the dots.
    """
    algorithm, model, _ = ACTIONS[kind]
    cfg: dict[str, Any] = {
        "seed": 7,
        "algo": {"name": algorithm},
        "model": {"name": model},
        "network": {
            "name": "actor_critic",
            "separate": False,
            "space": {kind: copy.deepcopy(CONTINUOUS) if kind == "continuous" else {}},
            "mlp": {"units": [16, 16, 8], "activation": "elu", "initializer": {"name": "default"}},
        },
        "config": {
            "name": "small",
            "env_name": "small",
            "device": "cpu",
            "device_name": "cpu",
            "ppo": True,
            "num_actors": 4,
            "horizon_length": 8,
            "minibatch_size": 16,
            "mini_epochs": 3,
            "max_epochs": 5,
            "gamma": 0.97,
            "tau": 0.9,
            "learning_rate": 2e-3,
            "lr_schedule": None,
            "e_clip": 0.15,
            "entropy_coef": 0.02,
            "critic_coef": 3.0,
            "clip_value": False,
            "truncate_grads": False,
            "grad_norm": 0.7,
            "normalize_input": False,
            "normalize_value": False,
            "normalize_advantage": True,
            "reward_shaper": {"scale_value": 0.1},
        },
    }
    for path, value in changes.items():
        *sections, name = path.split("__")
        section = cfg
        for part in sections:
            section = section[part]
        section[name] = value
    return {"params": cfg}


def runner(cfg: dict[str, Any], observation_space: Any, action_space: Any, num_envs: int = 4, **settings: Any) -> Any:
    """Return our Runner of the converted configuration, with these settings of its agent, that logs nothing."""
    env = SimpleNamespace(
        num_envs=num_envs,
        num_agents=1,
        observation_space=observation_space,
        state_space=None,
        action_space=action_space,
        device=torch.device("cpu"),
    )
    converted = convert(cfg).config
    converted["agent"].update(settings)
    converted["agent"]["experiment"] = {"write_interval": 0, "checkpoint_interval": 0}
    converted["trainer"]["close_environment_at_exit"] = False
    with quiet():
        return Runner(DriftWrapper(env), converted)


def preprocessors(agent: Any) -> dict[str, Any]:
    """Return the scalers of an agent, by the names in its configuration."""
    names = ("observation_preprocessor" if SKRL_2 else "state_preprocessor", "value_preprocessor")
    return {name: agent.checkpoint_modules.get(name) for name in names}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Let neither skrl 1.4 nor rl_games print, and rl_games use what torch and NumPy have deprecated since."""
    with contextlib.redirect_stdout(None), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def make_player(cfg: dict[str, Any], observation_space: Any, action_space: Any) -> Any:
    """Return rl_games' own player of the configuration, or skip the test."""
    with quiet():
        pytest.importorskip("rl_games", reason="rl_games is not installed (extra rl-games)")
        from rl_games.algos_torch import players

        kind = players.PpoPlayerContinuous if isinstance(action_space, spaces.Box) else players.PpoPlayerDiscrete
        player = kind(_with_spaces(cfg, observation_space, action_space))
        player.has_batch_dimension = True
    return player


def make_agent(cfg: dict[str, Any], observation_space: Any, action_space: Any, folder: Any) -> Any:
    """Return rl_games' own agent of the configuration, or skip the test."""
    with quiet():
        pytest.importorskip("rl_games", reason="rl_games is not installed (extra rl-games)")
        from rl_games.algos_torch import a2c_continuous, a2c_discrete
        from rl_games.common.algo_observer import DefaultAlgoObserver
        from rl_games.common.tr_helpers import DefaultRewardsShaper

        params = _with_spaces(cfg, observation_space, action_space)
        params["config"].update(
            features={"observer": DefaultAlgoObserver()},
            reward_shaper=DefaultRewardsShaper(**params["config"]["reward_shaper"]),
            train_dir=str(folder),
        )
        continuous = isinstance(action_space, spaces.Box)
        kind = a2c_continuous.A2CAgent if continuous else a2c_discrete.DiscreteA2CAgent
        return kind(base_name="test", params=params)


def _with_spaces(cfg: dict[str, Any], observation_space: Any, action_space: Any) -> dict[str, Any]:
    params: dict[str, Any] = copy.deepcopy(cfg["params"])
    if isinstance(action_space, spaces.MultiDiscrete):
        action_space = spaces.Tuple([spaces.Discrete(int(n)) for n in action_space.nvec])
    params["config"]["env_info"] = {"observation_space": observation_space, "action_space": action_space}
    return params
