"""Recipes: TOML files read strictly into frozen records; those that come with the package are named without a path."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar, cast, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from blamespan.errors import ConfigError
from blamespan.strict_tables import read_toml

_ItemT = TypeVar("_ItemT")
_RecordT = TypeVar("_RecordT")

Count: TypeAlias = Annotated[int, Field(ge=0)]
PositiveCount: TypeAlias = Annotated[int, Field(gt=0)]
Number: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveNumber: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Listed: TypeAlias = Annotated[tuple[_ItemT, ...], Field(min_length=1)]


def bundled_recipes(folder: Path) -> list[str]:
    """Return the names of the recipes that come with the package in *folder*."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def find_recipe(name: str, folder: Path) -> Path:
    """Return the file of a bundled recipe of *folder* by its name, or the path of a TOML file that *name* is.

    Raises:
        ConfigError: if it is neither; the nearest bundled one is named.
    """
    bundled = bundled_recipes(folder)
    if name in bundled:
        return folder / f"{name}.toml"
    path = Path(name)
    if path.suffix != ".toml" and not path.is_file():
        raise ConfigError(
            f"expected a bundled recipe ({', '.join(bundled)}) or the path of a TOML file, got {name!r}. "
            f"Did you mean {get_close_matches(name, bundled, n=1, cutoff=0.0)[0]!r}?"
        )
    return path


def read_recipe(kind: type[_RecordT], name: str | Path, folder: Path) -> _RecordT:
    """Read the recipe *name*, as `find_recipe` finds it, into *kind*: a dataclass with a field `name` for the file's.

    Args:
        kind: The record: its types say what a value may be, and its `__post_init__` may refuse the whole.
        name: Of a bundled recipe, or the path of a file.
        folder: Where the bundled recipes of this kind lie.

    Raises:
        ConfigError: if it is missing, no TOML, or has a key or a value that does not fit; the nearest key is named.
    """
    path = find_recipe(str(name), folder)
    document = read_toml(path, "a recipe", f"Bundled: {', '.join(bundled_recipes(folder))}")
    try:  # as JSON: strict, but a list stands for a tuple and a whole number for a number
        text = json.dumps({"name": path.stem, **document}, default=repr)
        return TypeAdapter(kind).validate_json(text, strict=True, extra="forbid")
    except ValidationError as error:
        raise _refusal(kind, error, path, folder) from error


def peek(path: Path, key: str) -> object:
    """Return what the TOML file at *path* says for *key* at its top; None where it says nothing or cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")).get(key)
    except (OSError, ValueError, RecursionError):
        return None  # reading it whole says why


def require_known(recipe: str, key: str, names: Sequence[str], choices: Sequence[str]) -> None:
    """Make sure that each of *names* is one of *choices*, and stands there once.

    Raises:
        ConfigError: if not; it names the recipe, the key and the nearest choice.
    """
    for name in names:
        if name not in choices:
            near = get_close_matches(name, choices, n=1, cutoff=0.0)[0]
            raise ConfigError(f"{recipe}: unknown name {name!r} in {key}. Did you mean {near!r}?")
    if len(set(names)) < len(names):
        raise ConfigError(f"{recipe}: expected {key} with each name once, got {names!r}. Correct the recipe.")


def _refusal(kind: type[object], error: ValidationError, path: Path, folder: Path) -> ConfigError:
    """Turn the first mismatch into an error that names the file and the key, and what was expected and came."""
    mismatch = error.errors()[0]
    keys = [part for part in mismatch["loc"] if isinstance(part, str)]  # a number is an index in a list
    key, got = ".".join(keys), mismatch["input"]
    if mismatch["type"] == "value_error":
        refused = mismatch["ctx"]["error"]
        return refused if isinstance(refused, ConfigError) else ConfigError(f"{path.name}: {refused}")
    if mismatch["type"] == "unexpected_keyword_argument":
        near = get_close_matches(keys[-1], _keys_of(kind, keys[:-1]), n=1, cutoff=0.0)[0]
        return ConfigError(f"{path.name}: unknown key {key!r}. Did you mean {'.'.join([*keys[:-1], near])!r}?")
    if mismatch["type"] == "dataclass_type":
        return ConfigError(f"{path.name}: expected a table [{key}], got {got!r}. See the files in {str(folder)!r}")
    expected = mismatch["msg"].removeprefix("Input should be ")
    if mismatch["type"] == "too_short":
        expected = "a list that is not empty"
    return ConfigError(f"{path.name}: expected {key} to be {expected}, got {got!r}. Correct the recipe.")


def _keys_of(kind: type[object], path: Sequence[str]) -> list[str]:
    """List the keys of the table at *path* of *kind*."""
    for key in path:
        kind = get_type_hints(kind)[key]
    return [field.name for field in fields(cast("Any", kind))]  # a dataclass: its fields say what may be there
