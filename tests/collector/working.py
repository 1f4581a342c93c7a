"""A worker in this process, on a journal of its own, with sinks in memory."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan import conventions as words
from blamespan.spans import Span
from blamespan.tracers import Tracer
from blamespan_collector.delivering.sinks import Receipt, Sink, TryAgain
from blamespan_collector.journal import JournalWriter
from blamespan_collector.receiving.request_reader import RequestReader
from blamespan_collector.receiving.signals import SERVICES
from blamespan_collector.settings import CollectorSettings, Limits
from blamespan_collector.wire.outgoing import Kind
from blamespan_collector.worker.main import Worker
from tests.collector.fakes import SOON, FirstStepTracer, request, spans_of


@dataclass(eq=False)
class MemorySink:
    """Keeps the payloads it gets; fails as it is told to."""

    name: str = "memory"
    kinds: frozenset[Kind] = frozenset({"traces", "logs", "metrics", "verdicts"})
    max_bytes: int = 1024 * 1024
    turn: AbstractAsyncContextManager[object, bool | None] = field(default_factory=nullcontext)
    payloads: list[tuple[Kind, bytes]] = field(default_factory=list)
    attempts: int = 0
    fails: Callable[[Kind, Sequence[bytes]], Exception | None] = lambda kind, payloads: None
    is_closed: bool = False

    def resume(self, cursors: Mapping[Kind, tuple[str, Sequence[bytes]]]) -> None:
        pass

    async def send(self, kind: Kind, payloads: Sequence[bytes]) -> Receipt:
        self.attempts += 1
        failure = self.fails(kind, payloads)
        if failure is not None:
            raise failure
        self.payloads += [(kind, payload) for payload in payloads]
        return Receipt()

    async def close(self) -> None:
        self.is_closed = True

    @property
    def traces(self) -> list[list[Span]]:
        return [
            spans_of([ExportTraceServiceRequest.FromString(payload)])
            for kind, payload in self.payloads
            if kind == "traces"
        ]

    @property
    def spans(self) -> list[Span]:
        return [span for trace in self.traces for span in trace]


def down(kind: Kind, payloads: Sequence[bytes]) -> Exception | None:
    """Fail as a backend that cannot be reached."""
    return TryAgain("ConnectError: nobody there")


@dataclass
class Working:
    """A worker, and the journal it reads."""

    worker: Worker
    writer: JournalWriter
    said: list[dict[str, Any]]
    failure: list[BaseException]

    def take(self, *traces: Sequence[Span], received_s: float | None = None) -> None:
        """Journal spans as one request."""
        self.take_body(request([span for spans in traces for span in spans]).SerializeToString(), "traces", received_s)

    def take_body(self, body: bytes, signal: str, received_s: float | None = None) -> None:
        """Journal a request."""
        service = next(one for one in SERVICES if one.signal == signal)
        received_ns = time.time_ns() if received_s is None else int(received_s * 1e9)
        entries = RequestReader().read(service, body, "protobuf", received_ns).entries
        self.writer.append(entries).result(10)

    @property
    def counts(self) -> dict[str, int]:
        found: dict[str, int] = self.worker._message()["counts"]
        return found


@contextmanager
def working(
    folder: Path,
    *sinks: Sink,
    tracer: Tracer | None = None,
    limits: Limits = SOON,
    stop_s: float = 5.0,
    **settings: Any,
) -> Iterator[Working]:
    """Run a worker until the block ends, then let it drain for *stop_s*; 0 leaves it as a kill would."""
    told = CollectorSettings(journal=folder, out="-", limits=limits, journal_sync="normal", **settings)
    verdicts = tracer or FirstStepTracer()
    ours, theirs = multiprocessing.Pipe()
    made: list[Worker] = []
    failure: list[BaseException] = []
    started = threading.Event()

    def work() -> None:
        try:
            made.append(Worker(told, lambda: verdicts, sinks))
            started.set()
            made[0].run(theirs)
        except BaseException as error:
            failure.append(error)
            started.set()

    (folder / "segments").mkdir(parents=True, exist_ok=True)
    writer = JournalWriter(folder, sync="normal")
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert started.wait(20)
    if failure:
        raise failure[0]
    said: list[dict[str, Any]] = []
    try:
        yield Working(made[0], writer, said, failure)
    finally:
        if stop_s:
            ours.send({"stop": stop_s})
        else:
            ours.close()
        thread.join(stop_s + 10)
        assert not thread.is_alive()
        writer.close()
        while stop_s and ours.poll():
            try:
                said.append(ours.recv())
            except (EOFError, OSError):
                break
        ours.close()  # ends the thread that listens at the other end


def ids(spans: Sequence[Span]) -> list[str]:
    """List their ids."""
    return [span.span_id for span in spans]


def verdicts(sink: MemorySink) -> list[Span]:
    """List the spans that tell verdicts on spans that were out."""
    return [span for span in sink.spans if span.scope.name == words.VERDICT_SCOPE]


def until(condition: Callable[[], object], timeout_s: float = 15) -> None:
    """Wait until *condition* () is true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not come true in time")
        time.sleep(0.01)
