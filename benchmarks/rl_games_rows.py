"""What is compared: rl_games, skrl in three ways, and a bare loop, each on the same environment and configuration."""

# mypy: disable-error-code="import-not-found,import-untyped"
from __future__ import annotations

import contextlib
import copy
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import skrl
import torch
from skrl.envs.wrappers.torch import Wrapper
from skrl.utils.model_instantiators.torch import shared_model
from skrl.utils.runner.torch import Runner as SkrlRunner
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from skrl_shared_cache import Runner
from skrl_shared_cache.rl_games import convert

OBSERVATIONS, ACTIONS = 60, 8
STEPS, EPOCHS, MINI_BATCHES = 16, 4, 4
CLIP, GAMMA, LAMBDA, RATE, CRITIC = 0.2, 0.99, 0.95, 3e-4, 2.0
IS_SKRL_2 = not skrl.__version__.startswith("1.")


class Cost(NamedTuple):
    """An iteration: a rollout and an update."""

    rollout: float
    update: float
    cpu: float
    """Processor time of both, seconds."""
    trunk_passes: int


class Constant:
    """N environments whose observations, f32 ``(N, 60)``, and rewards have been drawn before: a step costs nothing."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBSERVATIONS,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (ACTIONS,), np.float32)
    state_space = None
    num_agents = 1
    device = torch.device("cpu")

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self._drawn = [torch.randn(num_envs, OBSERVATIONS) for _ in range(STEPS)]
        self._rewards = torch.randn(num_envs)
        self._step = 0

    def reset(self) -> torch.Tensor:
        return self._drawn[0]

    def step(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return new observations and rewards. Skrl adds to rewards in place."""
        self._step = (self._step + 1) % STEPS
        return self._drawn[self._step].clone(), self._rewards.clone()


class SkrlConstant(Wrapper):
    """skrl's view of it."""

    def reset(self) -> Any:
        return self._env.reset(), {}

    def step(self, actions: torch.Tensor) -> Any:
        observations, rewards = self._env.step()
        never = torch.zeros(self._env.num_envs, 1, dtype=torch.bool)
        return observations, rewards[:, None], never, never, {}

    def state(self) -> None:
        return None

    def render(self, *args: Any, **kwargs: Any) -> None:
        return None

    def close(self) -> None:
        return None


def rl_games_config(units: list[int], num_envs: int, mixed: bool) -> dict[str, Any]:
    """Write rl_games' configuration, from which skrl's is converted.

    :param units: Layers of the trunk.
    :param num_envs: Number of environments.
    :param mixed: Whether to learn in bfloat16.

    :return: Configuration. The rate is fixed, nothing is normalized, and no value is clipped.
    """
    continuous = {
        "mu_activation": "None",
        "sigma_activation": "None",
        "mu_init": {"name": "default"},
        "sigma_init": {"name": "const_initializer", "val": 0.0},
        "fixed_sigma": True,
    }
    config = {
        "name": "constant",
        "env_name": "constant",
        "device": "cpu",
        "device_name": "cpu",
        "mixed_precision": mixed,
        "num_actors": num_envs,
        "horizon_length": STEPS,
        "minibatch_size": STEPS * num_envs // MINI_BATCHES,
        "mini_epochs": EPOCHS,
        "max_epochs": 1,
        "gamma": GAMMA,
        "tau": LAMBDA,
        "learning_rate": RATE,
        "lr_schedule": None,
        "schedule_type": "standard",  # with the other one it reads the divergence in each minibatch, for nothing
        "e_clip": CLIP,
        "entropy_coef": 0.0,
        "critic_coef": CRITIC,
        "clip_value": False,
        "bounds_loss_coef": 0.0,
        "truncate_grads": False,
        "grad_norm": 0.0,
        "normalize_input": False,
        "normalize_value": False,
        "normalize_advantage": True,
        "value_bootstrap": False,
        "reward_shaper": {},
    }
    mlp = {"units": units, "activation": "elu", "initializer": {"name": "default"}}
    network = {"name": "actor_critic", "space": {"continuous": continuous}, "mlp": mlp}
    names = {"algo": {"name": "a2c_continuous"}, "model": {"name": "continuous_a2c_logstd"}}
    return {"params": {"seed": 0, **names, "network": network, "config": config}}


class RlGames:
    """rl_games' own agent. It times itself."""

    def __init__(self, units: list[int], num_envs: int, mixed: bool) -> None:
        with _cuda_is_cpu(), contextlib.redirect_stdout(None), tempfile.TemporaryDirectory() as folder:
            self._agent = self._make(units, num_envs, mixed, folder)
            self._agent.writer.close()  # it begins a log, into which iterations write nothing
        self._agent.init_tensors()
        self._agent.obs = self._agent.env_reset()
        self.trunk: nn.Module = self._agent.model.a2c_network.actor_mlp

    def _make(self, units: list[int], num_envs: int, mixed: bool, folder: str) -> Any:
        from rl_games.algos_torch.a2c_continuous import A2CAgent
        from rl_games.common.algo_observer import DefaultAlgoObserver
        from rl_games.common.tr_helpers import DefaultRewardsShaper

        env = Constant(num_envs)
        params = copy.deepcopy(rl_games_config(units, num_envs, mixed)["params"])
        params["config"].update(
            env_info={"observation_space": env.observation_space, "action_space": env.action_space},
            vec_env=SimpleNamespace(
                reset=env.reset,
                step=lambda actions: (*env.step(), torch.zeros(num_envs, dtype=torch.bool), {}),
                set_train_info=lambda *_: None,
            ),
            features={"observer": DefaultAlgoObserver()},
            reward_shaper=DefaultRewardsShaper(),
            train_dir=folder,
        )
        return A2CAgent(base_name="run", params=params)

    def iterate(self) -> tuple[float, float]:
        """Run an iteration.

        :return: Seconds of the rollout and of the update.
        """
        with _cuda_is_cpu():
            self._agent.update_epoch()
            _, rollout, update, *_ = self._agent.train_epoch()
        self._agent.dataset.update_values_dict(None)
        return rollout, update


@contextlib.contextmanager
def _cuda_is_cpu() -> Iterator[None]:
    """Let rl_games, which autocasts on ``cuda`` whatever its device is, do so on the CPU."""
    autocast, scaler = torch.amp.autocast, torch.amp.GradScaler
    torch.amp.autocast = lambda device_type, **kwargs: autocast("cpu", **kwargs)  # type: ignore[assignment,misc]
    torch.amp.GradScaler = lambda device, **kwargs: scaler("cpu", **kwargs)  # type: ignore[assignment,misc]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.amp.autocast, torch.amp.GradScaler = autocast, scaler  # type: ignore[misc]


class TwoPassRunner(SkrlRunner):
    """skrl's Runner with a model that runs its trunk for each role."""

    def _component(self, name: str) -> Any:
        if name.lower() != "shared":
            return super()._component(name)
        return lambda **kwargs: shared_model(**kwargs, single_forward_pass=False)


class Skrl:
    """skrl's PPO and trainer, built by a Runner from the converted configuration."""

    def __init__(self, runner: Any, units: list[int], num_envs: int, mixed: bool) -> None:
        config = convert(rl_games_config(units, num_envs, mixed)).config
        config["agent"]["experiment"] = {"write_interval": 0, "checkpoint_interval": 0}
        config["trainer"].update(close_environment_at_exit=False, disable_progressbar=True, headless=True)
        with contextlib.redirect_stdout(None):
            self._runner = runner(SkrlConstant(Constant(num_envs)), config)
        agent = self._runner.agent
        self.trunk: nn.Module = agent.policy.net_container
        self._update = 0.0
        name = "update" if IS_SKRL_2 else "_update"
        setattr(agent, name, self._timed(getattr(agent, name)))

    def _timed(self, update: Callable[..., None]) -> Callable[..., None]:
        def timed(*args: Any, **kwargs: Any) -> None:
            start = time.perf_counter()
            update(*args, **kwargs)
            self._update = time.perf_counter() - start

        return timed

    def iterate(self) -> tuple[float, float]:
        """Run an iteration.

        :return: Seconds of the rollout and of the update.
        """
        start = time.perf_counter()
        self._runner.run()
        return time.perf_counter() - start - self._update, self._update


class Bare:
    """The limit: what PPO needs of torch, and nothing else. One trunk pass per minibatch, slices, fused Adam."""

    def __init__(self, units: list[int], num_envs: int, mixed: bool) -> None:
        layers: list[nn.Module] = []
        for inputs, outputs in zip([OBSERVATIONS, *units], units):
            layers += [nn.Linear(inputs, outputs), nn.ELU()]
        self.trunk: nn.Module = nn.Sequential(*layers)
        self._heads = nn.Linear(units[-1], ACTIONS + 1)
        self._log_std = nn.Parameter(torch.zeros(ACTIONS))
        parameters = [*self.trunk.parameters(), *self._heads.parameters(), self._log_std]
        self._optimizer = torch.optim.Adam(parameters, lr=RATE, fused=True)
        self._env, self._mixed = Constant(num_envs), mixed
        self._observations = self._env.reset()

    def iterate(self) -> tuple[float, float]:
        """Run an iteration.

        :return: Seconds of the rollout and of the update.
        """
        start = time.perf_counter()
        with torch.no_grad():
            data = self._collect()
        middle = time.perf_counter()
        for _ in range(EPOCHS):
            for batch in zip(*(tensor.chunk(MINI_BATCHES) for tensor in data)):
                self._learn(*batch)
        return middle - start, time.perf_counter() - middle

    def _forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = self._heads(self.trunk(observations)).float()
        return outputs[:, :-1], outputs[:, -1]

    def _log_prob(self, actions: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
        scaled = (actions - mean) * (-self._log_std).exp()
        return -0.5 * scaled.square().sum(dim=-1) - self._log_std.sum() - 0.5 * ACTIONS * float(np.log(2 * np.pi))

    def _collect(self) -> list[torch.Tensor]:
        steps = []
        for _ in range(STEPS):
            mean, value = self._forward(self._observations)
            actions = mean + self._log_std.exp() * torch.randn_like(mean)
            step = [self._observations, actions, self._log_prob(actions, mean), value]
            self._observations, rewards = self._env.step()
            steps.append([*step, rewards])
        observations, actions, log_prob, values, rewards = (torch.stack(tensors) for tensors in zip(*steps))
        following, advantage = self._forward(self._observations)[1], torch.zeros_like(values[0])
        advantages = torch.empty_like(values)
        for i in reversed(range(STEPS)):
            advantage = rewards[i] + GAMMA * following - values[i] + GAMMA * LAMBDA * advantage
            advantages[i], following = advantage, values[i]
        returns = advantages + values
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        return [tensor.flatten(0, 1) for tensor in (observations, actions, log_prob, advantages, returns)]

    def _learn(self, observations: Any, actions: Any, old: Any, advantages: Any, returns: Any) -> None:
        with torch.autocast("cpu", enabled=self._mixed, dtype=torch.bfloat16):
            mean, values = self._forward(observations)
        ratio = (self._log_prob(actions, mean) - old).exp()
        surrogate = torch.minimum(advantages * ratio, advantages * ratio.clamp(1 - CLIP, 1 + CLIP))
        loss = 0.5 * CRITIC * (returns - values).square().mean() - surrogate.mean()
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()


ROWS: dict[str, Callable[..., Any]] = {
    "rl_games": RlGames,
    "skrl, two passes": lambda *args: Skrl(TwoPassRunner, *args),
    "skrl, own single pass": lambda *args: Skrl(SkrlRunner, *args),
    "skrl, SharedModel": lambda *args: Skrl(Runner, *args),
    "bare loop (the limit)": Bare,
}


class Operators(TorchDispatchMode):
    """Counts what is dispatched, and what would wait for a GPU: reading numbers, but Adam's, which are on the CPU."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls = self.waits = 0
        self.is_in_step = False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        self.waits += not self.is_in_step and function.name() in (
            "aten::_local_scalar_dense",
            "aten::nonzero",
            "aten::equal",
        )
        return function(*args, **(kwargs or {}))


def measure(row: Any) -> Cost:
    """Time an iteration, and count the passes of its trunk."""
    passes = 0

    def count(*_: Any) -> None:
        nonlocal passes
        passes += 1

    hook = row.trunk[0].register_forward_pre_hook(count)
    cpu = time.process_time()
    rollout, update = row.iterate()
    cpu = time.process_time() - cpu
    hook.remove()
    return Cost(rollout, update, cpu, passes)
