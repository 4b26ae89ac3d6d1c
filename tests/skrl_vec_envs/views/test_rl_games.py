"""rl_games' view: spaces, infos, registration, and real rl_games training through it."""

# mypy: disable-error-code="import-not-found,import-untyped"

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from skrl_vec_envs.omniverse import VecEnv
from skrl_vec_envs.omniverse.tasks import CartpoleTask, PendulumTask, SnakeTask
from tests.skrl_vec_envs.omniverse.support import Recorder, make
from tests.skrl_vec_envs.rl_games_or_skip import rl_games_view

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


class Spaced(Recorder):
    def __init__(self, env: VecEnv, action_space: gymnasium.Space[Any], **settings: Any) -> None:
        self.action_space = action_space
        super().__init__(env, (5, 5), settings)


def spaced(action_space: gymnasium.Space[Any], **settings: Any) -> Any:
    module, env = rl_games_view(), VecEnv()
    env.set_task(Spaced(env, action_space, **settings))
    return module.RlGamesView(env)


@pytest.mark.parametrize(("settings", "bound"), [({}, 1.0), ({"clipActions": 3.0}, 3.0)])
def test_infinite_bounds_of_actions_are_shown_as_what_clips_them(settings: dict[str, float], bound: float) -> None:
    view = spaced(
        gymnasium.spaces.Box(np.array([-np.inf, -0.5]), np.array([np.inf, np.inf]), dtype=np.float32), **settings
    )
    space = view.get_env_info()["action_space"]
    assert space.low.tolist() == [-bound, -0.5]
    assert space.high.tolist() == [bound, bound]


def test_bounds_of_observations_and_states_are_finite() -> None:
    view = rl_games_view().RlGamesView(make(PendulumTask, asymmetric=True))
    for name in ("observation_space", "state_space"):
        assert np.isfinite(view.get_env_info()[name].high).all()
    info = rl_games_view().RlGamesView(make(CartpoleTask)).get_env_info()
    assert np.isfinite(info["observation_space"].high).all()
    assert np.isfinite(info["observation_space"].low).all()
    assert "state_space" not in info


def test_a_multidiscrete_space_is_shown_as_a_tuple_of_discrete_ones() -> None:
    view = spaced(gymnasium.spaces.MultiDiscrete([2, 5]))
    space = view.get_env_info()["action_space"]
    assert isinstance(space, gymnasium.spaces.Tuple)
    assert [choice.n for choice in space] == [2, 5]
    view.reset()
    view.step(torch.tensor([[1, 4], [0, 2]]))
    assert view.env.task.given[-1].tolist() == [[1, 4], [0, 2]]


def test_states_are_there_only_where_the_task_has_some() -> None:
    module = rl_games_view()
    assert set(module.RlGamesView(make(PendulumTask, asymmetric=True)).reset()) == {"obs", "states"}
    assert module.RlGamesView(make(PendulumTask)).reset().shape == (4, 3)


def test_infos_hold_the_time_outs_and_rewards_have_one_dimension() -> None:
    view = rl_games_view().RlGamesView(make(PendulumTask, maxEpisodeLength=2))
    view.reset()
    _, rewards, resets, infos = view.step(torch.zeros(4, 1))
    assert rewards.shape == resets.shape == infos["time_outs"].shape == (4,)
    assert infos["time_outs"].all()
    assert view.get_number_of_agents() == 1


def registered(**keywords: Any) -> Any:
    from rl_games.common import vecenv

    return vecenv.create_vec_env("ours", 4, **keywords)


def test_a_registered_environment_is_made_by_its_name() -> None:
    rl_games_view().register("ours", lambda num_envs, length=9: make(num_envs=num_envs, maxEpisodeLength=length))
    view = registered(num_envs=None, length=3)
    assert view.env.num_envs == 4
    assert view.env.task._max_episode_length == 3


def test_another_number_of_actors_another_result_and_no_factory_are_refused() -> None:
    module = rl_games_view()
    module.register("ours", lambda: make(num_envs=3))
    with pytest.raises(ValueError, match=r"num_actors .* of 'ours' has 4, the environment 3"):
        registered()
    module.register("ours", lambda: None)
    with pytest.raises(TypeError, match="the factory of 'ours' must return a VecEnv, got NoneType"):
        registered()
    with pytest.raises(ValueError, match="factory must be a function that returns a VecEnv, got 3"):
        module.register("ours", 3)


def config(task: Any, num_envs: int, epochs: int, folder: Path) -> dict[str, Any]:
    discrete = task is SnakeTask
    space = (
        {"discrete": {}}
        if discrete
        else {
            "continuous": {
                "mu_activation": "None",
                "sigma_activation": "None",
                "mu_init": {"name": "default"},
                "sigma_init": {"name": "const_initializer", "val": 0},
                "fixed_sigma": True,
            }
        }
    )
    return {
        "params": {
            "seed": 0,
            "algo": {"name": "a2c_discrete" if discrete else "a2c_continuous"},
            "model": {"name": "discrete_a2c" if discrete else "continuous_a2c_logstd"},
            "network": {
                "name": "actor_critic",
                "separate": False,
                "space": space,
                "mlp": {"units": [32, 32], "activation": "elu", "initializer": {"name": "default"}},
            },
            "config": {
                "name": "ours",
                "full_experiment_name": "ours",
                "train_dir": str(folder),
                "env_name": "ours",
                "env_config": {"num_envs": None},
                "device": "cpu",
                "device_name": "cpu",
                "torch_compile": False,
                "mixed_precision": False,
                "multi_gpu": False,
                "ppo": True,
                "num_actors": num_envs,
                "horizon_length": 16,
                "minibatch_size": 16 * num_envs,
                "mini_epochs": 4,
                "max_epochs": epochs,
                "save_best_after": 10**6,
                "save_frequency": 0,
                "gamma": 0.99,
                "tau": 0.95,
                "learning_rate": 3e-3,
                "lr_schedule": None,
                "e_clip": 0.2,
                "entropy_coef": 0.0,
                "critic_coef": 1.0,
                "clip_value": False,
                "bounds_loss_coef": 0.0,
                "grad_norm": 1.0,
                "truncate_grads": True,
                "normalize_input": True,
                "normalize_value": True,
                "normalize_advantage": True,
                "value_bootstrap": True,
                "reward_shaper": {"scale_value": 0.1},
            },
        }
    }


@pytest.mark.parametrize("task", [CartpoleTask, SnakeTask])
def test_rl_games_trains_through_it(task: Any, tmp_path: Path) -> None:
    module = rl_games_view()
    from rl_games.torch_runner import Runner

    made: list[VecEnv] = []
    steps: list[torch.Tensor] = []

    def factory(num_envs: int) -> VecEnv:
        made.append(make(task, num_envs=num_envs))
        original = made[-1].task.pre_physics_step

        def noting(actions: torch.Tensor) -> None:
            steps.append(actions.clone())
            original(actions)

        made[-1].task.pre_physics_step = noting  # type: ignore[method-assign]
        return made[-1]

    module.register("ours", factory)
    runner = Runner()
    runner.load(config(task, 8, 2, tmp_path))
    runner.run({"train": True, "play": False})
    assert [env.num_envs for env in made] == [8]
    assert len(steps) == 1 + 2 * 16
    assert all(actions.isfinite().all() for actions in steps)
    assert torch.cat(steps).unique().numel() > 2
