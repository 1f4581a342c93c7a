"""Corpora are made whole, the same every time, and say nothing of what was put in."""

from __future__ import annotations

import gzip
import json
import resource
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blamespan.analysis.sources import runs_in
from blamespan.errors import BlamespanError, ConfigError, UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan_lab.make.corpus.generate import generate_corpus
from blamespan_lab.make.corpus.recipe import Balance, CorpusRecipe, HeldOutParts, Teams
from blamespan_lab.make.corpus.storage import CorpusFolder, MadeBlock, read_corpus
from blamespan_lab.make.run_labels import RunLabel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TINY = CorpusRecipe(
    "tiny",
    runs=8,
    seed=5,
    teams=Teams(families=("planning",), topologies=("relay",), frameworks=("langgraph",), casts=("people",)),
    balance=Balance(surplus_percent=0, block=4),
    held_out=HeldOutParts(percent=50),
)


def content(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: text for name, text in found.items() if not name.startswith(".")}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus") / "tiny"
    generate_corpus(TINY, folder, processes=1)
    return folder


def labels_of(folder: Path) -> list[RunLabel]:
    lines = (folder / "labels.jsonl").read_text(encoding="utf-8").splitlines()
    return [RunLabel.from_json(json.loads(line)) for line in lines]


def test_what_is_wanted_is_made_and_labelled(tiny: Path) -> None:
    """Every run has one label that fits it; failures have a decisive step, and clean runs are at least a quarter."""
    labels = labels_of(tiny)
    runs = {run.trace.trace_id: run for run in read_corpus(tiny)}
    purposes = Counter(label.purpose for label in labels)

    assert set(runs) == {label.trace_id for label in labels}
    assert purposes["clean"] >= len(labels) / 4
    assert all((label.decisive is not None) == (label.outcome == "failure") for label in labels)
    assert all(label.twin in runs for label in labels if label.twin)
    assert all(
        run.trace.can_be_blamed(run.trace.steps[run.origin.decisive])
        for run in runs.values()
        if run.origin is not None and run.origin.decisive is not None
    )


@pytest.mark.slow
def test_the_same_recipe_gives_the_same_bytes_by_more_processes_and_after_an_interruption(
    tiny: Path, tmp_path: Path
) -> None:
    """Neither the number of processes nor a break in the middle changes one byte of any file."""
    seen: list[int] = []

    def stop(kept: int, wanted: int) -> None:
        seen.append(kept)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate_corpus(TINY, tmp_path / "again", processes=2, on_block=stop)
    kept = list((tmp_path / "again" / "runs").glob(".*.made"))
    generate_corpus(TINY, tmp_path / "again", processes=2)

    assert len(kept) == 1
    assert content(tmp_path / "again") == content(tiny)


def test_a_finished_corpus_is_left_as_it_is(tiny: Path) -> None:
    """Running the command again makes nothing again."""
    before = {path: path.stat().st_mtime_ns for path in tiny.rglob("*.gz")}

    assert generate_corpus(TINY, tiny, processes=1)["made"]["runs"] == len(labels_of(tiny))
    assert {path: path.stat().st_mtime_ns for path in tiny.rglob("*.gz")} == before


def test_spans_say_nothing_of_what_was_put_in(tiny: Path) -> None:
    """Nothing of a label but agents' names stands in any span: not what a run is for, nor kind, operator or recipe."""
    words = {"inject", "faulty", "harmless", "blamespan_corpus", "recipe", "counterfactual", "mast:", "aegis:"}
    for label in labels_of(tiny):
        words |= {label.family, f'"{label.purpose}"', label.twin or label.family}
        words |= {fault.operator for fault in label.faults if "-" in fault.operator}
        words |= {fault.kind for fault in label.faults if ":" in fault.kind}
        words |= {mode for fault in label.faults for mode in fault.modes}
    for path in (tiny / "runs").glob("*.gz"):
        for line in gzip.decompress(path.read_bytes()).decode("utf-8").splitlines():
            own = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"]
            found = {word for word in words - {own} if word in line}

            assert found == set()


def test_order_of_runs_says_nothing(tiny: Path) -> None:
    """Runs stand in the order of their ids, whatever they are for."""
    for path in (tiny / "runs").glob("*.gz"):
        lines = gzip.decompress(path.read_bytes()).decode("utf-8").splitlines()
        ids = [json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] for line in lines]

        assert ids == sorted(ids)


def test_analyze_reads_a_corpus(tiny: Path) -> None:
    """Walking the folder gives every run once and nothing that cannot be read."""
    runs = list(runs_in([tiny]))

    assert len(runs) == len(labels_of(tiny))
    assert all(isinstance(run, RecordedRun) and run.origin is not None for run in runs)


def test_twins_are_on_one_side_of_the_split(tiny: Path) -> None:
    """Nothing of a question that is held out is taught."""
    sides = {side: {run.trace.task for run in read_corpus(tiny, side)} for side in ("train", "held-out")}  # type: ignore[arg-type]

    assert not sides["train"] & sides["held-out"]
    assert sum(len(list(read_corpus(tiny, side))) for side in ("train", "held-out")) == len(labels_of(tiny))  # type: ignore[arg-type]


def test_folder_of_another_recipe_is_refused(tiny: Path) -> None:
    """What was made is not mixed with what another recipe would make, even of the same name."""
    with pytest.raises(ConfigError, match=r"corpus of the same recipe .* 'tiny' \(8 runs, .* 'tiny' \(9 runs"):
        generate_corpus(replace(TINY, runs=9), tiny)


def test_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    """Nobody's files are written among."""
    (tmp_path / "thesis.txt").write_text("dear", encoding="utf-8")

    with pytest.raises(ConfigError, match="with other files in it"):
        generate_corpus(TINY, tmp_path)


def test_two_at_once_in_one_folder_are_refused(tmp_path: Path) -> None:
    """The second is told that the first is at work."""
    with (
        CorpusFolder(tmp_path, TINY).lock(),
        pytest.raises(ConfigError, match="another `blamespan lab generate` at work"),
        CorpusFolder(tmp_path, TINY).lock(),
    ):
        pass


def made(number: int = 0) -> MadeBlock:
    return MadeBlock(number, ('{"resourceSpans":[]}',), (), {"kept: clean": 1}, 0.5)


def test_block_that_cannot_be_read_is_made_again(tmp_path: Path) -> None:
    """What somebody else has written there is no block."""
    folder = CorpusFolder(tmp_path, TINY)
    with folder.lock():
        folder.keep(made(0))
        folder.keep(made(1))
        (tmp_path / "runs" / ".0001.made").write_bytes(b"half")

        assert list(folder.done()) == [0]


def test_what_a_killed_process_left_half_written_is_cleared(tmp_path: Path) -> None:
    """A file under its last name is whole; a part of one is removed when the work goes on."""
    with CorpusFolder(tmp_path, TINY).lock():
        (tmp_path / "runs" / ".0003.jsonl.gz.part").write_bytes(b"half")
    with CorpusFolder(tmp_path, TINY).lock():
        left = list((tmp_path / "runs").iterdir())

    assert left == []


def test_unfinished_corpus_is_not_read(tmp_path: Path) -> None:
    """Reading asks for the rest to be made first."""
    with CorpusFolder(tmp_path, TINY).lock():
        pass

    with pytest.raises(UnreadableInput, match="expected a finished corpus"):
        list(read_corpus(tmp_path))


def test_full_disk_ends_the_work_and_keeps_what_was_made(tmp_path: Path) -> None:
    """The message says what to do; what was kept before stays as it is."""
    folder = CorpusFolder(tmp_path, TINY)
    with folder.lock():
        folder.keep(made(0))
        with no_file_beyond(64), pytest.raises(BlamespanError, match="what was made so far is kept"):
            folder.keep(made(1))

        assert list(folder.done()) == [0]


def test_recipe_for_a_model_needs_an_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is made, the missing setting is named."""
    monkeypatch.delenv("BLAMESPAN_MANIPULATOR_URL", raising=False)

    with pytest.raises(ConfigError, match="BLAMESPAN_MANIPULATOR_URL"):
        generate_corpus(replace(TINY, faults=replace(TINY.faults, writer="model")), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@contextmanager
def no_file_beyond(size_bytes: int) -> Iterator[None]:
    """Let the system refuse larger files, as it does when the disk is full."""
    before: Any = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
