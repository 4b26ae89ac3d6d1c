"""What goes wrong in skrl's agents when their models share parameters, said before the training begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.optim import Optimizer

from skrl_shared_cache.errors import warn

# the models whose parameters skrl chains, for one optimizer and for the clipping of gradients
_CHAINS = (("policy", "value", "discriminator"), ("critic_1", "critic_2"))


def check_agent(agent: Any) -> None:
    """Look for what skrl does wrong with models that share parameters. Nothing is changed.

    :py:class:`~skrl_shared_cache.Runner` and :py:func:`~skrl_shared_cache.use` do it by themselves; a script that
    builds its agent by hand calls it between that and the training.

    A warning, with the fix, says where an optimizer holds parameters twice (AMP with one model for policy and value;
    PPO, A2C, RPO, IPPO, MAPPO, SAC, TD3 and others with separate models that hold the same encoder): it then takes two
    steps at once. Another one says where the clipping of gradients does.

    :param agent: Agent of skrl, or several in one (IPPO, MAPPO).

    :raises ValueError: If the agent is a TRPO with one model for policy and value, which would end in an error of
        autograd at the first update.
    """
    kinds = {kind.__name__ for kind in type(agent).__mro__}
    name = type(agent).__name__
    if kinds & {"TRPO", "TRPO_RNN"} and agent.policy is not None and agent.policy is agent.value:
        raise ValueError(
            f"TRPO needs one model per role, but {name} got one {type(agent.policy).__name__} for policy and value: it "
            "differentiates the policy's loss by all parameters of the model, and those of the value's head are not "
            "part of it. Write `separate: True` under `models`, or build two models"
        )
    for path, optimizer in _optimizers(agent):
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        doubled = len(parameters) - len(set(parameters))
        if doubled:
            warn(
                f"The optimizer of {name} must hold each parameter once, but {doubled} of the models' parameters are "
                f"in `{path}` twice, since two models share them: it takes two steps at once with these. Before the "
                f"training write `for group in {path}.param_groups: "
                'group["params"] = list(dict.fromkeys(group["params"]))`.'
            )
    for path, limit in _doubly_clipped(agent):
        warn(
            f"The gradient clipping of {name} must see each parameter once, but two models share parameters: their "
            "gradients count twice in the norm and are scaled twice. Write `grad_norm_clip: 0`, and let the optimizer "
            'clip: `def clip(optimizer, *_): torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], '
            f"{limit})` and `{path}.register_step_pre_hook(clip)`."
        )


def _optimizers(agent: Any) -> Iterator[tuple[str, Optimizer]]:
    for name, value in vars(agent).items():
        if isinstance(value, Optimizer):
            yield f"agent.{name}", value
    for uid, optimizer in _dictionary(agent, "optimizers").items():
        yield f"agent.optimizers[{uid!r}]", optimizer


def _doubly_clipped(agent: Any) -> Iterator[tuple[str, float]]:
    cfg = agent.cfg
    limits: Any = cfg.get("grad_norm_clip", 0) if isinstance(cfg, dict) else getattr(cfg, "grad_norm_clip", 0)
    for uid, policy in _dictionary(agent, "policies").items():
        limit = limits[uid] if isinstance(limits, dict) else limits
        if limit > 0 and _share([policy, _dictionary(agent, "values").get(uid)]):
            yield f"agent.optimizers[{uid!r}]", limit
    for names in _CHAINS:
        if _share([getattr(agent, name, None) for name in names]) and limits > 0:
            yield "agent.critic_optimizer" if "critic_1" in names else "agent.optimizer", limits


def _dictionary(agent: Any, name: str) -> dict[Any, Any]:
    # an agent of the user's own may have another use for the name
    found = getattr(agent, name, None)
    return found if isinstance(found, dict) else {}


def _share(models: list[Any]) -> bool:
    models = [model for model in models if isinstance(model, nn.Module)]
    if len({id(model) for model in models}) < 2:
        return False  # skrl takes the parameters of one model once
    parameters = [parameter for model in models for parameter in model.parameters()]
    return len(parameters) > len(set(parameters))
