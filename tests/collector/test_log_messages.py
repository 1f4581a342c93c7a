"""Messages that come as log records are joined to their spans for the verdict; the logs themselves pass untouched."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from blamespan import conventions as words
from blamespan.attribution import Attribution
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace
from blamespan_collector.receiving.log_messages import message_entries
from blamespan_collector.receiving.request_reader import RequestReader
from blamespan_collector.receiving.signals import SERVICES
from blamespan_collector.settings import Limits
from tests.collector.fakes import PATIENT, FirstStepTracer
from tests.collector.working import MemorySink, ids, until, verdicts, working
from tests.integrations.dialects.recordings import logs_of, traces_of

LOGS = SERVICES[1]
DETAILS = "gen_ai.client.inference.operation.details"
TRACE, OTHER = f"{7:032x}", f"{8:032x}"


class ReadingTracer(FirstStepTracer):
    """Keeps the traces it was asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.traces: list[MessageActionTrace] = []

    def attribute(self, traces: list[MessageActionTrace]) -> list[Attribution]:  # type: ignore[override]
        self.traces += traces
        return super().attribute(traces)

    @property
    def said(self) -> list[list[str]]:
        return [[step.content for step in trace.steps] for trace in self.traces]


def agents(*texts: str, trace_id: str = TRACE) -> tuple[list[Span], list[LogRecord]]:
    """Make a run of GenAI spans without contents, and the log records that hold them."""
    root = Span(trace_id, f"{1:016x}", None, "invoke_workflow team", start_ns=1, end_ns=99)
    root = root.with_attributes({words.OPERATION: words.OPERATION_WORKFLOW})
    spans, records = [root], []
    for place, text in enumerate(texts, 2):
        said = {words.OPERATION: words.OPERATION_AGENT, words.AGENT_NAME: f"agent{place}"}
        spans.append(Span(trace_id, f"{place:016x}", root.span_id, "invoke_agent", attributes=said, start_ns=place))
        records.append(record(spans[-1], text))
    return spans, records


def record(span: Span, text: str, name: str = DETAILS) -> LogRecord:
    made = LogRecord(trace_id=bytes.fromhex(span.trace_id), span_id=bytes.fromhex(span.span_id), event_name=name)
    item = made.attributes.add(key="gen_ai.output.messages")
    item.value.string_value = f'[{{"role": "assistant", "parts": [{{"type": "text", "content": "{text}"}}]}}]'
    made.time_unix_nano = span.start_ns
    return made


def logs(*records: LogRecord) -> bytes:
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.extend(records)
    return request.SerializeToString()


def test_messages_in_log_records_are_judged_and_the_logs_pass_untouched(tmp_path: Path) -> None:
    """Of a program that sends contents as events, the tracer reads the contents; spans and logs go on as they came."""
    sink, tracer = MemorySink(), ReadingTracer()
    spans, records = agents("we owe 40", "we owe 41")
    plain = LogRecord(trace_id=records[0].trace_id, span_id=records[0].span_id, event_name="http.request")
    body = logs(plain, *records)
    with working(tmp_path, sink, tracer=tracer) as one:
        one.take_body(body, "logs")
        one.take(spans)
        until(lambda: sink.traces and len(sink.payloads) == 3)

    assert tracer.said == [["we owe 40", "we owe 41"]]
    assert ("logs", body) in sink.payloads
    assert ids(sink.spans) == ids(spans)
    assert all(not span.events and "gen_ai.output.messages" not in span.attributes for span in sink.spans)
    assert [span.attributes[words.BLAME_SCORE] for span in sink.spans[1:]] == [1.0, 0.0]


def test_recorded_program_in_event_mode_is_judged_by_its_contents(tmp_path: Path) -> None:
    """What OpenTelemetry's own instrumentation of OpenAI sent, spans and logs apart, is joined again."""
    sink, tracer = MemorySink(), ReadingTracer()
    recorded = traces_of("openai-v2.openai-chat")
    told = logs_of("openai-v2.openai-chat")
    with working(tmp_path, sink, tracer=tracer) as one:
        one.take(*recorded)
        one.take_body(told.SerializeToString(), "logs")
        until(lambda: sink.traces)

    assert any(text for trace in tracer.said for text in trace)


@pytest.mark.parametrize("order", ["before", "after", "between"])
def test_order_of_spans_and_their_messages_does_not_matter(tmp_path: Path, order: str) -> None:
    """Logs and spans come on their own schedules: while the trace is open any order is the same."""
    sink, tracer = MemorySink(), ReadingTracer()
    spans, records = agents("one", "two")
    with working(tmp_path, sink, tracer=tracer, limits=PATIENT) as one:
        if order == "before":
            one.take_body(logs(*records), "logs")
        if order == "between":
            one.take(spans[1:])
            one.take_body(logs(*records), "logs")
            one.take(spans[:1])
        else:
            one.take(spans)
        if order == "after":
            one.take_body(logs(records[1]), "logs")
            one.take_body(logs(records[0]), "logs")

    assert tracer.said == [["one", "two"]]
    assert sorted(ids(sink.spans)) == sorted(ids(spans))


def test_messages_that_come_after_the_verdict_have_the_run_judged_again(tmp_path: Path) -> None:
    """Late contents are no spans: nothing is forwarded twice, and a verdict that changes comes as a new span."""

    class ByContent(ReadingTracer):
        def _one(self, trace: MessageActionTrace) -> Attribution:
            shares = [float(step.content == "wrong") for step in trace.steps]
            if not any(shares):
                return Attribution.abstain(trace, "nothing is said", self.identity)
            return Attribution.of(trace, shares, failure_score=0.9, tracer=self.identity, modes=[])

    sink, tracer = MemorySink(), ByContent()
    spans, records = agents("right", "wrong")
    with working(tmp_path, sink, tracer=tracer) as one:
        one.take(spans)
        until(lambda: sink.traces)
        one.take_body(logs(*records), "logs")
        until(lambda: verdicts(sink))
        one.take_body(logs(*records), "logs")  # sent again, as its answer was lost
        until(lambda: one.counts.get("traces_revised", 0) >= 2)

    assert [span.span_id for span in sink.spans if span.scope.name != words.VERDICT_SCOPE] == ids(spans)
    assert [span.attributes[words.BLAME_SPAN_ID] for span in verdicts(sink)] == [spans[2].span_id]
    assert tracer.said[-1] == tracer.said[-2] == ["right", "wrong"]


def test_killed_worker_still_knows_the_messages(tmp_path: Path) -> None:
    """Messages of an open trace survive a kill, as its spans do."""
    sink, tracer = MemorySink(), ReadingTracer()
    spans, records = agents("one", "two")
    slow = Limits(quiet_s=0.05, idle_s=60)
    with working(tmp_path, sink, limits=slow, stop_s=0) as one:
        one.take_body(logs(*records), "logs")
        one.take(spans[1:])
        held = one.worker._flow.assembler._held
        until(lambda: sum(len(trace.span_ids) for trace in list(held.values())) == 2)
    with working(tmp_path, sink, tracer=tracer, limits=slow) as one:
        one.take(spans[:1])
        until(lambda: sink.traces)

    assert tracer.said == [["one", "two"]]
    assert sorted(kind for kind, _ in sink.payloads) == ["logs", "traces", "verdicts"]


def test_messages_of_a_long_run_are_carried_over_with_its_spans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that waits for a person outlives its journal segment: so do its contents, also across a restart."""
    monkeypatch.setattr("blamespan_collector.worker.segments._CARRY_AFTER_S", 0.0)
    monkeypatch.setattr("blamespan_collector.worker.segments._KEEP_BYTES", 0)
    monkeypatch.setattr("blamespan_collector.worker.main._TELL_EVERY_S", 0.05)
    sink, tracer = MemorySink(), ReadingTracer()
    spans, records = agents("one", "two")
    filler = agents(*("x" * 4000 for _ in range(40)), trace_id=OTHER)[0]
    big = [span.with_attributes({"filler": "x" * 4000}) for span in filler]
    slow = Limits(quiet_s=0.05, idle_s=60)
    with working(tmp_path, sink, limits=slow, stop_s=0) as one:
        one.take_body(logs(*records), "logs")
        one.take(spans[1:])
        one.take(big)
        until(lambda: len(sink.traces) == 1)
    with working(tmp_path, sink, limits=slow, stop_s=0):
        until(lambda: not (tmp_path / "segments" / "0000000001.log").exists())
    with working(tmp_path, sink, tracer=tracer, limits=slow) as one:
        one.take(spans[:1])
        until(lambda: len(sink.traces) == 2)

    assert tracer.said == [["one", "two"]]


def test_messages_without_spans_are_forgotten_in_time_and_in_number(tmp_path: Path) -> None:
    """Records of traces that are never sent, e.g. not sampled, take no memory for good."""
    sink = MemorySink()
    limits = Limits(quiet_s=0.05, idle_s=0.5, max_traces=20)
    with working(tmp_path, sink, limits=limits) as one:
        for number in range(1, 101):
            span = Span(f"{number:032x}", f"{number:016x}", None, "chat")
            one.take_body(logs(record(span, "hello")), "logs")
        until(lambda: len(sink.payloads) == 100)
        assembler = one.worker._flow.assembler
        most = assembler.held_traces
        until(lambda: not assembler.held_traces)

    assert most <= 20
    assert assembler.held_bytes == 0
    assert {kind for kind, _ in sink.payloads} == {"logs"}


@pytest.mark.parametrize(
    "made",
    [
        LogRecord(event_name=DETAILS),
        LogRecord(event_name=DETAILS, trace_id=b"t" * 16),
        LogRecord(event_name=DETAILS, trace_id=bytes(16), span_id=b"s" * 8),
        LogRecord(event_name=DETAILS, trace_id=b"t" * 7, span_id=b"s" * 8),
        LogRecord(event_name="gen_ai.evaluation.result", trace_id=b"t" * 16, span_id=b"s" * 8),
        LogRecord(event_name="gen_ai", trace_id=b"t" * 16, span_id=b"s" * 8),
        LogRecord(trace_id=b"t" * 16, span_id=b"s" * 8),
    ],
    ids=["no ids", "no span", "no trace", "short id", "a verdict", "other name", "no name"],
)
def test_record_that_is_no_message_of_a_span_is_a_log_and_nothing_else(made: LogRecord) -> None:
    """Only messages of a span are journalled beside the logs."""
    body = logs(made) + b"\x12\x07gen_ai."

    assert message_entries(body, 1) == []


def test_messages_are_cut_by_trace() -> None:
    """One request may hold messages of many traces: each gets its own, named by its spans."""
    _, records = agents("one", "two")
    second, others = agents("three", trace_id=OTHER)
    old = record(second[1], "four", name="")
    old.attributes.add(key="event.name").value.string_value = "gen_ai.choice"
    entries = RequestReader().read(LOGS, logs(records[0], others[0], records[1], old), "protobuf", 5).entries

    assert [(one.signal, one.trace_id.hex(), len(one.keys) // 17) for one in entries] == [
        ("logs", "", 0),
        ("events", TRACE, 2),
        ("events", OTHER, 2),
    ]
