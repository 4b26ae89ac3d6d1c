"""The environment around a task: order of calls, shapes, both autoresets, time outs, actions, errors."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from skrl_vec_envs.omniverse import RLTask, SimConfig, VecEnv

from .support import Recorder, make, random_actions, recorder

POST = ["get_observations", "get_states", "calculate_metrics", "is_done", "get_extras", "get_states"]


def test_setting_the_task_sets_up_the_scene_then_its_objects_then_the_task() -> None:
    _, task = recorder()
    assert task.calls == ["set_up_scene", "initialize", "post_reset"]


def test_a_reset_flags_all_and_steps_and_a_step_calls_the_hooks_in_the_order_of_omniisaacgymenvs() -> None:
    env, task = recorder(lengths=(100, 100), settings={"controlFrequencyInv": 3})
    task.calls.clear()
    env.reset()
    stepped = ["pre_physics_step", "reset_idx[0, 1]", *["simulate"] * 3, *POST]
    assert task.calls == ["reset", *stepped]
    task.calls.clear()
    env.step(env.zero_actions())
    assert task.calls == ["pre_physics_step", *["simulate"] * 3, *POST]


def test_the_actions_of_a_reset_are_zeros_of_the_right_shape_and_dtype() -> None:
    env, task = recorder(lengths=(5, 5, 5))
    env.reset()
    assert torch.equal(task.given[0], torch.zeros(3, 2))
    assert task.given[0].dtype == torch.float32


def test_a_lazy_reset_returns_the_last_observation_and_resets_before_the_next_step() -> None:
    env, task = recorder(lengths=(2, 100))
    env.reset()
    obs, _, resets, _ = env.step(env.zero_actions())
    assert obs["obs"].tolist() == [[1, 2], [1, 2]]
    assert resets.tolist() == [1, 0]
    assert task.reset_buf.tolist() == [1, 0]
    obs, _, resets, _ = env.step(env.zero_actions())
    assert obs["obs"].tolist() == [[2, 1], [1, 3]]
    assert resets.tolist() == [0, 0]


def test_a_same_step_reset_returns_the_first_observation_and_keeps_the_last() -> None:
    env, task = recorder("same_step", (2, 100), num_states=1)
    env.reset()
    task.calls.clear()
    obs, _, resets, extras = env.step(env.zero_actions())
    assert task.calls == ["pre_physics_step", "simulate", *POST, "reset_idx[0]", "get_observations", "get_states"]
    assert obs["obs"].tolist() == [[2, 0], [1, 2]]
    assert obs["states"].tolist() == [[20], [10]]
    assert extras["final_obs"].tolist() == [[1, 2], [1, 2]]
    assert extras["final_states"].tolist() == [[10], [10]]
    assert resets.tolist() == [1, 0]
    assert task.reset_buf.tolist() == [0, 0]
    assert env.step(env.zero_actions())[0]["obs"].tolist() == [[2, 1], [1, 3]]


def test_observing_again_after_a_same_step_reset_changes_only_the_rows_that_were_reset() -> None:
    class Noisy(Recorder):
        def get_observations(self) -> None:
            super().get_observations()
            self.obs_buf += torch.rand(3, 2)

    env = VecEnv("same_step")
    task = Noisy(env, (2, 100, 100))
    env.set_task(task)
    env.reset()
    obs, _, _, extras = env.step(env.zero_actions())
    assert torch.equal(obs["obs"][1:], extras["final_obs"][1:])
    assert torch.equal(obs["obs"][0], task.obs_buf[0])
    assert not torch.equal(obs["obs"][0], extras["final_obs"][0])


def test_a_task_that_clears_its_flags_after_reset_idx_is_reset_once_in_the_same_step() -> None:
    class Later(Recorder):
        def reset_idx(self, env_ids: torch.Tensor) -> None:
            self.episode[env_ids] += 1

        def pre_physics_step(self, actions: torch.Tensor) -> None:
            env_ids = self.reset_buf.nonzero()[:, 0]
            self.reset_idx(env_ids)
            self.reset_buf[env_ids] = 0
            self.progress_buf[env_ids] = 0

    env = VecEnv("same_step")
    env.set_task(Later(env, (2, 100)))
    env.reset()
    assert env.step(torch.zeros(2, 2))[0]["obs"].tolist() == [[2, 0], [1, 2]]
    assert env.step(torch.zeros(2, 2))[0]["obs"].tolist() == [[2, 1], [1, 3]]


def test_shapes_and_dtypes_are_those_of_omniisaacgymenvs() -> None:
    env, task = recorder(num_states=3)
    for obs, rewards, resets, extras in [env.step(env.zero_actions()) for _ in range(1) if env.reset()]:
        assert set(obs) == {"obs", "states"}
        for tensor, shape, dtype in (
            (obs["obs"], (3, 2), torch.float32),
            (obs["states"], (3, 3), torch.float32),
            (rewards, (3,), torch.float32),
            (resets, (3,), torch.int64),
            (extras["time_outs"], (3,), torch.bool),
        ):
            assert (tensor.shape, tensor.dtype) == (shape, dtype)
    assert (env.num_envs, env.num_states, env.num_agents, env.get_number_of_agents()) == (3, 3, 1, 1)
    assert task.reset_buf.dtype == task.progress_buf.dtype == torch.int64


def test_all_environments_are_flagged_before_the_first_reset() -> None:
    assert recorder()[1].reset_buf.tolist() == [1, 1, 1]


@pytest.mark.parametrize(("ends_at", "length"), [(5, 5), (4, 5)])
def test_time_outs_are_the_ends_in_the_last_step_whether_that_is_the_last_or_the_one_before(
    ends_at: int, length: int
) -> None:
    env, task = recorder(lengths=(ends_at, 2, ends_at), settings={})
    task._max_episode_length = length
    env.reset()
    seen = [env.step(env.zero_actions())[2:] for _ in range(ends_at - 1)]
    assert [extras["time_outs"].tolist() for _, extras in seen][-1] == [True, False, True]
    assert not any(extras["time_outs"].any() for _, extras in seen[:-1])
    assert seen[-1][0][[0, 2]].tolist() == [1, 1]


def test_a_failure_in_the_step_before_the_last_is_no_time_out_where_another_one_outlives_it() -> None:
    env, task = recorder(lengths=(4, 5))
    task._max_episode_length = 5
    env.reset()
    for _ in range(2):
        env.step(env.zero_actions())
    _, _, resets, extras = env.step(env.zero_actions())
    assert resets.tolist() == [1, 0]
    assert extras["time_outs"].tolist() == [False, False]


def test_time_outs_that_the_task_writes_are_cut_down_to_the_resets() -> None:
    env, task = recorder(lengths=(2, 100))
    task.extras["time_outs"] = torch.tensor([1, 1])
    env.reset()
    _, _, resets, extras = env.step(env.zero_actions())
    assert resets.tolist() == [1, 0]
    assert extras["time_outs"].tolist() == [True, False]


def test_observations_states_and_actions_are_clipped() -> None:
    env, task = recorder(lengths=(50,), settings={"clipObservations": 1.5, "clipActions": 0.5}, num_states=1)
    env.reset()
    obs = env.step(torch.tensor([[2.0, -0.25]]))[0]
    assert obs["obs"].tolist() == [[1.0, 1.5]]
    assert obs["states"].tolist() == [[1.5]]
    assert task.obs_buf.tolist() == [[1.0, 2.0]]
    assert task.given[-1].tolist() == [[0.5, -0.25]]


def test_randomization_is_applied_to_actions_before_clipping_and_to_observations_before_clipping() -> None:
    env, task = recorder(lengths=(50,), settings={"clipObservations": 5.0, "clipActions": 1.0})
    seen: dict[str, Any] = {}

    class Doubling:
        def apply_actions_randomization(self, actions: torch.Tensor, reset_buf: torch.Tensor) -> torch.Tensor:
            seen["flags"] = reset_buf.tolist()
            return actions.mul_(2)

        def apply_observations_randomization(self, observations: torch.Tensor, reset_buf: torch.Tensor) -> torch.Tensor:
            return observations.mul_(4)

    task._dr_randomizer = Doubling()  # type: ignore[assignment]
    task.randomize_actions = task.randomize_observations = True
    given = torch.tensor([[0.25, 0.75]])
    env.reset()
    assert seen["flags"] == [1]
    obs = env.step(given)[0]
    assert task.given[-1].tolist() == [[0.5, 1.0]]
    assert obs["obs"].tolist() == [[4.0, 5.0]]
    assert task.obs_buf.tolist() == [[1.0, 2.0]]
    assert given.tolist() == [[0.25, 0.75]]


@pytest.mark.parametrize("autoreset", ["lazy", "same_step"])
def test_what_is_done_to_returned_tensors_reaches_neither_the_task_nor_later_steps(autoreset: Any) -> None:
    env, twin = recorder(autoreset, (2, 3), num_states=1)[0], recorder(autoreset, (2, 3), num_states=1)[0]
    kept = []
    env.task.extras["episode"] = {"sum": torch.zeros(2)}
    env.reset()
    twin.reset()
    for _ in range(8):
        obs, rewards, resets, extras = env.step(env.zero_actions())
        expected = twin.step(twin.zero_actions())
        assert torch.equal(obs["obs"], expected[0]["obs"])
        assert torch.equal(resets, expected[2])
        kept += [*obs.values(), rewards, resets, extras["time_outs"], extras["episode"]["sum"]]
        kept += [extras[name] for name in ("final_obs", "final_states") if name in extras]
        for tensor in kept:
            tensor.fill_(1)
        extras.clear()
    assert all((tensor == 1).all() for tensor in kept)
    assert env.task.extras["episode"]["sum"].tolist() == [0, 0]


@pytest.mark.parametrize("autoreset", ["lazy", "same_step"])
def test_actions_are_only_read(autoreset: Any) -> None:
    class Writer(Recorder):
        def pre_physics_step(self, actions: torch.Tensor) -> None:
            super().pre_physics_step(actions.fill_(7))

    env = VecEnv(autoreset)
    env.set_task(Writer(env))
    env.reset()
    actions = torch.full((3, 2), 0.5)
    env.step(actions)
    assert (actions == 0.5).all()


class Chooser(Recorder):
    def __init__(self, env: VecEnv, space: gymnasium.Space[Any]) -> None:
        self.action_space = space
        super().__init__(env, (50, 50))


@pytest.mark.parametrize(
    ("space", "given", "expected"),
    [
        (gymnasium.spaces.Discrete(4), [1, 3], [1, 3]),
        (gymnasium.spaces.Discrete(4), [[1], [3]], [1, 3]),
        (gymnasium.spaces.MultiDiscrete([2, 5]), [[1, 4], [0, 2]], [[1, 4], [0, 2]]),
    ],
)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_integer_actions_stay_integers_and_are_not_clipped(space: Any, given: Any, expected: Any, dtype: Any) -> None:
    env = VecEnv()
    task = Chooser(env, space)
    task.clip_actions = 1.0
    env.set_task(task)
    env.reset()
    assert task.given[0].dtype == torch.int64
    assert task.given[0].shape == np.shape(expected)
    env.step(torch.tensor(given, dtype=dtype))
    assert task.given[-1].tolist() == expected
    assert task.given[-1].dtype == torch.int64


def test_a_step_while_the_world_is_paused_counts_but_fills_no_buffer() -> None:
    env, task = recorder()
    env.reset()
    env.world.pause()
    task.calls.clear()
    env.step(env.zero_actions())
    assert task.calls == ["pre_physics_step", "get_states"]
    assert task.progress_buf.tolist() == [2, 2, 2]
    env.world.play()
    env.step(env.zero_actions())
    assert "simulate" in task.calls


def test_simulated_time_is_the_number_of_simulated_steps_times_dt() -> None:
    env, _ = recorder(settings={"controlFrequencyInv": 4})
    env.set_task(Recorder(env, settings={"controlFrequencyInv": 4}), sim_params={"dt": 0.25})
    env.reset()
    env.step(env.zero_actions())
    assert env.world.current_time == 2.0
    assert env.sim_frame_count == env.world.current_time_step_index == 8


@pytest.mark.parametrize(
    ("actions", "error", "message"),
    [
        (torch.zeros(3, 1), ValueError, r"floating-point numbers of shape \(3, 2\), got torch.float32, shape \(3, 1\)"),
        (torch.zeros(3, 2, dtype=torch.int64), ValueError, r"floating-point numbers .* got torch.int64"),
        (np.zeros((3, 2)), TypeError, r"must be a torch.Tensor, got ndarray: use torch.as_tensor"),
    ],
)
def test_actions_that_are_not_legal_are_refused(actions: Any, error: type[Exception], message: str) -> None:
    env, _ = recorder()
    env.reset()
    with pytest.raises(error, match=message):
        env.step(actions)


def test_discrete_actions_must_be_integers() -> None:
    env = VecEnv()
    env.set_task(Chooser(env, gymnasium.spaces.Discrete(4)))
    env.reset()
    with pytest.raises(ValueError, match=r"actions must be integers of shape \(2,\), got torch.float32"):
        env.step(torch.zeros(2))


def test_a_step_before_the_first_reset_and_an_environment_without_a_task_are_refused() -> None:
    env, _ = recorder()
    with pytest.raises(RuntimeError, match=r"must be reset before its first step: call reset\(\)"):
        env.step(torch.zeros(3, 2))
    with pytest.raises(RuntimeError, match=r"no task: call set_task\(task\)"):
        VecEnv().reset()


def test_an_unknown_autoreset_or_backend_or_a_task_of_another_environment_is_refused() -> None:
    with pytest.raises(ValueError, match="autoreset must be 'lazy' or 'same_step', got 'next_step'"):
        VecEnv("next_step")  # type: ignore[arg-type]
    env, task = recorder()
    with pytest.raises(ValueError, match="made for another environment"):
        VecEnv().set_task(task)
    with pytest.raises(ValueError, match="backend must be 'torch', got 'warp'"):
        env.set_task(task, backend="warp")


def test_a_forgotten_buffer_is_named() -> None:
    class Forgetful(Recorder):
        def cleanup(self) -> None:
            super().cleanup()
            del self.rew_buf

    env = VecEnv()
    task = Forgetful(env)
    with pytest.raises(AttributeError, match=r"Forgetful has no rew_buf: .*super\(\).cleanup\(\)"):
        env.set_task(task)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("obs_buf", torch.zeros(3, 5), r"obs_buf must have shape \(3, 2\) and dtype torch.float32, got shape \(3, 5\)"),
        ("rew_buf", torch.zeros(3, 1), r"rew_buf must have shape \(3,\).*got shape \(3, 1\).*self.rew_buf\[:\] ="),
        ("rew_buf", torch.zeros(3, dtype=torch.float64), r"rew_buf .* dtype torch.float32, got .* torch.float64"),
        ("reset_buf", torch.zeros(3, dtype=torch.bool), r"reset_buf .* dtype torch.int64, got .* torch.bool"),
        ("progress_buf", torch.zeros(4, dtype=torch.int64), r"progress_buf must have shape \(3,\)"),
        ("states_buf", torch.zeros(3, 1), r"states_buf must have shape \(3, 0\)"),
    ],
)
def test_a_buffer_that_is_replaced_by_a_wrong_one_is_named(name: str, value: torch.Tensor, message: str) -> None:
    env, task = recorder()
    env.reset()
    task.get_extras = lambda: setattr(task, name, value) or {}  # type: ignore[func-returns-value, method-assign]
    with pytest.raises(ValueError, match=message):
        env.step(env.zero_actions())


def test_what_a_step_returns_in_place_of_a_buffer_must_have_its_shape() -> None:
    env, task = recorder()
    env.reset()
    task.post_physics_step = lambda: (task.obs_buf, task.rew_buf[:, None], task.reset_buf, {})  # type: ignore[method-assign]
    with pytest.raises(ValueError, match=r"post_physics_step must return .* rew_buf, \(3,\), got \(3, 1\)"):
        env.step(env.zero_actions())
    task.post_physics_step = lambda: (task.obs_buf * 2, task.rew_buf, task.reset_buf, {})  # type: ignore[method-assign]
    assert torch.equal(env.step(env.zero_actions())[0]["obs"], task.obs_buf * 2)


def test_a_buffer_or_extras_of_another_type_are_named() -> None:
    env, task = recorder()
    env.reset()
    task.extras = []  # type: ignore[assignment]
    with pytest.raises(TypeError, match=r"Recorder.extras must be a dict, got list"):
        env.step(env.zero_actions())


@pytest.mark.parametrize("name", ["observations", "states", "rewards"])
def test_values_that_are_not_finite_are_found_where_asked_for(name: str) -> None:
    env = VecEnv(check_finite=True)
    task = Recorder(env, num_states=2)
    env.set_task(task)
    env.reset()
    buffer = {"observations": task.obs_buf, "states": task.states_buf, "rewards": task.rew_buf}[name]

    def spoil() -> dict[str, Any]:
        buffer[1] = float("nan")
        return {}

    task.get_extras = task.get_states = spoil  # type: ignore[method-assign, assignment]
    task.get_states = lambda: task.states_buf  # type: ignore[method-assign]
    with pytest.raises(FloatingPointError, match=rf"{name} must be finite, got nan in environment 1"):
        env.step(env.zero_actions())


def test_a_constructor_that_forgets_a_size_is_told_so() -> None:
    class Sizeless(RLTask):
        def __init__(self, env: VecEnv) -> None:
            self._cfg, self._task_cfg = SimConfig().config, SimConfig().task_config
            self._num_envs = 2
            super().__init__("sizeless", env)

    with pytest.raises(AttributeError, match=r"Sizeless must set self._num_observations before it calls RLTask"):
        Sizeless(VecEnv())


def test_a_hook_that_is_missing_is_named() -> None:
    class Hookless(Recorder):
        calculate_metrics = RLTask.calculate_metrics

    env = VecEnv()
    env.set_task(Hookless(env))
    with pytest.raises(NotImplementedError, match=r"Hookless must define calculate_metrics\(\)"):
        env.reset()


def test_the_same_seed_gives_the_same_trajectory_and_another_seed_another() -> None:
    def played(seed: int) -> torch.Tensor:
        env = make(num_envs=3)
        first = env.reset(seed=seed)["obs"]
        return torch.stack([first, *(env.step(random_actions(env, step))[0]["obs"] for step in range(30))])

    assert torch.equal(played(5), played(5))
    assert not torch.equal(played(5), played(6))


def test_a_reset_without_a_seed_goes_on_with_the_random_numbers() -> None:
    env = make()
    first, second = env.reset(seed=1)["obs"], env.reset()["obs"]
    assert not torch.equal(first, second)
    assert torch.equal(env.reset(seed=1)["obs"], first)
