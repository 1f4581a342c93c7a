"""The transcripts are what their brief asks for."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from blamespan.importing.recorded import RecordedRun
from blamespan_integrations.importers.transcript import TranscriptImporter

FOLDER = Path(__file__).parents[3] / "tracer_model"
LEARNT = sorted((FOLDER / "transcripts").glob("*.txt"))
HELD_OUT = sorted((FOLDER / "transcripts" / "held_out").glob("*.txt"))
FILES = [*LEARNT, *HELD_OUT]
TINY = sorted((FOLDER / "transcripts").glob("tiny*/*.txt"))
RELATIONS = sorted(path for name in ("relations", "office") for path in (FOLDER / "transcripts").glob(f"{name}*/*.txt"))
COMPOSED = [path for path in FILES if not path.stem.startswith("played")]
"""Those whose mistake was chosen before they were written: from there on half of them are written again, without it."""


@cache
def runs_of(path: Path) -> tuple[RecordedRun, ...]:
    found = list(TranscriptImporter().read(path))
    assert not [str(one) for one in found if not isinstance(one, RecordedRun)]
    return tuple(one for one in found if isinstance(one, RecordedRun))


@pytest.mark.parametrize("path", [*FILES, *TINY, *RELATIONS], ids=lambda path: f"{path.parent.name}-{path.stem}")
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


def test_tiny_runs_are_sound_short_and_of_both_frameworks() -> None:
    """Two to five steps each, half of them AutoGen's; of those held out no task is among those to look at."""
    sides = {
        name: [run for path in TINY if path.parent.name == name for run in runs_of(path)]
        for name in ("tiny", "tiny_held_out")
    }
    tasks = {name: {run.trace.task for run in runs} for name, runs in sides.items()}

    assert not tasks["tiny"] & tasks["tiny_held_out"]
    for name, of_each in (("tiny", 15), ("tiny_held_out", 40)):
        runs = sides[name]
        teams = [run.origin.family.partition(" ")[0] for run in runs if run.origin is not None]
        assert Counter(teams) == {"autogen": of_each, "langgraph": of_each}
        assert all(run.trace.outcome == "succeeded" and 2 <= len(run.trace.steps) <= 5 for run in runs)


@pytest.mark.parametrize("path", RELATIONS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_programs_of_relations_stand_with_a_mistake_and_a_moved_one(path: Path) -> None:
    """Each has a sound run; two agents make a mistake in turn; until then all is the same, word for word."""
    programs: dict[str, list[RecordedRun]] = {}
    for run in runs_of(path):
        programs.setdefault(run.trace.task, []).append(run)
    failed = {task: [run for run in runs if run.faults] for task, runs in programs.items()}

    assert sum(bool(runs) for runs in failed.values()) >= 6
    for task, (sound, *_) in programs.items():
        assert sound.trace.outcome == "succeeded"
        if failed[task]:  # a decoy whose task differs stands for itself
            first, second = failed[task]
            assert first.faults
            assert second.faults
            assert first.faults[0].step != second.faults[0].step
            for run in (first, second):
                decisive = run.origin.decisive if run.origin else None
                assert decisive is not None
                steps, twin = ([(step.agent, step.content) for step in one.trace.steps] for one in (run, sound))
                assert steps[:decisive] == twin[:decisive]
                assert steps[decisive] != twin[decisive]


def test_programs_held_out_share_no_task_with_those_to_look_at() -> None:
    """Nor an agent's whole words, so that no sentence is known by heart."""
    looked_at, held_out = (
        {text for path in RELATIONS if path.parent.name == name for run in runs_of(path) for text in _texts(run)}
        for name in ("relations", "relations_held_out")
    )

    assert looked_at
    assert not looked_at & held_out


def _texts(run: RecordedRun) -> set[str]:
    return {run.trace.task} | {step.content for step in run.trace.steps if len(step.content) > 30}


_SIGN = "[-+*\N{MULTIPLICATION SIGN}]"
_NUMBER = r"[€$]?(\d[\d,.]*)"
_UNIT = r"(?: [a-zA-Z/]+\d?)?"
_SUM = re.compile(rf"(?<![\w.,]){_NUMBER}{_UNIT}((?: {_SIGN} {_NUMBER}{_UNIT})+) = \**{_NUMBER}(?! h )")
_TERM = re.compile(f"({_SIGN}) {_NUMBER}")


def test_sums_of_sound_runs_are_right() -> None:
    """What a sound run writes out as a calculation comes to what it says, rounded to the places that it writes."""
    runs = [run for path in [*TINY, *RELATIONS] for run in runs_of(path) if run.trace.outcome == "succeeded"]
    sums = [match for run in runs for step in run.trace.steps for match in _SUM.finditer(step.content)]

    assert len(sums) >= 15
    for match in sums:
        terms = [
            sign.replace("\N{MULTIPLICATION SIGN}", "*") + _plain(number) for sign, number in _TERM.findall(match[2])
        ]
        result = _plain(match[4])
        half_of_last_place = max(0.005, 0.5 / 10 ** len(result.partition(".")[2]))
        assert eval(_plain(match[1]) + "".join(terms)) == pytest.approx(float(result), abs=half_of_last_place), match[0]


def _plain(number: str) -> str:
    return number.rstrip(".,").replace(",", "")


def test_no_run_stands_twice_and_modes_are_spread() -> None:
    """Tasks are of one file each, ids of one run; no mode is most of what is labelled."""
    runs = [run for path in FILES for run in runs_of(path)]
    tasks = {run.trace.task: path for path in FILES for run in runs_of(path)}
    modes = Counter(run.faults[0].mode for run in runs if run.faults)

    assert len({run.trace.trace_id for run in runs}) == len(runs)
    assert all(tasks[run.trace.task] == path for path in FILES for run in runs_of(path))
    assert len(modes) >= 14
    assert modes.most_common(1)[0][1] < sum(modes.values()) / 4
