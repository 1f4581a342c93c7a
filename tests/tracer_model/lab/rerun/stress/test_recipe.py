"""Stress recipes are read strictly."""

from __future__ import annotations

from pathlib import Path

import pytest

from blamespan.errors import ConfigError
from blamespan_lab.make.faults.catalogue import KINDS
from blamespan_lab.recipes import bundled_recipes
from blamespan_lab.rerun.stress.recipe import RECIPES, StressRecipe, find_recipe


@pytest.mark.parametrize("name", bundled_recipes(RECIPES))
def test_bundled_recipes_are_right(name: str) -> None:
    """Each is found by its name, and has something to put in."""
    recipe = find_recipe(name)

    assert recipe.name == name
    assert recipe.ways


def test_default_puts_in_every_kind_by_each_of_its_mechanisms() -> None:
    """Nothing of the catalogue is left out."""
    ways = find_recipe("default").ways

    assert {kind: set(mechanisms) for kind, mechanisms in ways.items()} == {
        kind.name: set(kind.mechanisms) for kind in KINDS.values()
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bugdet = 3", "unknown key 'bugdet'. Did you mean 'budget'?"),
        ("budget = 0", "expected budget to be greater than 0, got 0"),
        ("kinds = ['aegis:FM-3.22']", "unknown name 'aegis:FM-3.22' in kinds. Did you mean 'aegis:FM-3.2'?"),
        ("mechanisms = ['promt']", "unknown name 'promt' in mechanisms. Did you mean 'prompt'?"),
        ("writer = 'modell'", "unknown name 'modell' in writer. Did you mean 'model'?"),
        ("probability = 1.5", "expected probability from 0 to 1, got 1.5"),
        (
            "kinds = ['blamespan:X4']\nmechanisms = ['prompt']",
            "expected kinds that can be written by one of ('prompt',)",
        ),
        ("kinds = []", "expected kinds to be a list that is not empty"),
        ("= 3", "expected a recipe in TOML"),
    ],
)
def test_wrong_recipe_says_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    """Nothing is run by a recipe that was not understood."""
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError) as raised:
        find_recipe(str(path))
    assert said in str(raised.value)


def test_unknown_name_gets_the_nearest() -> None:
    """A bundled recipe that is misspelt is guessed."""
    with pytest.raises(ConfigError, match="Did you mean 'default'"):
        find_recipe("defalt")


def test_model_writes_only_texts() -> None:
    """Tools and routing are nothing that a model rewrites: such kinds are left out where it writes."""
    ways = StressRecipe("mine", writer="model").ways

    assert {mechanism for mechanisms in ways.values() for mechanism in mechanisms} == {"response", "prompt"}
    assert "blamespan:X4" not in ways
