"""The AEGIS importer: every line becomes a run or an error in its place."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import Fault, RecordedRun, load_importer
from blamespan.taxonomy import AEGIS
from blamespan_integrations.importers.aegis import AegisImporter


def record(**changed: Any) -> dict[str, Any]:
    return {
        "index": 7,
        "question": "How many apples are left?",
        "trajectory": [
            {"step": 1, "agent_name": "User", "content": "How many apples are left?"},
            {"step": 2, "agent_name": "Solver", "content": "Three."},
            {"step": 3, "agent_name": "ComputerTerminal", "content": "exit 0"},
        ],
        "faulty_agents": [{"agent_name": "solver1", "error_type": "FM-2.6"}],
        **changed,
    }


def write(path: Path, *lines: object) -> Path:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    opener = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    with opener(path, "wt", encoding="utf-8") as file:
        file.write(text)
    return path


def only_run(path: Path) -> RecordedRun:
    (run,) = AegisImporter().read(path)
    assert isinstance(run, RecordedRun)
    return run


def test_line_becomes_a_failed_run_with_its_labels_as_spelled(tmp_path: Path) -> None:
    """Steps are numbered from 0 in the file's order, roles follow who decides, labels are not rewritten."""
    run = only_run(write(tmp_path / "runs.jsonl", record()))

    assert run.source == "runs.jsonl:1"
    assert run.faults == (Fault("solver1", AEGIS["FM-2.6"]),)
    assert (run.trace.task, run.trace.outcome) == ("How many apples are left?", "failed")
    assert [(step.index, step.agent, step.kind) for step in run.trace.steps] == [
        (0, "User", "message"),
        (1, "Solver", "message"),
        (2, "ComputerTerminal", "tool_result"),
    ]
    assert [run.trace.can_be_blamed(step) for step in run.trace.steps] == [False, True, False]


@pytest.mark.parametrize("name", ["runs.jsonl", "runs.jsonl.xz", "runs.gz", "no-suffix"])
def test_compression_is_told_by_content(tmp_path: Path, name: str) -> None:
    """A compressed file reads like a plain one, and gives the same ids."""
    plain = only_run(write(tmp_path / "plain.jsonl", record()))

    assert only_run(write(tmp_path / name, record())).trace == plain.trace


def test_ids_depend_on_the_run_alone(tmp_path: Path) -> None:
    """The same run has the same trace id on any line of any file; another run has another."""
    first = write(tmp_path / "one.jsonl", record(), record(index=8))
    second = write(tmp_path / "two.jsonl", record(index=8), record())

    ids = [
        [run.trace.trace_id for run in AegisImporter().read(path) if isinstance(run, RecordedRun)]
        for path in (first, second)
    ]

    assert ids[0] == ids[1][::-1]
    assert len(set(ids[0])) == 2


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("{not json", "an AEGIS run as a JSON object"),
        ("[1, 2]", "got list"),
        (record(question=None), "'question' of type str"),
        (record(trajectory=[{"agent_name": "", "content": "x"}]), "trajectory[0]"),
        (record(trajectory=["hello"]), "'hello'"),
        (record(faulty_agents=[{"agent_name": "Solver", "error_type": "FM-9.9"}]), "FM-9.9"),
        ("[" * 100_000, "an AEGIS run as a JSON object"),
    ],
)
def test_bad_line_is_an_error_in_its_place(tmp_path: Path, bad: object, says: str) -> None:
    """A line that is no run names file and line and what was expected; its neighbours are read."""
    path = write(tmp_path / "runs.jsonl", record(), bad, record(index=9))

    before, error, after = AegisImporter().read(path)

    assert isinstance(before, RecordedRun)
    assert isinstance(after, RecordedRun)
    assert isinstance(error, UnreadableInput)
    assert str(error).startswith("runs.jsonl:2: expected")
    assert says in str(error)


def test_run_without_labels_is_not_labelled_as_sound(tmp_path: Path) -> None:
    """No `faulty_agents` means nobody looked, which is not the same as no fault."""
    unlabelled = record()
    del unlabelled["faulty_agents"]

    assert only_run(write(tmp_path / "a.jsonl", unlabelled)).faults is None
    assert only_run(write(tmp_path / "b.jsonl", record(faulty_agents=[]))).faults == ()


def test_lone_surrogates_and_odd_names_do_no_harm(tmp_path: Path) -> None:
    """Text that is no valid Unicode, and names with any characters, still make a run."""
    entries = [{"agent_name": "a\u0000 [red]", "content": "\ud800 x"}, {"agent_name": "🦊", "content": None}]

    run = only_run(write(tmp_path / "runs.jsonl", record(trajectory=entries)))

    assert [step.content for step in run.trace.steps] == ["\ufffd x", ""]


def test_missing_file_says_so(tmp_path: Path) -> None:
    """A path to nothing is an error of its own, not an empty file."""
    with pytest.raises(UnreadableInput, match="expected a readable file, got"):
        list(AegisImporter().read(tmp_path / "none.jsonl"))


def test_importer_knows_its_files_by_content(tmp_path: Path) -> None:
    """Any name matches if the first line looks right, also when the head ends inside a long question."""
    importer = load_importer("aegis")
    line = json.dumps(record()).encode()
    cut = json.dumps(record(question="x" * 5_000)).encode()[:4_096]

    matches = [
        importer.matches(tmp_path / "any.name", head) for head in (line, cut, b'{"history": []}', b"", b"\xff\xfe")
    ]

    assert matches == [True, True, False, False, False]


@pytest.mark.data
def test_published_validation_file_reads_whole(recorded_runs: Path) -> None:
    """All 1,787 published runs can be read, with distinct ids and labels."""
    runs = list(AegisImporter().read(recorded_runs / "aegis" / "validation.jsonl.xz"))

    assert not [run for run in runs if isinstance(run, UnreadableInput)]
    assert len({run.trace.trace_id for run in runs if isinstance(run, RecordedRun) and run.faults}) == 1_787
