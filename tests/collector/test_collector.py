"""From request to sink: verdicts on what has a run, everything else untouched, nothing lost."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan import conventions as words
from blamespan.errors import TracerUnavailable
from blamespan.otlp import request_from_json
from blamespan.spans import Span
from blamespan.tracers import Tracer
from blamespan_collector.annotator import Annotator
from blamespan_collector.assembler import Part, Reason
from blamespan_collector.collector import Collector
from blamespan_collector.file_sink import FileSink
from blamespan_collector.forwarder import HttpForwarder, forwarder
from blamespan_collector.settings import Limits
from tests.collector.fakes import (
    POISON,
    SOON,
    FirstStepTracer,
    MemorySink,
    SlowTracer,
    collecting,
    request,
    run,
    spans_of,
    until,
)


def body(*traces: Sequence[Span]) -> bytes:
    return request([span for spans in traces for span in spans]).SerializeToString()


def part(spans: Sequence[Span], reason: Reason = "complete") -> Part:
    return Part(spans[0].trace_id, tuple(spans), reason, 1)


async def test_complete_trace_gets_its_verdict(tmp_path: Path) -> None:
    """A run's root says who, where and how; its steps carry their shares."""
    sink = MemorySink()
    async with collecting(sink) as running:
        await running.collector.take(body(run(1)), "protobuf")
        await until(lambda: sink.traces)

    root, *steps = sink.traces[0]
    assert root.attributes[words.BLAME_AGENT] == "agent0"
    assert root.attributes[words.TRACER_NAME] == "first-step"
    assert words.PARTIAL not in root.attributes
    assert [span.attributes[words.BLAME_SCORE] for span in steps] == [1.0, 0.0, 0.0]


async def test_annotated_spans_go_on_under_their_own_ids_and_once() -> None:
    """What went in comes out, in order, with attributes added and nothing else changed."""
    sink = MemorySink()
    async with collecting(sink) as running:
        await running.collector.take(body(run(1)), "protobuf")
        await running.collector.take(body(run(1)), "protobuf")
        await until(lambda: sink.traces)

    assert [replace(span, attributes={}) for span in sink.spans] == [replace(span, attributes={}) for span in run(1)]


async def test_trace_without_agents_goes_on_byte_for_byte() -> None:
    """Trace state, flags, dropped counts, schema URLs and unknown fields of other people's spans survive."""
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
    backend = MemoryBackend()
    async with collecting(backend) as running:
        await running.collector.take(message.SerializeToString(), "protobuf")
        await until(lambda: backend.requests)

    assert backend.requests[0].SerializeToString(deterministic=True) == message.SerializeToString(deterministic=True)


class MemoryBackend(MemorySink):
    """Keeps the requests that a forwarder would send."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[ExportTraceServiceRequest] = []

    async def deliver(self, traces: Sequence[Sequence[Span]], patience: object) -> None:
        self.requests += [request(spans) for spans in traces]


async def test_trace_that_came_in_pieces_is_one() -> None:
    """Spans in any order, each in a request of its own, make one trace with one verdict."""
    sink = MemorySink()
    spans = run(1, steps=8)
    random.Random(3).shuffle(spans)
    async with collecting(sink) as running:
        for span in spans:
            await running.collector.take(body([span]), "protobuf")
        await until(lambda: sink.traces)

    assert len(sink.traces) == 1
    assert {span.span_id for span in sink.spans} == {span.span_id for span in spans}


async def test_late_span_goes_on_at_once() -> None:
    """A span of a trace that has gone on is not held, and gets no verdict."""
    sink = MemorySink()
    late = replace(run(1)[1], span_id="f" * 16)
    async with collecting(sink) as running:
        await running.collector.take(body(run(1)), "protobuf")
        await until(lambda: sink.traces)
        await running.collector.take(body([late]), "protobuf")
        await until(lambda: len(sink.traces) == 2)

    assert sink.traces[1] == [late]


async def test_silent_trace_gets_a_verdict_as_far_as_it_came() -> None:
    """Where the run's own span never comes, the verdict stands on the decisive step and says that it is partial."""
    sink = MemorySink()
    async with collecting(sink) as running:
        await running.collector.take(body(run(1)[1:]), "protobuf")
        await until(lambda: sink.traces)

    assert sink.spans[0].attributes[words.BLAME_AGENT] == "agent0"
    assert [span.attributes.get(words.PARTIAL) for span in sink.spans] == [True, None, None]


def test_trace_that_breaks_the_tracer_says_so_and_spoils_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """Errors are isolated: the others of its batch get their verdicts, and its root says why it has none."""
    annotator = Annotator(FirstStepTracer)
    parts = [part(run(1)), part(run(2, task=POISON)), part(run(3))]
    done = annotator.annotate(parts)

    assert [words.BLAME_AGENT in spans[0].attributes for spans in done] == [True, False, True]
    assert done[1][0].attributes[words.ABSTAINED] == "could not be attributed: ValueError: cannot read  [31mthis"
    assert done[1][0].attributes[words.TRACER_NAME] == "first-step"
    assert done[1][1:] == run(2, task=POISON)[1:]
    assert (annotator.traces, annotator.failures) == (2, 1)
    assert "\x1b" not in caplog.messages[0]


def test_traces_that_would_break_us_go_on(caplog: pytest.LogCaptureFixture) -> None:
    """Hostile spans (cycles, clocks running backwards, shared ids) come out as many as they went in."""
    cycle = [replace(span, parent_id=span.span_id) for span in run(1)]
    loop = run(2)
    loop[1], loop[2] = replace(loop[1], parent_id=loop[2].span_id), replace(loop[2], parent_id=loop[1].span_id)
    backwards = [replace(span, start_ns=9, end_ns=1) for span in run(3)]
    doubled = [*run(4), *run(4)]
    odd = [
        replace(span, attributes={**span.attributes, words.STEP_INDEX: -(2**70), words.AGENT_NAME: "\ud800"})
        for span in run(5)
    ]
    traces = [cycle, loop, backwards, doubled, odd]
    done = Annotator(FirstStepTracer).annotate([part(spans) for spans in traces])

    assert [[span.span_id for span in spans] for spans in done] == [[s.span_id for s in spans] for spans in traces]


def test_fragments_get_no_verdict() -> None:
    """Late parts and what had to make room come back as the objects they were."""
    spans = run(1)
    done = Annotator(FirstStepTracer).annotate([part(spans, "late"), part(spans, "overflow")])

    assert [one is other for of in done for one, other in zip(of, spans, strict=True)] == [True] * 8


def test_tracer_that_cannot_be_loaded_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """Without a tracer spans go on, runs say why they have no verdict, and the log says it once."""

    def load() -> Tracer:
        raise TracerUnavailable("expected weights, got none. pip install 'blamespan[model]'")

    annotator = Annotator(load)
    done = [annotator.annotate([part(run(number))])[0] for number in (1, 2)]

    assert done[1][0].attributes[words.ABSTAINED] == (
        "no tracer: expected weights, got none. pip install 'blamespan[model]'"
    )
    assert done[1][1:] == run(2)[1:]
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


def test_tracer_is_asked_in_batches() -> None:
    """Traces released together are attributed together."""
    tracer = FirstStepTracer()
    Annotator(lambda: tracer).annotate([part(run(number)) for number in range(1, 6)])

    assert tracer.batches == [5]


async def test_stopping_annotates_and_delivers_what_is_held() -> None:
    """What is held when the collector stops gets its verdict and goes on; nothing is lost."""
    sink = MemorySink()
    collector = Collector(FirstStepTracer, [sink], limits=Limits())
    await collector.start()
    await collector.take(body(run(1), run(2)[1:]), "protobuf")
    lost = await collector.stop()

    assert lost == 0
    assert sink.is_closed
    assert len(sink.spans) == 7
    assert all(any(words.BLAME_AGENT in span.attributes for span in trace) for trace in sink.traces)


async def test_stopping_does_not_wait_for_a_slow_tracer() -> None:
    """A tracer that does not answer in time costs its traces their verdicts, not their spans."""
    sink, tracer = MemorySink(), SlowTracer()
    collector = Collector(lambda: tracer, [sink], limits=SOON)
    await collector.start()
    await collector.take(body(run(1)), "protobuf")
    await collector.take(body(run(2)[1:]), "protobuf")
    await asyncio.sleep(0.2)
    lost = await collector.stop(0.5)
    tracer.go.set()

    assert lost == 0
    assert sink.spans == [*run(1), *run(2)[1:]]


async def test_stopping_is_bounded_and_counts_what_is_lost() -> None:
    """A sink that never answers cannot keep the collector from stopping."""
    sink = MemorySink(gate=asyncio.Event())
    collector = Collector(FirstStepTracer, [sink], limits=SOON)
    await collector.start()
    await collector.take(body(run(1)), "protobuf")

    assert await asyncio.wait_for(collector.stop(0.3), 2) == 4


async def test_answers_wait_while_verdicts_are_behind() -> None:
    """Senders that wait for their answers are slowed down to what can be annotated."""
    sink, tracer = MemorySink(), SlowTracer()
    async with collecting(sink, tracer=tracer) as running:
        await running.collector.take(body(run(1)), "protobuf")
        await asyncio.sleep(1)
        before = asyncio.get_running_loop().time()
        await running.collector.take(body(run(2)), "protobuf")
        waited_s = asyncio.get_running_loop().time() - before
        tracer.go.set()
        await until(lambda: len(sink.traces) == 2)

    assert 0.15 < waited_s < 3


async def test_broken_sink_does_not_stop_the_other() -> None:
    """Each sink has its own queue; what one refuses, the other still gets, and the loss is counted."""
    broken, whole = MemorySink(refuses=True), MemorySink()
    async with collecting(broken, whole) as running:
        await running.collector.take(body(run(1)), "protobuf")
        await until(lambda: whole.traces and running.collector.counts()["spans_lost"])
        counts = running.collector.counts()

    assert (counts["spans_lost"], counts["spans_delivered"], counts["bytes_on_their_way"]) == (4, 4, 0)


async def test_overflow_is_forwarded_without_verdicts() -> None:
    """Past its room the collector passes spans on rather than dropping them."""
    sink = MemorySink()
    async with collecting(sink, limits=Limits(quiet_s=60, max_traces=2)) as running:
        await running.collector.take(body(*(run(number) for number in range(1, 6))), "protobuf")
        await until(lambda: len(sink.traces) == 3)
        counts = running.collector.counts()

    assert (counts["parts_overflow"], counts["traces_held"]) == (3, 2)
    assert sink.traces[0] == run(1)


async def test_trace_of_ten_thousand_spans_gets_its_verdict() -> None:
    """A long run is one trace like any other."""
    sink = MemorySink()
    spans = run(1, steps=10_000, content="x")
    async with collecting(sink) as running:
        for start in range(0, len(spans), 1000):
            await running.collector.take(body(spans[start : start + 1000]), "protobuf")
        await until(lambda: sink.traces, 60)

    assert len(sink.spans) == 10_001
    assert any(words.BLAME_AGENT in span.attributes for span in sink.spans)


async def test_many_senders_at_once_lose_nothing() -> None:
    """Spans of many traces, mixed over many senders, come out once each."""
    sink = MemorySink()
    spans = [span for number in range(1, 101) for span in run(number, steps=5)]
    random.Random(1).shuffle(spans)
    async with (
        collecting(sink, limits=replace(SOON, quiet_s=0.5, idle_s=5)) as running,
        httpx.AsyncClient(base_url=running.http_url, trust_env=False) as client,
    ):
        bodies = [body(spans[start : start + 20]) for start in range(0, len(spans), 20)]
        answers = await asyncio.gather(
            *(
                client.post("/v1/traces", content=one, headers={"content-type": "application/x-protobuf"})
                for one in bodies
            )
        )
        await until(lambda: len(sink.spans) >= len(spans))

    assert {answer.status_code for answer in answers} == {200}
    assert len(sink.traces) == 100
    assert sorted(span.span_id for span in sink.spans) == sorted(span.span_id for span in spans)


async def test_second_collector_receives_what_the_first_forwards() -> None:
    """Collectors can stand in a row, over HTTP and gRPC: the second one gets every span once."""
    for scheme in ("http", "grpc"):
        sink = MemorySink()
        async with collecting(sink) as second:
            address = second.http.address if scheme == "http" else second.grpc.address
            async with collecting(forwarder(f"{scheme}://{address}")) as first:
                await first.collector.take(body(run(1), run(2)), "protobuf")
                await until(lambda sink=sink: len(sink.traces) == 2)

        assert sorted(span.span_id for span in sink.spans) == sorted(s.span_id for s in [*run(1), *run(2)])
        assert sum(words.BLAME_AGENT in span.attributes for span in sink.spans) == 2


async def test_file_gets_one_line_per_trace(tmp_path: Path) -> None:
    """The file holds OTLP-JSON lines that read back as the annotated traces; an old file is added to."""
    path = tmp_path / "traces.jsonl"
    for number in (1, 2):
        async with collecting(FileSink(str(path))) as running:
            await running.collector.take(body(run(number)), "protobuf")
            await until(lambda number=number: path.exists() and path.read_text().count("\n") == number)

    read = [spans_of([request_from_json(line)]) for line in path.read_text().splitlines()]
    assert [[span.span_id for span in spans] for spans in read] == [[s.span_id for s in run(n)] for n in (1, 2)]
    assert (
        json.loads(path.read_text().splitlines()[0])["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"]
        == run(1)[0].trace_id
    )
    assert read[0][0].attributes[words.BLAME_AGENT] == "agent0"


def test_tracer_is_not_loaded_for_traces_without_agents() -> None:
    """A service without agents never pays for a model."""

    def load() -> Tracer:
        raise AssertionError("not needed")

    web = [Span("1".rjust(32, "0"), "1".rjust(16, "0"), None, "GET /")]

    assert Annotator(load).annotate([part(web)]) == [tuple(web)]


async def test_forwarder_names_no_credentials() -> None:
    """What is printed about a backend holds neither its password nor its query."""
    sink = HttpForwarder("https://user:secret@example.com/otlp?token=secret")

    assert sink.name == "https://example.com/otlp"
    await sink.close()
