"""`blamespan analyze --annotated` gives the source's own spans back, with the verdict on them and nothing else."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message

from blamespan import conventions as words
from blamespan.analysis.engines.local import LocalEngine, tracer_for_others
from blamespan.analysis.outcomes import AttributedOutcome, Wanted, annotated_spans, attribute_recorded
from blamespan.analysis.sources import pieces
from blamespan.annotate import annotate, read_verdict, without_verdict
from blamespan.attribution import TracerIdentity
from blamespan.importing.recorded import RecordedRun
from blamespan.otlp import request_to_json, spans_from_json, spans_to_proto
from blamespan.pipeline import annotate_traces
from blamespan.rebuilding.emit import emit
from blamespan.rebuilding.runs import split_runs
from blamespan.spans import Scope, Span
from blamespan.trace import Agent, AttributeValue, MessageActionTrace, Step
from blamespan_integrations.backends.otlp import span_of_verdict
from tests.sdk.analysis.archives import numbered_run
from tests.sdk.builders import otlp_lines
from tests.sdk.fixed_tracer import LongestStepTracer

TRACER = LongestStepTracer()


def told(number: int) -> list[Span]:
    """A run as a program tells it: its spans, a model call below its second step, and the request it answered."""
    request = Span(f"{number:032x}", "a" * 16, None, "POST /ask", end_ns=9, scope=Scope("http"))
    run, *steps = emit(numbered_run(number))
    call = Span(
        f"{number:032x}", "b" * 16, steps[1].span_id, "chat gpt", attributes={words.OPERATION: "chat"}, scope=Scope("x")
    )
    return [request, replace(run, parent_id=request.span_id), steps[0], call, *steps[1:]]


def written(folder: Path, traces: Sequence[Sequence[Span]]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "spans.jsonl").write_text(otlp_lines(*traces))
    return folder


def annotated(folder: Path, processes: int = 1, tracer: LongestStepTracer = TRACER) -> list[list[Span]]:
    engine = LocalEngine(tracer, tracer_for_others(tracer), processes)
    outcomes = engine.outcomes(list(pieces([str(folder)])), Wanted(spans=True))
    lines = [outcome.spans for outcome in outcomes if isinstance(outcome, AttributedOutcome)]
    return [plain(spans_from_json(line)) for line in lines]


def plain(spans: Sequence[Span]) -> list[Span]:
    return [replace(span, origin=None) for span in spans]


@pytest.mark.parametrize("processes", [1, 2])
def test_every_span_of_the_source_is_there(tmp_path: Path, processes: int) -> None:
    """Model calls and other programs' spans too, in whatever process they were read; a verdict is all that is new."""
    folder = written(tmp_path / "a", [told(number) for number in range(1, 8)])

    found = annotated(folder, processes)

    bare = [{span.span_id: without_numbers(span) for span in spans} for spans in found]
    assert bare == [{span.span_id: without_numbers(span) for span in told(number)} for number in range(1, 8)]
    assert [read_verdict(split_runs(spans)[0]) is not None for spans in found] == [True] * 7


def without_numbers(span: Span) -> Span:
    """A span without what a verdict writes, the numbers of steps included."""
    bare = without_verdict(replace(span, origin=None))
    return replace(bare, attributes={key: bare.attributes[key] for key in bare.attributes if key != words.STEP_INDEX})


def test_a_new_verdict_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    """Nothing of the other stays, and the same verdict again changes no span."""
    [run] = split_runs(told(1))
    [verdict] = TRACER.attribute([numbered_run(1)])
    other = replace(verdict, tracer=TracerIdentity("other", "9", "cafe"), step_set=tuple(range(5)), revision=3)
    folder = written(tmp_path / "a", [annotate(run, other)])

    [first] = annotated(folder)
    [again] = annotated(written(folder, [first]))

    [kept] = split_runs(first)
    found = read_verdict(kept)
    assert found is not None
    assert (found.tracer, found.step_set, found.revision) == (TRACER.identity, verdict.step_set, 0)
    assert not any(span.text(words.TRACER_WEIGHTS) == "cafe" for span in first)
    assert again == first


def test_two_runs_of_a_trace_give_each_span_once(tmp_path: Path) -> None:
    """What belongs to neither comes with the first."""
    first, second = told(1), emit(numbered_run(2))
    moved = [
        replace(
            span,
            trace_id=first[0].trace_id,
            span_id=f"c{span.span_id[1:]}",
            parent_id=span.parent_id and f"c{span.parent_id[1:]}",
        )
        for span in second
    ]

    found = annotated(written(tmp_path / "a", [[*first, *moved]]))

    ids = [[span.span_id for span in spans] for spans in found]
    assert len(ids) == 2
    assert sorted(ids[0] + ids[1]) == sorted(span.span_id for span in [*first, *moved])
    assert "a" * 16 in ids[0]


def test_what_our_span_has_no_field_for_is_kept(tmp_path: Path) -> None:
    """Trace state, flags, counts of what was dropped: a span goes out as it came, wherever it was on the way."""
    groups = spans_to_proto(told(1))
    for span in messages_in(groups):
        span.trace_state, span.flags, span.dropped_events_count = "a=b", 1, 7
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "spans.jsonl").write_text(request_to_json(ExportTraceServiceRequest(resource_spans=groups)))

    [piece] = pieces([str(folder)])
    [run] = piece.read(with_spans=True)

    assert isinstance(run, RecordedRun)
    [result] = attribute_recorded([pickle.loads(pickle.dumps(run))], TRACER)
    found = messages_in(spans_to_proto(annotated_spans(result)))
    assert [(span.trace_state, span.flags, span.dropped_events_count) for span in found] == [("a=b", 1, 7)] * len(
        told(1)
    )


def messages_in(groups: Sequence[ResourceSpans]) -> list[Message]:
    return [span for group in groups for scoped in group.scope_spans for span in scoped.spans]


def test_runs_without_spans_are_written_anew() -> None:
    """Of a format that holds none, the run's and the steps' spans are made."""
    [result] = attribute_recorded([RecordedRun("there:1", numbered_run(1))], TRACER)

    assert [span.span_id for span in annotated_spans(result)] == [span.span_id for span in emit(numbered_run(1))]


def claiming_run() -> list[Span]:
    """A run whose answer states a number that nobody gave."""
    said = ("The hotel has 36 rooms.", "Fine.", "It has 36 rooms at 84.50 euros.")
    steps = tuple(
        Step(index, f"{index + 1:016x}", f"agent{index}", content=text, end_ns=index + 1)
        for index, text in enumerate(said)
    )
    agents = tuple(Agent(step.agent) for step in steps)
    return emit(MessageActionTrace("7" * 32, "How many rooms at 84.50 euros?", steps, agents, outcome="failed"))


def test_what_is_said_beside_a_verdict_is_written_as_the_collector_writes_it(tmp_path: Path) -> None:
    """Where the claims of the answer come from stands on the same spans, in the same words; and on a span sent back."""
    pytest.importorskip("blamespan_tracer.run_notes")
    spans = claiming_run()
    [live] = annotate_traces([spans], TRACER)
    [found] = annotated(written(tmp_path / "a", [spans]))
    [run] = [item for piece in pieces([str(tmp_path / "a")]) for item in piece.read(with_spans=True)]
    assert isinstance(run, RecordedRun)
    [result] = attribute_recorded([run], TRACER)

    claims = [claims_on(span) for span in live]
    assert [claims_on(span) for span in found] == claims
    assert claims[0][words.CLAIM_UNSUPPORTED] == 1
    assert any(words.CLAIM_SOURCES in one for one in claims[1:])
    assert claims_on(span_of_verdict(run, result.verdict)) == claims[0]


def claims_on(span: Span) -> dict[str, AttributeValue]:
    return {key: value for key, value in span.attributes.items() if key.startswith("blamespan.claim.")}
