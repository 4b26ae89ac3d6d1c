"""Which wrapper skrl gets."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest
import torch
from skrl.envs.wrappers.torch import Wrapper
from skrl.envs.wrappers.torch.gymnasium_envs import GymnasiumWrapper
from skrl.envs.wrappers.torch.isaaclab_envs import IsaacLabWrapper

from skrl_vec_envs import wrap_env
from skrl_vec_envs.omniverse.tasks import CartpoleTask, PendulumTask
from skrl_vec_envs.snake import Snake
from skrl_vec_envs.views.gymnasium import GymnasiumView
from skrl_vec_envs.views.isaaclab import IsaacLabView
from skrl_vec_envs.views.skrl import SkrlView

from .omniverse.support import make
from .views.isaac_gym_fakes import FAKES


@pytest.mark.parametrize("env", [lambda: Snake(2), make, *FAKES])
def test_an_environment_that_the_view_knows_gets_the_view(env: Any) -> None:
    assert isinstance(wrap_env(env()), SkrlView)


@pytest.mark.parametrize(
    ("env", "wrapper"),
    [
        (lambda: IsaacLabView(make(autoreset="same_step")), IsaacLabWrapper),
        (lambda: GymnasiumView(make(autoreset="same_step")), GymnasiumWrapper),
        (lambda: gymnasium.make("CartPole-v1"), GymnasiumWrapper),
    ],
)
def test_other_environments_get_skrls_wrapper(env: Any, wrapper: type[Wrapper]) -> None:
    assert isinstance(wrap_env(env(), verbose=False), wrapper)


def test_what_is_wrapped_already_is_returned_and_a_wrapper_that_is_named_is_taken() -> None:
    view = wrap_env(make())
    assert wrap_env(view) is view
    named = wrap_env(IsaacLabView(make(autoreset="same_step")), wrapper="isaaclab-single-agent", verbose=False)
    assert isinstance(named, IsaacLabWrapper)


class Strange:
    num_envs = 3
    observation_space = None

    def step(self) -> None:
        pass


def test_an_environment_that_nothing_knows_is_described() -> None:
    with pytest.raises(
        TypeError, match=r"knows an object of .*Strange, which has num_envs, observation_space, step\."
    ) as e:
        wrap_env(Strange(), verbose=False)
    assert "needs num_envs, reset and step" in str(e.value)
    assert "wrap_env(env, wrapper='gymnasium')" in str(e.value)


def test_an_unknown_wrapper_is_refused_by_skrl() -> None:
    with pytest.raises(ValueError, match="Unknown wrapper type: none"):
        wrap_env(Strange(), wrapper="none", verbose=False)


def test_skrls_wrapper_of_isaac_lab_hands_the_states_on() -> None:
    env = wrap_env(IsaacLabView(make(PendulumTask, autoreset="same_step", asymmetric=True)), verbose=False)
    env.reset()
    observations, rewards, *_ = env.step(torch.zeros(4, 1))
    assert (observations.shape, rewards.shape) == ((4, 2), (4, 1))
    assert env.state_space.shape == (3,)


def test_skrls_wrapper_of_isaac_lab_has_no_state_space_without_states() -> None:
    env = wrap_env(IsaacLabView(make(CartpoleTask, autoreset="same_step")), verbose=False)
    assert env.state_space is None
