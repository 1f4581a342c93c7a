"""`blamespan schemata` keeps known failures and finds them again; what a file or a run lacks is said."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan import conventions as words
from blamespan.errors import UnreadableInput
from blamespan.labels.file import LabelsFile
from blamespan.labels.people import PersonLabel
from blamespan.otlp import request_to_json, spans_to_proto
from blamespan.pipeline import annotate_traces
from blamespan.rebuilding.emit import emit
from blamespan.taxonomy import mode
from blamespan.trace import MessageActionTrace
from blamespan_tracer.run_notes import note_run
from blamespan_tracer.schemata import ErrorSchema, SchemataFile, SeenFailure, Signature, make_schema
from blamespan_tracer.schemata.command import schemata
from blamespan_tracer.schemata.in_use import known_failures
from blamespan_tracer.schemata.recurrences import Recurrences, began_at
from tests.sdk.fixed_tracer import LongestStepTracer
from tests.tracer_model.schemata.test_matching import AGAIN, FAILED, SOUND

_DAY_NS = 86_400 * 10**9
_START_NS = 1_795_000_000 * 10**9


def at_day(trace: MessageActionTrace, day: int, number: int) -> MessageActionTrace:
    """Copy a run as one that began on a day, under a trace id of its own."""
    start_ns = _START_NS + day * _DAY_NS
    steps = tuple(replace(step, start_ns=start_ns + step.index, end_ns=start_ns + step.index) for step in trace.steps)
    return replace(trace, trace_id=f"{number:032x}", steps=steps)


FIRST, SECOND, THIRD, LATE = (at_day(one, day, number) for number, (one, day) in
                              enumerate([(FAILED, 0), (AGAIN, 1), (AGAIN, 2), (AGAIN, 30)], 1))  # fmt: skip
TWIN = replace(at_day(SOUND, 3, 9), outcome="succeeded")


def written(path: Path, *traces: MessageActionTrace) -> Path:
    path.write_text("".join(
        request_to_json(ExportTraceServiceRequest(resource_spans=spans_to_proto(emit(one)))) + "\n" for one in traces
    ))  # fmt: skip
    return path


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SchemataFile:
    monkeypatch.setenv("BLAMESPAN_SCHEMATA", str(tmp_path / "schemata.toml"))
    return SchemataFile(tmp_path / "schemata.toml")


def call(*arguments: object) -> Result:
    return CliRunner().invoke(schemata, [str(one) for one in arguments])


def test_failure_is_added_found_again_and_counted(tmp_path: Path, file: SchemataFile) -> None:
    """A named step becomes a schema; later runs are the second and third time, a sound one is none."""
    runs = written(tmp_path / "runs.jsonl", FIRST, SECOND, THIRD, TWIN, LATE)

    added = call("add", runs, "--run", 1, "--step", 3, "--title", "copied wrongly")
    matched = [json.loads(line) for line in call("match", runs, "--json").stdout.splitlines()]

    assert added.exit_code == 0
    assert [(schema.name, schema.title, schema.seen[0].by) for schema in file.read()] == [
        ("researcher-message", "copied wrongly", "user")
    ]
    assert [[one["step"] for one in run["matches"]] for run in matched] == [[3], [3], [3], [], [3]]
    assert [one["recurrence"] for run in matched for one in run["matches"]] == [
        "the run that it was made of",
        "the same failure as in run 00000000, second time this week",
        "the same failure as in run 00000000, third time this week",
        "the same failure as in run 00000000, fourth time",
    ]


def test_what_is_known_already_is_noted(tmp_path: Path, file: SchemataFile) -> None:
    """The same failure in another run makes no second schema: it is one more that was seen."""
    runs = written(tmp_path / "runs.jsonl", FIRST, SECOND)

    call("add", runs, "--run", 1, "--step", 3)
    again = call("add", runs, "--run", 2, "--step", 3)

    assert "known already" in again.stdout
    assert [seen.trace_id for seen in file.read()[0].seen] == [FIRST.trace_id, SECOND.trace_id]


def test_labels_confirm_failures_and_sound_runs_are_held_against_them(tmp_path: Path, file: SchemataFile) -> None:
    """A label names the step and the mode; one that says `no failure` makes none."""
    runs = written(tmp_path / "runs.jsonl", FIRST, TWIN)
    labels = LabelsFile(tmp_path / "labels.jsonl")
    labels.add(PersonLabel.of(FIRST, "corrects", "ann", step=3, modes=[mode("blamespan:X3")]))
    labels.add(PersonLabel.of(TWIN, "no_failure", "ann"))

    added = call("add", runs)

    assert added.exit_code == 0
    assert [(one.mode, one.seen[0].by, one.seen[0].step) for one in file.read()] == [("blamespan:X3", "label ann", 3)]


def test_failed_run_is_not_held_against_schemata_as_a_sound_one(tmp_path: Path, file: SchemataFile) -> None:
    """A file of --sound may hold runs that failed: what they show speaks for the schema, and they are counted."""
    runs = written(tmp_path / "runs.jsonl", FIRST)
    others = written(tmp_path / "others.jsonl", replace(SECOND, outcome="failed"), replace(TWIN, outcome="succeeded"))
    added = call("add", runs, "--step", 3, "--sound", others)

    assert "left out 1 run of --sound known to have failed" in added.stderr
    assert "1 made" in added.stderr
    assert "held against 1 sound run;" in added.stderr


def test_runs_without_a_confirmed_failure_make_no_schema(tmp_path: Path, file: SchemataFile) -> None:
    """A run that nobody says to have failed teaches nothing; the error says how to confirm one."""
    answer = call("add", written(tmp_path / "runs.jsonl", TWIN))

    assert isinstance(answer.exception, UnreadableInput)
    assert "expected a confirmed failure" in str(answer.exception)
    assert not file.path.exists()


def test_spans_say_which_failure_is_known(tmp_path: Path, file: SchemataFile) -> None:
    """Online: spans of the step and of the run name the schema and the run it was seen in first; a twin's do not."""
    call("add", written(tmp_path / "runs.jsonl", FIRST), "--step", 3)

    failed, sound = annotate_traces([emit(SECOND), emit(TWIN)], LongestStepTracer())

    step = next(span for span in failed if span.span_id == SECOND.steps[3].span_id)
    assert step.attributes[words.SCHEMA_NAME] == failed[0].attributes[words.SCHEMA_NAME] == file.read()[0].name
    assert failed[0].attributes[words.SCHEMA_SPAN_ID] == step.span_id
    assert failed[0].attributes[words.SCHEMA_SEEN_TRACE_ID] == FIRST.trace_id
    assert failed[0].attributes[words.SCHEMA_SEEN] == 1
    assert not any(words.SCHEMA_NAME in span.attributes for span in sound)


def test_who_keeps_no_schemata_has_none_on_spans(file: SchemataFile) -> None:
    """Without a file nothing is matched, and a file that comes later is read."""
    before = note_run(SECOND).run
    schema = make_schema(FIRST, 3)
    file.add(schema)

    assert words.SCHEMA_NAME not in before
    assert note_run(SECOND).run[words.SCHEMA_NAME] == schema.name
    assert [one.name for one in known_failures(SECOND)] == [schema.name]
    assert known_failures(TWIN) == []


def test_recurrences_without_a_clock_are_counted_all_the_same() -> None:
    """Where no clock says when, no week is spoken of; a run counts once."""
    counted = Recurrences([ErrorSchema("a", Signature(error="E"), seen=(SeenFailure("ab" * 16, 0),))])
    counted.add("a", "cd" * 16, None)
    counted.add("a", "cd" * 16, None)

    assert counted.count("a") == 2
    assert counted.describe("a", "cd" * 16, None) == "the same failure as in run abababab, second time"
    assert counted.describe("b", "cd" * 16, datetime(2026, 1, 1, tzinfo=UTC)) == "the first time"
    assert began_at(FAILED) is None
