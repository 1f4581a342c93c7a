"""The transcripts that the second judge learns from are what their brief asks for."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from blamespan.importing.recorded import RecordedRun
from blamespan_integrations.importers.transcript import TranscriptImporter
from blamespan_lab.network.recipe import read_network_recipe

FOLDER = Path(__file__).parents[3] / "tracer_model"
LEARNT = sorted((FOLDER / "transcripts").glob("*.txt"))
HELD_OUT = sorted((FOLDER / "transcripts" / "held_out").glob("*.txt"))
FILES = [*LEARNT, *HELD_OUT]
COMPOSED = [path for path in FILES if not path.stem.startswith("played")]
"""Those whose mistake was chosen before they were written: from there on half of them are written again, without it."""


@cache
def runs_of(path: Path) -> tuple[RecordedRun, ...]:
    found = list(TranscriptImporter().read(path))
    assert not [str(one) for one in found if not isinstance(one, RecordedRun)]
    return tuple(one for one in found if isinstance(one, RecordedRun))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_run_is_labelled_and_its_labels_can_be_meant(path: Path) -> None:
    """A failed run has one mistake, by an agent, with a mode; a sound one none; every step says something."""
    for run in runs_of(path):
        assert run.origin is not None
        assert run.faults is not None
        assert all(step.content for step in run.trace.steps)
        assert (run.origin.decisive is None) == (run.trace.outcome == "succeeded")
        if run.origin.decisive is not None:
            assert run.trace.can_be_blamed(run.trace.steps[run.origin.decisive])
            assert run.faults[0].mode is not None
            assert not set(run.origin.carried_by) & {run.origin.decisive}


@pytest.mark.parametrize("path", COMPOSED, ids=lambda path: path.stem)
def test_twins_are_the_same_up_to_the_mistake(path: Path) -> None:
    """What comes before it teaches nothing about it, but for the step right before, which some tell in other words."""
    by_id = {run.trace.trace_id: run for run in runs_of(path)}
    pairs = [(run, by_id[run.origin.twin]) for run in by_id.values() if run.origin and run.origin.twin]
    failed = [(run, twin) for run, twin in pairs if run.trace.outcome == "failed"]

    assert len(failed) >= 3
    for run, twin in failed:
        assert run.origin is not None
        decisive = run.origin.decisive
        assert decisive is not None
        said, other = ([(step.agent, step.content) for step in one.trace.steps] for one in (run, twin))
        assert said[: max(decisive - 1, 0)] == other[: max(decisive - 1, 0)]
        assert said[decisive] != other[decisive]


def test_recipe_learns_from_all_but_those_held_out() -> None:
    """A file that nobody reads would be dead text; one that was learnt from would be no measure."""
    recipe = read_network_recipe(FOLDER / "recipes" / "network.toml")

    assert [Path(name) for name in recipe.data.transcripts] == LEARNT
    assert HELD_OUT


def test_no_run_stands_twice_and_modes_are_spread() -> None:
    """Tasks are of one file each, ids of one run; no mode is most of what is labelled."""
    runs = [run for path in FILES for run in runs_of(path)]
    tasks = {run.trace.task: path for path in FILES for run in runs_of(path)}
    modes = Counter(run.faults[0].mode for run in runs if run.faults)

    assert len({run.trace.trace_id for run in runs}) == len(runs)
    assert all(tasks[run.trace.task] == path for path in FILES for run in runs_of(path))
    assert len(modes) >= 14
    assert modes.most_common(1)[0][1] < sum(modes.values()) / 4
