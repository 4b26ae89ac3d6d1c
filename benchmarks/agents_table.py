"""The tables of docs/agents.md: how often the trunk runs in skrl's on-policy agents, and what a hit is recognized by.

Trains every agent for four updates with the installed line of skrl, looks at the last one, and rewrites that line's
table in the page. The rest of the page, the other line's table too, stays as it is.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import skrl
import torch
from skrl.models.torch import Model
from skrl.resources.preprocessors.torch import RunningStandardScaler

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the folder of tests there, not another package of that name

from skrl_shared_cache import SharedModel, cached_preprocessor, conditions  # noqa: E402
from tests.skrl_shared_cache.support import recurrent, zoo  # noqa: E402
from tests.skrl_shared_cache.support.agents import (  # noqa: E402
    EPOCHS,
    MINI_BATCHES,
    MULTI_AGENTS,
    ROLLOUT,
    make_agent,
    make_multi_agent,
    train,
)
from tests.skrl_shared_cache.support.drift import (  # noqa: E402
    DriftEnv,
    DriftGame,
    DriftGameWrapper,
    DriftWrapper,
)
from tests.skrl_shared_cache.support.passes import Passes  # noqa: E402
from tests.skrl_shared_cache.support.shadow import Shadow  # noqa: E402
from tests.skrl_shared_cache.support.twins import build  # noqa: E402

PAGE = ROOT / "docs" / "agents.md"
LINE = ".".join(skrl.__version__.split(".")[:2]) if skrl.__version__.startswith("1.") else "2"
UPDATES = 4
"""The first ones are those in which the cache watches and verifies, and finds out how many entries to keep."""
SCALERS = {"none": None, "skrl's": RunningStandardScaler, "cached": cached_preprocessor(RunningStandardScaler)}


class Case(NamedTuple):
    """A row of the table."""

    agent: str
    model: str
    plain: Callable[[Any], Any]
    """Makes the model that calls its trunk in every role."""
    own: Callable[[Any], Any] | None = None
    """Makes the model that uses skrl's single pass, if there is one."""
    is_one: bool = True
    """Whether all agents of a game have the same model."""


LSTM = {
    "LSTM": recurrent.plain["LSTM"],
    "LSTM, reset in place": recurrent.resetting["LSTM"],
    "LSTM, reset in place, named": recurrent.named["LSTM"],
}
CASES = (
    *(Case(agent, "MLP", zoo.naive, zoo.pattern) for agent in ("PPO", "A2C", "RPO", "AMP", "TRPO")),
    *(
        Case(agent, title, make, None if title == "LSTM" else recurrent.pattern["LSTM"])
        for agent in ("PPO_RNN", "A2C_RNN", "RPO_RNN")
        for title, make in LSTM.items()
    ),
    Case("TRPO_RNN", "LSTM", LSTM["LSTM"]),
    *(
        Case(agent, f"MLP, {title}", zoo.naive, zoo.pattern, is_one)
        for agent in MULTI_AGENTS
        for title, is_one in (("one for all", True), ("one for each", False))
    ),
)


class Phase:
    """What happened in the last rollout, or in the minibatches of the last update."""

    def __init__(self) -> None:
        self.passes = 0
        self.wrong = 0
        self.hits: Counter[str] = Counter()

    def passes_per(self, count: int) -> str:
        """Return the passes per step or minibatch, and whether outputs were wrong."""
        return f"{self.passes / count:.2f}".removesuffix(".00") + (", wrong" if self.wrong else "")

    @property
    def recognized_by(self) -> str:
        """What the inputs of the hits were recognized by."""
        return " and ".join(sorted(self.hits)) or "-"


class Phases(Passes):
    """Counts the passes of a training's trunks by phase.

    :param agent: Agent.
    """

    def __init__(self, agent: Any) -> None:
        self._agent, self._post_interaction = agent, agent.post_interaction
        self._is_update, self._updates = False, 0
        self._phases: dict[str, Phase] = {}
        agent.post_interaction = self._watched_post_interaction

    def watch(self, trunk: torch.nn.Module) -> None:
        """Count the passes of a trunk."""
        super().__init__(trunk)

    def add(self) -> None:
        self.now.passes += 1

    @property
    def now(self) -> Phase:
        """The phase that goes on. The value of the last observations is neither a step's nor a minibatch's."""
        phase = "minibatch" if torch.is_grad_enabled() else "last value" if self._is_update else "step"
        return self._phases.setdefault(phase, Phase())

    def __getitem__(self, phase: str) -> Phase:
        return self._phases.setdefault(phase, Phase())

    def _watched_post_interaction(self, *args: Any, **kwargs: Any) -> None:
        self._is_update = True
        learns = not (self._agent._rollout + 1) % ROLLOUT
        self._post_interaction(*args, **kwargs)
        self._is_update = False
        if learns:
            self._updates += 1
            if self._updates < UPDATES:
                self._phases.clear()


COMPARISONS = {"is_alias": "view", "equals": "bits"}
"""The functions of the cache's conditions that recognize an input which is not the same object."""


@contextmanager
def watched_comparisons() -> Iterator[Counter[str]]:
    """Count the inputs in which the cache recognizes a view, or the bits of another tensor."""
    counts: Counter[str] = Counter()

    def counted(name: str, function: Callable[..., bool]) -> Callable[..., bool]:
        def call(*args: Any) -> bool:
            result = function(*args)
            counts[name] += result
            return result

        return call

    with ExitStack() as stack:
        for function, name in COMPARISONS.items():
            original = getattr(conditions, function)
            stack.enter_context(mock.patch.object(conditions, function, counted(name, original)))
        yield counts


def watch_hits(model: Any, phases: Phases, counts: Counter[str]) -> None:
    """Note for each hit of a model what its inputs were recognized by."""
    act = model.act

    def watched_act(inputs: dict[str, Any], role: str = "") -> Any:
        hits, before = model.cache_info().hits, counts.copy()
        result = act(inputs, role=role)
        if model.cache_info().hits > hits:
            seen = counts - before
            phases.now.hits["bits" if seen["bits"] else "view" if seen["view"] else "object"] += 1
        return result

    model.act = watched_act


def watch_wrong_outputs(model: Any, make: Callable[[Any], Any], phases: Phases) -> None:
    """Count the calls in which a model returns something else than it does without a single pass."""
    shadow = Shadow(model, make, is_tolerant=True)
    act = model.act

    def watched_act(inputs: dict[str, Any], role: str = "") -> Any:
        before = shadow.wrong
        result = act(inputs, role=role)
        phases.now.wrong += shadow.wrong - before
        return result

    model.act = watched_act


def measure(case: Case, make: Callable[[Any], Any], base: Any, scaler: Any = None) -> Phases:
    """Train, and count in the last rollout and update.

    :param case: Agent, and how many models.
    :param make: Makes a model on a base class.
    :param base: Base class.
    :param scaler: Class of the observations' preprocessor, or None.

    :return: Counts by phase, of all agents.
    """
    is_game = case.agent in MULTI_AGENTS
    env: Any = DriftGameWrapper(DriftGame()) if is_game else DriftWrapper(DriftEnv())
    uids = env.possible_agents if is_game else ["alone"]
    seeds = [0 if case.is_one else seed for seed, _ in enumerate(uids)]
    models = {seed: build(make, base, seed) for seed in seeds}
    kwargs: Any = {"size": zoo.OBSERVATION_SIZE, "device": "cpu"}
    kwargs = dict.fromkeys(uids, kwargs) if is_game else kwargs
    settings = {"observation_preprocessor": scaler, "observation_preprocessor_kwargs": kwargs} if scaler else {}
    with warnings.catch_warnings(), watched_comparisons() as counts:
        warnings.simplefilter("ignore")  # of doubled parameters (AMP), and that nothing can be saved (MAPPO)
        if is_game:
            by_agent = {uid: models[seed] for uid, seed in zip(uids, seeds)}
            agent = make_multi_agent(case.agent, by_agent, env, **settings)
        else:
            agent = make_agent(case.agent, models[0], env, **settings)
        phases = Phases(agent)
        for model in models.values():
            phases.watch(model.net)
            if isinstance(model, SharedModel):
                watch_hits(model, phases, counts)
            else:
                watch_wrong_outputs(model, make, phases)
        train(agent, env, UPDATES)
    return phases


def row(case: Case) -> tuple[str, ...]:
    """Measure a row of the table."""
    try:
        plain = measure(case, case.plain, Model)
    except RuntimeError:  # TRPO, in autograd
        return case.agent, case.model, "one model for both roles ends in an error: use two", *[""] * 7
    own = measure(case, case.own, Model) if case.own else None
    ours = [measure(case, case.plain, SharedModel, scaler) for scaler in SCALERS.values()]
    agents = len(DriftGame.possible_agents) if case.agent in MULTI_AGENTS else 1
    epochs = 1 if case.agent.startswith("A2C") else EPOCHS
    cells: list[str] = []
    for phase, count in (("step", ROLLOUT * agents), ("minibatch", MINI_BATCHES * epochs * agents)):
        cells.append(plain[phase].passes_per(count))
        cells.append(own[phase].passes_per(count) if own else "")
        cells.append(ours[0][phase].passes_per(count))
        kinds = [each[phase].recognized_by for each in ours]
        cells.append(kinds[0] if len(set(kinds)) == 1 else " / ".join(kinds))
    return case.agent, case.model, *cells


def table() -> str:
    """Return the table of the installed line."""
    columns = ("`Model`", "single pass", "`SharedModel`", "recognized by")
    head = ("agent", "model", *(f"{phase}: {column}" for phase in ("step", "minibatch") for column in columns))
    rows = [head, *map(row, CASES)]
    lines = ["| " + " | ".join(cells) + " |" for cells in rows]
    return "\n".join((lines[0], "|" + "---|" * len(head), *lines[1:]))


def marks(line: str) -> tuple[str, str]:
    """Return the comments between which the table of a line of skrl stands in the page."""
    return f"<!-- measured on skrl {line} -->\n", f"\n<!-- end of skrl {line} -->"


def table_of_page(line: str = LINE) -> str:
    """Return the table of a line of skrl as it stands in the page."""
    start, end = marks(line)
    _, found, rest = PAGE.read_text("utf-8").partition(start)
    text, found_end, _ = rest.partition(end)
    if not (found and found_end):
        raise ValueError(f"{PAGE.name} must have a place for the table of skrl {line}: {start!r} and then {end!r}")
    return text


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and put the table of the installed line into the page."""
    argparse.ArgumentParser(description=__doc__).parse_args(argv)
    torch.set_num_threads(1)
    old, new = table_of_page(), table()
    PAGE.write_text(PAGE.read_text("utf-8").replace(old.join(marks(LINE)), new.join(marks(LINE))), "utf-8")
    print(new)


if __name__ == "__main__":
    main()
