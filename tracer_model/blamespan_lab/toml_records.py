"""TOML files read strictly into frozen records: the recipes of training, of corpora, of stress."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_type_hints

from blamespan.errors import ConfigError

__all__ = ["POSITIVE", "peek", "read_record"]

POSITIVE: Mapping[str, bool] = {"is_positive": True}
"""Metadata of a field whose numbers must be above zero; those of other fields may be zero."""

_RecordT = TypeVar("_RecordT")

_NAMES = {int: "int {}", float: "numbers {}", bool: "true or false", str: "str"}


def read_record(kind: type[_RecordT], path: Path, *, advice: str, example: str) -> _RecordT:
    """Read the TOML file at *path* into *kind*, a dataclass with a field `name` that the file's name fills.

    Fields are whole numbers, numbers, truths, texts, tuples of one of these, and records: a table each. Numbers must
    not be negative, and lists not be empty.

    Args:
        kind: The record.
        path: The file.
        advice: What to do if there is no such file: a sentence.
        example: A file that is right, for the messages.

    Raises:
        ConfigError: if it is missing, no TOML, or has a key or a value that does not fit; the nearest key is named.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"expected a recipe in TOML at {str(path)!r}, got {error}. {advice}") from error
    return _record(kind, {"name": path.stem, **given}, "", path, example)


def peek(path: Path, key: str) -> object:
    """Give what the TOML file at *path* says for *key* at its top; None where it says nothing or cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")).get(key)
    except (OSError, ValueError, RecursionError):
        return None  # reading it whole says why


def _record(kind: type[_RecordT], given: object, prefix: str, path: Path, example: str) -> _RecordT:
    if not isinstance(given, Mapping):
        raise ConfigError(f"{path.name}: expected a table [{prefix.rstrip('.')}], got {given!r}. See {example}")
    known = {spec.name: spec for spec in fields(cast(Any, kind))}  # a dataclass: its fields say what may be given
    types = get_type_hints(kind)
    read: dict[str, Any] = {}
    for key, value in given.items():
        if key not in known:
            near = get_close_matches(key, known, n=1, cutoff=0.0)[0]
            raise ConfigError(f"{path.name}: unknown key {prefix + key!r}. Did you mean {prefix + near!r}?")
        if is_dataclass(types[key]):
            read[key] = _record(cast("type[Any]", types[key]), value, f"{prefix}{key}.", path, example)
        else:
            read[key] = _checked(value, types[key], known[key], prefix + key, path)
    return kind(**read)


def _checked(value: object, kind: Any, spec: Field[Any], key: str, path: Path) -> Any:
    """Take *value* as the type *kind* of the field *spec*, or refuse it."""
    bound = "> 0" if spec.metadata.get("is_positive") else ">= 0"
    item = get_args(kind)[0] if get_args(kind) else None
    if item is not None and isinstance(value, list) and value:
        return tuple(_scalar(one, item, bound, key, path) for one in value)
    if item is not None:
        raise ConfigError(
            f"{path.name}: expected {key} as a list that is not empty, got {value!r}. Correct the recipe."
        )
    return _scalar(value, kind, bound, key, path)


def _scalar(value: object, kind: type, bound: str, key: str, path: Path) -> Any:
    if kind is float and type(value) is int:
        value = float(value)
    is_fit = type(value) is kind
    if isinstance(value, int | float):
        is_fit = is_fit and math.isfinite(value) and (value > 0 if bound == "> 0" else value >= 0)
    if not is_fit:
        got = int(value) if isinstance(value, float) and value.is_integer() else value
        raise ConfigError(
            f"{path.name}: expected {key} as {_NAMES[kind].format(bound)}, got {got!r}. Correct the recipe."
        )
    return value
