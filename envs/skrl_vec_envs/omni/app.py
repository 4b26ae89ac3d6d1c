"""The parts of Isaac Sim's application that tasks touch: logging, settings, extensions."""

from __future__ import annotations

import logging
from typing import Any

_LOGGER = logging.getLogger("skrl_vec_envs.omni")

log_error, log_warn, log_info = _LOGGER.error, _LOGGER.warning, _LOGGER.info
log_verbose = _LOGGER.debug


class Settings:
    """``carb.settings``: a dictionary."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def get_settings(self) -> Settings:
        """Return the settings."""
        return self

    acquire_settings_interface = get_settings

    def get(self, path: str) -> Any:
        """Return a value, or None."""
        return self._values.get(path)

    def set(self, path: str, value: Any) -> None:
        """Write a value."""
        self._values[path] = value

    get_as_bool = get_as_int = get_as_float = get_as_string = get
    set_bool = set_int = set_float = set_string = set


settings = Settings()


class SimulationApp:
    """``omni.isaac.kit.SimulationApp``: there is none.

    :param parameters: What Isaac Sim's class takes: accepted, without effect.
    """

    def __init__(self, *parameters: Any, **keywords: Any) -> None:
        self._running = True

    def is_running(self) -> bool:
        """Tell whether it was not closed."""
        return self._running

    def update(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Close it."""
        self._running = False


def enable_extension(extension_name: str) -> bool:
    """Accept an extension."""
    return True


disable_extension = enable_extension


def get_assets_root_path() -> str:
    """Return where assets would be: none is loaded."""
    return "/Isaac-assets"


def no_effect(*parameters: Any, **keywords: Any) -> None:
    """Do nothing."""
