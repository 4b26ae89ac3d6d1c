"""skrl's agents, memory and trainer, built by the same code on both lines."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
import torch.nn as nn
from skrl.agents.torch.a2c import A2C, A2C_RNN
from skrl.agents.torch.amp import AMP
from skrl.agents.torch.ppo import PPO, PPO_RNN
from skrl.agents.torch.rpo import RPO, RPO_RNN
from skrl.agents.torch.trpo import TRPO, TRPO_RNN
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, Model
from skrl.multi_agents.torch.ippo import IPPO
from skrl.multi_agents.torch.mappo import MAPPO
from skrl.trainers.torch import SequentialTrainer
from torch.optim.lr_scheduler import ConstantLR

from .drift import DriftEnv, DriftGame, DriftGameWrapper, DriftWrapper
from .lines import OBSERVATIONS, SKRL_2, init_model

AGENTS = {
    "PPO": PPO,
    "A2C": A2C,
    "RPO": RPO,
    "AMP": AMP,
    "TRPO": TRPO,
    "PPO_RNN": PPO_RNN,
    "A2C_RNN": A2C_RNN,
    "RPO_RNN": RPO_RNN,
    "TRPO_RNN": TRPO_RNN,
}

MULTI_AGENTS = {"IPPO": IPPO, "MAPPO": MAPPO}

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
    if not name.startswith("A2C"):
        cfg["learning_epochs"] = EPOCHS
    if name == "A2C_RNN" and not SKRL_2:  # a fault of skrl 1.4: it fails without a scheduler
        cfg |= {"learning_rate_scheduler": ConstantLR, "learning_rate_scheduler_kwargs": {"factor": 1.0}}
    cfg.update(overrides)
    if not SKRL_2:
        cfg = {key.replace("observation_preprocessor", "state_preprocessor"): value for key, value in cfg.items()}
    return cfg


class Discriminator(DeterministicMixin, Model):
    """What AMP asks whether a motion is one of the data set."""

    def __init__(self, env: DriftWrapper) -> None:
        init_model(self, Model, env.observation_space, env.action_space)
        DeterministicMixin.__init__(self)
        self.net = nn.Linear(self.num_observations, 1)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        return self.net(inputs[OBSERVATIONS]), {}


def make_agent(name: str, model: Any, env: DriftWrapper, **overrides: Any) -> Any:
    """Return an agent with a memory of one rollout.

    :param name: Agent.
    :param model: Model for both roles, or a policy and a value.
    :param env: Environment.
    :param overrides: Settings, as for :func:`configuration`.
    """
    policy, value = model if isinstance(model, tuple) else (model, model)
    models, extra = {"policy": policy, "value": value}, {}
    if name == "AMP":
        models["discriminator"] = Discriminator(env)
        extra = {
            "amp_observation_space": env.observation_space,
            "motion_dataset": RandomMemory(memory_size=64, device="cpu"),
            "reply_buffer": RandomMemory(memory_size=64, device="cpu"),
            "collect_reference_motions": lambda count: torch.zeros(count, 6),
        }
        overrides.setdefault("amp_batch_size", 16)
    return AGENTS[name](
        models=models,
        memory=RandomMemory(memory_size=ROLLOUT, num_envs=env.num_envs, device="cpu"),
        observation_space=env.observation_space,
        action_space=env.action_space,
        device="cpu",
        cfg=configuration(name, **overrides),
        **extra,
    )


def make_multi_agent(name: str, model: Any, env: DriftGameWrapper, **overrides: Any) -> Any:
    """Return an IPPO or MAPPO, each agent with a memory of its own.

    :param name: Multi-agent.
    :param model: Model for all agents and roles, or a dictionary with a model for each agent.
    :param env: Environment.
    :param overrides: Settings, as for :func:`configuration`.
    """
    agents = list(env.possible_agents)
    models = model if isinstance(model, dict) else dict.fromkeys(agents, model)
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
    return MULTI_AGENTS[name](
        possible_agents=agents,
        models={uid: {"policy": models[uid], "value": models[uid]} for uid in agents},
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
    """Train a model of all agents, or one for each, with IPPO or MAPPO on a new :class:`DriftGame`; return these."""
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
