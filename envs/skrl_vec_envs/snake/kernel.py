"""The game as one compiled loop over boards: move, food, ends, new games and observations of a board, then the next.

Needs numba. The rules are those of :mod:`skrl_vec_envs.snake.torch_game`, and so are the random numbers, bit by bit;
the arrays are NumPy's views of the same tensors. A board takes part of no other, so that any number of threads plays
the same games.

All of it is in one file, since numba's cache compiles a function anew when the file changes that it is in, but not when
another one does that it calls functions of.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,import-not-found,import-untyped"
# ruff: noqa: SIM110  # loops are what numba compiles best
from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from skrl_vec_envs.snake.boards import DRAWS, FOOD, FREE, TRIES, WALL
from skrl_vec_envs.snake.observations import BODY, HEAD, OBSERVATIONS, PIECE_OF_FOOD

_PLANES, _FLAT, _WINDOW, _ENTITIES = range(len(OBSERVATIONS))
_HEAD, _TAIL, _HEADING, _LENGTH, _STEPS, _HUNGER = range(6)  # rows of the numbers
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _33 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(33)
_LOW = np.uint64(2**31 - 1)
_TOGETHER = 256  # boards that are moved, then drawn, and so on: many for a call of each part, few for the caches
SCRATCH = 5  # arrays of a number per snake that a step needs

# Nothing here makes an array or keeps one. Counting the references to them anyway (_nrt) takes longer than a move, and
# so do calls, which hand over all fields of all arrays. An unsigned index needs no check for one counted from the end.
_compiled = numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
_inlined = numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False, forceinline=True)


class Rules(NamedTuple):
    """Numbers that do not change."""

    width: int
    height: int
    snakes: int
    food: int
    food_per_snake: int
    coloured: bool
    start_length: int
    longest: int
    reversing_kills: bool
    tail_is_free: bool
    in_order: bool
    death_ends: bool
    max_steps: int
    hunger_limit: int
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

    rewards: np.ndarray
    neighbours: np.ndarray
    turns: np.ndarray
    pose_bodies: np.ndarray
    pose_ways: np.ndarray
    path: np.ndarray
    head_planes: np.ndarray
    body_planes: np.ndarray
    food_planes: np.ndarray


class Out(NamedTuple):
    """Arrays to write. Shapes: (N * V, size of an observation), the others (N * S,)."""

    observations: np.ndarray
    final_observations: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    ended: np.ndarray
    returns: np.ndarray
    steps: np.ndarray
    lengths: np.ndarray


@_compiled
def first_illegal(actions, count):
    """Return the number of the first action that is not one of ``count``, or -1."""
    any_illegal = False
    for i in range(actions.size):  # without a way out: several at once
        any_illegal |= (actions[i] < 0) | (actions[i] >= count)
    if any_illegal:
        for i in range(actions.size):
            if actions[i] < 0 or actions[i] >= count:
                return i
    return -1


# --- random numbers and places


@_inlined
def _bits(key, first, thing, i):
    """Return number ``i`` of those for the place of a thing."""
    x = np.uint64(key) + np.uint64(first + DRAWS * thing + i // 2) * _GOLDEN
    x = (x ^ (x >> _30)) * _FIRST
    x = (x ^ (x >> _27)) * _SECOND
    x ^= x >> _31
    return np.int64(x & _LOW) if i % 2 == 0 else np.int64(x >> _33)


@_inlined
def _below(bits, bound):
    return (bits * bound) >> 31


@_inlined
def _free_cell(n, thing, first, rules, state):
    cells = rules.width * rules.height
    for i in range(TRIES):
        cell = _below(_bits(state.keys[n], first, thing, i), cells)
        if state.grid[n, cell] == FREE:
            return cell
    count = 0
    for cell in range(cells):
        count += state.grid[n, cell] == FREE
    rank = _below(_bits(state.keys[n], first, thing, TRIES), count)
    for cell in range(cells):
        if state.grid[n, cell] == FREE:
            if rank == 0:
                return cell
            rank -= 1
    return cells


@_inlined
def _place_food(n, first, rules, state, thing):
    cells = rules.width * rules.height
    for f in range(rules.food):
        if state.food[n, f] == cells:
            cell = _free_cell(n, thing + f, first, rules, state)
            if cell == cells:
                return
            state.grid[n, cell] = FOOD + f
            state.food[n, f] = cell


@_inlined
def _fits(n, pose, rules, state, tables):
    for i in range(rules.start_length):
        if state.grid[n, tables.pose_bodies[pose, i]] != FREE:
            return False
    return True


@_inlined
def _find_pose(n, s, first, rules, state, tables):
    poses, thing = tables.pose_bodies.shape[0], 2 * rules.food + s
    for i in range(TRIES):
        pose = _below(_bits(state.keys[n], first, thing, i), poses)
        if rules.snakes == 1 or _fits(n, pose, rules, state, tables):
            return pose
    count = 0
    for pose in range(poses):
        count += _fits(n, pose, rules, state, tables)
    rank = _below(_bits(state.keys[n], first, thing, TRIES), count)
    for pose in range(poses):
        if _fits(n, pose, rules, state, tables):
            if rank == 0:
                return pose
            rank -= 1
    return -1


# --- new games


@_inlined
def _born(n, s, head, tail, rules, state):
    state.numbers[_HEAD, n, s] = head
    state.numbers[_TAIL, n, s] = tail
    state.numbers[_HEADING, n, s] = state.ways[n, head]
    state.numbers[_LENGTH, n, s] = rules.start_length
    state.numbers[_STEPS, n, s] = 0
    state.numbers[_HUNGER, n, s] = 0
    state.returns[n, s] = 0.0


@_inlined
def _lay(n, s, first, rules, state, tables):
    """Let a snake start anew, and tell whether there was room."""
    pose = _find_pose(n, s, first, rules, state, tables)
    if pose < 0:
        return False
    for i in range(rules.start_length):
        cell = tables.pose_bodies[pose, i]
        state.grid[n, cell] = 1 + s
        state.ways[n, cell] = tables.pose_ways[pose, i]
    _born(n, s, tables.pose_bodies[pose, 0], tables.pose_bodies[pose, rules.start_length - 1], rules, state)
    return True


@_compiled
def _line_up(n, first, rules, state, tables):
    cells, room = rules.width * rules.height, rules.start_length + 1
    bits = _bits(state.keys[n], first, 2 * rules.food + rules.snakes, 0)
    offset = _below(bits, cells - rules.snakes * room + 1)
    for s in range(rules.snakes):
        tail = offset + s * room
        for i in range(tail, tail + rules.start_length):
            cell = tables.path[i]
            state.grid[n, cell] = 1 + s
            for way in range(4):
                if tables.neighbours[cell, way] == tables.path[i + 1]:
                    state.ways[n, cell] = way
        _born(n, s, tables.path[tail + rules.start_length - 1], tables.path[tail], rules, state)


@_inlined
def _clear(n, rules, state):
    for cell in range(rules.width * rules.height):
        state.grid[n, cell] = FREE


@_inlined
def _start_board(n, first, rules, state, tables):
    _clear(n, rules, state)
    for s in range(rules.snakes):
        if not _lay(n, s, first, rules, state, tables):
            _clear(n, rules, state)
            _line_up(n, first, rules, state, tables)
            break
    for f in range(rules.food):
        state.food[n, f] = rules.width * rules.height
    _place_food(n, first, rules, state, rules.food)


@_compiled
def _respawn(n, first, rules, state, tables, ended):
    """Let the snakes that ended start anew among the others, and tell whether there was room."""
    row = n * rules.snakes
    for s in range(rules.snakes):
        if ended[row + s]:
            cell = np.uint32(state.numbers[_TAIL, n, s])
            for _ in range(state.numbers[_LENGTH, n, s]):
                if state.grid[n, cell] == 1 + s:
                    state.grid[n, cell] = FREE
                cell = tables.neighbours[cell, state.ways[n, cell]]
    for s in range(rules.snakes):
        if ended[row + s] and not _lay(n, s, first, rules, state, tables):
            return False
    _place_food(n, first, rules, state, rules.food)
    return True


# --- observations


@_inlined
def _draw_alone(n, out, row, rules, state):
    cells = np.uint32(rules.width * rules.height)
    for i in range(out.shape[1]):
        out[row, i] = 0
    for i in range(cells):
        out[row, cells + i] = state.grid[n, i] == 1
    head = np.uint32(state.numbers[_HEAD, n, 0])
    out[row, cells + head] = 0
    out[row, head] = 1
    for f in range(rules.food):
        cell = np.uint32(state.food[n, f])
        if cell < cells:
            out[row, 2 * cells + cell] = 1


@_inlined
def _draw_planes(n, v, out, row, rules, state, tables):
    cells = np.uint32(rules.width * rules.height)
    for i in range(out.shape[1]):
        out[row, i] = 0
    if rules.viewers == rules.snakes:
        own = np.uint8(1 + v)
        for i in range(cells):
            out[row, cells + i] = state.grid[n, i] == own
        for i in range(cells):
            code = state.grid[n, i]
            out[row, 4 * cells + i] = (code != FREE) & (code < FOOD) & (code != own)
    else:
        for s in range(rules.snakes):
            code, start = np.uint8(1 + s), (rules.snakes + s) * cells
            for i in range(cells):
                out[row, start + i] = state.grid[n, i] == code
    for s in range(rules.snakes):
        head = np.uint32(state.numbers[_HEAD, n, s])
        if state.grid[n, head] == 1 + s:
            out[row, tables.body_planes[v, s] * cells + head] = 0
            out[row, tables.head_planes[v, s] * cells + head] = 1
    for f in range(rules.food):
        cell = np.uint32(state.food[n, f])
        if cell < cells:
            out[row, tables.food_planes[v, f] * cells + cell] = 1


@_compiled
def _draw_window(n, v, out, row, rules, state, tables):
    size = rules.window
    area, half = size * size, size // 2
    head = state.numbers[_HEAD, n, v]
    heading = state.numbers[_HEADING, n, v] if rules.turns_window else 0
    head_y, head_x = head // rules.width, head % rules.width
    for i in range(out.shape[1]):
        out[row, i] = 0
    for i in range(area):
        y, x = i // size - half, i % size - half
        if heading == 1:
            y, x = -y, -x
        elif heading == 2:
            y, x = -x, y
        elif heading == 3:
            y, x = x, -y
        y += head_y
        x += head_x
        cell = rules.width * rules.height
        if 0 <= y < rules.height and 0 <= x < rules.width:
            cell = y * rules.width + x
        code = state.grid[n, cell]
        if code == WALL:
            out[row, i] = 1
        elif code >= FOOD:
            out[row, tables.food_planes[v, code - FOOD] * area + i] = 1
        elif code != FREE:
            s = code - 1
            if cell != state.numbers[_HEAD, n, s]:
                out[row, tables.body_planes[v, s] * area + i] = 1
            elif s != v:
                out[row, tables.head_planes[v, s] * area + i] = 1


@_inlined
def _write_entity(out, row, i, kind, cell, colour, width):
    out[row, 4 * i] = kind
    out[row, 4 * i + 1] = cell % width
    out[row, 4 * i + 2] = cell // width
    out[row, 4 * i + 3] = colour


@_compiled
def _draw_entities(n, v, out, row, rules, state):
    cells, count = rules.width * rules.height, 0
    for s in range(rules.snakes):
        head = state.numbers[_HEAD, n, s]
        if state.grid[n, head] == 1 + s:
            _write_entity(out, row, count, HEAD, head, (s - v) % rules.snakes, rules.width)
            count += 1
    for cell in range(cells):
        code = state.grid[n, cell]
        if FREE < code < FOOD and state.numbers[_HEAD, n, code - 1] != cell:
            _write_entity(out, row, count, BODY, cell, (code - 1 - v) % rules.snakes, rules.width)
            count += 1
    for f in range(rules.food):
        if state.food[n, f] < cells:
            colour = (f // rules.food_per_snake - v) % rules.snakes if rules.coloured else 0
            _write_entity(out, row, count, PIECE_OF_FOOD, state.food[n, f], colour, rules.width)
            count += 1
    for i in range(4 * count, out.shape[1]):
        out[row, i] = 0


@_inlined
def _draw_board(n, out, rules, state, tables):
    if rules.kind <= _FLAT and rules.snakes == 1:
        _draw_alone(n, out, n, rules, state)
        return
    for v in range(rules.viewers):
        row = np.uint32(n * rules.viewers + v)
        if rules.kind == _WINDOW:
            _draw_window(n, v, out, row, rules, state, tables)
        elif rules.kind == _ENTITIES:
            _draw_entities(n, v, out, row, rules, state)
        else:
            _draw_planes(n, v, out, row, rules, state, tables)


@_compiled
def draw(first, last, rules, state, tables, out):
    """Draw some boards."""
    for i in range(first, last):
        _draw_board(np.uint32(i), out, rules, state, tables)


# --- moves


@_inlined
def _move_alone(n, action, rules, state, tables):
    """Move the only snake of a board: what :func:`_decide` and :func:`_commit` do, in half the time."""
    numbers = state.numbers
    head, tail = np.uint32(numbers[_HEAD, n, 0]), np.uint32(numbers[_TAIL, n, 0])
    heading, length = np.uint32(numbers[_HEADING, n, 0]), numbers[_LENGTH, n, 0]
    way = tables.turns[heading, np.uint32(action)]
    target = tables.neighbours[head, way]
    code = state.grid[n, target]
    ate = (code >= FOOD) & (code != WALL)
    grew = ate & (length < rules.longest)
    died = (code == WALL) | ((code == 1) & ((target != tail) | (not rules.tail_is_free)))
    died |= rules.reversing_kills & (way == heading ^ 1) & (length > 1)
    if died:
        return False, False, True
    state.ways[n, head] = way
    if not grew:
        state.grid[n, tail] = FREE
        numbers[_TAIL, n, 0] = tables.neighbours[tail, state.ways[n, tail]]
    if ate:
        state.food[n, code - FOOD] = rules.width * rules.height
    state.grid[n, target] = 1
    numbers[_HEAD, n, 0] = target
    numbers[_HEADING, n, 0] = way
    numbers[_LENGTH, n, 0] = length + grew
    return ate, grew, False


@_inlined
def _decide(n, low, high, actions, rules, state, tables, target, way, grew, ate, died):
    """Find out what the moves of snakes ``low`` to ``high - 1``, made together, come to."""
    grid, numbers = state.grid, state.numbers
    for s in range(low, high):
        heading = numbers[_HEADING, n, s]
        way[s] = tables.turns[heading, actions[n * rules.snakes + s]]
        target[s] = tables.neighbours[numbers[_HEAD, n, s], way[s]]
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


@_inlined
def _commit(n, low, high, rules, state, tables, target, way, grew, ate, died):
    grid, ways, numbers = state.grid, state.ways, state.numbers
    for s in range(low, high):
        if not died[s]:
            ways[n, numbers[_HEAD, n, s]] = way[s]
            if not grew[s]:
                tail = numbers[_TAIL, n, s]
                grid[n, tail] = FREE
                numbers[_TAIL, n, s] = tables.neighbours[tail, ways[n, tail]]
    for s in range(low, high):
        if not died[s]:
            if ate[s]:
                state.food[n, grid[n, target[s]] - FOOD] = rules.width * rules.height
            grid[n, target[s]] = 1 + s
            numbers[_HEAD, n, s] = target[s]
            numbers[_HEADING, n, s] = way[s]
            numbers[_LENGTH, n, s] += grew[s]


# --- entry points


@_compiled
def start(first, last, counter, rules, state, tables, observations):
    """Begin a game on some boards, and draw them."""
    for i in range(first, last):
        _start_board(np.uint32(i), counter, rules, state, tables)
    draw(first, last, rules, state, tables, observations)


@_inlined
def _close(n, s, grew, won, died, any_died, rules, state, tables, out):
    """Write what came of a snake's move."""
    row, steps = np.uint32(n * rules.snakes + s), state.numbers[_STEPS, n, s]
    reward = tables.rewards[grew + 2 * won + 4 * died]
    total = state.returns[n, s] + reward
    state.returns[n, s] = total
    terminated = died | won | (rules.death_ends & any_died)
    truncated = (not terminated) & (steps >= rules.max_steps)
    out.rewards[row] = reward
    out.terminated[row] = terminated
    out.truncated[row] = truncated
    out.ended[row] = terminated | truncated
    out.returns[row] = total
    out.steps[row] = steps
    out.lengths[row] = state.numbers[_LENGTH, n, s]


@_inlined
def _age(n, s, ate, rules, state):
    """Count the step, and tell whether the snake starves."""
    hunger = 0 if ate else state.numbers[_HUNGER, n, s] + 1
    state.numbers[_HUNGER, n, s] = hunger
    state.numbers[_STEPS, n, s] += 1
    return hunger >= rules.hunger_limit


@_inlined
def _step_alone(n, actions, rules, state, tables, out):
    ate, grew, died = _move_alone(n, actions[n], rules, state, tables)
    died |= _age(n, 0, ate, rules, state)
    won = (state.numbers[_LENGTH, n, 0] >= rules.longest) & (not died)
    _close(n, 0, grew, won, died, died, rules, state, tables, out)


@_inlined
def _step_together(n, actions, rules, state, tables, out, scratch):
    target, way, grew, ate, died = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    group = 1 if rules.in_order else rules.snakes
    for low in range(0, rules.snakes, group):
        high = low + group
        _decide(n, low, high, actions, rules, state, tables, target, way, grew, ate, died)
        _commit(n, low, high, rules, state, tables, target, way, grew, ate, died)
    any_died, all_longest, covered = False, True, 0
    for s in range(rules.snakes):
        died[s] |= _age(n, s, ate[s], rules, state)
        any_died |= died[s] != 0
        all_longest &= state.numbers[_LENGTH, n, s] >= rules.longest
        covered += state.numbers[_LENGTH, n, s]
    won = (all_longest | (covered >= rules.width * rules.height)) & (not any_died)
    for s in range(rules.snakes):
        _close(n, s, grew[s] != 0, won, died[s] != 0, any_died, rules, state, tables, out)


@_inlined
def _copy_rows(source, first, last, target, to):
    for k in range(last - first):
        here, there = np.uint32(first + k), np.uint32(to + k)
        for i in range(source.shape[1]):
            target[there, i] = source[here, i]


@_inlined
def _start_anew(n, first, all_ended, rules, state, tables, out):
    """Let what ended start anew, and tell whether that is all of the board."""
    if not all_ended and not _respawn(n, first, rules, state, tables, out.ended):
        all_ended = True
        for row in range(n * rules.snakes, (n + 1) * rules.snakes):
            out.truncated[row] |= not out.terminated[row]
            out.ended[row] = True
    if all_ended:
        _start_board(n, first, rules, state, tables)
    return all_ended


@_inlined
def _ends(n, rules, out):
    """Tell whether the episodes of any and of all snakes of a board ended."""
    any_ended, all_ended = False, True
    for row in range(n * rules.snakes, (n + 1) * rules.snakes):
        any_ended |= out.ended[row]
        all_ended &= out.ended[row]
    return any_ended, all_ended


@_compiled
def _move(first, last, counter, actions, rules, state, tables, out, scratch):
    for i in range(first, last):
        n = np.uint32(i)
        if rules.snakes == 1:
            _step_alone(n, actions, rules, state, tables, out)
        else:
            _step_together(n, actions, rules, state, tables, out, scratch)
        _place_food(n, counter, rules, state, 0)


@_compiled
def _begin_anew(first, last, kept, counter, rules, state, tables, out):
    """Let what ended start anew, draw these boards again, and complete the final observations.

    :return: Row after the last final observation, where they are of ended rows only; ``kept`` is that before.
    """
    viewers = rules.viewers
    for i in range(first, last):
        n = np.uint32(i)
        any_ended, all_ended = _ends(n, rules, out)
        if not any_ended:
            continue
        all_ended = _start_anew(n, counter, all_ended, rules, state, tables, out)
        if not rules.final_of_all:
            for row in range(i * viewers, (i + 1) * viewers):
                if all_ended or (viewers > 1 and out.ended[row]):
                    _copy_rows(out.observations, row, row + 1, out.final_observations, kept)
                    kept += 1
        _draw_board(n, out.observations, rules, state, tables)
        if rules.final_of_all and not all_ended:
            # a snake that goes on sees the others' new start already
            for row in range(i * viewers, (i + 1) * viewers):
                if viewers == 1 or not out.ended[row]:
                    _copy_rows(out.observations, row, row + 1, out.final_observations, row)
    return kept


@_compiled
def step(first, last, counter, actions, rules, state, tables, out, scratch):
    """Make one move on boards ``first`` to ``last - 1``.

    Final observations are written from the row of board ``first`` on, of all rows or of those that ended.

    :return: Number of the row after the last of these.
    """
    kept = first * rules.viewers
    for begin in range(first, last, _TOGETHER):
        end = min(begin + _TOGETHER, last)
        _move(begin, end, counter, actions, rules, state, tables, out, scratch)
        draw(begin, end, rules, state, tables, out.observations)
        if rules.final_of_all:
            low, high = begin * rules.viewers, end * rules.viewers
            _copy_rows(out.observations, low, high, out.final_observations, low)
        kept = _begin_anew(begin, end, kept, counter, rules, state, tables, out)
    return last * rules.viewers if rules.final_of_all else kept


@numba.njit(cache=True, parallel=True, error_model="numpy")
def step_in_parallel(boards, counter, actions, rules, state, tables, out, scratch):
    """Make one move on all boards, in as many parts as there are threads; the final observations lie without gaps."""
    parts = scratch.shape[0]
    ends = np.empty(parts, np.int64)
    for i in numba.prange(parts):
        first, last = i * boards // parts, (i + 1) * boards // parts
        ends[i] = step(first, last, counter, actions, rules, state, tables, out, scratch[i])
    row = 0
    for i in range(parts):
        begin = i * boards // parts * rules.viewers
        if begin == row:
            row = ends[i]
        else:
            for source in range(begin, ends[i]):
                _copy_rows(out.final_observations, source, source + 1, out.final_observations, row)
                row += 1
    return row
