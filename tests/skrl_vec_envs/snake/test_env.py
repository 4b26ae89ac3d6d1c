"""What the environment promises beside the rules: tensors, order of calls, batches, randomness, no syncs."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from skrl_vec_envs.snake import Snake

# short games, so that every kind of end is met within a few steps
SHORT: dict[str, Any] = {"height": 3, "width": 4, "start_length": 2, "max_steps": 9}


def actions_of(num_envs: int, steps: int, seed: int = 0, choices: int = 4) -> Iterator[torch.Tensor]:
    """Yield actions by chance."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        yield torch.randint(choices, (num_envs,), generator=generator)


def tensors(result: tuple[Any, ...]) -> list[torch.Tensor]:
    """List all tensors that a step returned."""
    observations, rewards, terminated, truncated, infos = result
    return [observations, rewards, terminated, truncated, *infos.values()]


def played(env: Snake, steps: int = 60) -> list[torch.Tensor]:
    """Play by chance and return everything returned, stacked over the steps."""
    first, infos = env.reset()
    assert infos == {}
    results = [[t.clone() for t in tensors(env.step(actions))] for actions in actions_of(env.num_envs, steps)]
    return [first, *map(torch.stack, zip(*results, strict=True))]


def assert_equal(left: list[torch.Tensor], right: list[torch.Tensor]) -> None:
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


@pytest.mark.parametrize(("observation", "shape"), [("planes", (3, 4, 6)), ("flat", (72,))])
def test_shapes_and_dtypes_are_the_documented_ones(observation: Any, shape: tuple[int, ...]) -> None:
    env = Snake(5, height=4, width=6, observation=observation)
    assert (env.num_envs, env.device) == (5, torch.device("cpu"))
    assert env.single_observation_space.shape == shape
    assert env.single_action_space == gymnasium.spaces.Discrete(4)
    described = [(5, *shape), torch.float32]
    observations, _ = env.reset()
    assert [observations.shape, observations.dtype] == described
    observations, rewards, terminated, truncated, infos = env.step(torch.zeros(5, dtype=torch.int64))
    assert [observations.shape, observations.dtype] == described
    assert [infos["final_obs"].shape, infos["final_obs"].dtype] == described
    assert set(infos) == {"final_obs", "final_mask", "length", "episode_return", "episode_length"}
    for tensor, dtype in (
        (rewards, torch.float32),
        (terminated, torch.bool),
        (truncated, torch.bool),
        (infos["final_mask"], torch.bool),
        (infos["length"], torch.int64),
        (infos["episode_length"], torch.int64),
        (infos["episode_return"], torch.float32),
    ):
        assert (tensor.shape, tensor.dtype) == ((5,), dtype)
    assert env.single_observation_space.contains(observations[0].numpy())


def test_dtypes_do_not_follow_the_default_dtype(request: pytest.FixtureRequest) -> None:
    request.addfinalizer(lambda: torch.set_default_dtype(torch.float32))
    torch.set_default_dtype(torch.float64)
    assert [t.dtype for t in played(Snake(2))][:3] == [torch.float32] * 3


def test_flat_observations_are_the_planes_flattened() -> None:
    flat = played(Snake(4, observation="flat", **SHORT))
    planes = played(Snake(4, observation="planes", **SHORT))
    planes[0], planes[1], planes[5] = planes[0].flatten(1), planes[1].flatten(2), planes[5].flatten(2)
    assert_equal(flat, planes)


def test_the_final_observation_is_the_observation_where_the_board_goes_on() -> None:
    _, observations, _, terminated, truncated, final_observations, ended, *_ = played(Snake(50, **SHORT))
    assert torch.equal(ended, terminated | truncated)
    assert not (terminated & truncated).any()
    assert terminated.any()
    assert truncated.any()
    assert torch.equal(final_observations[~ended], observations[~ended])
    assert (final_observations[ended] != observations[ended]).flatten(1).any(dim=1).double().mean() > 0.9


def test_what_is_done_to_returned_tensors_and_infos_reaches_neither_the_game_nor_each_other() -> None:
    env, twin = Snake(20, **SHORT), Snake(20, **SHORT)
    kept = [(env.reset()[0].fill_(7.0), 7.0)]
    twin.reset()
    for actions in actions_of(20, 40):
        expected, result = twin.step(actions), env.step(actions)
        assert_equal(tensors(result), tensors(expected))
        for value, tensor in enumerate(tensors(result)):
            tensor.fill_(value % 2 if tensor.dtype == torch.bool else value)
            kept.append((tensor, value % 2 if tensor.dtype == torch.bool else value))
        result[4].clear()
    assert all((tensor == value).all() for tensor, value in kept)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_actions_of_any_integer_dtype_are_read_and_never_written(dtype: torch.dtype) -> None:
    env, twin = Snake(6, **SHORT), Snake(6, **SHORT)
    env.reset()
    twin.reset()
    for actions in actions_of(6, 30):
        given = actions.to(dtype)
        before = given.clone()
        assert_equal(tensors(env.step(given)), tensors(twin.step(actions)))
        assert torch.equal(given, before)


@pytest.mark.parametrize(
    "strided", [torch.zeros(8, dtype=torch.int64)[::2], torch.zeros((), dtype=torch.int64).expand(4)]
)
def test_actions_need_not_be_contiguous(strided: torch.Tensor) -> None:
    env, twin = Snake(4), Snake(4)
    env.reset()
    twin.reset()
    assert_equal(tensors(env.step(strided)), tensors(twin.step(torch.zeros(4, dtype=torch.int64))))


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (torch.tensor([0, 4]), r"actions must be from 0 to 3 \(up, down, left, right\), got 4 for board 1"),
        (torch.tensor([-1, 0]), "got -1 for board 0"),
        (torch.tensor([0, 1, 2]), r"one integer per board, shape \(2,\) on cpu, got torch.int64, shape \(3,\) on cpu"),
        (torch.tensor([[0], [1]]), r"got torch.int64, shape \(2, 1\)"),
        (torch.tensor([0.0, 1.0]), "got torch.float32"),
        (torch.tensor([True, False]), "got torch.bool"),
        ([0, 1], r"actions must be a torch.Tensor, got list: use torch.as_tensor\(actions\)"),
    ],
)
def test_actions_that_are_not_legal_are_refused_and_change_nothing(actions: Any, message: str) -> None:
    env, twin = Snake(2), Snake(2)
    env.reset()
    with pytest.raises(ValueError, match=message):
        env.step(actions)
    twin.reset()
    legal = torch.tensor([0, 3])
    assert_equal(tensors(env.step(legal)), tensors(twin.step(legal)))


def test_relative_actions_end_at_two() -> None:
    env = Snake(1, actions="relative")
    env.reset()
    with pytest.raises(ValueError, match=r"actions must be from 0 to 2 \(left, straight, right\), got 3"):
        env.step(torch.tensor([3]))


def test_without_syncs_an_action_out_of_range_fails_an_assertion() -> None:
    env = Snake(2, sync_free=True)
    env.reset()
    with pytest.raises(RuntimeError, match=r"actions must be from 0 to 3 \(up, down, left, right\)"):
        env.step(torch.tensor([0, 4]))


def test_a_step_or_a_drawing_before_the_first_reset_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"must be reset before its first step: call reset\(\)"):
        Snake(1).step(torch.tensor([0]))
    with pytest.raises(RuntimeError, match=r"must be reset before it is drawn: call reset\(\)"):
        Snake(1).render()


def test_the_same_seed_gives_the_same_games_and_another_seed_others() -> None:
    assert_equal(played(Snake(8, seed=3)), played(Snake(8, seed=3)))
    assert not torch.equal(Snake(8, seed=3).reset()[0], Snake(8, seed=4).reset()[0])


def test_a_reset_with_a_seed_begins_the_sequence_of_games_anew_and_one_without_goes_on() -> None:
    env = Snake(8, seed=3, **SHORT)
    first, *steps = played(env)
    assert not torch.equal(env.reset()[0], first)
    assert torch.equal(env.reset(seed=5)[0], Snake(8, seed=5, **SHORT).reset()[0])
    assert torch.equal(env.reset(seed=3)[0], first)
    for actions, observations in zip(actions_of(8, 60), steps[0], strict=True):
        assert torch.equal(env.step(actions)[0], observations)


def test_a_seed_that_is_not_legal_is_refused_by_reset() -> None:
    with pytest.raises(ValueError, match=r"seed must be an int from 0 to 2\*\*63 - 1, got -1"):
        Snake(1).reset(seed=-1)


@pytest.mark.parametrize("split", [(1, 6), (3, 4), (2, 2, 3)])
def test_a_batch_in_parts_plays_the_games_of_the_whole(split: tuple[int, ...]) -> None:
    whole = Snake(7, **SHORT)
    starts = [0, *itertools.accumulate(split)]
    parts = [Snake(size, first_board=start, **SHORT) for size, start in zip(split, starts, strict=False)]
    assert torch.equal(torch.cat([part.reset()[0] for part in parts]), whole.reset()[0])
    for actions in actions_of(7, 60):
        results = [part.step(some) for part, some in zip(parts, torch.split(actions, list(split)), strict=True)]
        together = [torch.cat(columns) for columns in zip(*map(tensors, results), strict=True)]
        assert_equal(together, tensors(whole.step(actions)))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_plays_on_by_itself(copied: Callable[[Snake], Snake]) -> None:
    env = Snake(6, **SHORT)
    played(env)
    twin = copied(env)
    for actions in actions_of(6, 30):
        assert_equal(tensors(env.step(actions)), tensors(twin.step(actions)))


def test_boards_play_different_games() -> None:
    assert len(torch.unique(Snake(64).reset()[0], dim=0)) > 60


def test_torchs_generator_is_neither_used_nor_needed() -> None:
    state = torch.get_rng_state()
    played(Snake(4, **SHORT))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("sync_free", [False, True])
def test_grad_inference_and_deterministic_modes_may_change_between_the_steps(
    sync_free: bool, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(lambda: torch.use_deterministic_algorithms(False))
    expected = played(Snake(6, **SHORT))
    with torch.inference_mode():
        env = Snake(6, sync_free=sync_free, **SHORT)
        observations, _ = env.reset()
    assert torch.equal(observations, expected[0])
    for step, actions in enumerate(actions_of(6, 60)):
        torch.use_deterministic_algorithms(step % 3 == 2)
        with torch.inference_mode(step % 2 == 1):
            observations = env.step(actions)[0]
        assert not observations.requires_grad
        assert torch.equal(observations, expected[1][step])


class NoSyncs(TorchDispatchMode):
    """Refuse every operation that reads a value on the host or has a shape that depends on data."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    NAMES = ("_local_scalar_dense", "nonzero", "is_nonzero", "masked_select", "unique", "equal", "allclose")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().removeprefix("aten::")
        indices = args[1] if name.startswith(("index.", "index_put")) else []
        masks = [index for index in indices if index is not None and index.dtype == torch.bool]
        if masks or name.startswith(self.NAMES):
            raise AssertionError(f"{name} waits for the device")
        return func(*args, **(kwargs or {}))


def test_a_sync_free_step_waits_for_the_device_nowhere() -> None:
    env = Snake(16, sync_free=True, hunger_limit=5, **SHORT)
    env.reset()
    for actions in actions_of(16, 30):
        with NoSyncs():
            env.step(actions)
    with NoSyncs():
        env.reset()


def test_the_check_for_syncs_notices_a_step_that_syncs() -> None:
    env = Snake(16, sync_free=False, **SHORT)
    env.reset()
    with NoSyncs(), pytest.raises(AssertionError, match="waits for the device"):
        env.step(torch.zeros(16, dtype=torch.int64))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_sync_free_step_is_one_graph_for_torch_compile() -> None:
    env, twin = Snake(6, sync_free=True, **SHORT), Snake(6, **SHORT)
    step = torch.compile(env.step, backend="eager", fullgraph=True)
    env.reset()
    twin.reset()
    for actions in actions_of(6, 20):
        assert_equal(tensors(step(actions)), tensors(twin.step(actions)))


def test_a_drawing_shows_the_board() -> None:
    env = Snake(2, height=1, width=4)
    observation = env.reset()[0][1]
    frame = env.render(1).splitlines()
    assert frame[0] == frame[2] == "+----+"
    assert frame[1] in ("|oo@*|", "|*@oo|")
    assert frame[1][1:-1].index("@") == observation[0].argmax()


@pytest.mark.parametrize("board", [-1, 2])
def test_a_board_that_does_not_exist_cannot_be_drawn(board: int) -> None:
    env = Snake(2)
    env.reset()
    with pytest.raises(ValueError, match=f"board must be from 0 to 1, got {board}"):
        env.render(board)
