"""Both receivers in this process, in front of a journal of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.spans import Span
from blamespan_collector.journal import Entry, JournalReader, JournalWriter
from blamespan_collector.receiving.intake import Intake
from blamespan_collector.receiving.otlp_grpc import GrpcReceiver
from blamespan_collector.receiving.otlp_http import HttpReceiver
from blamespan_collector.receiving.request_reader import RequestLimits, RequestReader
from blamespan_collector.receiving.tls import ServerTls
from blamespan_collector.receiving.tokens import BearerTokens
from blamespan_collector.settings import ListenAddress
from tests.collector.fakes import request, run, spans_of

PROTOBUF = {"content-type": "application/x-protobuf"}
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
BODY = request(run(1)).SerializeToString()


@dataclass
class Receiving:
    """An intake with both receivers on free ports, and what they journalled."""

    intake: Intake
    grpc: GrpcReceiver
    http: HttpReceiver
    reader: JournalReader
    writer: JournalWriter

    @property
    def http_url(self) -> str:
        return f"http://{self.http.address}"

    @property
    def entries(self) -> list[Entry]:
        return self.reader.read(None, 10_000)

    @property
    def spans(self) -> list[Span]:
        traces = [entry.position for entry in self.entries if entry.signal == "traces"]
        return spans_of([ExportTraceServiceRequest.FromString(one) for one in self.reader.payloads(traces)])


@asynccontextmanager
async def receiving(
    folder: Path,
    *,
    max_request_bytes: int = 4 * 1024 * 1024,
    max_bytes: int = 1024**3,
    limits: RequestLimits | None = None,
    tls: ServerTls | None = None,
    tokens: BearerTokens | None = None,
) -> AsyncIterator[Receiving]:
    writer = JournalWriter(folder, sync="normal", max_bytes=max_bytes)
    reader = JournalReader(folder)
    intake = Intake(writer, RequestReader(limits), folder / "refused")
    here = ListenAddress("127.0.0.1", 0)
    grpc = GrpcReceiver(intake, here, max_request_bytes, tls=tls, tokens=tokens)
    http = HttpReceiver(intake, here, max_request_bytes, tls=tls, tokens=tokens)
    await grpc.start()
    await http.start()
    try:
        yield Receiving(intake, grpc, http, reader, writer)
    finally:
        await asyncio.gather(grpc.stop(), http.stop())
        writer.close()
        reader.close()
