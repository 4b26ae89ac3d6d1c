"""The snake on a CUDA device, where there is one: the games of the CPU, no syncs, and CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from skrl_vec_envs.snake import Snake
from tests.skrl_vec_envs.snake.test_env import SHORT, actions_of, assert_equal, tensors

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def twins(num_envs: int) -> tuple[Snake, Snake]:
    """Return the same games on the CUDA device and on the CPU, both reset."""
    envs = Snake(num_envs, device="cuda", hunger_limit=7, **SHORT), Snake(num_envs, hunger_limit=7, **SHORT)
    assert torch.equal(envs[0].reset()[0].cpu(), envs[1].reset()[0])
    return envs


@pytest.fixture
def _no_syncs() -> Iterator[None]:
    yield
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("deterministic", [False, True])
def test_the_games_are_those_of_the_cpu(deterministic: bool, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(lambda: torch.use_deterministic_algorithms(False))
    torch.use_deterministic_algorithms(deterministic)
    env, twin = twins(100)
    for actions in actions_of(100, 60):
        assert_equal([tensor.cpu() for tensor in tensors(env.step(actions.cuda()))], tensors(twin.step(actions)))


@pytest.mark.usefixtures("_no_syncs")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_step_does_not_wait_for_the_device() -> None:
    env, _ = twins(100)
    actions = [some.cuda() for some in actions_of(100, 30)]
    torch.cuda.set_sync_debug_mode("error")
    for some in actions:
        env.step(some)


def test_a_step_that_was_captured_in_a_graph_plays_on_when_replayed() -> None:
    env, twin = twins(100)
    static = torch.zeros(100, dtype=torch.int64, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            env.step(static)
            twin.step(static.cpu())
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = env.step(static)
    for actions in actions_of(100, 60):
        static.copy_(actions)
        graph.replay()
        assert_equal([tensor.cpu() for tensor in tensors(result)], tensors(twin.step(actions)))
