"""The backends play the same games, and what is special to each."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pytest
import torch

from skrl_vec_envs.snake import Snake
from skrl_vec_envs.snake import env as env_module
from skrl_vec_envs.snake.pool import Pool
from tests.skrl_vec_envs.snake.backends import BACKENDS, needs_numba
from tests.skrl_vec_envs.snake.test_env import SHORT, assert_equal, tensors


def games(num_envs: int, steps: int, **parameters: Any) -> list[torch.Tensor]:
    """Play by chance and return everything returned, stacked over the steps."""
    env = Snake(num_envs, **parameters)
    env.reset()
    generator = torch.Generator().manual_seed(0)
    results = [
        [t.clone() for t in tensors(env.step(torch.randint(4, env.batch_shape, generator=generator)))]
        for _ in range(steps)
    ]
    return [torch.stack(column) for column in zip(*results, strict=True)]


@needs_numba
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("num_snakes", [1, 3])
def test_any_number_of_threads_plays_the_games_of_torch_also_where_it_does_not_divide_the_boards(
    num_snakes: int, threads: int
) -> None:
    parameters: dict[str, Any] = {"num_snakes": num_snakes, "height": 6, "width": 5, "max_steps": 7, "seed": 5}
    expected = games(1031, 12, backend="torch", **parameters)
    assert_equal(games(1031, 12, backend="numba", threads=threads, **parameters), expected)


@needs_numba
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("shared", [False, True])
def test_threads_leave_no_gaps_between_the_final_observations_of_ended_rows(shared: bool, threads: int) -> None:
    crowded: dict[str, Any] = {"num_snakes": 4, "height": 3, "width": 6, "shared": shared}
    env, twin = Snake(521, threads=threads, final_obs="ended", **crowded), Snake(521, backend="torch", **crowded)
    env.reset()
    twin.reset()
    generator = torch.Generator().manual_seed(0)
    for _ in range(8):
        actions = torch.randint(4, env.batch_shape, generator=generator)
        *_, infos = env.step(actions)
        *_, expected = twin.step(actions)
        assert 0 < expected["final_mask"].sum() < expected["final_mask"].numel()
        mask = expected["final_mask"].all(1) if shared else expected["final_mask"]
        assert torch.equal(infos["final_obs"], expected["final_obs"][mask])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("observation", ["planes", "flat", "window"])
def test_bytes_show_what_floats_show(observation: str, backend: str) -> None:
    parameters: dict[str, Any] = {"observation": observation, "backend": backend, "num_snakes": 2, "max_steps": 9}
    floats, small = games(5, 20, **parameters), games(5, 20, dtype=torch.uint8, **parameters)
    assert small[0].dtype == torch.uint8
    assert torch.equal(small[0].float(), floats[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_action_out_of_range_names_the_snake_and_changes_nothing(backend: Any) -> None:
    env, twin = (Snake(2, num_snakes=2, backend=backend, **SHORT) for _ in range(2))
    env.reset()
    twin.reset()
    with pytest.raises(ValueError, match=r"\(up, down, left, right\), got 7 for snake 1 of board 0"):
        env.step(torch.tensor([[0, 7], [0, 0]]))
    with pytest.raises(
        ValueError, match=r"one integer per snake, shape \(2, 2\) on cpu, got torch.int64, shape \(2,\)"
    ):
        env.step(torch.tensor([0, 1]))
    legal = torch.tensor([[0, 1], [2, 3]])
    assert_equal(tensors(env.step(legal)), tensors(twin.step(legal)))


def test_without_numba_torch_plays_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(env_module, "_said", set())
    with caplog.at_level(logging.WARNING):
        assert {Snake(1).backend, Snake(1).backend} == {"torch"}
    assert [record.message.split(":")[0] for record in caplog.records] == ["numba is not installed"]
    with pytest.raises(ImportError, match="the numba backend needs numba: pip install numba, or use backend='torch'"):
        Snake(1, backend="numba")


@needs_numba
def test_numba_plays_on_cpus_where_it_is_installed_and_torch_where_nothing_may_wait() -> None:
    assert Snake(1).backend == "numba"
    assert Snake(1, sync_free=True).backend == "torch"


def test_the_package_and_the_torch_backend_do_not_import_numba() -> None:
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; from skrl_vec_envs.snake import Snake; " "Snake(1, backend='torch')"
    )
    subprocess.run([sys.executable, "-c", f"{program}; assert 'numba' not in sys.modules"], check=True)


def test_a_pool_hands_memory_out_again_only_when_no_tensor_or_array_is_left_on_it() -> None:
    pool = Pool((1000,), torch.float32)
    first = pool.take()
    address, part, array = first.data_ptr(), first[10:20], first.numpy()
    for holder in ("tensor", "part", "array"):
        assert pool.take().data_ptr() != address, holder
        if holder == "tensor":
            del first
        elif holder == "part":
            del part
        else:
            del array
    assert address in {tensor.data_ptr() for tensor in [pool.take() for _ in range(6)]}


def test_a_pool_forgets_memory_that_is_held_for_long() -> None:
    pool = Pool((10,), torch.uint8)
    held = [pool.take() for _ in range(50)]
    assert len({tensor.data_ptr() for tensor in held}) == 50


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("num_snakes", "shared"), [(1, False), (3, False), (3, True)])
def test_final_observations_of_the_ended_rows_are_those_of_all_rows_that_ended(
    num_snakes: int, shared: bool, backend: Any
) -> None:
    parameters: dict[str, Any] = {"num_snakes": num_snakes, "shared": shared, "backend": backend, "max_steps": 6}
    env, twin = Snake(20, final_obs="ended", **parameters), Snake(20, **parameters)
    env.reset()
    twin.reset()
    for seed in range(20):
        actions = torch.randint(4, env.batch_shape, generator=torch.Generator().manual_seed(seed))
        observations, *_, infos = env.step(actions)
        expected, *_, all_infos = twin.step(actions)
        mask = all_infos["final_mask"].all(1) if shared else all_infos["final_mask"]
        assert torch.equal(infos["final_obs"], all_infos["final_obs"][mask])
        assert torch.equal(observations, expected)
