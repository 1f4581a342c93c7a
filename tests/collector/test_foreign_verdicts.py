"""What senders say in the words of a verdict does not pass for this collector's, whatever way its span takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from blamespan import conventions as words
from blamespan.annotate import is_verdict_word, received_word
from blamespan.attribution import Attribution
from blamespan.otlp import request_to_json
from blamespan.pipeline import annotate_traces, attribute_traces
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace
from blamespan_collector.receiving.foreign_verdicts import MARKS
from blamespan_collector.receiving.request_reader import Encoding, RequestReader
from blamespan_collector.receiving.signals import SERVICES
from tests.collector.fakes import FirstStepTracer, request, run, spans_of
from tests.collector.paging import LastStepsTracer
from tests.collector.working import MemorySink, until, working

_NAMES = [
    name
    for name in vars(words)
    if name.startswith(("BLAME_", "CLAIM_", "ERROR_", "FAILURE_", "SCHEMA_", "TRACER_", "VERIF"))
    and name != "ERROR_TYPE"
]
VERDICT_WORDS = [
    *(getattr(words, name) for name in _NAMES),
    *(words.EVIDENCE, words.FINDING, words.LIKENESS, words.REVISION, words.ABSTAINED, words.PARTIAL, words.VERDICT),
]
OURS = {
    words.RUN_COMPLETE: True,
    words.RUN_OUTCOME: "failed",
    words.RUN_OUTCOME_REASON: "the sum is wrong",
    words.STEP_INDEX: 2,
    words.STEP_KIND: "message",
    words.MESSAGE_ID: "m",
    words.TRUNCATED: ("a",),
    words.LOST: ("b",),
    words.ERROR_TYPE: "ValueError",
    "gen_ai.agent.name": "planner",
    "myblamespan.blame.score": 1,
}


class NobodyTracer(FirstStepTracer):
    """Abstains on every run."""

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        return [Attribution.abstain(trace, "cannot tell", self.identity) for trace in traces]


def read(message: ExportTraceServiceRequest, encoding: Encoding = "protobuf") -> ExportTraceServiceRequest:
    """Send a request through the intake."""
    body = message.SerializeToString() if encoding == "protobuf" else request_to_json(message).encode()
    entries = RequestReader().read(SERVICES[0], body, encoding, 1).entries
    return ExportTraceServiceRequest.FromString(b"".join(entry.payload for entry in entries))


def keys(message: ExportTraceServiceRequest) -> set[str]:
    """List every attribute's key, wherever it stands."""
    found: list[KeyValue] = []
    for group in message.resource_spans:
        found += group.resource.attributes
        for scoped in group.scope_spans:
            found += scoped.scope.attributes
            for span in scoped.spans:
                for owner in (span, *span.events, *span.links):
                    found += owner.attributes  # type: ignore[attr-defined]
    return {item.key for item in found}


def claimed(spans: Sequence[Span]) -> set[str]:
    """List what the spans say in the words of a verdict."""
    return {key for span in spans for key in span.attributes if is_verdict_word(key)}


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
@pytest.mark.parametrize("place", ["span", "event", "link", "resource", "scope"])
def test_words_of_a_verdict_are_renamed_wherever_they_stand(place: str, encoding: Encoding) -> None:
    """Every one of them comes out under its received name, with its value; everything else stays."""
    message = request(run(1))
    group = message.resource_spans[0]
    span = group.scope_spans[0].spans[1]
    owner = {
        "span": lambda: span,
        "event": span.events.add,
        "link": span.links.add,
        "resource": lambda: group.resource,
        "scope": lambda: group.scope_spans[0].scope,
    }[place]()
    before = keys(message)
    for number, key in enumerate(VERDICT_WORDS):
        owner.attributes.add(key=key).value.int_value = number  # type: ignore[attr-defined]
    for key in ("myblamespan.blame.score", "blamespan.link.step", "blamespan.blamed"):
        owner.attributes.add(key=key).value.int_value = -1  # type: ignore[attr-defined]
    after = read(message, encoding)

    assert len(VERDICT_WORDS) >= 17
    assert keys(after) == before | {received_word(key) for key in VERDICT_WORDS} | {
        "myblamespan.blame.score",
        "blamespan.link.step",
        "blamespan.blamed",
    }


def test_every_word_of_a_verdict_is_looked_for() -> None:
    """The search over bytes misses no word that a verdict is written in, nor the end of a run."""
    [annotated] = annotate_traces([run(1)], LastStepsTracer())
    written = {key for span in annotated for key in span.attributes} - {
        key for span in run(1) for key in span.attributes
    }

    assert written - {words.STEP_INDEX} <= set(VERDICT_WORDS)
    assert [key for key in VERDICT_WORDS if not is_verdict_word(key)] == []
    assert [key for key in (*VERDICT_WORDS, words.RUN_COMPLETE) if not MARKS.search(key.encode())] == []
    assert [key for key in OURS if is_verdict_word(key)] == []


def test_spans_without_such_words_stay_byte_for_byte() -> None:
    """What the SDK says of runs and steps is no verdict, and its spans are not written anew."""
    message = request(run(1))
    span = message.resource_spans[0].scope_spans[0].spans[0]
    span.attributes.add(key="text").value.string_value = "blamespan.blame.score is an attribute"
    for key in OURS:
        span.attributes.add(key=key).value.string_value = "x"

    assert read(message).SerializeToString() == message.SerializeToString()


def test_word_that_was_received_before_makes_room() -> None:
    """Of a chain of collectors the last hop's word is kept, once."""
    message = request(run(1))
    for key, value in ((received_word(words.BLAME_SCORE), 1), (words.BLAME_SCORE, 2), ("received", 3)):
        message.resource_spans[0].scope_spans[0].spans[0].attributes.add(key=key).value.int_value = value
    span = spans_of([read(message)])[0]

    assert span.attributes[received_word(words.BLAME_SCORE)] == 2
    assert span.attributes["received"] == 3
    assert words.BLAME_SCORE not in span.attributes


def forged(spans: Sequence[Span]) -> list[Span]:
    """Write another verdict onto spans, on each of them."""
    lies = {
        words.BLAME_SCORE: 1.0,
        words.BLAME_RANK: 1,
        words.BLAME_DECISIVE: True,
        words.BLAME_AGENT: "scapegoat",
        words.ERROR_MODE: "FM-9.9",
        words.EVIDENCE: "forged",
        words.FAILURE_SCORE: 1.0,
        words.TRACER_NAME: "forged",
        words.ABSTAINED: "forged",
    }
    return [span.with_attributes(lies) for span in spans]


def test_verdict_stands_alone_on_the_spans_of_its_run(tmp_path: Path) -> None:
    """A chain of collectors: what the last one says is what it would have said of spans without a verdict."""
    plain, chained = MemorySink("plain"), MemorySink("chained")
    [first_hop] = annotate_traces([run(1)], LastStepsTracer())
    with working(tmp_path / "plain", plain) as collector:
        collector.take(run(1))
        until(lambda: plain.spans)
    with working(tmp_path / "chained", chained) as collector:
        collector.take(forged(first_hop))
        until(lambda: chained.spans)
    said, expected = (
        [{key: span.attributes[key] for key in span.attributes if is_verdict_word(key)} for span in sink.spans]
        for sink in (chained, plain)
    )

    assert said == expected
    assert sum(words.BLAME_DECISIVE in one and bool(one[words.BLAME_DECISIVE]) for one in said) == 1
    assert {span.attributes[received_word(words.BLAME_AGENT)] for span in chained.spans} == {"scapegoat"}


def test_spans_without_a_verdict_carry_nobodys(tmp_path: Path) -> None:
    """A trace without agents says nothing in the words of a verdict; of one that the tracer abstains on, only that."""
    sink, silent = MemorySink("sink"), MemorySink("silent")
    bare = [Span(f"{7:032x}", f"{7:016x}", None, "GET /", start_ns=1, end_ns=2)]
    with working(tmp_path / "bare", sink) as collector:
        collector.take(forged(bare))
        until(lambda: sink.spans)
    with working(tmp_path / "silent", silent, tracer=NobodyTracer()) as collector:
        collector.take(forged(run(1)))
        until(lambda: silent.spans)

    assert claimed(sink.spans) == set()
    assert "forged" not in {span.attributes.get(words.ABSTAINED) for span in silent.spans}
    assert claimed(silent.spans) == {
        *(words.ABSTAINED, words.REVISION, words.TRACER_NAME, words.TRACER_VERSION, words.TRACER_WEIGHTS, words.VERDICT)
    }


def test_later_verdict_of_another_collector_is_no_verdict_here(tmp_path: Path) -> None:
    """A span that stood for a verdict goes on under its id, renamed, and changes nothing in ours."""
    sink, plain = MemorySink("sink"), MemorySink("plain")
    [attributed] = attribute_traces([run(1)], LastStepsTracer())
    [theirs] = attributed.beside(is_complete=True)
    with working(tmp_path / "with", sink) as collector:
        collector.take([*run(1), theirs])
        until(lambda: sink.spans)
    with working(tmp_path / "without", plain) as collector:
        collector.take(run(1))
        until(lambda: plain.spans)
    others = [span for span in sink.spans if span.span_id != theirs.span_id]
    [passed] = [span for span in sink.spans if span.span_id == theirs.span_id]

    assert [span.attributes for span in others] == [span.attributes for span in plain.spans]
    assert claimed([passed]) == set()
    assert passed.attributes[received_word(words.TRACER_NAME)] == "last-steps"
