"""The finished trainings of the comparison of what is learned, in a JSON file that is never written half."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from quality_tasks import NUM_ENVS, TASKS, rl_games_config

POINTS = 40
"""Points of a curve."""
LAST = 0.2
"""Share of the training whose episodes make the final return."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """A training to be done."""

    task: str
    library: str
    seed: int
    steps: int
    """Steps of each environment."""
    versions: str

    @property
    def key(self) -> str:
        """What tells this training from all others, its configuration included."""
        config = (rl_games_config(self.task, self.seed, self.steps), TASKS[self.task].settings, NUM_ENVS)
        digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:12]
        return f"{self.task}, {self.library}, seed {self.seed}, {self.steps} steps, {self.versions}, {digest}"

    def __str__(self) -> str:
        return f"{self.task}, {self.library}, seed {self.seed}"


@dataclasses.dataclass(frozen=True)
class Record:
    """A finished training."""

    final_return: float
    """Mean return of the episodes that ended in the last fifth of the steps."""
    mean_return: float
    """Mean of the curve: it is the higher the sooner returns rise."""
    curve: list[float | None]
    """Mean return of the episodes that ended in each fortieth of the steps; where none did, that of the one before."""
    episodes: int
    seconds: float
    """Wall time, with the start of the process."""


def summarize(ended: Sequence[tuple[int, float]], steps: int, seconds: float) -> Record:
    """Make a record of a training.

    :param ended: Step from 1 on, and return, of each episode.
    :param steps: Steps of the training.
    :param seconds: Time that it took.

    :return: Record.

    :raises ValueError: If no episode ended in the last fifth.
    """
    parts: list[list[float]] = [[] for _ in range(POINTS)]
    for step, value in ended:
        parts[(step - 1) * POINTS // steps].append(value)
    curve: list[float | None] = []
    for part in parts:
        curve.append(fmean(part) if part else curve[-1] if curve else None)
    last = [value for step, value in ended if step > (1 - LAST) * steps]
    if not last:
        raise ValueError(f"the training is too short: no episode ended in the last fifth of its {steps} steps")
    return Record(fmean(last), fmean(point for point in curve if point is not None), curve, len(ended), seconds)


class Records:
    """Finished trainings by their key, in a file.

    :param path: File, which need not be there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        runs = json.loads(path.read_text())["runs"] if path.exists() else {}
        self._records = {key: Record(**values) for key, values in runs.items()}

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, plan: Plan) -> bool:
        return plan.key in self._records

    def __getitem__(self, plan: Plan) -> Record:
        return self._records[plan.key]

    def add(self, plan: Plan, record: Record) -> None:
        """Add a record, and write the file."""
        self._records[plan.key] = record
        self.path.parent.mkdir(parents=True, exist_ok=True)
        runs = {key: dataclasses.asdict(self._records[key]) for key in sorted(self._records)}
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({"runs": runs}, indent=1))
        os.replace(new, self.path)
