"""Recipes are read whole or refused with the nearest key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blamespan.errors import ConfigError
from blamespan_lab.auto.recipe import read_auto_recipe
from blamespan_lab.language_model import read_language_model_recipe
from blamespan_lab.lexical.recipe import DataRecipe, FitRecipe, Recipe, read_recipe
from blamespan_lab.network.recipe import read_network_recipe
from blamespan_lab.toml_records import peek

RECIPES = Path(__file__).parents[4] / "tracer_model" / "recipes"


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_recipe_is_named_after_its_file_and_filled_with_defaults(tmp_path: Path) -> None:
    """What the file does not say is as documented; whole numbers stand for penalties too."""
    path = write(tmp_path, "seed = 3\n[data]\nmin_agents = 1\n[fit]\npenalties = [1, 0.5]\n")

    assert read_recipe(path) == Recipe("mine", 3, DataRecipe(min_agents=1), FitRecipe(penalties=(1.0, 0.5)))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sede = 1", "unknown key 'sede'. Did you mean 'seed'"),
        ("[data]\nheld_out = 3", "unknown key 'data.held_out'. Did you mean 'data.held_out_percent'"),
        ("[fit]\niterations = true", "expected fit.iterations to be a valid integer, got True"),
        ("[fit]\niterations = -1", "got -1"),
        ("[fit]\npenalties = []", "expected fit.penalties"),
        ("[fit]\npenalties = [0]", "expected fit.penalties to be greater than 0, got 0"),
        ("[fit]\npenalties = 0.3", "got 0.3"),
        ("data = 3", "expected a table [data], got 3"),
        ("seed = ", "expected a recipe in TOML"),
    ],
)
def test_recipe_that_does_not_fit_is_refused(tmp_path: Path, text: str, says: str) -> None:
    """The message names the key, what was expected and what came."""
    with pytest.raises(ConfigError) as caught:
        read_recipe(write(tmp_path, text))

    assert says in str(caught.value)


def test_missing_recipe_names_the_bundled_one(tmp_path: Path) -> None:
    """Somebody who mistyped a path is told where a recipe lies."""
    with pytest.raises(ConfigError, match=r"recipes/lexical\.toml"):
        read_recipe(tmp_path / "none.toml")


READERS: dict[object, Callable[[Path], Any]] = {
    None: read_recipe,
    "auto": read_auto_recipe,
    "network": read_network_recipe,
    "language-model": read_language_model_recipe,
}


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.name)
def test_every_recipe_here_can_be_read(path: Path) -> None:
    """Each says how to run it, and fits the record."""
    read = READERS[peek(path, "model")]

    assert f"blamespan lab train tracer_model/recipes/{path.name}" in path.read_text(encoding="utf-8")
    assert read(path).name == path.stem


def test_network_recipe_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    """Each model has its own record; a key of another is none of it."""
    with pytest.raises(ConfigError, match=r"unknown key 'schedule.epoch'. Did you mean 'schedule.epochs'"):
        read_network_recipe(write(tmp_path, 'model = "network"\n[schedule]\nepoch = 3\n'))
