"""skrl's agents, memory and trainer, built by the same code on both lines."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from skrl.agents.torch.a2c import A2C
from skrl.agents.torch.ppo import PPO, PPO_RNN
from skrl.agents.torch.rpo import RPO
from skrl.memories.torch import RandomMemory
from skrl.multi_agents.torch.ippo import IPPO
from skrl.multi_agents.torch.mappo import MAPPO
from skrl.trainers.torch import SequentialTrainer

from .drift import DriftEnv, DriftGame, DriftGameWrapper, DriftWrapper
from .lines import SKRL_2

AGENTS = {"PPO": PPO, "A2C": A2C, "RPO": RPO, "PPO_RNN": PPO_RNN}

ROLLOUT = 8
"""Steps of the environment per update."""

MINI_BATCHES = 2

EPOCHS = 3
"""Learning epochs per update. A2C has one by definition."""

SILENT = {"write_interval": 0, "checkpoint_interval": 0, "directory": tempfile.gettempdir()}
"""Experiment settings with which an agent writes nothing."""


def configuration(name: str, **overrides: Any) -> dict[str, Any]:
    """Return the configuration of an agent in the names of the installed line.

    :param name: Agent.
    :param overrides: Further settings, in the names of skrl 2. ``observation_preprocessor`` and its kwargs are
        renamed for skrl 1.4, where they are called ``state_preprocessor``.
    """
    cfg: dict[str, Any] = {"rollouts": ROLLOUT, "mini_batches": MINI_BATCHES, "experiment": dict(SILENT)}
    if name != "A2C":
        cfg["learning_epochs"] = EPOCHS
    cfg.update(overrides)
    if not SKRL_2:
        cfg = {key.replace("observation_preprocessor", "state_preprocessor"): value for key, value in cfg.items()}
    return cfg


def make_agent(name: str, model: Any, env: DriftWrapper, **overrides: Any) -> Any:
    """Return an agent with one model for both roles and a memory of one rollout."""
    return AGENTS[name](
        models={"policy": model, "value": model},
        memory=RandomMemory(memory_size=ROLLOUT, num_envs=env.num_envs, device="cpu"),
        observation_space=env.observation_space,
        action_space=env.action_space,
        device="cpu",
        cfg=configuration(name, **overrides),
    )


def make_multi_agent(name: str, model: Any, env: DriftGameWrapper, **overrides: Any) -> Any:
    """Return an IPPO or MAPPO in which all agents and roles share one model, each agent with a memory of its own."""
    agents = list(env.possible_agents)
    spaces = {"observation_spaces": env.observation_spaces, "action_spaces": env.action_spaces}
    if SKRL_2:
        spaces["state_spaces"] = env.state_spaces
        # skrl 2.1 refuses its own default of these, an empty dict, for want of the agents' names
        for component in (
            "learning_rate_scheduler",
            "observation_preprocessor",
            "state_preprocessor",
            "value_preprocessor",
        ):
            overrides.setdefault(f"{component}_kwargs", {uid: {} for uid in agents})
    elif name == "MAPPO":
        spaces["shared_observation_spaces"] = env.observation_spaces
    return {"IPPO": IPPO, "MAPPO": MAPPO}[name](
        possible_agents=agents,
        models={uid: {"policy": model, "value": model} for uid in agents},
        memories={uid: RandomMemory(memory_size=ROLLOUT, num_envs=env.num_envs, device="cpu") for uid in agents},
        device="cpu",
        cfg=configuration(name, **overrides),
        **spaces,
    )


def train(agent: Any, env: Any, updates: int) -> None:
    """Train for that many updates with skrl's own trainer, from a fixed state of the random generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        cfg = {"headless": True, "disable_progressbar": True, "close_environment_at_exit": False}
        SequentialTrainer(env=env, agents=agent, cfg={**cfg, "timesteps": updates * ROLLOUT}).train()


def trained_game(name: str, model: Any, updates: int, **overrides: Any) -> Any:
    """Train the one model of all agents with IPPO or MAPPO on a new :class:`DriftGame` and return the multi-agent."""
    env = DriftGameWrapper(DriftGame())
    agent = make_multi_agent(name, model, env, **overrides)
    train(agent, env, updates)
    return agent


def trained(name: str, model: Any, updates: int, discrete: bool = False, **overrides: Any) -> Any:
    """Train the model with an agent on a new :class:`DriftEnv` and return the agent."""
    env = DriftWrapper(DriftEnv(discrete))
    agent = make_agent(name, model, env, **overrides)
    train(agent, env, updates)
    return agent
