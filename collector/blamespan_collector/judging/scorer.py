"""Gets verdicts in a thread beside everything else: nothing waits for the tracer longer than it wants to."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from blamespan.otlp.logs import EventsOfSpans, message_events, with_events
from blamespan.pipeline import AttributedTrace
from blamespan.spans import Span, SpanEvent
from blamespan_collector.assembling.parts import TracePart
from blamespan_collector.journal.entries import divide_items
from blamespan_collector.judging.annotator import Annotator
from blamespan_collector.wire.evaluations import evaluations, write_evaluations
from blamespan_collector.wire.outgoing import Kind, Outgoing
from blamespan_collector.wire.raw_spans import RawSpan, encode, pieces, raw_spans, read, without_repeats

_logger = logging.getLogger("blamespan.collector")

_BATCH_TRACES = 128
"""Most traces attributed at once, where so many wait: enough to fill a model's batch."""
_FIRST_BATCH_TRACES = 16
_BATCH_S = 1.0
"""A batch takes about that long at most, going by the last one: no trace waits long for the others of its batch."""
_BATCH_BYTES = 4 * 1024 * 1024
_BATCH_SPANS = 1_024
"""A batch ends with the trace that reaches so many: runs of hundreds of steps are not lined up behind each other."""
_SPAN_BYTES = 1024
"""Guessed of a span where nobody remembers how large it was."""
MAX_ATTEMPTS = 3
"""How often a trace may take the process down while it is attributed, before it goes on without a verdict."""


@dataclass(slots=True)
class JudgingTask:
    """A trace that is to get a verdict.

    Attributes:
        part: The trace.
        deadline_s: When it goes on without one; infinity for a revision. On the worker's clock.
        attempts: How often it took the process down.
        is_out: Its spans went on meanwhile.
        is_second: Whether a verdict is out, and another opinion is asked for.
    """

    part: TracePart[int]
    deadline_s: float
    attempts: int = 0
    is_out: bool = False
    is_second: bool = False


@dataclass(slots=True)
class Scored:
    """What came of a task.

    Attributes:
        task: The trace.
        verdict: On it; None where its spans could not be read.
        spans: As read.
        outgoing: What goes to the outbox, if nothing of the trace is out yet.
        digests: Of the verdicts on its runs.
        took_s: Its share of the batch's time.
    """

    task: JudgingTask
    verdict: AttributedTrace | None
    spans: Sequence[Span]
    outgoing: list[Outgoing]
    digests: frozenset[bytes]
    took_s: float


class InFlight:
    """A file that names the traces being attributed, so that the next process knows which ones ended this one.

    Written without waiting for the disk: it is for a process that dies, not for a power cut.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def read(self) -> list[bytes]:
        """List the traces that were being attributed when the process died."""
        size = int.from_bytes(os.pread(self._file, 8, 0), "big")
        data = os.pread(self._file, min(size, os.fstat(self._file).st_size), 8)  # whatever damage makes of it
        return [data[at : at + 16] for at in range(0, len(data) - 15, 16)]

    def write(self, trace_ids: Iterable[bytes]) -> None:
        """Name the traces being attributed; none when that is over."""
        data = b"".join(trace_ids)
        with suppress(OSError):  # a full disk: nobody is suspected then
            os.pwrite(self._file, len(data).to_bytes(8, "big") + data, 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


@dataclass
class Scorer:
    """Attributes batches, one after the other, in a thread of its own.

    Attributes:
        annotator: Asks the tracer.
        payloads: Reads what stands for a trace's spans; may raise KeyError.
        in_flight: Told what is being attributed.
        max_bytes: Largest piece put into the outbox.
        kinds: What some sink takes.
        wake: Called when something is done.
        results: What is done.
        at_once: How many traces make a batch.
        busy_since_s: Since when (monotonic) a batch is under way; None while none is.
        failure: What ended the thread, which nothing should.
    """

    annotator: Annotator
    payloads: Callable[[Sequence[int]], list[bytes]]
    in_flight: InFlight
    max_bytes: int
    kinds: frozenset[Kind]
    wake: Callable[[], None]
    results: queue.SimpleQueue[list[Scored]] = field(default_factory=queue.SimpleQueue)
    at_once: int = _FIRST_BATCH_TRACES
    busy_since_s: float | None = None
    failure: BaseException | None = None
    _inbox: queue.SimpleQueue[list[JudgingTask]] = field(default_factory=queue.SimpleQueue)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, by loading the tracer."""
        self._thread = threading.Thread(target=self._run, name="blamespan-score", daemon=True)
        self._thread.start()

    def stop(self, within_s: float) -> bool:
        """Take no more batches. Returns whether the thread ended, and so uses nothing any more."""
        self._inbox.put([])
        if self._thread is not None:
            self._thread.join(within_s)
        return self._thread is None or not self._thread.is_alive()

    def submit(self, tasks: list[JudgingTask]) -> None:
        """Add a batch; results come in the order of the batches."""
        self._inbox.put(tasks)

    def _run(self) -> None:
        try:
            self.annotator.warm_up()
            while tasks := self._inbox.get():
                self.busy_since_s = time.monotonic()
                results = self._score(tasks)
                self.busy_since_s = None
                self.results.put(results)
                self.wake()
        except BaseException as error:
            self.failure = error
            _logger.exception("attributing ended")
            self.wake()

    def _score(self, tasks: list[JudgingTask]) -> list[Scored]:
        began_s = time.perf_counter()
        self.in_flight.write(task.part.trace_id for task in tasks)
        spans = [self._spans(task.part) for task in tasks]
        asked = [
            own_spans if task.attempts < MAX_ATTEMPTS else None for task, own_spans in zip(tasks, spans, strict=True)
        ]
        verdicts = self.annotator.attribute([own_spans or () for own_spans in asked])
        self.in_flight.write(())  # not where something ends the process: the next one is to know what
        verdicts = [
            verdict if task.attempts < MAX_ATTEMPTS else self._give_up(task)
            for task, verdict in zip(tasks, verdicts, strict=True)
        ]
        took_s = (time.perf_counter() - began_s) / len(tasks)
        self.at_once = max(1, min(_BATCH_TRACES, int(_BATCH_S / took_s)))
        return [
            self._settle(task, own_spans, verdict, took_s)
            for task, own_spans, verdict in zip(tasks, spans, verdicts, strict=True)
        ]

    def _settle(self, task: JudgingTask, spans: list[Span] | None, verdict: AttributedTrace, took_s: float) -> Scored:
        """Do as `_make_scored`; a trace on which that breaks goes on as it came."""
        try:
            return self._make_scored(task, spans, verdict, took_s)
        except Exception:
            _logger.exception("the verdict on trace %s cannot be written", task.part.trace_id.hex())
            return self._make_scored(task, None, verdict, took_s)

    def _give_up(self, task: JudgingTask) -> AttributedTrace:
        reason = f"the process ended {task.attempts} times while this was attributed"
        _logger.error("trace %s goes on without a verdict: %s", task.part.trace_id.hex(), reason)
        return self.annotator.refuse(reason)

    def _spans(self, part: TracePart[int]) -> list[Span] | None:
        try:
            spans, events = divide_items(part.items)
            read_spans = read(part_spans(part, self.payloads(spans)))
            return with_events(read_spans, self._events(events))
        except Exception as error:  # also what nobody foresaw: it costs this trace's verdict, and no other's
            _logger.error("trace %s cannot be read: %s", part.trace_id.hex(), error)
            return None

    def _events(self, items: Sequence[int]) -> EventsOfSpans:
        """Read the messages that came as log records; what cannot be read or came twice is left out."""
        requests: dict[bytes, ExportLogsServiceRequest] = {}
        for item in items:
            with suppress(KeyError, DecodeError):
                payload = self.payloads([item])[0]
                requests[payload] = ExportLogsServiceRequest.FromString(payload)
        groups = [group for request in requests.values() for group in request.resource_logs]
        return {span: sorted(events, key=_time_ns) for span, events in message_events(groups).items()}

    def _make_scored(
        self, task: JudgingTask, spans: list[Span] | None, verdict: AttributedTrace, took_s: float
    ) -> Scored:
        if spans is None:
            return Scored(task, None, (), [], frozenset(), took_s)
        revision = task.part.released.revision + (task.part.reason == "revised")
        verdict = verdict.at_revision(revision)
        outgoing: list[Outgoing] = []
        if task.part.reason != "revised":
            outgoing = self._in_place(task.part, spans, verdict)
        return Scored(task, verdict, spans, outgoing, verdict.digests(), took_s)

    def _in_place(self, part: TracePart[int], spans: Sequence[Span], verdict: AttributedTrace) -> list[Outgoing]:
        annotated = encode(spans, verdict.annotations(spans, is_complete=part.reason == "complete"))
        written = [*annotated, *encode(verdict.on_earlier_parts())]
        outgoing = [Outgoing("traces", count, data) for count, data in pieces(written, self.max_bytes)]
        return outgoing + self.encode_evaluations(verdict)

    def encode_evaluations(self, verdict: AttributedTrace) -> list[Outgoing]:
        """Write a verdict for the sinks beside those of spans."""
        if "verdicts" not in self.kinds or not verdict.runs:
            return []
        rows = evaluations(verdict.runs)
        return [Outgoing("verdicts", len(rows), write_evaluations(rows))]

    def beside(self, scored: Scored, known_digests: frozenset[bytes], revision: int) -> list[Outgoing]:
        """Write a verdict on spans that are out: as new spans, for the runs on which it is news."""
        try:
            return self._beside(scored, known_digests, revision)
        except Exception:
            _logger.exception("the verdict on trace %s cannot be written", scored.task.part.trace_id.hex())
            return []

    def _beside(self, scored: Scored, known_digests: frozenset[bytes], revision: int) -> list[Outgoing]:
        assert scored.verdict is not None
        news = scored.verdict.at_revision(revision).news(known_digests)
        encoded = encode([*news.beside(is_complete=scored.task.part.is_complete), *news.on_earlier_parts()])
        outgoing = [Outgoing("traces", count, data) for count, data in pieces(encoded, self.max_bytes)]
        return outgoing + self.encode_evaluations(news)


def first_batch(tasks: Iterable[JudgingTask], most: int) -> list[JudgingTask]:
    """Choose the first tasks that are done together, *most* of them at most.

    A trace that may have ended the last process is tried alone: the others of its batch would be suspected with it.
    """
    batch: list[JudgingTask] = []
    size_bytes = spans = 0
    for task in tasks:
        is_full = len(batch) >= most or size_bytes >= _BATCH_BYTES or spans >= _BATCH_SPANS
        if batch and (is_full or task.attempts or batch[0].attempts):
            break
        batch.append(task)
        spans += len(task.part.span_ids)
        size_bytes += task.part.size_bytes or _SPAN_BYTES * len(task.part.span_ids)
    return batch


def part_spans(part: TracePart[int], payloads: Sequence[bytes]) -> list[RawSpan]:
    """Find the spans of a part in what stands for them.

    Raises:
        MalformedSpan: if that is no OTLP.
    """
    spans = [span for payload in payloads for span in raw_spans(payload)]
    return spans if part.is_whole else without_repeats(spans, part.span_ids)


def outgoing_raw(part: TracePart[int], payloads: Sequence[bytes], max_bytes: int) -> list[Outgoing]:
    """Send a part's spans on as they came: byte for byte, and split only where they must be.

    Raises:
        MalformedSpan: if they are no OTLP.
    """
    if not part.span_ids:
        return []
    if part.is_whole and part.size_bytes <= max_bytes:
        return [Outgoing("traces", len(part.span_ids), b"".join(payloads))]
    return [Outgoing("traces", count, data) for count, data in pieces(part_spans(part, payloads), max_bytes)]


def _time_ns(event: SpanEvent) -> int:
    return event.time_ns
