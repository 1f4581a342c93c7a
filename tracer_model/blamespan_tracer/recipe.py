"""A training recipe: one frozen record and a TOML file with the same names."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from blamespan.errors import ConfigError

__all__ = ["DataRecipe", "FitRecipe", "Recipe", "read_recipe"]


@dataclass(frozen=True, slots=True)
class DataRecipe:
    """What to train on.

    Attributes:
        train: File of AEGIS runs, relative to the data folder.
        held_out_percent: Share of the *questions* kept aside for every choice: penalty, calibration, thresholds.
        min_agents: A feature that fewer training agents have is dropped.
    """

    train: str = "train.jsonl.xz"
    held_out_percent: int = 15
    min_agents: int = 20


@dataclass(frozen=True, slots=True)
class FitRecipe:
    """How to fit.

    Attributes:
        penalties: Candidates for the L2 penalty, weighed against the loss summed over agents; held-out runs choose.
        iterations: Most L-BFGS iterations per fit; the problem is convex.
    """

    penalties: tuple[float, ...] = (0.4,)
    iterations: int = 40


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides what weights come out.

    Attributes:
        name: Names the run directory and the weights.
        seed: Chooses which questions are held out; nothing else is random.
        data: What to train on.
        fit: How to fit.
    """

    name: str
    seed: int = 0
    data: DataRecipe = field(default_factory=DataRecipe)
    fit: FitRecipe = field(default_factory=FitRecipe)


_Record = TypeVar("_Record", DataRecipe, FitRecipe, Recipe)


def read_recipe(path: Path) -> Recipe:
    """Read the recipe at *path*; its name is the file's.

    Raises:
        ConfigError: if it is missing, no TOML, or has a key or a value that does not fit.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"expected a recipe in TOML at {str(path)!r}, got {error}. "
            "The one that made the bundled weights is tracer_model/recipes/lexical.toml"
        ) from error
    tables = {"data": DataRecipe, "fit": FitRecipe}
    parts: dict[str, Any] = {
        key: _record(tables[key], value, f"{key}.", path) if key in tables else value for key, value in given.items()
    }
    return _record(Recipe, {"name": path.stem, **parts}, "", path)


def _record(kind: type[_Record], given: object, prefix: str, path: Path) -> _Record:
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"{path.name}: expected a table [{prefix.rstrip('.')}], got {given!r}. See recipes/lexical.toml"
        )
    defaults = {spec.name: spec for spec in fields(kind)}
    for key in given:
        if key not in defaults:
            near = get_close_matches(key, defaults, n=1, cutoff=0.0)[0]
            raise ConfigError(f"{path.name}: unknown key {prefix + key!r}. Did you mean {prefix + near!r}?")
    return kind(**{key: _checked(value, defaults[key].type, prefix + key, path) for key, value in given.items()})


def _checked(value: object, kind: object, key: str, path: Path) -> Any:
    if isinstance(value, DataRecipe | FitRecipe):
        return value
    if kind == "tuple[float, ...]" and isinstance(value, list) and value:
        return tuple(_number(item, key, path) for item in value)
    expected = {"int": int, "str": str, "tuple[float, ...]": list}.get(str(kind))
    if expected is None or type(value) is not expected or (isinstance(value, int) and value < 0) or value == []:
        raise ConfigError(f"{path.name}: expected {key} as {kind} (numbers >= 0), got {value!r}. Correct the recipe.")
    return value


def _number(value: object, key: str, path: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigError(f"{path.name}: expected {key} as numbers > 0, got {value!r}. Correct the recipe.")
    return float(value)
