"""From the journal to the sinks: verdicts on what has a run, everything else untouched, nothing lost or doubled."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan import conventions as words
from blamespan.attribution import Attribution
from blamespan.rebuilding.continuing import WAITS
from blamespan.spans import Span, SpanLink
from blamespan.trace import MessageActionTrace
from blamespan_collector.delivering.sinks import Oversized, Receipt, Refused
from blamespan_collector.delivering.store_sink import StoreSink
from blamespan_collector.judging.scorer import InFlight
from blamespan_collector.settings import Limits
from blamespan_collector.store import Retention, RunStore
from blamespan_collector.wire.outgoing import Kind
from tests.collector.fakes import PATIENT, POISON, SOON, FirstStepTracer, SlowTracer, run
from tests.collector.working import MemorySink, down, ids, until, working


def test_complete_trace_gets_its_verdict(tmp_path: Path) -> None:
    """A run's root says who, where and how; its steps carry their shares."""
    sink = MemorySink()
    with working(tmp_path, sink) as one:
        one.take(run(1))
        until(lambda: sink.traces)

    root, *steps = sink.traces[0]
    assert root.attributes[words.BLAME_AGENT] == "agent0"
    assert root.attributes[words.TRACER_NAME] == "first-step"
    assert words.PARTIAL not in root.attributes
    assert [span.attributes[words.BLAME_SCORE] for span in steps] == [1.0, 0.0, 0.0]


def test_annotated_spans_go_on_under_their_own_ids_and_once(tmp_path: Path) -> None:
    """What went in comes out, in order, with attributes added and nothing else changed."""
    sink = MemorySink()
    with working(tmp_path, sink) as one:
        one.take(run(1))
        one.take(run(1))
        until(lambda: sink.traces)
        one.take(run(1))

    assert [replace(span, attributes={}) for span in sink.spans] == [replace(span, attributes={}) for span in run(1)]


def test_trace_without_agents_goes_on_with_all_that_otlp_knows(tmp_path: Path) -> None:
    """Trace state, flags, dropped counts, schema URLs and unknown fields of other people's spans survive."""
    message = foreign_request()
    sink = MemorySink()
    with working(tmp_path, sink) as one:
        one.take_body(message.SerializeToString(), "traces")
        until(lambda: sink.payloads)

    back = ExportTraceServiceRequest.FromString(sink.payloads[0][1])
    assert back.SerializeToString(deterministic=True) == message.SerializeToString(deterministic=True)


def foreign_request() -> ExportTraceServiceRequest:
    message = ExportTraceServiceRequest()
    group = message.resource_spans.add(schema_url="https://example.com/resource")
    group.resource.attributes.add(key="service.name").value.string_value = "shop"
    group.resource.dropped_attributes_count = 2
    scoped = group.scope_spans.add(schema_url="https://example.com/scope")
    scoped.scope.name, scoped.scope.version, scoped.scope.dropped_attributes_count = "http", "1", 3
    span = scoped.spans.add(trace_id=b"t" * 16, span_id=b"s" * 8, name="GET /", kind=2, trace_state="a=b", flags=0x101)
    span.dropped_attributes_count, span.dropped_events_count, span.dropped_links_count = 4, 5, 6
    span.attributes.add(key="none")
    span.attributes.add(key="bytes").value.bytes_value = b"\x00\xff"
    span.events.add(name="e", time_unix_nano=7, dropped_attributes_count=8)
    span.links.add(trace_id=b"l" * 16, span_id=b"m" * 8, trace_state="c=d", flags=0x300, dropped_attributes_count=9)
    span.status.message, span.status.code = "bad", 2
    span.MergeFromString(b"\x92\x4e\x03abc")  # field 1250: of a version of OTLP yet to come
    return message


def test_trace_that_came_in_pieces_is_one(tmp_path: Path) -> None:
    """Spans in any order, each in a request of its own, make one trace with one verdict under one resource."""
    sink = MemorySink()
    spans = run(1, steps=8)
    random.Random(3).shuffle(spans)
    with working(tmp_path, sink, limits=PATIENT) as one:
        for span in spans:
            one.take([span])

    assert len(sink.traces) == 1
    assert set(ids(sink.spans)) == set(ids(spans))
    assert len(ExportTraceServiceRequest.FromString(sink.payloads[0][1]).resource_spans) == 1


def test_run_over_several_processes_is_one_whatever_their_clocks_say(tmp_path: Path) -> None:
    """Two processes, one an hour behind the other: one run, in the order its steps are numbered."""
    sink = MemorySink()
    spans = run(1, steps=4)
    behind = [
        replace(span, start_ns=span.start_ns - 3_600_000_000_000 + 10**15, resource={"service.name": "other"})
        for span in spans[3:]
    ]
    with working(tmp_path, sink, limits=PATIENT) as one:
        one.take(behind)
        one.take([replace(span, start_ns=span.start_ns + 10**15) for span in spans[:3]])

    assert len(sink.traces) == 1
    assert {span.span_id: span.attributes.get(words.BLAME_SCORE) for span in sink.spans} == dict(
        zip(ids(spans), [None, 1.0, 0.0, 0.0, 0.0], strict=True)
    )


def test_several_runs_of_one_trace_each_get_their_verdict(tmp_path: Path) -> None:
    """A service that answers one request with two teams has two runs in one trace."""
    sink = MemorySink()
    server = Span(run(1)[0].trace_id, "e" * 16, None, "POST /")
    first = [replace(span, parent_id=span.parent_id or server.span_id) for span in run(1)]
    second = [
        replace(span, trace_id=server.trace_id, parent_id=span.parent_id or server.span_id, links=()) for span in run(2)
    ]
    with working(tmp_path, sink) as one:
        one.take([server], first, second)
        until(lambda: sink.traces)

    assert [span.span_id for span in sink.spans if words.BLAME_AGENT in span.attributes] == [
        first[0].span_id,
        second[0].span_id,
    ]


def test_silent_trace_gets_a_verdict_as_far_as_it_came(tmp_path: Path) -> None:
    """Where the run's own span never comes, the verdict stands on the decisive step and says that it is partial."""
    sink = MemorySink()
    with working(tmp_path, sink) as one:
        one.take(run(1)[1:])
        until(lambda: sink.traces)

    assert sink.spans[0].attributes[words.BLAME_AGENT] == "agent0"
    assert [span.attributes.get(words.PARTIAL) for span in sink.spans] == [True, None, None]


def test_disk_that_cannot_be_read_for_a_while_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk that fails for a moment, as one over the network does, is asked again; nothing is given up."""
    monkeypatch.setattr("blamespan_collector.worker.commits._TRY_AGAIN_S", 0.01)
    pread, failures = os.pread, iter(range(5))

    def fail_at_first(file: int, size: int, offset: int) -> bytes:
        if size > 1000 and next(failures, None) is not None:
            raise OSError(errno.ESTALE, "Stale file handle")
        return pread(file, size, offset)

    monkeypatch.setattr("blamespan_collector.journal.segment.os.pread", fail_at_first)
    sink = MemorySink()
    with working(tmp_path, sink) as one:
        one.take(run(1))
        until(lambda: sink.traces)

    assert ids(sink.spans) == ids(run(1))
    assert "the journal cannot be read, and is tried again: [Errno 116] Stale file handle" in caplog.messages


def test_trace_that_breaks_the_tracer_says_so_and_spoils_no_other(tmp_path: Path) -> None:
    """Errors are isolated: the others of its batch get their verdicts, and its root says why it has none."""
    sink = MemorySink()
    with working(tmp_path, sink) as one:
        one.take(run(1), run(2, task=POISON), run(3))
        until(lambda: len(sink.traces) == 3)

    blamed = {trace[0].trace_id: words.BLAME_AGENT in trace[0].attributes for trace in sink.traces}
    said = next(span for span in sink.spans if span.name and span.attributes.get(words.ABSTAINED))
    assert blamed == {run(1)[0].trace_id: True, run(2)[0].trace_id: False, run(3)[0].trace_id: True}
    assert said.attributes[words.ABSTAINED] == "could not be attributed: ValueError: cannot read  [31mthis"


def test_trace_that_ends_the_process_goes_on_without_a_verdict(tmp_path: Path) -> None:
    """What was being attributed when the process died is tried alone, three times at most."""
    sink = MemorySink()
    limits = Limits(quiet_s=60)
    for _ in range(3):
        with working(tmp_path, limits=limits, stop_s=0) as one:
            if _ == 0:
                one.take(run(1), run(2))
        InFlight(tmp_path / "attributing").write([bytes.fromhex(run(1)[0].trace_id)])
    with working(tmp_path, sink) as one:
        until(lambda: len(sink.traces) == 2)

    said = {span.trace_id: span.attributes.get(words.ABSTAINED) for span in sink.spans if span.parent_id is None}
    assert said == {
        run(1)[0].trace_id: "the process ended 3 times while this was attributed",
        run(2)[0].trace_id: None,
    }


class SlowOnLargeRuns(SlowTracer):
    """Does not answer for a run of more than 512 spans before it is let go."""

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        is_large = any(len(trace.steps) > 512 for trace in traces)
        return super().attribute(traces) if is_large else FirstStepTracer.attribute(self, traces)


@pytest.mark.parametrize("deadline_s", [60.0, 0.2])
def test_large_run_holds_up_no_small_one(tmp_path: Path, deadline_s: float) -> None:
    """While a large run is attributed, also past its deadline, small ones get their verdicts in place; then it does."""
    sink, tracer = MemorySink(), SlowOnLargeRuns()
    with working(tmp_path, sink, tracer=tracer, deadline_s=deadline_s) as one:
        one.take(run(1, steps=600))
        until(lambda: one.worker._flow.queue.waiting_traces)
        for number in (2, 3, 4):
            one.take(run(number))
            until(lambda number=number: run(number)[0].trace_id in {span.trace_id for span in sink.spans})
        early = {span.trace_id for span in sink.spans if words.BLAME_AGENT in span.attributes}
        if deadline_s < 1:
            until(lambda: run(1)[0].trace_id in {span.trace_id for span in sink.spans})  # past its deadline
        tracer.go.set()
        until(lambda: any(words.BLAME_AGENT in s.attributes for s in sink.spans if s.trace_id == run(1)[0].trace_id))

    assert early == {run(number)[0].trace_id for number in (2, 3, 4)}
    assert one.counts["traces_attributed"] == 4
    assert one.counts.get("traces_past_deadline", 0) == (deadline_s < 1)


def test_tracer_that_never_comes_back_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a new process can get rid of a thread that hangs; the traces are out by then."""
    monkeypatch.setattr("blamespan_collector.worker.main._HUNG_AFTER_S", 0.5)
    sink, tracer = MemorySink(), SlowTracer()
    with working(tmp_path, sink, tracer=tracer, deadline_s=0.1, stop_s=0) as one:
        one.take(run(1))
        until(lambda: one.failure)
        tracer.go.set()

    assert isinstance(one.failure[0], SystemExit)
    assert sink.traces == [run(1)]


def test_overflow_is_forwarded_without_verdicts(tmp_path: Path) -> None:
    """Past its room the collector passes spans on rather than dropping them."""
    sink = MemorySink()
    with working(tmp_path, sink, limits=Limits(quiet_s=60, max_traces=2)) as one:
        one.take(*(run(number) for number in range(1, 6)))
        until(lambda: len(sink.traces) >= 3)

    assert sink.traces[:3] == [run(1), run(2), run(3)]


@pytest.mark.slow
def test_trace_of_ten_thousand_spans_gets_its_verdict(tmp_path: Path) -> None:
    """A long run is one trace like any other, and goes on in requests of a size that backends take."""
    sink = MemorySink()
    spans = run(1, steps=10_000, content="x" * 400)
    with working(tmp_path, sink, limits=replace(SOON, quiet_s=2, idle_s=60), deadline_s=60) as one:
        for start in range(0, len(spans), 1000):
            one.take(spans[start : start + 1000])
        until(lambda: len(sink.spans) == 10_001, 60)

    assert any(words.BLAME_AGENT in span.attributes for span in sink.spans)
    assert max(len(payload) for _, payload in sink.payloads) <= 4 * 1024 * 1024


def test_stopping_lets_go_what_is_held(tmp_path: Path) -> None:
    """What is held when the collector stops gets its verdict and goes on; nothing is left behind."""
    sink = MemorySink()
    with working(tmp_path, sink, limits=Limits()) as one:
        one.take(run(1), run(2)[1:])

    assert sink.is_closed
    assert len(sink.spans) == 7
    assert all(any(words.BLAME_AGENT in span.attributes for span in trace) for trace in sink.traces)


def test_stopping_does_not_wait_for_a_slow_tracer(tmp_path: Path) -> None:
    """A tracer that does not answer in time costs its traces their verdicts, not their spans."""
    sink, tracer = MemorySink(), SlowTracer()
    with working(tmp_path, sink, tracer=tracer, stop_s=0.5) as one:
        one.take(run(1))
    tracer.go.set()

    assert sink.spans == run(1)


def test_sink_that_is_down_delays_no_other_and_gets_everything_later(tmp_path: Path) -> None:
    """Each sink has its own place in the outbox, across restarts too; disk is what an outage costs."""
    absent, present = MemorySink("absent", fails=down), MemorySink("present")
    with working(tmp_path, absent, present, stop_s=1) as one:
        one.take(run(1))
        until(lambda: present.traces)
        one.take(run(2))
    back = MemorySink("absent")
    with working(tmp_path, back, MemorySink("present")) as one:
        until(lambda: len(back.traces) == 2)

    assert sorted(back.payloads) == sorted(present.payloads)
    assert (absent.payloads, len(present.traces)) == ([], 2)


def test_refused_batch_is_set_aside_alone(tmp_path: Path) -> None:
    """What a sink will never take does not keep it from what comes after."""

    def picky(kind: str, payloads: Sequence[bytes]) -> Exception | None:
        is_bad = any(b"shop" in payload for payload in payloads)
        return Refused("HTTP 400: 'no'") if is_bad else None

    sink = MemorySink(fails=picky)
    with working(tmp_path, sink) as one:
        one.take_body(foreign_request().SerializeToString(), "traces")
        one.take(run(1))
        until(lambda: one.counts.get("spans_delivered"))  # which the sink has a moment before they are counted
        counts = one.counts
        kept = one.worker._state.database.execute("SELECT sink, kind, reason, spans, payload FROM set_aside").fetchall()

    assert ids(sink.spans) == ids(run(1))
    assert (counts["spans_delivered"], counts["spans_set_aside"]) == (4, 1)
    assert [row[:4] for row in kept] == [("memory", "traces", "HTTP 400: 'no'", 1)]
    assert b"shop" in kept[0][4]


def test_request_that_is_too_large_goes_in_pieces(tmp_path: Path) -> None:
    """Where even one trace is too large its spans are sent in pieces; what is too large alone is set aside."""

    def small(kind: str, payloads: Sequence[bytes]) -> Exception | None:
        return Oversized("HTTP 413") if sum(map(len, payloads)) > 1200 else None

    sink = MemorySink(fails=small)
    big = replace(run(1)[1], span_id="f" * 16, attributes={"text": "x" * 2000})
    with working(tmp_path, sink) as one:
        one.take([*run(1), big])
        until(lambda: one.counts.get("spans_set_aside"))

    assert set(ids(sink.spans)) == set(ids(run(1)))


def test_logs_pass_untouched_in_order(tmp_path: Path) -> None:
    """Logs sent to the same port go on byte for byte, first come first, once, also after a restart."""
    sink, after = MemorySink(), MemorySink()
    bodies = []
    for number in range(5):
        request_ = ExportLogsServiceRequest()
        record = request_.resource_logs.add().scope_logs.add().log_records.add(trace_id=b"t" * 16, span_id=b"s" * 8)
        record.body.string_value = f"line {number}"
        bodies.append(request_.SerializeToString())
    with working(tmp_path, sink, stop_s=0) as one:
        for body in bodies:
            one.take_body(body, "logs")
        until(lambda: len(sink.payloads) == 5)
    with working(tmp_path, after):
        pass

    assert sink.payloads == [("logs", body) for body in bodies]
    assert after.payloads == []


def test_many_traces_mixed_come_out_once(tmp_path: Path) -> None:
    """Spans of many traces, mixed over many requests, come out once each."""
    sink = MemorySink()
    spans = [span for number in range(1, 101) for span in run(number, steps=5)]
    random.Random(1).shuffle(spans)
    with working(tmp_path, sink, limits=PATIENT, stop_s=30) as one:
        for start in range(0, len(spans), 20):
            one.take(spans[start : start + 20])

    assert len(sink.traces) == 100
    assert sorted(ids(sink.spans)) == sorted(ids(spans))


def test_killed_worker_is_taken_up_where_it_was(tmp_path: Path) -> None:
    """Whenever the process ends, what is open is taken up again, and what was delivered is not."""
    sink = MemorySink()
    spans = [span for number in range(1, 31) for span in run(number, steps=5)]
    random.Random(2).shuffle(spans)
    for start in range(0, len(spans), 20):
        with working(tmp_path, sink, limits=replace(SOON, quiet_s=0.2, idle_s=60), stop_s=0) as one:
            one.take(spans[start : start + 20])
            threading.Event().wait(0.1)
    with working(tmp_path, sink, limits=replace(SOON, quiet_s=0.2)):
        until(lambda: len([span for span in sink.spans if span.scope.name != words.VERDICT_SCOPE]) >= len(spans))

    assert Counter(ids(sink.spans)).most_common(1)[0][1] == 1
    assert set(ids(spans)) <= set(ids(sink.spans))


@dataclass(eq=False)
class NeverAnswering(MemorySink):
    """Takes what it gets and does not say so."""

    async def send(self, kind: Kind, payloads: Sequence[bytes]) -> Receipt:
        await super().send(kind, payloads)
        return await asyncio.Future[Receipt]()


@pytest.mark.parametrize("stop_s", [0, 0.2])
def test_ended_worker_delivers_nothing_beside_the_next(tmp_path: Path, stop_s: float) -> None:
    """Whether it was told to stop or left: what it is about to deliver is broken off and left to its successor."""
    silent, sink = NeverAnswering(kinds=frozenset({"traces"})), MemorySink(kinds=frozenset({"traces"}))
    with working(tmp_path, silent, stop_s=stop_s) as one:
        one.take(run(1))
        until(lambda: silent.attempts)
    assert silent.is_closed
    with working(tmp_path, sink):
        until(lambda: sink.traces)

    assert silent.attempts == 1
    assert set(ids(sink.spans)) == set(ids(run(1)))


def test_long_trace_is_carried_over_so_that_its_segment_can_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace that stays open for hours does not keep the journal from being dropped, nor is it lost by that."""
    monkeypatch.setattr("blamespan_collector.worker.segments._CARRY_AFTER_S", 0.0)
    monkeypatch.setattr("blamespan_collector.worker.segments._KEEP_BYTES", 0)
    monkeypatch.setattr("blamespan_collector.worker.main._TELL_EVERY_S", 0.05)
    sink = MemorySink()
    root, *steps = run(1)
    with working(tmp_path, sink, limits=Limits(quiet_s=0.05, idle_s=60), stop_s=0) as one:
        one.take(steps)
        one.take(*(run(number, content="x" * 2000) for number in range(2, 30)))
        until(lambda: len(sink.traces) == 28)
    with working(tmp_path, sink, limits=Limits(quiet_s=0.05, idle_s=60), stop_s=0) as one:
        until(lambda: not (tmp_path / "segments" / "0000000001.log").exists())
    with working(tmp_path, sink, limits=Limits(quiet_s=0.05, idle_s=60)) as one:
        one.take([root])
        until(lambda: len(sink.traces) == 29)

    assert set(ids(sink.traces[-1])) == set(ids(run(1)))
    assert any(words.BLAME_AGENT in span.attributes for span in sink.traces[-1])


class ThreadCounting(FirstStepTracer):
    """Notes which thread asks."""

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        self.thread = threading.current_thread().name
        return super().attribute(traces)


def test_tracer_is_asked_in_batches_beside_everything_else(tmp_path: Path) -> None:
    """Traces released together are attributed together, in a thread of their own."""
    sink, tracer = MemorySink(), ThreadCounting()
    with working(tmp_path, sink, tracer=tracer) as one:
        one.take(*(run(number) for number in range(1, 6)))
        until(lambda: len(sink.traces) == 5)

    assert tracer.batches == [5]
    assert tracer.thread == "blamespan-score"


@pytest.mark.parametrize("is_stored", [True, False])
def test_run_that_went_on_is_judged_with_what_was_before(tmp_path: Path, is_stored: bool) -> None:
    """A run that waits has no verdict; the one that goes on is judged with it while the store has it, else alone."""
    waiting, *others = run(1, task="add")
    waiting = waiting.with_attributes({words.RUN_INTERRUPTED: True})
    link = SpanLink(waiting.trace_id, waiting.span_id, {words.LINK_RELATION: "continues"})
    second = run(2, task="yes")
    sink, path = MemorySink(), tmp_path / "runs.db"
    store = StoreSink(path, Retention(), sync="normal")
    with working(tmp_path, sink, *([store] if is_stored else []), store=path) as one:
        one.take([waiting, *others])
        until(lambda: sink.traces and (not is_stored or RunStore(path).search()))
        one.take([replace(second[0], links=(link,)), *second[1:]])
        until(lambda: len({span.trace_id for span in sink.spans}) == 2)
    first_root = next(span for span in sink.spans if span.span_id == waiting.span_id)
    second_root = next(span for span in sink.spans if span.span_id == second[0].span_id)
    verdicts = [span for span in sink.spans if span.name.startswith("verdict")]

    assert first_root.attributes[words.ABSTAINED] == WAITS
    if is_stored:
        assert [(span.trace_id, span.parent_id) for span in verdicts] == [(waiting.trace_id, others[0].span_id)]
        assert second_root.attributes[words.RUN_JUDGED_AFTER] == (waiting.trace_id,)
        assert second_root.attributes[words.RUN_TASK] == "add"
        assert words.BLAME_AGENT not in second_root.attributes
    else:
        assert verdicts == []
        assert second_root.attributes[words.BLAME_AGENT] == "agent0"
