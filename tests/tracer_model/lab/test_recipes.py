"""Recipes are read whole, or refused with the nearest key; those of the package are named without a path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from blamespan.errors import ConfigError
from blamespan_lab.recipes import bundled_recipes, find_recipe, peek, read_recipe
from blamespan_lab.train import RECIPES
from blamespan_lab.train.auto import AutoRecipe
from blamespan_lab.train.language_model import LanguageModelRecipe
from blamespan_lab.train.lexical import LexicalData, LexicalFit, LexicalRecipe

RECORDS: dict[object, type[Any]] = {"lexical": LexicalRecipe, "auto": AutoRecipe, "language-model": LanguageModelRecipe}


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_recipe_is_named_after_its_file_and_filled_with_defaults(tmp_path: Path) -> None:
    """What the file does not say is as documented; whole numbers stand for penalties too."""
    path = write(tmp_path, "seed = 3\n[data]\nmin_agents = 1\n[fit]\npenalties = [1, 0.5]\n")

    assert read_recipe(LexicalRecipe, path, RECIPES) == LexicalRecipe(
        "mine", seed=3, data=LexicalData(min_agents=1), fit=LexicalFit(penalties=(1.0, 0.5))
    )


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
        read_recipe(LexicalRecipe, write(tmp_path, text), RECIPES)

    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("name", "says"), [("lexicla", "Did you mean 'lexical'"), ("none.toml", "Bundled: auto, auto-new-kinds")]
)
def test_missing_recipe_is_answered_with_those_that_are_there(name: str, says: str) -> None:
    """Somebody who mistyped a name or a path is told what there is."""
    with pytest.raises(ConfigError, match=says):
        read_recipe(LexicalRecipe, name, RECIPES)


@pytest.mark.parametrize("name", bundled_recipes(RECIPES))
def test_every_bundled_recipe_says_how_to_run_it_and_fits_its_record(name: str) -> None:
    """Its first lines hold its command; its model chooses the record."""
    path = find_recipe(name, RECIPES)

    assert f"blamespan lab train {name} --data" in path.read_text(encoding="utf-8")
    assert read_recipe(RECORDS[peek(path, "model")], name, RECIPES).name == name
