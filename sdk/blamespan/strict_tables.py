"""Tables of TOML files read strictly: unknown keys and values of another type are refused, and it is said where."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from blamespan.errors import ConfigError, reason_of


def read_toml(path: Path, what: str, cure: str) -> dict[str, Any]:
    """Read a file of TOML.

    Args:
        path: Of the file.
        what: It is to hold, for the message: `a policy`.
        cure: What to do where it holds none.

    Raises:
        ConfigError: if it cannot be read, or is no TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"expected {what} in TOML at {str(path)!r}, got {reason_of(error)}. {cure}") from error


def refuse_unknown_keys(table: Mapping[str, object], known: Sequence[str], where: str) -> None:
    """Refuse a table with a key that is not known.

    Args:
        table: As it was read.
        known: The keys that it may have, one at least.
        where: Which file and table, for the message.

    Raises:
        ConfigError: if it has another one; the nearest known key is named.
    """
    for key in table:
        if key not in known:
            near = get_close_matches(key, known, n=1, cutoff=0.0)[0]
            raise ConfigError(f"{where}: unknown key {key!r}. Nearest known: {near!r}")


def read_text(value: object, where: str) -> str:
    """Return a text; raise `ConfigError` for anything else."""
    if not isinstance(value, str):
        raise ConfigError(f"{where}: expected a text, got {value!r}. Put it in quotes")
    return value


def read_flag(value: object, where: str) -> bool:
    """Return true or false; raise `ConfigError` for anything else."""
    if type(value) is not bool:
        raise ConfigError(f"{where}: expected true or false, got {value!r}")
    return value


def read_whole_number(value: object, where: str, *, least: int = 0, most: int | None = None) -> int:
    """Return a whole number of a range; raise `ConfigError` for anything else."""
    if type(value) is not int or value < least or (most is not None and value > most):
        to = "" if most is None else f" to {most:,}"
        raise ConfigError(f"{where}: expected a whole number from {least}{to}, got {value!r}")
    return value


def read_choice(value: object, choices: Sequence[Any], where: str) -> Any:  # one of the choices, of their type
    """Return one of several words; raise `ConfigError` for anything else, with the nearest of them."""
    if value not in choices or not isinstance(value, str):
        near = get_close_matches(str(value), choices, n=1, cutoff=0.0)[0]
        raise ConfigError(f"{where}: expected one of {', '.join(choices)}, got {value!r}. Nearest: {near!r}")
    return value
