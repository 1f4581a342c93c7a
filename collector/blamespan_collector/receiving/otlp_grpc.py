"""OTLP over gRPC: the services for traces, logs and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from blamespan.annotate import cut
from blamespan.errors import MalformedSpan
from blamespan_collector.receiving.http_server import listening_socket
from blamespan_collector.receiving.intake import Busy, Intake
from blamespan_collector.receiving.request_reader import TooLarge
from blamespan_collector.receiving.signals import SERVICES, ExportResponse, OtlpService
from blamespan_collector.receiving.tls import ServerTls
from blamespan_collector.receiving.tokens import BearerTokens
from blamespan_collector.settings import CannotListen, ListenAddress

_IN_MEMORY_BYTES = 512 * 1024 * 1024
"""What the messages that are being received may take together, each counted as the largest allowed."""
_FEWEST_AT_ONCE, _MOST_AT_ONCE = 4, 64
_SEND_TIMEOUT_S = 10.0
"""How long a sender may take for its message, once it is its turn: exporters give up on a request after 10 s."""
_TURN_TIMEOUT_S = 5.0
"""How long one waits for its turn."""
_MAX_METADATA_BYTES = 16 * 1024
_STREAMS_PER_CONNECTION = 128
_MOST_CONNECTIONS = 1024
_IDLE_TIMEOUT_MS = 900_000
"""Connections without a request for that long are closed; exporters send more often, and connect again."""
_HANDSHAKE_TIMEOUT_MS = 5_000
"""Also for the first bytes without TLS: gRPC cannot limit connections per client, so half-open ones must end soon."""
_ENOUGH = grpc.StatusCode.RESOURCE_EXHAUSTED

_Context: TypeAlias = "grpc.aio.ServicerContext[bytes, ExportResponse]"
_Export: TypeAlias = Callable[[AsyncIterator[bytes], _Context], Awaitable[ExportResponse]]


class GrpcReceiver:
    """Serves OTLP's three services on one address.

    Each `Export` is served as a stream of one message, which is the same on the wire: so a message is asked
    for, and takes memory, only after its sender was admitted and when it is its turn. Bodies are parsed by
    us rather than by gRPC, which would answer a malformed one with INTERNAL and no reason. Compression and
    the size limit (RESOURCE_EXHAUSTED, also while inflating) are gRPC's.

    Args:
        intake: Gets the bodies.
        address: Where to listen; port 0 for any free one.
        max_request_bytes: Largest message taken, after decompression.
        tls: Certificate and key; None: without TLS.
        tokens: Who may send.

    Raises:
        CannotListen: if the address cannot be listened on.
    """

    def __init__(
        self,
        intake: Intake,
        address: ListenAddress,
        max_request_bytes: int,
        *,
        tls: ServerTls | None = None,
        tokens: BearerTokens | None = None,
    ) -> None:
        self._intake = intake
        self._tokens = tokens or BearerTokens()
        at_once = _IN_MEMORY_BYTES // max_request_bytes
        self._turns = asyncio.Semaphore(max(_FEWEST_AT_ONCE, min(_MOST_AT_ONCE, at_once)))
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", max_request_bytes),
                ("grpc.max_metadata_size", _MAX_METADATA_BYTES),
                ("grpc.absolute_max_metadata_size", 2 * _MAX_METADATA_BYTES),
                ("grpc.max_allowed_incoming_connections", _MOST_CONNECTIONS),
                ("grpc.max_connection_idle_ms", _IDLE_TIMEOUT_MS),
                ("grpc.max_concurrent_streams", _STREAMS_PER_CONNECTION),
                ("grpc.server_handshake_timeout_ms", _HANDSHAKE_TIMEOUT_MS),
                ("grpc.so_reuseport", 0),  # a second collector on this port must fail, not steal half the spans
            ],
        )
        self._server.add_generic_rpc_handlers(tuple(map(self._handlers, SERVICES)))
        self.address = ListenAddress(address.host, self._bound(address, tls))

    async def start(self) -> None:
        """Begin to answer."""
        await self._server.start()

    async def stop(self, grace_s: float = 2.0) -> None:
        """Finish the requests that are being read and stop listening."""
        await self._server.stop(grace=grace_s)

    def _handlers(self, service: OtlpService) -> grpc.GenericRpcHandler[bytes, ExportResponse]:
        async def export(_: AsyncIterator[bytes], context: _Context) -> ExportResponse:
            return await self._answer(service, context)

        handler = grpc.stream_unary_rpc_method_handler(export, response_serializer=_serialize)
        return grpc.method_handlers_generic_handler(service.name, {"Export": handler})

    def _bound(self, address: ListenAddress, tls: ServerTls | None) -> int:
        # gRPC writes a line of its own to stderr where an address is taken: it is asked only once ours is not
        listening_socket(address, "--grpc", "OTLP/gRPC").close()
        try:
            if tls is None:
                port = self._server.add_insecure_port(str(address))
            else:
                port = self._server.add_secure_port(str(address), tls.grpc_credentials())
        except RuntimeError:
            port = 0
        if not port:
            raise CannotListen(
                f"cannot listen for OTLP/gRPC on {address}: the port is taken or the host is not ours. "
                f"Stop what listens on port {address.port}, or choose another with --grpc {address.host}:PORT"
            )
        return port

    async def _answer(self, service: OtlpService, context: _Context) -> ExportResponse:
        metadata = dict(context.invocation_metadata() or ())
        if not self._tokens.admits(metadata.get("authorization")):
            self._intake.counts.requests_unauthorized += 1
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "expected a bearer token that is known here")
        try:
            self._intake.check_room()
            return await self._take(service, context)
        except TooLarge as error:
            await context.abort(_ENOUGH, cut(str(error), 1000))
        except MalformedSpan as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, cut(str(error), 1000))
        except Busy as busy:
            await _abort_for_now(context, busy)
        raise AssertionError("abort() raises")

    async def _take(self, service: OtlpService, context: _Context) -> ExportResponse:
        try:
            await asyncio.wait_for(self._turns.acquire(), _TURN_TIMEOUT_S)
        except TimeoutError:
            self._intake.counts.requests_busy += 1
            raise Busy("too many requests at once. Send this again later", 1) from None
        try:
            try:
                body = await asyncio.wait_for(context.read(), _SEND_TIMEOUT_S)
            except TimeoutError:
                self._intake.counts.requests_busy += 1
                raise Busy(f"the message did not come within {_SEND_TIMEOUT_S:g} s", 1, is_full=False) from None
            if not isinstance(body, bytes):
                raise MalformedSpan("expected one message, got none")
            return await self._intake.take(service, body, "protobuf")
        finally:
            self._turns.release()


def _serialize(response: ExportResponse) -> bytes:
    return response.SerializeToString()


async def _abort_for_now(context: _Context, busy: Busy) -> None:
    """Refuse so that exporters come back, with when in both places they look."""
    code = _ENOUGH if busy.is_full else grpc.StatusCode.UNAVAILABLE
    info = RetryInfo(retry_delay=Duration(seconds=busy.retry_after_s))
    detail = AnyMessage()
    detail.Pack(info)
    status = Status(code=code.value[0], message=str(busy), details=[detail])
    context.set_trailing_metadata(
        (
            ("google.rpc.retryinfo-bin", info.SerializeToString()),
            ("grpc-status-details-bin", status.SerializeToString()),
        )
    )
    await context.abort(code, str(busy))
