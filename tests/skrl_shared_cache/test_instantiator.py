"""`shared_model`: the outputs and the checkpoints of skrl's, every network once per pair, and what it refuses."""

from __future__ import annotations

import copy
import inspect
import io
import itertools
import pickle
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from skrl.utils.model_instantiators.torch import shared_model as skrl_shared_model

from skrl_shared_cache import SharedModel, shared_model

from ..processes import python
from .support.lines import OBSERVATIONS, SKRL_2, act, box, make_inputs
from .support.twins import Twins, TwoPass, assert_same, build, seeded_act
from .support.yaml_cases import CAMERA_AND_GOAL, CASES, GAUSSIAN, Case, Comparisons, network, passes_of

ORDERS = (("policy", "value"), ("value", "policy"))

all_cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
both_orders = pytest.mark.parametrize("order", ORDERS, ids=" ".join)


def twins_of(case: Case, order: tuple[str, ...] = ORDERS[0]) -> Twins:
    """Return our model and skrl's with two passes."""
    return Twins(case.make(order))


# ------------------------------------------------------------------------------------------------------------ outputs


@all_cases
@both_orders
def test_the_weights_of_a_seed_are_those_of_skrls_model(case: Case, order: tuple[str, ...]) -> None:
    twins = twins_of(case, order)
    assert_same(dict(twins.cached.state_dict()), dict(twins.plain.state_dict()))


@all_cases
@both_orders
def test_outputs_and_gradients_are_those_of_skrls_two_pass_model(case: Case, order: tuple[str, ...]) -> None:
    twins = twins_of(case, order)
    for seed, roles in enumerate(itertools.islice(itertools.cycle(ORDERS), 8)):
        twins.learn(case.inputs(seed), roles)


@all_cases
def test_any_order_of_calls_and_batches_gives_the_outputs_of_skrls_two_pass_model(case: Case) -> None:
    twins = twins_of(case)
    twins.walk([case.inputs(seed, batch=3 + seed) for seed in range(3)])


@all_cases
def test_taken_actions_do_not_get_in_the_way_of_a_pair(case: Case) -> None:
    """In an update the policy is asked about them, and the value is not."""
    twins = twins_of(case)
    inputs = case.inputs()
    taken = {"taken_actions": seeded_act(twins.plain, inputs, "policy")[0].detach()}
    for _ in range(4):
        batch = {key: tensor.clone() for key, tensor in inputs.items()}
        twins.act({**batch, **taken}, "policy")
        twins.act(batch, "value")
    assert twins.cached.cache_info().hits == 2  # after a probation of two


def test_a_value_is_there_for_whoever_asks_for_it_first() -> None:
    case = CASES["Gaussian"]
    model = shared_model(**case.arguments())
    values = act(model, case.inputs(), "value")[0]
    features = model.net_container(case.inputs()[OBSERVATIONS])
    assert_same(values, model.value_layer(features))


# ------------------------------------------------------------------------------------------------------------- passes


@all_cases
@both_orders
@pytest.mark.parametrize("grad", [True, False])
def test_every_network_runs_once_per_pair_and_no_tensors_are_compared(
    case: Case, order: tuple[str, ...], grad: bool
) -> None:
    twins = twins_of(case, order)
    with torch.set_grad_enabled(grad):
        for seed in range(4):
            twins.pair(case.inputs(seed))
        passes = passes_of(twins.cached)
        with Comparisons() as comparisons:
            for seed in range(10):
                inputs = case.inputs(seed)
                for role in ("policy", "value"):
                    act(twins.cached, inputs, role)
    assert {name: counter.take() for name, counter in passes.items()} == dict.fromkeys(passes, 10)
    assert not comparisons.counts


def test_a_comparison_would_be_counted() -> None:
    """A batch of the same bits in a new tensor: what the cache can only recognize by comparing."""
    case = CASES["Gaussian"]
    model = twins_of(case).cached
    with Comparisons() as comparisons:
        for _ in range(2):
            act(model, case.inputs(), "policy")
            act(model, case.inputs(), "value")
    assert comparisons.counts


@pytest.mark.parametrize("single_forward_pass", [True, False])
def test_single_forward_pass_makes_no_difference(single_forward_pass: bool) -> None:
    arguments = CASES["Gaussian"].arguments()
    source = shared_model(**arguments, return_source=True)
    assert shared_model(**arguments, single_forward_pass=single_forward_pass, return_source=True) == source


# ------------------------------------------------------------------------------------------- signature and source


def test_the_signature_is_that_of_skrls_instantiator() -> None:
    assert inspect.signature(shared_model) == inspect.signature(skrl_shared_model)
    with pytest.raises(TypeError, match="layers"):
        shared_model(layers=[64])


@pytest.mark.skipif(SKRL_2, reason="skrl 2 takes keyword arguments only")
def test_arguments_can_be_positional_on_skrl_1() -> None:
    arguments = CASES["Gaussian"].arguments()
    names = ("observation_space", "action_space", "device", "structure", "roles", "parameters")
    model = shared_model(*(arguments[name] for name in names))
    assert model.num_observations == 6
    assert model.num_actions == 2


@pytest.mark.skipif(SKRL_2, reason="skrl 2 does not know these parameters any more")
def test_the_parameters_of_old_are_understood_on_skrl_1() -> None:
    old = {"hiddens": [8], "hidden_activation": ["elu"], "output_shape": "Shape.ACTIONS", "output_scale": 2.0}
    case = CASES["Gaussian"]
    arguments = {**case.arguments(), "parameters": [old, {**old, "output_shape": "Shape.ONE"}]}
    plain = skrl_shared_model(**copy.deepcopy(arguments), single_forward_pass=False)
    cached = pickle.loads(pickle.dumps(shared_model(**arguments)))
    for role in ORDERS[0]:
        plain.init_state_dict(role)
        cached.init_state_dict(role)
    cached.load_state_dict(plain.state_dict())
    for role in ORDERS[0]:
        assert_same(seeded_act(cached, case.inputs(), role), seeded_act(plain, case.inputs(), role))


def test_the_arguments_are_not_written_to() -> None:
    arguments = CASES["camera, joints and goal"].arguments()
    before = copy.deepcopy(arguments)
    shared_model(**arguments)
    assert {name: value for name, value in arguments.items() if "space" not in name} == {
        name: value for name, value in before.items() if "space" not in name
    }


@all_cases
def test_the_returned_source_is_what_runs(case: Case) -> None:
    source = shared_model(**case.arguments(), return_source=True)
    model = shared_model(**case.arguments())
    for method in (type(model).__init__, type(model).act, type(model).compute):
        assert textwrap.dedent(inspect.getsource(method)) in textwrap.dedent(source.partition("\n")[2])
    assert "def trunk(" in source


# --------------------------------------------------------------------------------------------- checkpoints and copies


@all_cases
def test_checkpoints_load_both_ways(case: Case, tmp_path: Path) -> None:
    path = str(tmp_path / "model.pt")
    for source, target in ((SharedModel, TwoPass), (TwoPass, SharedModel)):
        trained, other = build(case.make(), source, seed=1), build(case.make(), target, seed=2)
        trained.save(path)
        other.load(path)
        for role in ORDERS[0]:
            assert_same(seeded_act(other, case.inputs(), role), seeded_act(trained, case.inputs(), role))


def saved_and_loaded(model: Any) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@all_cases
@pytest.mark.parametrize("clone", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)), saved_and_loaded])
def test_a_copy_is_of_the_same_class_and_returns_the_same(case: Case, clone: Any) -> None:
    model = build(case.make(), SharedModel)
    copied = clone(model)
    assert type(copied) is type(model)
    for seed in range(3):
        for role in ORDERS[0]:
            assert_same(seeded_act(copied, case.inputs(seed), role), seeded_act(model, case.inputs(seed), role))
    assert copied.cache_info().misses > 0


def test_a_model_of_lazy_layers_can_be_copied() -> None:
    copied = pickle.loads(pickle.dumps(shared_model(**CASES["Gaussian"].arguments())))
    values = act(copied, CASES["Gaussian"].inputs(), "value")[0]
    assert values.shape == (5, 1)


def test_a_saved_model_is_loaded_by_another_process(tmp_path: Path) -> None:
    case = CASES["camera, joints and goal"]
    model, inputs = build(case.make(), SharedModel), case.inputs()
    torch.save({"model": model, "inputs": inputs, "values": act(model, inputs, "value")[0]}, tmp_path / "model.pt")
    load = f"""
import sys
sys.path[:] = {sys.path!r}
import torch
torch.set_num_threads(1)
saved = torch.load({str(tmp_path / 'model.pt')!r}, weights_only=False)
print(torch.equal(saved["model"].act(saved["inputs"], role="value")[0], saved["values"]))
"""
    assert python("-c", load).split() == ["True"]


def test_what_is_pickled_is_the_configuration_and_not_the_source() -> None:
    model = build(CASES["Gaussian"].make(), SharedModel)
    assert b"def compute" not in pickle.dumps(model)
    assert b"GaussianMixin" in pickle.dumps(model)


def test_a_subclass_of_a_generated_class_pickles_under_its_own_name() -> None:
    model = build(CASES["Gaussian"].make(), SharedModel)
    model.__class__ = type("Sub", (type(model),), {})
    with pytest.raises(pickle.PicklingError, match="Sub"):
        pickle.dumps(model)


def test_the_class_says_that_it_is_ours() -> None:
    assert type(shared_model(**CASES["Gaussian"].arguments())).__module__ == shared_model.__module__


def test_models_of_equal_configurations_share_their_class_and_nothing_else() -> None:
    first, second = (build(CASES["Gaussian"].make(), SharedModel, seed) for seed in (1, 2))
    inputs = CASES["Gaussian"].inputs()
    assert type(first) is type(second)
    for _ in range(4):
        for role in ORDERS[0]:
            assert not torch.equal(seeded_act(first, inputs, role)[0], seeded_act(second, inputs, role)[0])


# ------------------------------------------------------------------------------------------------------------- errors


def arguments_of(policy_input: str, value_input: str, **spaces: Any) -> dict[str, Any]:
    """Return arguments of a model whose roles read these inputs."""
    case = Case(GAUSSIAN, **spaces)
    arguments = case.arguments()
    for parameters, source in zip(arguments["parameters"], (policy_input, value_input), strict=True):
        parameters["network"] = network(source)
    return arguments


STATES: dict[str, Any] = {"state_space": box(3)}


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.skipif(not SKRL_2, reason="on skrl 1.4 they are two names for the same tensor")
def test_a_policy_on_observations_with_a_value_on_states_is_refused(order: int) -> None:
    inputs = ("OBSERVATIONS", "STATES") if order == 0 else ("STATES", "OBSERVATIONS")
    rule = "must read the same input"
    received = f"'policy' reads {inputs[0]} and 'value' reads {inputs[1]}"
    with pytest.raises(ValueError, match=f"{rule}, but {received}. Write `separate: True`"):
        shared_model(**arguments_of(*inputs, **STATES))
    with pytest.raises(ValueError, match=rule):
        shared_model(**arguments_of(*inputs, **STATES), return_source=True)


@pytest.mark.skipif(not SKRL_2, reason="skrl 1.4 has no privileged states")
def test_a_value_on_states_as_well_is_refused() -> None:
    with pytest.raises(ValueError, match="'value' reads OBSERVATIONS and STATES"):
        shared_model(**arguments_of("OBSERVATIONS", "concatenate([OBSERVATIONS, STATES])", **STATES))


def test_roles_on_other_parts_of_the_observation_are_refused() -> None:
    with pytest.raises(ValueError, match=r"reads \w+\['joints'\] and 'value' reads \w+\['goal'\]"):
        shared_model(
            **arguments_of("OBSERVATIONS['joints']", "OBSERVATIONS['goal']", observation_space=CAMERA_AND_GOAL)
        )


@pytest.mark.skipif(SKRL_2, reason="skrl 2 has names for two things")
def test_observations_and_states_are_the_same_on_skrl_1() -> None:
    assert isinstance(shared_model(**arguments_of("OBSERVATIONS", "STATES")), SharedModel)


@pytest.mark.parametrize("other", [[], [{**network()[0], "name": "other"}], network(layers=32)])
def test_another_network_on_the_same_input_is_skrls_the_first(other: Any) -> None:
    arguments = CASES["Gaussian"].arguments()
    arguments["parameters"][1]["network"] = other
    assert list(dict(shared_model(**arguments).named_children())) == ["net_container", "policy_layer", "value_layer"]


@pytest.mark.skipif(not SKRL_2, reason="skrl 1.4 has no privileged states")
def test_states_of_an_environment_without_them_are_refused() -> None:
    with pytest.raises(ValueError, match=r"needs a state space, but state_space is None.*`input: OBSERVATIONS`"):
        shared_model(**Case(GAUSSIAN, network("STATES")).arguments())


@pytest.mark.parametrize("count", [0, 1, 3])
def test_another_number_of_roles_is_refused(count: int) -> None:
    arguments = CASES["Gaussian"].arguments()
    for name in ("structure", "roles", "parameters"):
        arguments[name] = (arguments[name] * 2)[:count]
    with pytest.raises(ValueError, match=f"has two roles.*'roles': {count}"):
        shared_model(**arguments)


def test_an_error_within_the_trunk_shows_the_line_of_the_generated_source() -> None:
    case = CASES["Gaussian"]
    model = build(case.make(), SharedModel)
    with pytest.raises(RuntimeError, match="invalid for input of size 10") as error:
        act(model, make_inputs(torch.zeros(2, 5)), "policy")
    lines = [str(entry.statement).strip() for entry in error.traceback]
    source = shared_model(**case.arguments(), return_source=True).splitlines()
    assert next(line for line in source if "unflatten_tensorized_space" in line).strip() in lines
