"""Corpus recipes are refused with the nearest name where they do not fit, and planned to the last run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from blamespan.errors import ConfigError
from blamespan_lab.make import RECIPES
from blamespan_lab.make.corpus.recipe import InjectedFaults, blocks_of, find_recipe
from blamespan_lab.make.simulation.topologies import TOPOLOGIES
from blamespan_lab.recipes import bundled_recipes, peek

NAMES = [name for name in bundled_recipes(RECIPES) if peek(RECIPES / f"{name}.toml", "kind") is None]


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[shares]\ncleen = 100", "unknown key 'shares.cleen'. Did you mean 'shares.clean'"),
        ("runs = 1e3", "expected runs to be a valid integer, got 1000.0"),
        ("[shares]\nclean = 31", "expected shares with shares of 100 % together"),
        ('[teams]\nfamilies = ["tabels"]', "unknown name 'tabels' in teams.families. Did you mean 'tables'"),
        ('[teams]\nfamilies = ["lookup", "lookup"]', "expected teams.families with each name once"),
        ("[teams]\nfamilies = []", "expected teams.families to be a list that is not empty"),
        ('[teams]\ntopologies = ["debate"]\nframeworks = ["autogen"]', "one that can build 'debate': langgraph"),
        ('[faults]\nkinds = ["aegis:FM-9.9"]', "in faults.kinds. Did you mean 'aegis:FM-"),
        ('[faults]\nkinds = ["blamespan:X7"]\noperators = ["vague"]', "that some fault has together"),
        ('[faults]\nwriter = "llm"', "unknown name 'llm' in faults.writer"),
        ("[faults]\nseveral = [1]", "expected faults.several with numbers from 2"),
        ("[agents]\nmistakes = [1.5]", "expected agents.mistakes with probabilities from 0 to 1"),
        ("[agents]\nmistakes = [0]", "one above 0, or shares.natural = 0"),
        ("[agents]\nmistakes = [nan]", "expected agents.mistakes to be a finite number, got nan"),
        ("[agents]\nsizes = [3, 13]", "expected agents.sizes with sizes from 3 to 12"),
        ("[held_out]\npercent = 101", "expected held_out.percent with a percentage up to 100"),
    ],
)
def test_recipe_that_does_not_fit_is_refused(tmp_path: Path, text: str, says: str) -> None:
    """The message names the key, what was expected and what came."""
    with pytest.raises(ConfigError) as caught:
        find_recipe(str(write(tmp_path, text)))

    assert says in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_every_bundled_recipe_is_planned_to_the_last_run_and_has_enough_clean_ones(name: str) -> None:
    """A quarter of each is clean."""
    recipe = find_recipe(name)
    blocks = blocks_of(recipe)

    assert sum(block.runs for block in blocks) == recipe.runs
    assert sum(block.clean for block in blocks) >= recipe.runs / 4


def test_held_out_recipe_shares_no_name_words_or_questions_with_the_default() -> None:
    """What is measured on it was not seen in training: other casts, the other half of the wordings, another seed."""
    known, held_out = find_recipe("default"), find_recipe("heldout")

    assert not set(known.teams.casts) & set(held_out.teams.casts)
    assert {known.teams.wordings, held_out.teams.wordings} == {"first", "second"}
    assert known.seed != held_out.seed


def test_purposes_are_spread_evenly_over_every_family_topology_and_framework() -> None:
    """No two cells of a recipe differ by more than one run of a purpose, and each framework builds what it can."""
    recipe = replace(find_recipe("default"), runs=1_003)
    blocks = blocks_of(recipe)
    wanted = Counter({purpose: sum(getattr(block, purpose) for block in blocks) for purpose in ("clean", "faulty")})

    assert wanted == {"clean": 301, "faulty": 361}
    assert {(b.family, b.topology, b.framework) for b in blocks} == set(recipe.cells())
    assert all(block.framework in TOPOLOGIES[block.topology].frameworks for block in blocks)
    assert max(block.faulty for block in blocks) - min(block.faulty for block in blocks) <= 1


def test_large_cells_are_parted_into_blocks_of_their_own() -> None:
    """Interrupted work loses no more than a block for each process."""
    recipe = replace(find_recipe("default"), runs=20_000)

    assert max(block.runs for block in blocks_of(recipe)) <= recipe.balance.block + 5


def test_model_is_asked_to_write_only_what_it_can() -> None:
    """Every way that is planned for a model can be opened: no message is rerouted by it, no tool made to fail."""
    by_model = {(kind.name, mechanism) for kind, mechanism, _ in InjectedFaults(writer="model").ways()}
    by_operators = {(kind.name, mechanism) for kind, mechanism, _ in InjectedFaults().ways()}

    assert {mechanism for _, mechanism in by_model} == {"prompt", "response"}
    assert by_model == {(kind, mechanism) for kind, mechanism in by_operators if mechanism in ("prompt", "response")}
