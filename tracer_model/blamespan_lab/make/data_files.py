"""Data in TOML files beside the code: word lists, themes and catalogues, read into typed records and checked."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from blamespan.errors import ConfigError

__all__ = ["read_data_file"]

_RecordT = TypeVar("_RecordT")


def read_data_file(kind: type[_RecordT], path: Path) -> _RecordT:
    """Read the TOML file at *path* into *kind*, a dataclass whose fields are the keys at its top.

    Fields are texts, numbers, truths, `Literal`s, unions of these, records (a table each), tuples (a list each, of one
    type or of one type a place) and mappings from texts.

    Raises:
        ConfigError: if the file is missing or no TOML, or a key is missing, unknown or has a value of another type.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"expected a data file in TOML at {str(path)!r}, got {error}. Install blamespan anew"
        ) from error
    record: _RecordT = _convert(content, kind, "", path)
    return record


def _convert(value: object, kind: Any, key: str, path: Path) -> Any:
    """Return *value* as the type *kind*, or raise an error that names the file and the key."""
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind) and isinstance(value, Mapping):
        return _convert_record(value, kind, key, path)
    if origin is tuple and isinstance(value, list):
        kinds = [arguments[0]] * len(value) if arguments[-1] is ... else arguments
        if len(kinds) == len(value):
            return tuple(_convert(item, kinds[n], f"{key}[{n}]", path) for n, item in enumerate(value))
    if origin is Mapping and isinstance(value, Mapping):
        return MappingProxyType(
            {
                _convert(name, arguments[0], f"the name of {key}.{name}", path): _convert(
                    item, arguments[1], f"{key}.{name}", path
                )
                for name, item in value.items()
            }
        )
    if origin is Literal and value in arguments:
        return value
    for scalar in arguments if origin is UnionType else (kind,):
        if isinstance(scalar, type) and type(value) is scalar:
            return value
    raise ConfigError(f"{path.name}: expected {key} as {_name(kind)}, got {value!r}. Correct it in {str(path)!r}")


def _convert_record(table: Mapping[str, object], kind: Any, prefix: str, path: Path) -> Any:
    types = get_type_hints(kind)
    for name in table:
        if name not in types:
            near = get_close_matches(name, types, n=1, cutoff=0.0)[0]
            raise ConfigError(
                f"{path.name}: unknown key {_join(prefix, name)!r}. Did you mean {_join(prefix, near)!r}?"
            )
    for field in fields(kind):
        if field.name not in table and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(
                f"{path.name}: expected the key {_join(prefix, field.name)!r}, got none. Add it in {str(path)!r}"
            )
    return kind(**{name: _convert(item, types[name], _join(prefix, name), path) for name, item in table.items()})


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind).replace("typing.", "")
