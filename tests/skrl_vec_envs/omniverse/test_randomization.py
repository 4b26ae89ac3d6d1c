"""Noise on actions and observations, from the configuration."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from skrl_vec_envs.omniverse.randomization import Randomizer

GAUSSIAN = {"operation": "additive", "distribution": "gaussian", "distribution_parameters": [0.0, 1.0]}


def randomizer(**params: Any) -> tuple[Randomizer, Any]:
    task = SimpleNamespace(num_envs=4, num_observations=3, num_actions=2, rl_device="cpu")
    section = {"domain_randomization": {"randomize": True, "randomization_params": params}}
    made = Randomizer({}, section)
    made.set_up_domain_randomization(task)
    return made, task


def test_only_what_is_named_is_randomized() -> None:
    made, task = randomizer(observations={"on_reset": GAUSSIAN})
    assert made.randomize
    assert task.randomize_observations
    assert not hasattr(task, "randomize_actions")
    assert not Randomizer(
        {}, {"domain_randomization": {"randomize": False, "randomization_params": {"a": 1}}}
    ).randomize
    assert not Randomizer({}, {}).randomize


def test_noise_on_reset_stays_until_the_next_reset_of_that_row() -> None:
    made, _ = randomizer(observations={"on_reset": GAUSSIAN})
    observations, flags = torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64)
    first = made.apply_observations_randomization(observations, flags)
    assert (first != 0).all()
    assert torch.equal(made.apply_observations_randomization(observations, flags), first)
    flags[1] = 1
    second = made.apply_observations_randomization(observations, flags)
    assert torch.equal(second[[0, 2, 3]], first[[0, 2, 3]])
    assert (second[1] != first[1]).all()
    assert (observations == 0).all()


def test_noise_on_interval_comes_every_so_many_steps_of_a_row() -> None:
    made, _ = randomizer(actions={"on_interval": {**GAUSSIAN, "frequency_interval": 3}})
    flags = torch.zeros(4, dtype=torch.int64)
    noisy = [made.apply_actions_randomization(torch.zeros(4, 2), flags).any(dim=1).tolist() for _ in range(6)]
    assert noisy == [[step % 3 == 2] * 4 for step in range(6)]


@pytest.mark.parametrize(("operation", "expected"), [("additive", 5.0), ("scaling", 6.0), ("direct", 3.0)])
def test_operations_add_multiply_or_replace(operation: str, expected: float) -> None:
    params = {"operation": operation, "distribution": "uniform", "distribution_parameters": [3.0, 3.0]}
    made, _ = randomizer(observations={"on_reset": params})
    noisy = made.apply_observations_randomization(torch.full((4, 3), 2.0), torch.zeros(4))
    assert noisy == pytest.approx(expected)


@pytest.mark.parametrize(("distribution", "parameters"), [("uniform", [2.0, 5.0]), ("loguniform", [2.0, 5.0])])
def test_uniform_noise_lies_between_its_bounds(distribution: str, parameters: list[float]) -> None:
    params = {"operation": "direct", "distribution": distribution, "distribution_parameters": parameters}
    made, _ = randomizer(observations={"on_interval": {**params, "frequency_interval": 1}})
    drawn = torch.stack([made.apply_observations_randomization(torch.zeros(4, 3), torch.zeros(4)) for _ in range(50)])
    assert 2.0 <= drawn.min() < 2.3
    assert 4.7 < drawn.max() <= 5.0


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"simulation": {}}, NotImplementedError, "'simulation' needs Isaac Sim"),
        ({"observations": {}}, ValueError, "must have 'on_reset', 'on_interval' or both"),
        ({"actions": {"on_interval": GAUSSIAN}}, ValueError, "actions on_interval needs frequency_interval"),
        ({"actions": {"on_reset": {**GAUSSIAN, "operation": "divide"}}}, ValueError, "operation .* got 'divide'"),
        ({"actions": {"on_reset": {**GAUSSIAN, "distribution": "beta"}}}, ValueError, "distribution .* got 'beta'"),
    ],
)
def test_what_cannot_be_randomized_is_refused(params: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        randomizer(**params)
