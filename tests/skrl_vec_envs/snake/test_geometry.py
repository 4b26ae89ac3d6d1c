"""The tables of a board."""

from __future__ import annotations

import itertools

import pytest

from skrl_vec_envs.snake.geometry import neighbours, start_poses, turns

SHAPES = [(1, 2), (1, 4), (4, 1), (2, 2), (3, 5), (5, 3)]


@pytest.mark.parametrize(("height", "width"), SHAPES)
def test_going_to_a_neighbour_and_back_returns_to_the_cell(height: int, width: int) -> None:
    table = neighbours(height, width)
    inner = [(cell, heading, to) for cell, row in enumerate(table) for heading, to in enumerate(row) if to < len(table)]
    assert all(table[to][heading ^ 1] == cell for cell, heading, to in inner)
    assert len(inner) == 2 * (height * (width - 1) + width * (height - 1))


def test_four_relative_turns_to_the_same_side_go_round() -> None:
    table = turns("relative")
    for heading in range(4):
        for side in (0, 2):
            round_trip = [heading]
            for _ in range(4):
                round_trip.append(table[round_trip[-1]][side])
            assert round_trip[-1] == heading
            assert sorted(round_trip[:-1]) == [0, 1, 2, 3]
        assert table[heading][1] == heading


@pytest.mark.parametrize(("height", "width"), SHAPES)
def test_a_start_is_a_connected_snake_headed_away_from_itself_with_a_way_out(height: int, width: int) -> None:
    table = neighbours(height, width)
    for length in range(1, height * width):
        bodies, headings = start_poses(height, width, length)
        assert bodies
        for body, heading in zip(bodies, headings, strict=True):
            assert len(set(body)) == length
            assert all(front in table[back] for front, back in itertools.pairwise(body))
            assert length == 1 or table[body[1]][heading] == body[0]
            assert any(cell < len(table) and cell not in body for cell in table[body[0]])


def test_a_board_with_room_has_straight_starts_only() -> None:
    bodies, headings = start_poses(4, 5, 3)
    assert len(bodies) == 2 * 4 * 2 + 2 * 5 * 1
    assert all(body[0] - body[1] == body[1] - body[2] for body in bodies)
    assert sorted(set(headings)) == [0, 1, 2, 3]
