"""Options of a configuration that are taken one by one, so that none of them can get lost."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


class ConversionWarning(UserWarning):
    """Options of rl_games have no counterpart in skrl: training will differ in what they do."""


@dataclasses.dataclass
class Notes:
    """What is to be said about a conversion. Each note names an option, its value, and the reason."""

    not_mapped: list[str] = dataclasses.field(default_factory=list)
    """Options that do something in rl_games, and nothing in the result."""
    different: list[str] = dataclasses.field(default_factory=list)
    """Options whose counterpart works in another way."""
    no_effect: list[str] = dataclasses.field(default_factory=list)
    """Options that say nothing about how is trained, or nothing with this configuration."""


class Options:
    """A mapping of which each option is read by name.

    :param path: Where the mapping stands in the configuration, as in ``params.config``.
    :param values: The mapping.
    :param notes: Where to report.

    :raises ValueError: If it is not a mapping.
    """

    def __init__(self, path: str, values: Any, notes: Notes) -> None:
        if not isinstance(values, Mapping):
            raise ValueError(f"{path} must be a mapping of options, got {values!r}")
        self.path = path
        self.notes = notes
        self._values = {name: None if value == "None" else value for name, value in values.items()}
        self._taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def take(self, name: str, default: Any = None) -> Any:
        """Return the value of an option, and regard it as dealt with. The text ``None`` is read as None."""
        self._taken.add(name)
        return self._values.get(name, default)

    def require(self, name: str) -> Any:
        """Return the value of an option.

        :raises ValueError: If it is not there.
        """
        if name not in self._values:
            raise ValueError(f"{self.path}.{name} is missing: rl_games has no default for it")
        return self.take(name)

    def number(self, name: str, default: float | None = None) -> float:
        """Return the value of an option as a float. YAML reads ``3e-4``, which has no point, as text.

        :raises ValueError: If it is not a number.
        """
        value = self.require(name) if default is None else self.take(name, default)
        try:
            if isinstance(value, bool):
                raise TypeError
            return float(value)
        except (TypeError, ValueError):
            raise ValueError(f"{self.path}.{name} must be a number, got {value!r}{_hint(value)}") from None

    def flag(self, name: str, default: bool | None = None) -> bool:
        """Return the value of an option as a bool.

        :raises ValueError: If it is not one.
        """
        value = self.require(name) if default is None else self.take(name, default)
        if not isinstance(value, (bool, int)):
            raise ValueError(f"{self.path}.{name} must be True or False, got {value!r}{_hint(value)}")
        return bool(value)

    def whole(self, name: str, default: int | None = None) -> int:
        """Return the value of an option as an int.

        :raises ValueError: If it is not a whole number.
        """
        value = self.number(name, default)
        if value != int(value):
            raise ValueError(f"{self.path}.{name} must be a whole number, got {value!r}")
        return int(value)

    def section(self, name: str, default: Any = None) -> Options:
        """Return the options below an option.

        :raises ValueError: If it is missing and there is no default, or if it is not a mapping.
        """
        values = self.require(name) if default is None else self.take(name, default)
        return Options(f"{self.path}.{name}", {} if values is None else values, self.notes)

    def not_mapped(self, name: str, why: str) -> None:
        """Report that an option does nothing in the result."""
        self.notes.not_mapped.append(self._describe(name, why))

    def different(self, name: str, why: str) -> None:
        """Report that the counterpart of an option works in another way."""
        self.notes.different.append(self._describe(name, why))

    def no_effect(self, name: str, why: str) -> None:
        """Report that an option says nothing about how is trained."""
        self.notes.no_effect.append(self._describe(name, why))

    def rest(self) -> None:
        """Report all options that nobody has taken."""
        for name in self._values:
            if name not in self._taken:
                self.not_mapped(name, "the converter does not know it")

    def _describe(self, name: str, why: str) -> str:
        self._taken.add(name)
        value = repr(self._values[name]) if name in self._values else "rl_games' default"
        return f"{self.path}.{name} ({value}): {why}"


def _hint(value: Any) -> str:
    is_reference = isinstance(value, str) and "${" in value
    return ": resolve the references first, for example with OmegaConf.to_container(cfg, resolve=True)" * is_reference
