"""rl_games where it is installed; its import warns of what torch has deprecated since."""

from __future__ import annotations

import warnings
from typing import Any

import pytest


def rl_games_view() -> Any:
    """Return the module of the view, or skip the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("rl_games", reason="rl_games is not installed (extra rl-games)")
        from skrl_vec_envs.views import rl_games

    return rl_games
