"""Generated runs come with their labels, from the files of a corpus and from nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.analysis.sources import runs_in
from blamespan.errors import UnreadableInput
from blamespan.importing.files import head_of
from blamespan.importing.recorded import Fault, Importer, Origin, RecordedRun, importers
from blamespan.otlp import request_to_json, spans_to_proto
from blamespan.rebuilding.emit import emit
from blamespan.taxonomy import mode
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_integrations.importers.generated import GeneratedImporter

TRACE = MessageActionTrace(
    "a" * 32,
    "How many rooms?",
    (
        Step(0, "1" * 16, "ann", content="12 rooms are booked", start_ns=1_000, end_ns=2_000),
        Step(1, "2" * 16, "bob", content="So 14 are free", start_ns=2_000, end_ns=3_000),
        Step(2, "3" * 16, "ann", content="The answer is 14", start_ns=3_000, end_ns=4_000),
    ),
    (Agent("ann"), Agent("bob")),
)

LABEL: dict[str, Any] = {
    "trace_id": "a" * 32,
    "outcome": "failure",
    "purpose": "faulty",
    "family": "planning",
    "topology": "chain",
    "framework": "autogen",
    "cast": "people",
    "seed": 7,
    "decisive": {"agent": "bob", "step": 1, "span_id": "2" * 16, "modes": ["blamespan:X3"]},
    "faults": [
        {
            "agent": "ann",
            "step": 0,
            "span_id": "1" * 16,
            "modes": ["mast:FM-2.6"],
            "mechanism": "natural",
            "kind": "slip",
        },
        {
            "agent": "bob",
            "step": 1,
            "span_id": "2" * 16,
            "modes": ["blamespan:X3"],
            "mechanism": "response",
            "kind": "k",
        },
    ],
    "carried_by": [2],
    "twin": "b" * 32,
    "verified": True,
    "recipe": "default",
}


def corpus(folder: Path, *labels: object) -> Path:
    (folder / "runs").mkdir()
    spans = emit(TRACE)
    request = ExportTraceServiceRequest(resource_spans=spans_to_proto(spans))
    (folder / "runs" / "0000.jsonl").write_text(request_to_json(request) + "\n", encoding="utf-8")
    (folder / "labels.jsonl").write_text("".join(json.dumps(label) + "\n" for label in labels), encoding="utf-8")
    (folder / "corpus.json").write_text('{\n "blamespan_corpus": 1}\n', encoding="utf-8")
    return folder / "runs" / "0000.jsonl"


def read_one(path: Path) -> RecordedRun:
    [run] = GeneratedImporter().read(path)
    assert isinstance(run, RecordedRun)
    return run


def test_run_comes_with_every_label_the_decisive_one_first(tmp_path: Path) -> None:
    """Outcome, faults with steps and modes, purpose, twin, family and topology are what the label says."""
    run = read_one(corpus(tmp_path, LABEL))

    assert run.trace.outcome == "failed"
    assert run.faults == (Fault("bob", mode("blamespan:X3"), 1), Fault("ann", mode("mast:FM-2.6"), 0))
    assert run.origin == Origin(
        "faulty", "planning", "chain", "autogen", "people", "default", "b" * 32, 1, (2,), is_verified=True
    )


def test_folder_is_read_once_through_its_runs(tmp_path: Path) -> None:
    """Walking a corpus gives each run once, with its label: the labels and the description hold no run."""
    corpus(tmp_path, LABEL)
    runs = list(runs_in([tmp_path]))

    assert [run.origin.purpose for run in runs if isinstance(run, RecordedRun) and run.origin] == ["faulty"]
    assert len(runs) == 1


def test_run_without_a_label_is_given_without(tmp_path: Path) -> None:
    """A label that is missing is not made up."""
    run = read_one(corpus(tmp_path, {**LABEL, "trace_id": "c" * 32}))

    assert (run.faults, run.origin) == (None, None)


def test_spans_without_labels_beside_them_are_left_to_others(tmp_path: Path) -> None:
    """Without a file of labels, OTLP-JSON is OTLP-JSON."""
    path = corpus(tmp_path, LABEL)
    (tmp_path / "labels.jsonl").unlink()
    found: Importer = next(each for each in importers() if each.matches(path, head_of(path)))

    assert found.name == "otlp-json"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"outcome": "maybe"}, "'outcome' as one of success, failure, got 'maybe'"),
        ({"decisive": {"agent": "bob", "step": 9, "span_id": "", "modes": []}}, "a step below 3, got '9'"),
        ({"decisive": {"agent": "bob", "step": True, "span_id": "", "modes": []}}, "a step below 3, got 'True'"),
        ({"decisive": {"agent": "bob", "step": 1, "span_id": "9" * 16, "modes": []}}, "step 1 to be span"),
        ({"faults": [{"agent": "bob", "step": 1, "modes": ["mast:FM-9"]}]}, "Nearest known"),
        ({"faults": [3]}, "a labelled error as an object, got '3'"),
        ({"faults": None}, "'faults' of type list, got 'None'"),
        ({"carried_by": ["x"]}, "a step below 3, got 'x'"),
        ({"family": 3}, "'family' of type str, got '3'"),
        ({"verified": "yes"}, "'verified' of type bool, got 'yes'"),
    ],
)
def test_label_that_does_not_fit_its_run_is_an_error_in_its_place(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    """A label of another version or another run teaches nothing wrong: it is refused, and the reader goes on."""
    [error] = GeneratedImporter().read(corpus(tmp_path, {**LABEL, **change}))

    assert isinstance(error, UnreadableInput)
    assert says in str(error)


def test_broken_line_of_labels_is_named(tmp_path: Path) -> None:
    """A torn line costs its own label and no other."""
    path = corpus(tmp_path, LABEL)
    with (tmp_path / "labels.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"trace_id": "half\n')
    found = list(GeneratedImporter().read(path))

    assert "labels.jsonl:2: expected the label of a generated run" in str(found[0])
    assert isinstance(found[1], RecordedRun)
    assert found[1].origin is not None
