"""Pairs on disk: the same for the same recipe, read back as they were made, measured by one command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner

from blamespan.cli import cli
from blamespan.errors import ConfigError, UnreadableInput
from blamespan_lab.make import RECIPES
from blamespan_lab.make.edits.generate import EditData, EditRecipe, HeldOutEdits, Side, generate_edits, read_pairs
from blamespan_lab.recipes import read_recipe
from tests.tracer_model.lab.make.edits.test_kinds import TEAM

RECIPE = EditRecipe("test", data=EditData(outcomes=("*.jsonl",)), held_out=HeldOutEdits(("date",), ("second",)))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    steps = [{"agent": step.agent, "kind": step.kind, "content": step.content} for step in TEAM.steps]
    for name in ("first", "second"):
        rows = [
            {"id": f"{name} {outcome}", "task": TEAM.task, "outcome": outcome, "steps": steps}
            for outcome in ("succeeded", "failed")
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_pairs_are_read_back_as_they_were_made(data: Path, tmp_path: Path) -> None:
    """Only runs that succeeded are edited; every pair has its untouched run, and a copied value its decoy."""
    made = generate_edits(RECIPE, [data], tmp_path / "out")["made"]
    pairs = list(read_pairs(tmp_path / "out"))

    assert len(pairs) == made["tally"]["kept: faulty"]
    assert made["tally"]["kept: clean"] == 2
    assert {pair.source for pair in pairs} == {"first", "second"}
    for pair in pairs:
        assert pair.untouched.trace.outcome == "succeeded"
        assert pair.edited.trace.outcome == "failed"
        assert pair.edited.faults is not None
        assert [fault.step for fault in pair.edited.faults] == [pair.step]
        assert (pair.decoy is None) == (pair.kind in ("repeat", "early-finish")) or pair.kind == "arithmetic"
        assert (pair.untouched_step is None) == (pair.kind == "repeat")


def test_held_out_is_what_neither_kind_nor_source_taught(data: Path, tmp_path: Path) -> None:
    """Nothing of the held-out side shares its kind or its source with the side to learn from."""
    generate_edits(RECIPE, [data], tmp_path / "out")
    sides = {side: list(read_pairs(tmp_path / "out", side)) for side in get_args(Side)}

    assert {(pair.kind, pair.source) for pair in sides["held-out"]} == {("date", "second")}
    assert {pair.source for pair in sides["train"]} == {"first"}
    assert "date" not in {pair.kind for pair in sides["train"]}
    assert {pair.source for pair in sides["new-sources"]} == {"second"}
    assert {pair.kind for pair in sides["new-sources"]} <= {pair.kind for pair in sides["train"]}
    assert {pair.source for pair in sides["every-kind"]} == {"first"}
    assert {pair.kind for pair in sides["every-kind"]} == {"date", *(pair.kind for pair in sides["train"])}


def test_same_recipe_gives_the_same_bytes(data: Path, tmp_path: Path) -> None:
    """Pairs depend on the recipe and the files alone."""
    for name in ("a", "b"):
        generate_edits(RECIPE, [data], tmp_path / name)
    files = [sorted((tmp_path / name).rglob("*.*")) for name in ("a", "b")]

    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]


def test_commands_make_and_measure_pairs(data: Path, tmp_path: Path) -> None:
    """`generate` and `evaluate pairs` print what the functions say; a tracer that reads nothing gains nothing."""
    recipe = tmp_path / "own.toml"
    recipe.write_text('kind = "edits"\n[data]\noutcomes = ["*.jsonl"]\n')
    runner = CliRunner()
    made = runner.invoke(
        cli, ["lab", "generate", str(recipe), "--data", str(data), "--out", str(tmp_path / "out"), "--json"]
    )
    assert made.exit_code == 0, made.output
    measured = runner.invoke(
        cli,
        ["lab", "evaluate", "pairs", "--data", str(tmp_path / "out"), "--side", "all", "--tracer", "lexical", "--json"],
    )

    assert measured.exit_code == 0, measured.output
    figures = json.loads(measured.stdout)
    assert figures["n"] == json.loads(made.stdout)["tally"]["kept: faulty"]
    assert {"step", "gain", "decoys", "auc"} <= {*figures}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('kind = "edits"\n', "to name files"),
        ('kind = "edits"\n[data]\noutcomes = ["a"]\n[held_out]\nkinds = ["dates"]\n', "Did you mean 'date'"),
        ('kind = "edits"\n[data]\noutcome = ["a"]\n', "outcomes"),
    ],
)
def test_wrong_recipe_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    """A recipe that would make nothing, or hold out nothing, says so."""
    path = tmp_path / "own.toml"
    path.write_text(text)

    with pytest.raises(ConfigError, match=message):
        read_recipe(EditRecipe, path, RECIPES)


def test_missing_files_and_full_folders_are_refused(data: Path, tmp_path: Path) -> None:
    """Neither an empty corpus nor a mixed one comes out."""
    with pytest.raises(ConfigError, match="expected files"):
        generate_edits(RECIPE, [tmp_path / "elsewhere"], tmp_path / "out")
    with pytest.raises(ConfigError, match="new or empty"):
        generate_edits(RECIPE, [data], data)
    with pytest.raises(UnreadableInput, match="expected pairs in"):
        list(read_pairs(data))


WRITTEN = """=== a
outcome: succeeded
agents: Clerk, Writer
task:
Refund order 48213.

--- Clerk
Order 48213 was paid with 24.90 EUR.
--- Writer
I refund 24.90 EUR for order 48213.

=== a-wrong
outcome: failed
begins as: a, 1 step
--- Writer [mistake mast:FM-2.6]
I refund 42.90 EUR for order 48213.

=== a-other
outcome: failed
begins as: a, 1 step
--- Writer [mistake mast:FM-2.3]
Nobody knows what this was about, sorry.
"""


def test_written_mistakes_stand_beside_their_sound_twins(tmp_path: Path) -> None:
    """A failed run whose mistake says nearly what its twin says is a pair; one that says something else is none."""
    (tmp_path / "desk.txt").write_text(WRITTEN)
    recipe = EditRecipe("test", data=EditData(transcripts=("*.txt",)))

    generate_edits(recipe, [tmp_path], tmp_path / "out")
    [pair] = [pair for pair in read_pairs(tmp_path / "out") if pair.kind == "written"]

    assert (pair.source, pair.step, pair.untouched_step, pair.decoy) == ("desk", 1, 1, None)
    assert "42.90" in pair.edited.trace.steps[1].content
    assert "24.90" in pair.untouched.trace.steps[1].content
    assert (pair.edited.trace.outcome, pair.untouched.trace.outcome) == ("failed", "succeeded")
