"""Both receivers in this process, in front of a journal of their own, and certificates for them and who comes there."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import grpc.aio
import httpx
import trustme
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.spans import Span
from blamespan_collector.journal import Entry, JournalReader, JournalWriter, Position
from blamespan_collector.receiving.intake import Intake, IntakeCounts
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


class Certificates:
    """A server's and a client's certificates of one CA, written anew at will."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.issue()

    def issue(self, *, ca_alone: bool = False) -> None:
        ca = trustme.CA()
        ca.cert_pem.write_to_path(self.folder / "ca.pem")
        for name in () if ca_alone else ("server", "client"):
            made = ca.issue_cert("localhost")
            made.cert_chain_pems[0].write_to_path(self.folder / f"{name}.pem")
            made.private_key_pem.write_to_path(self.folder / f"{name}.key")

    def server(self, *, asks_clients: bool = True) -> ServerTls:
        ca = self.folder / "ca.pem" if asks_clients else None
        return ServerTls(self.folder / "server.pem", self.folder / "server.key", ca)

    def client(self, shown: Certificates | None) -> ssl.SSLContext:
        """Trust our CA, and show a client's certificate."""
        context = ssl.create_default_context(cafile=self.folder / "ca.pem")
        if shown:
            context.load_cert_chain(shown.folder / "client.pem", shown.folder / "client.key")
        return context

    def channel(self, shown: Certificates | None) -> grpc.ChannelCredentials:
        """Do the same over gRPC."""
        names = ("client.key", "client.pem")
        key, chain = [(shown.folder / name).read_bytes() for name in names] if shown else (None, None)
        return grpc.ssl_channel_credentials((self.folder / "ca.pem").read_bytes(), key, chain)


@dataclass
class Receiving:
    """An intake with both receivers on free ports, and what they journalled."""

    intake: Intake
    grpc: GrpcReceiver
    http: HttpReceiver
    reader: JournalReader
    writer: JournalWriter
    since: Position | None = None

    def anew(self) -> Receiving:
        """Give the same as if nothing had come before: one server does for many tests."""
        self.intake.counts = IntakeCounts()
        return replace(self, since=max((entry.position for entry in self.entries), default=self.since))

    @property
    def http_url(self) -> str:
        return f"http://{self.http.address}"

    @property
    def entries(self) -> list[Entry]:
        return self.reader.read(self.since, 10_000)

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


async def post(running: Receiving, body: bytes = BODY, **headers: str) -> httpx.Response:
    """Send a request on a connection of its own."""
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        return await client.post(f"{running.http_url}/v1/traces", content=body, headers={**PROTOBUF, **headers})


async def by_http(running: Receiving, context: ssl.SSLContext) -> bool:
    """Send a request over HTTPS; tell whether it was taken."""
    async with httpx.AsyncClient(verify=context, trust_env=False) as client:
        with contextlib.suppress(httpx.TransportError):
            url = f"https://localhost:{running.http.address.port}/v1/traces"
            return (await client.post(url, content=BODY, headers=PROTOBUF)).status_code == 200
    return False


async def by_grpc(running: Receiving, credentials: grpc.ChannelCredentials) -> bool:
    """Send a request over gRPC with TLS; tell whether it was taken."""
    # Channels of one process share connections unless their options differ
    options = [("grpc.use_local_subchannel_pool", 1)]
    target = f"localhost:{running.grpc.address.port}"
    async with grpc.aio.secure_channel(target, credentials, options=options) as channel:
        with contextlib.suppress(grpc.aio.AioRpcError):
            await channel.unary_unary(EXPORT)(BODY, timeout=5)
            return True
    return False
