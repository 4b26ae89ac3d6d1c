"""The game as one compiled loop over boards: move, food, ends, new games and observations of a board, then the next.

Needs numba. The rules are those of :mod:`skrl_vec_envs.snake.torch_game`, and so are the random numbers, bit by bit;
the arrays are NumPy's views of the same tensors. A board takes part of no other, so that any number of threads plays
the same games.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,import-not-found,import-untyped"
# ruff: noqa: SIM110  # loops are what numba compiles best
from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numba.core import cgutils
from numba.extending import intrinsic

from skrl_vec_envs.snake.boards import DRAWS_PER_SNAKE, FOOD, FREE, TRIES, WALL
from skrl_vec_envs.snake.observations import BODY, HEAD, OBSERVATIONS, PIECE_OF_FOOD

_PLANES, _FLAT, _WINDOW, _ENTITIES = range(len(OBSERVATIONS))
_HEAD, _TAIL, _HEADING, _LENGTH, _STEPS, _HUNGER = range(6)  # rows of the numbers
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _33 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(33)
_LOW = np.uint64(2**31 - 1)

_compiled = numba.njit(cache=True, nogil=True, error_model="numpy")
# a call hands over all fields of all arrays, which takes longer than what most of these functions do
_inlined = numba.njit(cache=True, nogil=True, error_model="numpy", forceinline=True)


class Rules(NamedTuple):
    """Numbers that do not change."""

    width: int
    height: int
    snakes: int
    food: int
    food_per_snake: int
    coloured: bool
    actions: int
    start_length: int
    longest: int
    reversing_kills: bool
    tail_is_free: bool
    in_order: bool
    death_ends: bool
    max_steps: int
    hunger_limit: int
    draws: int
    kind: int
    window: int
    turns_window: bool
    viewers: int
    final_of_all: bool


class State(NamedTuple):
    """Arrays of :class:`~skrl_vec_envs.snake.boards.Boards`."""

    grid: np.ndarray
    ways: np.ndarray
    numbers: np.ndarray
    returns: np.ndarray
    food: np.ndarray
    keys: np.ndarray


class Tables(NamedTuple):
    """Tables of the rules and of the observation."""

    neighbours: np.ndarray
    turns: np.ndarray
    pose_bodies: np.ndarray
    pose_ways: np.ndarray
    path: np.ndarray
    rewards: np.ndarray
    head_planes: np.ndarray
    body_planes: np.ndarray
    food_planes: np.ndarray


class Out(NamedTuple):
    """Arrays to write. Shapes: (N, V, size of an observation), the others (N, S)."""

    observations: np.ndarray
    final_observations: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    returns: np.ndarray
    steps: np.ndarray
    lengths: np.ndarray


@intrinsic
def _bare(typing_context, array):
    """Return the same array without a count of its references.

    Handing a counted array to a function takes two atomic operations, and these take longer than a move.
    """

    def generate(context, builder, signature, arguments):
        view = context.make_array(array)(context, builder, arguments[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        return view._getvalue()

    return array(array), generate


@_compiled
def first_illegal(actions, count):
    """Return the number of the first action that is not one of ``count``, or -1."""
    for i in range(actions.size):
        if actions[i] < 0 or actions[i] >= count:
            return i
    return -1


@_inlined
def _mix(x):
    x = (x ^ (x >> _30)) * _FIRST
    x = (x ^ (x >> _27)) * _SECOND
    return x ^ (x >> _31)


@_inlined
def _draw(key, counter, which):
    bits = _mix(np.uint64(key) + np.uint64(counter) * _GOLDEN)
    return np.int64(bits & _LOW) if which == 0 else np.int64(bits >> _33)


@_inlined
def _below(bits, bound):
    return (bits * bound) >> 31


@_inlined
def _place_food(n, first, which, rules, grid, food, keys):
    cells = rules.width * rules.height
    for f in range(rules.food):
        if food[n, f] == cells:
            count = 0
            for cell in range(cells):
                count += grid[n, cell] == FREE
            if count == 0:
                return
            rank = _below(_draw(keys[n], first + f, which), count)
            for cell in range(cells):
                if grid[n, cell] == FREE:
                    if rank == 0:
                        grid[n, cell] = FOOD + f
                        food[n, f] = cell
                        break
                    rank -= 1


@_inlined
def _lay(n, s, pose, rules, grid, ways, numbers, returns, pose_bodies, pose_ways):
    for i in range(rules.start_length):
        cell = pose_bodies[pose, i]
        grid[n, cell] = 1 + s
        ways[n, cell] = pose_ways[pose, i]
    _born(n, s, pose_bodies[pose, 0], pose_bodies[pose, rules.start_length - 1], rules, ways, numbers, returns)


@_inlined
def _born(n, s, head, tail, rules, ways, numbers, returns):
    numbers[_HEAD, n, s] = head
    numbers[_TAIL, n, s] = tail
    numbers[_HEADING, n, s] = ways[n, head]
    numbers[_LENGTH, n, s] = rules.start_length
    numbers[_STEPS, n, s] = 0
    numbers[_HUNGER, n, s] = 0
    returns[n, s] = 0.0


@_inlined
def _fits(n, pose, rules, grid, pose_bodies):
    for i in range(rules.start_length):
        if grid[n, pose_bodies[pose, i]] != FREE:
            return False
    return True


@_inlined
def _find_pose(n, s, first, rules, grid, keys, pose_bodies):
    poses = pose_bodies.shape[0]
    first += rules.food + DRAWS_PER_SNAKE * s
    for i in range(TRIES):
        pose = _below(_draw(keys[n], first + i // 2, i % 2), poses)
        if rules.snakes == 1 or _fits(n, pose, rules, grid, pose_bodies):
            return pose
    count = 0
    for pose in range(poses):
        count += _fits(n, pose, rules, grid, pose_bodies)
    rank = _below(_draw(keys[n], first + DRAWS_PER_SNAKE - 1, 1), count)
    for pose in range(poses):
        if _fits(n, pose, rules, grid, pose_bodies):
            if rank == 0:
                return pose
            rank -= 1
    return -1


@_compiled
def _line_up(n, first, rules, grid, ways, numbers, returns, keys, neighbours, path):
    cells, room = rules.width * rules.height, rules.start_length + 1
    bits = _draw(keys[n], first + rules.draws - 1, 0)
    offset = _below(bits, cells - rules.snakes * room + 1)
    for s in range(rules.snakes):
        tail = offset + s * room
        for i in range(tail, tail + rules.start_length):
            cell = path[i]
            grid[n, cell] = 1 + s
            for way in range(4):
                if neighbours[cell, way] == path[i + 1]:
                    ways[n, cell] = way
        _born(n, s, path[tail + rules.start_length - 1], path[tail], rules, ways, numbers, returns)


@_inlined
def _start_board(n, first, rules, grid, ways, numbers, returns, food, keys, neighbours, pose_bodies, pose_ways, path):
    cells = rules.width * rules.height
    for attempt in range(2):
        for cell in range(cells):
            grid[n, cell] = FREE
        if attempt == 1:
            _line_up(n, first, rules, grid, ways, numbers, returns, keys, neighbours, path)
            break
        found = True
        for s in range(rules.snakes):
            pose = _find_pose(n, s, first, rules, grid, keys, pose_bodies)
            if pose < 0:
                found = False
                break
            _lay(n, s, pose, rules, grid, ways, numbers, returns, pose_bodies, pose_ways)
        if found:
            break
    for f in range(rules.food):
        food[n, f] = cells
    _place_food(n, first, 1, rules, grid, food, keys)


@_inlined
def _draw_planes(n, v, out, rules, grid, ways, numbers, food, neighbours, head_planes, body_planes, food_planes):
    cells = rules.width * rules.height
    for i in range(out.shape[2]):
        out[n, v, i] = 0
    for s in range(rules.snakes):
        plane = body_planes[v, s] * cells
        cell, head = numbers[_TAIL, n, s], numbers[_HEAD, n, s]
        for _ in range(numbers[_LENGTH, n, s] - 1):
            if rules.snakes == 1 or grid[n, cell] == 1 + s:
                out[n, v, plane + cell] = 1
            cell = neighbours[cell, ways[n, cell]]
        if rules.snakes == 1 or grid[n, head] == 1 + s:
            out[n, v, head_planes[v, s] * cells + head] = 1
    for f in range(rules.food):
        if food[n, f] < cells:
            out[n, v, food_planes[v, f] * cells + food[n, f]] = 1


@_compiled
def _draw_window(n, v, out, rules, grid, numbers, head_planes, body_planes, food_planes):
    size, cells = rules.window, rules.width * rules.height
    area, half = size * size, size // 2
    head = numbers[_HEAD, n, v]
    heading = numbers[_HEADING, n, v] if rules.turns_window else 0
    head_row, head_column = head // rules.width, head % rules.width
    for i in range(out.shape[2]):
        out[n, v, i] = 0
    for i in range(area):
        row, column = i // size - half, i % size - half
        if heading == 1:
            row, column = -row, -column
        elif heading == 2:
            row, column = -column, row
        elif heading == 3:
            row, column = column, -row
        row += head_row
        column += head_column
        cell = cells
        if 0 <= row < rules.height and 0 <= column < rules.width:
            cell = row * rules.width + column
        code = grid[n, cell]
        if code == WALL:
            out[n, v, i] = 1
        elif code >= FOOD:
            out[n, v, food_planes[v, code - FOOD] * area + i] = 1
        elif code != FREE:
            s = code - 1
            if cell != numbers[_HEAD, n, s]:
                out[n, v, body_planes[v, s] * area + i] = 1
            elif s != v:
                out[n, v, head_planes[v, s] * area + i] = 1


@_compiled
def _write_entity(n, v, out, i, kind, cell, colour, width):
    out[n, v, 4 * i] = kind
    out[n, v, 4 * i + 1] = cell % width
    out[n, v, 4 * i + 2] = cell // width
    out[n, v, 4 * i + 3] = colour


@_compiled
def _draw_entities(n, v, out, rules, grid, numbers, food):
    cells, count = rules.width * rules.height, 0
    for s in range(rules.snakes):
        if grid[n, numbers[_HEAD, n, s]] == 1 + s:
            _write_entity(n, v, out, count, HEAD, numbers[_HEAD, n, s], (s - v) % rules.snakes, rules.width)
            count += 1
    for cell in range(cells):
        code = grid[n, cell]
        if FREE < code < FOOD and numbers[_HEAD, n, code - 1] != cell:
            _write_entity(n, v, out, count, BODY, cell, (code - 1 - v) % rules.snakes, rules.width)
            count += 1
    for f in range(rules.food):
        if food[n, f] < cells:
            colour = (f // rules.food_per_snake - v) % rules.snakes if rules.coloured else 0
            _write_entity(n, v, out, count, PIECE_OF_FOOD, food[n, f], colour, rules.width)
            count += 1
    for i in range(4 * count, out.shape[2]):
        out[n, v, i] = 0


@_compiled
def _copy(n, v, source, target):
    for i in range(source.shape[2]):
        target[n, v, i] = source[n, v, i]


@_inlined
def _draw_view(n, v, out, rules, grid, ways, numbers, food, neighbours, head_planes, body_planes, food_planes):
    if rules.kind == _WINDOW:
        _draw_window(n, v, out, rules, grid, numbers, head_planes, body_planes, food_planes)
    elif rules.kind == _ENTITIES:
        _draw_entities(n, v, out, rules, grid, numbers, food)
    else:
        _draw_planes(n, v, out, rules, grid, ways, numbers, food, neighbours, head_planes, body_planes, food_planes)


@_inlined
def _decide(n, low, high, actions, rules, grid, numbers, neighbours, turns, target, way, grew, ate, died):
    """Find out what the moves of snakes ``low`` to ``high - 1``, made together, come to."""
    cells = rules.width * rules.height
    for s in range(low, high):
        heading = numbers[_HEADING, n, s]
        way[s] = turns[heading, actions[n, s]]
        target[s] = neighbours[numbers[_HEAD, n, s], way[s]]
        code = grid[n, target[s]]
        died[s] = code == WALL
        ate[s] = False
        if FOOD <= code < WALL:
            foreign = rules.coloured and (code - FOOD) // rules.food_per_snake != s
            died[s] = foreign
            ate[s] = not foreign
        grew[s] = ate[s] and numbers[_LENGTH, n, s] < rules.longest
        if rules.reversing_kills and way[s] == heading ^ 1 and numbers[_LENGTH, n, s] > 1:
            died[s] = True
    for s in range(low, high):
        code = grid[n, target[s]]
        if FREE < code < FOOD:
            owner = code - 1
            moves = low <= owner < high
            leaves = moves and rules.tail_is_free and not grew[owner] and numbers[_TAIL, n, owner] == target[s]
            if not leaves:
                died[s] = True
        for other in range(low, high):
            if other != s:
                swap = target[s] == numbers[_HEAD, n, other] and target[other] == numbers[_HEAD, n, s]
                if swap or target[s] == target[other]:
                    died[s] = True
    for s in range(low, high):
        if died[s]:
            ate[s] = False
            grew[s] = False
    return cells


@_inlined
def _commit(n, low, high, rules, grid, ways, numbers, food, neighbours, target, way, grew, ate, died):
    cells = rules.width * rules.height
    for s in range(low, high):
        if not died[s]:
            ways[n, numbers[_HEAD, n, s]] = way[s]
            if not grew[s]:
                tail = numbers[_TAIL, n, s]
                grid[n, tail] = FREE
                numbers[_TAIL, n, s] = neighbours[tail, ways[n, tail]]
    for s in range(low, high):
        if not died[s]:
            if ate[s]:
                food[n, grid[n, target[s]] - FOOD] = cells
            grid[n, target[s]] = 1 + s
            numbers[_HEAD, n, s] = target[s]
            numbers[_HEADING, n, s] = way[s]
            numbers[_LENGTH, n, s] += grew[s]


@_inlined
def _move_alone(n, action, rules, grid, ways, numbers, food, neighbours, turns):
    """Move the only snake of a board: what :func:`_decide` and :func:`_commit` do, in half the time."""
    head, tail, heading = numbers[_HEAD, n, 0], numbers[_TAIL, n, 0], numbers[_HEADING, n, 0]
    length = numbers[_LENGTH, n, 0]
    way = turns[heading, action]
    target = neighbours[head, way]
    code = grid[n, target]
    ate = FOOD <= code < WALL
    grew = ate and length < rules.longest
    died = code == WALL or (code == 1 and not (rules.tail_is_free and target == tail))
    died |= rules.reversing_kills and way == heading ^ 1 and length > 1
    if died:
        return False, False, True
    ways[n, head] = way
    if not grew:
        grid[n, tail] = FREE
        numbers[_TAIL, n, 0] = neighbours[tail, ways[n, tail]]
    if ate:
        food[n, code - FOOD] = rules.width * rules.height
    grid[n, target] = 1
    numbers[_HEAD, n, 0] = target
    numbers[_HEADING, n, 0] = way
    numbers[_LENGTH, n, 0] = length + grew
    return ate, grew, False


@_compiled
def start(first, last, counter, rules, state, tables, observations):
    """Begin a game on some boards, and draw them."""
    grid, ways, numbers = _bare(state.grid), _bare(state.ways), _bare(state.numbers)
    returns, food, keys = _bare(state.returns), _bare(state.food), _bare(state.keys)
    neighbours, path = _bare(tables.neighbours), _bare(tables.path)
    pose_bodies, pose_ways = _bare(tables.pose_bodies), _bare(tables.pose_ways)
    head_planes, body_planes = _bare(tables.head_planes), _bare(tables.body_planes)
    food_planes, observations = _bare(tables.food_planes), _bare(observations)
    for n in range(first, last):
        _start_board(
            n, counter, rules, grid, ways, numbers, returns, food, keys, neighbours, pose_bodies, pose_ways, path
        )
        for v in range(rules.viewers):
            _draw_view(
                n, v, observations, rules, grid, ways, numbers, food, neighbours, head_planes, body_planes, food_planes
            )


@_compiled
def draw(first, last, rules, state, tables, observations):
    """Draw some boards."""
    grid, ways, numbers = _bare(state.grid), _bare(state.ways), _bare(state.numbers)
    neighbours, food = _bare(tables.neighbours), _bare(state.food)
    head_planes, body_planes = _bare(tables.head_planes), _bare(tables.body_planes)
    food_planes, observations = _bare(tables.food_planes), _bare(observations)
    for n in range(first, last):
        for v in range(rules.viewers):
            _draw_view(
                n, v, observations, rules, grid, ways, numbers, food, neighbours, head_planes, body_planes, food_planes
            )


@_compiled
def step(first, last, counter, actions, rules, state, tables, out):
    """Make one move on boards ``first`` to ``last - 1``."""
    grid, ways, numbers = _bare(state.grid), _bare(state.ways), _bare(state.numbers)
    returns, food, keys = _bare(state.returns), _bare(state.food), _bare(state.keys)
    neighbours, turns, path, rewards = (
        _bare(tables.neighbours),
        _bare(tables.turns),
        _bare(tables.path),
        _bare(tables.rewards),
    )
    pose_bodies, pose_ways = _bare(tables.pose_bodies), _bare(tables.pose_ways)
    head_planes, body_planes = _bare(tables.head_planes), _bare(tables.body_planes)
    food_planes = _bare(tables.food_planes)
    actions, observed, finally_observed = _bare(actions), _bare(out.observations), _bare(out.final_observations)
    out_rewards, out_terminated, out_truncated = _bare(out.rewards), _bare(out.terminated), _bare(out.truncated)
    out_returns, out_steps, out_lengths = _bare(out.returns), _bare(out.steps), _bare(out.lengths)
    cells, snakes, viewers = rules.width * rules.height, rules.snakes, rules.viewers
    scratch, marks = np.empty((2, snakes), np.int64), np.empty((3, snakes), np.bool_)
    target, way = _bare(scratch[0]), _bare(scratch[1])
    grew, ate, died = _bare(marks[0]), _bare(marks[1]), _bare(marks[2])
    group = 1 if rules.in_order else snakes
    for n in range(first, last):
        if snakes == 1:
            ate[0], grew[0], died[0] = _move_alone(
                n, actions[n, 0], rules, grid, ways, numbers, food, neighbours, turns
            )
        for low in range(0, snakes if snakes > 1 else 0, group):
            high = low + group
            _decide(n, low, high, actions, rules, grid, numbers, neighbours, turns, target, way, grew, ate, died)
            _commit(n, low, high, rules, grid, ways, numbers, food, neighbours, target, way, grew, ate, died)

        any_died, all_longest, covered = False, True, 0
        for s in range(snakes):
            numbers[_STEPS, n, s] += 1
            numbers[_HUNGER, n, s] = 0 if ate[s] else numbers[_HUNGER, n, s] + 1
            died[s] |= numbers[_HUNGER, n, s] >= rules.hunger_limit
            any_died |= died[s]
            all_longest &= numbers[_LENGTH, n, s] >= rules.longest
            covered += numbers[_LENGTH, n, s]
        won = (all_longest or covered >= cells) and not any_died
        any_ended, all_ended = False, True
        for s in range(snakes):
            reward = rewards[grew[s] + 2 * won + 4 * died[s]]
            returns[n, s] += reward
            terminated = died[s] or won or (rules.death_ends and any_died)
            truncated = not terminated and numbers[_STEPS, n, s] >= rules.max_steps
            out_rewards[n, s] = reward
            out_terminated[n, s] = terminated
            out_truncated[n, s] = truncated
            out_returns[n, s] = returns[n, s]
            out_steps[n, s] = numbers[_STEPS, n, s]
            out_lengths[n, s] = numbers[_LENGTH, n, s]
            any_ended |= terminated or truncated
            all_ended &= terminated or truncated
        _place_food(n, counter, 0, rules, grid, food, keys)

        over = all_ended
        if any_ended:
            for v in range(viewers):
                _draw_view(
                    n,
                    v,
                    finally_observed,
                    rules,
                    grid,
                    ways,
                    numbers,
                    food,
                    neighbours,
                    head_planes,
                    body_planes,
                    food_planes,
                )
            if not over:
                over = not _respawn(
                    n,
                    counter,
                    rules,
                    grid,
                    ways,
                    numbers,
                    returns,
                    food,
                    keys,
                    pose_bodies,
                    pose_ways,
                    out_terminated,
                    out_truncated,
                )
                for s in range(snakes):
                    out_truncated[n, s] |= over and not out_terminated[n, s]
            if over:
                _start_board(
                    n,
                    counter,
                    rules,
                    grid,
                    ways,
                    numbers,
                    returns,
                    food,
                    keys,
                    neighbours,
                    pose_bodies,
                    pose_ways,
                    path,
                )
        for v in range(viewers):
            _draw_view(
                n, v, observed, rules, grid, ways, numbers, food, neighbours, head_planes, body_planes, food_planes
            )
            if rules.final_of_all and not (
                over or (any_ended and viewers == snakes and (out_terminated[n, v] or out_truncated[n, v]))
            ):
                _copy(n, v, observed, finally_observed)


@_compiled
def _respawn(
    n, counter, rules, grid, ways, numbers, returns, food, keys, pose_bodies, pose_ways, terminated, truncated
):
    """Let the snakes that ended start anew among the others, and tell whether there was room."""
    for cell in range(rules.width * rules.height):
        code = grid[n, cell]
        if FREE < code < FOOD and (terminated[n, code - 1] or truncated[n, code - 1]):
            grid[n, cell] = FREE
    for s in range(rules.snakes):
        if terminated[n, s] or truncated[n, s]:
            pose = _find_pose(n, s, counter, rules, grid, keys, pose_bodies)
            if pose < 0:
                return False
            _lay(n, s, pose, rules, grid, ways, numbers, returns, pose_bodies, pose_ways)
    _place_food(n, counter, 1, rules, grid, food, keys)
    return True


@numba.njit(cache=True, parallel=True, error_model="numpy")
def step_in_parallel(chunks, counter, actions, rules, state, tables, out):
    """Make one move on all boards, in as many chunks as there are threads."""
    boards = state.grid.shape[0]
    for i in numba.prange(chunks):
        step(i * boards // chunks, (i + 1) * boards // chunks, counter, actions, rules, state, tables, out)
