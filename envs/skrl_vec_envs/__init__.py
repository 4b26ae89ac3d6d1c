"""Vectorized environments in torch, and the views through which RL libraries see them.

A task (such as :class:`skrl_vec_envs.omniverse.tasks.CartpoleTask`, or the game :mod:`skrl_vec_envs.snake`) is written
once and needs torch and gymnasium only. Each module of :mod:`skrl_vec_envs.views` imports the one library that it
serves; none is imported from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skrl.envs.wrappers.torch import MultiAgentEnvWrapper, Wrapper

__all__ = ["wrap_env"]


def wrap_env(env: Any, wrapper: str = "auto", verbose: bool = True) -> Wrapper | MultiAgentEnvWrapper:
    """Wrap an environment for skrl: the view of this package that knows it, or else skrl's own ``wrap_env``.

    skrl 2 has no wrapper for OmniIsaacGymEnvs and Isaac Gym any more, and takes them for Gymnasium's environments.

    :param env: An environment of this package, OmniIsaacGymEnvs, Isaac Gym, or any that skrl knows. One that is wrapped
        already is returned as it is.
    :param wrapper: ``"auto"``, or the name of a wrapper of skrl's.
    :param verbose: Let skrl log which wrapper it takes.

    :return: The wrapped environment.

    :raises TypeError: Nothing knows an environment of that kind.
    :raises ValueError: The wrapper's name is unknown.
    """
    from skrl_vec_envs.views.skrl import wrap_env as wrap

    return wrap(env, wrapper, verbose)
