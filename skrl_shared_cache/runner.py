"""skrl's Runner, whose shared models run their trunk once per pair."""

from __future__ import annotations

from typing import Any

import skrl
from packaging.version import Version
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.utils.runner.torch import Runner as SkrlRunner

from skrl_shared_cache.agent_check import check_agent
from skrl_shared_cache.instantiator import shared_model
from skrl_shared_cache.preprocessors import cached_preprocessor
from skrl_shared_cache.tracking import track_cache

_SKRL_2 = Version(skrl.__version__).major >= 2
_PREPROCESSORS = ("observation_preprocessor", "state_preprocessor")


def cache_scalers(agent: dict[str, Any], models: dict[str, Any]) -> None:
    """Put cached scalers in the place of skrl's, where the same observations are scaled for the policy and the value.

    That is so on skrl 1.4 in each step, and on skrl 2 where values of truncated steps are bootstrapped. Elsewhere, and
    with separate models, nothing changes.

    :param agent: Configuration of the agent, in which names of classes have become classes.
    :param models: Configuration of the models.
    """
    if models.get("separate", True) or (_SKRL_2 and not agent.get("time_limit_bootstrap")):
        return
    cached: Any = cached_preprocessor(RunningStandardScaler)
    agent.update({name: cached for name in _PREPROCESSORS if agent.get(name) is RunningStandardScaler})


class Runner(SkrlRunner):
    """skrl's Runner, with :py:func:`~skrl_shared_cache.shared_model` for the models of ``separate: False``.

    It takes the arguments of :py:class:`skrl.utils.runner.torch.Runner` of the installed skrl, and the same
    configuration. A ``RunningStandardScaler`` of the observations is replaced by the cached one where the agent scales
    the same observations twice (on skrl 1.4; on skrl 2 with ``time_limit_bootstrap``). Configurations with
    ``separate: True`` are left alone. The statistics of the cache are written beside skrl's: see
    :py:func:`~skrl_shared_cache.track_cache`.

    :raises ValueError: If the networks of a shared model read different inputs, or if TRPO is to train a shared model.
    """

    def _component(self, name: str) -> Any:
        return shared_model if name.lower() == "shared" else super()._component(name)

    def _process_cfg(self, cfg: dict[str, Any]) -> dict[str, Any]:
        processed: dict[str, Any] = super()._process_cfg(cfg)
        cache_scalers(processed, self._cfg.get("models") or {})
        return processed

    def _generate_agent(self, *args: Any, **kwargs: Any) -> Any:
        agent = super()._generate_agent(*args, **kwargs)
        check_agent(agent)
        track_cache(agent)
        return agent
