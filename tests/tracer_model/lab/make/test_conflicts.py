"""Conflicts that are made with a known winner, in the frameworks themselves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from blamespan.cli import cli
from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun, load_importer
from blamespan_lab.make import RECIPES
from blamespan_lab.make.conflicts import (
    PAIRS,
    ConflictRecipe,
    PlayedConflict,
    generate_conflicts,
    make_scenes,
    played_conflicts,
)
from blamespan_lab.make.recording import Recording
from blamespan_lab.make.wordings.banks import CONFLICTS
from blamespan_lab.make.wordings.choosing import select_half, use_wordings
from blamespan_lab.recipes import read_recipe
from tests.benchmarks.conflict_figures import measure_conflicts

KINDS = ("language", "tool", "word", "source")
RECIPE = ConflictRecipe("small", runs=48, wordings="first", kinds=KINDS)


@pytest.fixture(scope="module")
def played() -> Iterator[list[PlayedConflict]]:
    with Recording() as recording:
        yield list(played_conflicts(RECIPE, recording))


def test_bundled_recipe_makes_300_conflicts_in_words_that_nothing_was_developed_on() -> None:
    """Of 480 runs two thirds are conflicts; kinds of rules and words are those held out, too."""
    recipe = read_recipe(ConflictRecipe, "conflicts", RECIPES)
    ways = Counter(scene.way for scene in make_scenes(recipe))

    assert ways["broken"] + ways["kept"] >= 300
    assert recipe.wordings == "second"
    assert set(CONFLICTS.held_out) < set(recipe.kinds)


@pytest.mark.parametrize("name", [name for name in CONFLICTS.kinds if name not in CONFLICTS.held_out])
def test_halves_share_no_wording(name: str) -> None:
    """What a check was developed on is not what it is measured on."""
    kind = CONFLICTS.kinds[name]
    halves = []
    for half in ("first", "second"):
        with use_wordings(half):
            halves.append({*select_half(kind.rules), *select_half(kind.asks)})

    assert min(map(len, halves)) >= 6
    assert not halves[0] & halves[1]


def test_winner_does_not_follow_from_kind_or_framework() -> None:
    """Each kind of rule, pair of ranks and framework has runs in which each side wins."""
    scenes = list(make_scenes(read_recipe(ConflictRecipe, "conflicts", RECIPES)))
    seen = {(scene.kind, scene.way) for scene in scenes} | {(scene.pair, scene.way) for scene in scenes}
    seen |= {(scene.framework, scene.way) for scene in scenes}

    assert {(kind, way) for kind in CONFLICTS.kinds for way in ("broken", "kept", "none")} <= seen
    assert {(pair, way) for pair in PAIRS for way in ("broken", "kept")} <= seen
    assert {(framework, way) for framework in ("autogen", "langgraph") for way in ("broken", "kept", "none")} <= seen


def test_label_names_the_step_that_obeys_the_lower_instruction(played: list[PlayedConflict]) -> None:
    """Every run holds the step that its script ends with; only where the lower instruction is obeyed it is decisive."""
    for one in played:
        step, label = one.trace.steps[one.step], one.label("small")

        assert step.agent == one.scene.writer
        assert one.scene.act in step.content
        assert (label.decisive is not None) == (label.outcome == "failure") == (one.scene.way == "broken")
        assert label.decisive is None or (label.decisive.step, label.decisive.modes) == (one.step, (one.scene.mode,))


def test_both_frameworks_show_what_an_agent_was_told(played: list[PlayedConflict]) -> None:
    """The rule of a system prompt stands in what its agent was given, and is marked as an instruction."""
    from blamespan.conventions import STEP_INSTRUCTIONS

    ruled = [one for one in played if one.scene.pair[0] == "system"]
    frameworks = {one.scene.framework for one in ruled}

    assert frameworks == {"autogen", "langgraph"}
    for one in ruled:
        own = [step for step in one.trace.steps if step.agent == one.scene.writer and step.input_text]
        texts = []
        for step in own:
            ends = step.attributes.get(STEP_INSTRUCTIONS, ())
            assert isinstance(ends, tuple)
            texts += [step.input_text[first:end] for first, end in zip(ends[::2], ends[1::2], strict=True)]  # type: ignore[misc]  # whole numbers
        assert one.scene.system[one.scene.writer] in texts


def test_measuring_counts_runs_and_steps(played: list[PlayedConflict]) -> None:
    """Kinds that checks were developed on are told apart from the others; words of the first half are all decided."""
    figures = measure_conflicts(iter(played))

    assert (figures.all_kinds.n_runs, figures.developed.n_runs, figures.held_out.n_runs) == (48, 36, 12)
    assert figures.developed.f1 == 100.0
    assert figures.developed.n_broken == 12


def test_corpus_is_read_with_its_labels_and_made_once(tmp_path: Path) -> None:
    """`blamespan lab generate` writes what the importer reads again; a folder with files in it is refused."""
    recipe = ConflictRecipe("few", runs=6, wordings="first", kinds=("language",))
    manifest = generate_conflicts(recipe, tmp_path / "a")
    generate_conflicts(recipe, tmp_path / "b")
    runs = list(load_importer("generated").read(tmp_path / "a" / "runs" / "0000.jsonl.gz"))

    assert manifest["made"]["tally"] == {"kept: clean": 2, "kept: faulty": 2, "kept: harmless": 2, "kind: language": 6}
    assert [run.origin.purpose for run in runs if isinstance(run, RecordedRun) and run.origin] == [
        *("faulty", "harmless") * 2,
        *("clean", "clean"),
    ]
    files = ["labels.jsonl", "corpus.json", "runs/0000.jsonl.gz"]
    assert [(tmp_path / "a" / name).read_bytes() for name in files] == [
        (tmp_path / "b" / name).read_bytes() for name in files
    ]
    with pytest.raises(ConfigError, match="new or empty"):
        generate_conflicts(recipe, tmp_path / "a")


def test_recipe_refuses_unknown_kinds(tmp_path: Path) -> None:
    """A kind that has no wordings is named, with those that have."""
    path = tmp_path / "ours.toml"
    path.write_text('kind = "conflicts"\nkinds = ["colour"]\n')

    result = CliRunner().invoke(cli, ["lab", "generate", str(path), "--out", str(tmp_path / "out")])

    assert isinstance(result.exception, ConfigError)
    assert "unknown name 'colour' in kinds" in str(result.exception)


def test_command_makes_a_corpus_of_a_recipe_file(tmp_path: Path) -> None:
    """The kind that a recipe names decides what is made."""
    path = tmp_path / "ours.toml"
    path.write_text('kind = "conflicts"\nruns = 3\nwordings = "first"\nkinds = ["word"]\n')
    result = CliRunner().invoke(cli, ["lab", "generate", str(path), "--out", str(tmp_path / "out"), "--json"])

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["runs"] == 3
