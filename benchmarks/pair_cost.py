"""What a policy/value pair costs with skrl's Model and with SharedModel: the tables of the README.

Pair = ``policy.act`` + ``value.act``, as an agent calls them. Both models take turns within one process, a block of
pairs each; every figure is the median over the blocks, and a ratio is the median of the ratios of neighbouring blocks.
The limits that are printed beside the figures are the project's own promises for an idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import skrl
import torch
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from torch import nn

from skrl_shared_cache import SharedModel

OBSERVATIONS, ACTIONS = 60, 8
IS_SKRL_2 = not skrl.__version__.startswith("1.")
KEY = "observations" if IS_SKRL_2 else "states"


def actor_critic(base: type[Model], trunk: nn.Module, features: int, device: str = "cpu") -> Any:
    """Build a Gaussian policy and a value on one trunk.

    :param base: ``Model`` or ``SharedModel``.
    :param trunk: Trunk, from shape ``(N, 60)`` to ``(N, features)``.
    :param features: Number of features.
    :param device: Device.

    :return: Model.
    """
    spaces = [gymnasium.spaces.Box(-1.0, 1.0, (size,), np.float32) for size in (OBSERVATIONS, ACTIONS)]

    class ActorCritic(GaussianMixin, DeterministicMixin, base):
        def __init__(self) -> None:
            if IS_SKRL_2:
                base.__init__(self, observation_space=spaces[0], action_space=spaces[1], device=device)
            else:
                base.__init__(self, spaces[0], spaces[1], device)
            GaussianMixin.__init__(self)
            DeterministicMixin.__init__(self)
            self.net = trunk
            self.mean = nn.Linear(features, ACTIONS)
            self.log_std = nn.Parameter(torch.zeros(ACTIONS))
            self.value = nn.Linear(features, 1)

        def act(self, inputs: dict[str, Any], role: str = "") -> Any:
            return (GaussianMixin if role == "policy" else DeterministicMixin).act(self, inputs, role=role)

        def compute(self, inputs: dict[str, Any], role: str = "") -> Any:
            features = self.net(inputs[KEY])
            if role == "value":
                return self.value(features), {}
            if IS_SKRL_2:
                return self.mean(features), {"log_std": self.log_std}
            return self.mean(features), self.log_std, {}

    return ActorCritic().to(device)


def mlp(units: list[int]) -> nn.Sequential:
    """Build a trunk of linear layers, each followed by an ELU.

    :param units: Sizes of the layers.

    :return: Trunk.
    """
    layers: list[nn.Module] = []
    for inputs, outputs in zip([OBSERVATIONS, *units], units):
        layers += [nn.Linear(inputs, outputs), nn.ELU()]
    return nn.Sequential(*layers)


def pair_of(model: Any, inputs: dict[str, Any], grad: bool, backward: bool, method: str = "act") -> Callable[[], None]:
    """Make a function of one pair.

    :param model: Model.
    :param inputs: Inputs of both calls.
    :param grad: Whether it runs in grad mode.
    :param backward: Whether it goes backward through both outputs.
    :param method: ``"act"``, or ``"compute"`` for the pair without the distributions around it.

    :return: Function.
    """

    call = getattr(model, method)

    def pair() -> None:
        with torch.set_grad_enabled(grad):
            actions = call(inputs, role="policy")[0]
            values = call(inputs, role="value")[0]
            if backward:
                (actions.square().mean() + values.square().mean()).backward()
                model.zero_grad()

    return pair


def block_time(function: Callable[[], None], calls: int) -> float:
    """Time a block of calls.

    :param function: Function.
    :param calls: Number of calls.

    :return: Seconds per call.
    """
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls


def interleave(functions: dict[str, Callable[[], None]], calls: int, blocks: int) -> dict[str, list[float]]:
    """Time several functions in turn.

    :param functions: Functions by name.
    :param calls: Calls per block.
    :param blocks: Blocks per function.

    :return: Seconds per call, of each block, by name.
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        block_time(function, max(6, min(calls, 30)))  # warm-up, and the cache's probation
    for _ in range(blocks):
        for name, function in functions.items():
            times[name].append(block_time(function, calls))
    return times


def measure_pair(units: list[int], batch: int, backward: bool, calls: int, blocks: int) -> dict[str, Any]:
    """Compare the whole pair.

    :param units: Trunk.
    :param batch: Batch size.
    :param backward: Whether forward and backward, or forward without grad.
    :param calls: Calls per block.
    :param blocks: Blocks.

    :return: Row of the table, times in milliseconds.
    """
    inputs = {KEY: torch.randn(batch, OBSERVATIONS)}
    pairs = {
        name: pair_of(actor_critic(base, mlp(units), units[-1]), inputs, backward, backward)
        for name, base in (("plain", Model), ("cached", SharedModel))
    }
    times = interleave(pairs, calls, blocks)
    ratios = [cached / plain for cached, plain in zip(times["cached"], times["plain"])]
    milliseconds = {name: 1e3 * statistics.median(each) for name, each in times.items()}
    return {"trunk": units, "batch": batch, "backward": backward, **milliseconds, "ratio": statistics.median(ratios)}


def measure_bookkeeping(parameters: int, grad: bool, calls: int, blocks: int) -> dict[str, Any]:
    """Find what a miss and its hit add: the cached pair, less the plain pair without its second trunk pass.

    Once with ``compute`` called in a loop, and once within ``act``, where the bookkeeping, as all of Python, comes upon
    processor caches that the distributions have filled.

    :param parameters: Number of parameters in the trunk.
    :param grad: Whether in grad mode.
    :param calls: Calls per block.
    :param blocks: Blocks.

    :return: Row of the table, in microseconds.
    """
    units = [8] * (parameters // 2)
    inputs = {KEY: torch.randn(1, OBSERVATIONS)}
    plain, cached = (actor_critic(base, mlp(units), units[-1]) for base in (Model, SharedModel))

    def trunk_alone() -> None:
        with torch.set_grad_enabled(grad):
            plain.net(inputs[KEY])

    functions = {
        f"{name} {method}": pair_of(model, inputs, grad, False, method)
        for method in ("compute", "act")
        for name, model in (("plain", plain), ("cached", cached))
    }
    times = interleave({**functions, "trunk": trunk_alone}, calls, blocks)
    row: dict[str, Any] = {"parameters": parameters, "grad": grad}
    for method in ("compute", "act"):
        figures = zip(times[f"cached {method}"], times[f"plain {method}"], times["trunk"])
        row[method] = 1e6 * statistics.median(c - p + t for c, p, t in figures)
    return row


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print the tables and save the figures.

    :param argv: Command line.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few blocks and small batches, to see that it runs")
    parser.add_argument("--output", type=Path, help="file for the raw figures (JSON)")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    blocks = 3 if args.quick else 15
    load = os.getloadavg()[0]
    machine = f"skrl {skrl.__version__}, torch {torch.__version__}, one thread of {os.cpu_count()}, load {load:.2f}"
    print(machine + (": NOT IDLE, do not trust the figures" if load > 0.3 * (os.cpu_count() or 1) else ""))

    bookkeeping = [
        measure_bookkeeping(parameters, grad, 200 if args.quick else 2000, blocks)
        for parameters in (8, 20)
        for grad in (False, True)
    ]
    print("\n| parameters in the trunk | grad | a miss and its hit | within `act` | limit |\n|---|---|---|---|---|")
    for row in bookkeeping:
        limit = (15 if row["parameters"] == 8 else 22) + 3 * row["grad"]
        mode = "yes" if row["grad"] else "no"
        print(f"| {row['parameters']} | {mode} | {row['compute']:.1f} us | {row['act']:.1f} us | {limit} us |")

    small, shrunk = (200, 16) if args.quick else (2000, 1)
    pairs = [
        measure_pair([32, 32], 64, False, small, blocks),
        measure_pair([32, 32], 64, True, small // 4, blocks),
        measure_pair([512, 256, 256, 128], 512 // shrunk, True, 5, blocks),
        measure_pair([2048, 1024, 1024, 512], 4096 // shrunk, True, 1, 1 if args.quick else 5),
    ]
    limits = {} if args.quick else {32: 1.0, 2048: 0.55}
    print("\n| trunk | batch | pass | plain | cached | cached / plain | limit |\n|---|---|---|---|---|---|---|")
    for row in pairs:
        limit = limits.get(row["trunk"][0]) if row["trunk"][0] != 32 or not row["backward"] else None
        print(
            f"| {row['trunk']} | {row['batch']} | {'forward and backward' if row['backward'] else 'forward, no grad'} "
            f"| {row['plain']:.3f} ms | {row['cached']:.3f} ms | {row['ratio']:.2f} | {limit or ''} |"
        )
    if args.output:
        args.output.write_text(json.dumps({"machine": machine, "bookkeeping": bookkeeping, "pairs": pairs}, indent=2))
        print(f"\nRaw figures: {args.output}")


if __name__ == "__main__":
    main()
