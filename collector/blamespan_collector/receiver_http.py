"""OTLP over HTTP: `POST /v1/traces`, protobuf or JSON, plain or compressed; and `GET /healthz`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import zlib
from collections.abc import AsyncIterator, Callable, Iterator

import uvicorn
from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc import code_pb2  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from blamespan.annotate import cut
from blamespan.errors import MalformedSpan
from blamespan_collector.intake import Busy, Encoding, Intake
from blamespan_collector.settings import Address, CannotListen

__all__ = ["HttpReceiver", "application"]

_logger = logging.getLogger("blamespan.collector")

_ENCODINGS: dict[str, Encoding] = {"application/x-protobuf": "protobuf", "application/json": "json"}
_WINDOW_BITS = {"gzip": 31, "deflate": 15}
_CODES = {
    400: code_pb2.INVALID_ARGUMENT,
    404: code_pb2.NOT_FOUND,
    405: code_pb2.UNIMPLEMENTED,
    408: code_pb2.DEADLINE_EXCEEDED,
    413: code_pb2.RESOURCE_EXHAUSTED,
    415: code_pb2.INVALID_ARGUMENT,
    503: code_pb2.UNAVAILABLE,
}
_SEND_TIMEOUT_S = 60.0
"""How long a sender may take for its body."""
_KEEP_ALIVE_S = 75
"""Longer than the 5 s between the batches of OpenTelemetry's exporters: uvicorn's own 5 s would race them."""
_CONNECTIONS = 512
_INFLATED_AT_ONCE = 1024 * 1024
_REQUESTS_AT_ONCE = 4
"""Bodies of full size that may be in memory at once; smaller ones share that room."""


class HttpReceiver:
    """Serves `application` on one address.

    Args:
        intake: Gets the bodies.
        address: Where to listen; port 0 for any free one.
        max_request_bytes: Largest body taken, after decompression.

    Raises:
        CannotListen: if the address cannot be listened on.
    """

    def __init__(self, intake: Intake, address: Address, max_request_bytes: int) -> None:
        self._socket = _listening(address)
        self.address = Address(address.host, self._socket.getsockname()[1])
        config = uvicorn.Config(
            application(intake, max_request_bytes),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=2,
            limit_concurrency=_CONNECTIONS,
        )
        self._server = _Server(config)
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to answer."""
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))

    async def stop(self) -> None:
        """Finish the requests that are being read and stop listening."""
        self._server.should_exit = True
        if self._serving:
            await self._serving
        self._socket.close()


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone: they belong to the program we run in."""
        yield


def application(intake: Intake, max_request_bytes: int) -> Starlette:
    """Build the ASGI application.

    Whatever a sender does wrong is answered with a `google.rpc.Status` in the encoding of its request.
    """
    room = _Room(_REQUESTS_AT_ONCE * max_request_bytes)

    async def traces(request: Request) -> Response:
        encoding = _encoding(request)
        try:
            with room.share() as share:
                body = await _body(request, max_request_bytes, share)
                return _answer(200, await intake.take(body, encoding), encoding)
        except MalformedSpan as error:
            raise HTTPException(400, str(error)) from error
        except Busy as busy:
            raise HTTPException(503, str(busy), {"Retry-After": str(busy.retry_after_s)}) from busy

    async def other_signals(request: Request) -> Response:
        raise HTTPException(
            404, f"expected traces on /v1/traces, got {request.url.path!r}: send logs, metrics elsewhere"
        )

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok", **intake.counts()})

    routes = [
        Route("/v1/traces", traces, methods=["POST"]),
        Route("/v1/logs", other_signals, methods=["POST"]),
        Route("/v1/metrics", other_signals, methods=["POST"]),
        Route("/healthz", health, methods=["GET"]),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _refusal, Exception: _failure})


class _Room:
    """What the bodies of all connections may take together."""

    def __init__(self, max_bytes: int) -> None:
        self._left_bytes = max_bytes

    @contextlib.contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Lend room for one request: call what this gives with each further number of bytes."""
        taken_bytes = 0

        def take(size_bytes: int) -> None:
            nonlocal taken_bytes
            if size_bytes > self._left_bytes:
                raise Busy("too many large requests at once. Send this again later")
            self._left_bytes -= size_bytes
            taken_bytes += size_bytes

        try:
            yield take
        finally:
            self._left_bytes += taken_bytes


async def _body(request: Request, max_bytes: int, take_room: Callable[[int], None]) -> bytes:
    """Read and inflate the body, never holding more than *max_bytes* of it."""
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > max_bytes:
        raise _too_large(max_bytes)
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    chunks = _chunks(request, max_bytes)
    if coding in _WINDOW_BITS:
        chunks = _inflated(chunks, coding)
    elif coding != "identity":
        raise HTTPException(415, f"expected content-encoding gzip, deflate or identity, got {coding!r}")
    body = bytearray()
    try:
        async with asyncio.timeout(_SEND_TIMEOUT_S):
            async for chunk in chunks:
                if len(body) + len(chunk) > max_bytes:
                    raise _too_large(max_bytes)
                take_room(len(chunk))
                body += chunk
    except TimeoutError as error:
        raise HTTPException(408, f"expected the whole body within {_SEND_TIMEOUT_S:g} s") from error
    except ClientDisconnect as error:
        raise HTTPException(400, "the sender went away in the middle of its body") from error
    return bytes(body)


async def _chunks(request: Request, max_bytes: int) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > max_bytes:
            raise _too_large(max_bytes)
        yield chunk


async def _inflated(chunks: AsyncIterator[bytes], coding: str) -> AsyncIterator[bytes]:
    """Inflate piece by piece: a kilobyte may hold a gigabyte, and its reader must be able to stop."""
    inflater = None
    try:
        async for chunk in chunks:
            rest, piece = chunk, b""
            while rest or len(piece) == _INFLATED_AT_ONCE:
                if inflater is None or inflater.eof:  # gzip may hold several members, one after the other
                    if not rest:
                        break
                    inflater = zlib.decompressobj(_WINDOW_BITS[coding])
                piece = inflater.decompress(rest, _INFLATED_AT_ONCE)
                yield piece
                rest = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
        if inflater is not None and not inflater.eof:
            raise zlib.error("it ends too early")
    except zlib.error as error:
        raise HTTPException(400, f"expected a body compressed with {coding}, got one that is not: {error}") from error


def _encoding(request: Request) -> Encoding:
    said = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if said not in _ENCODINGS:
        raise HTTPException(415, f"expected content-type application/x-protobuf or application/json, got {said!r}")
    return _ENCODINGS[said]


def _too_large(max_bytes: int) -> HTTPException:
    return HTTPException(413, f"expected at most {max_bytes} bytes after decompression, got more. Send smaller batches")


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, code_pb2.UNKNOWN)
    answer = _status(request, error.status_code, code, error.detail)
    answer.headers.update(error.headers or {})
    return answer


async def _failure(request: Request, error: Exception) -> Response:
    _logger.error("a request failed: %s", type(error).__name__, exc_info=error)
    return _status(request, 500, code_pb2.INTERNAL, f"the collector failed: {type(error).__name__}. See its log")


def _status(request: Request, status_code: int, code: int, reason: str) -> Response:
    said = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return _answer(status_code, Status(code=code, message=cut(reason, 1000)), _ENCODINGS.get(said, "json"))


def _answer(status_code: int, message: Message, encoding: Encoding) -> Response:
    if encoding == "protobuf":
        return Response(message.SerializeToString(), status_code, media_type="application/x-protobuf")
    return Response(json_format.MessageToJson(message, indent=None), status_code, media_type="application/json")


def _listening(address: Address) -> socket.socket:
    try:
        family, *_ = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        return socket.create_server((address.host, address.port), family=family, backlog=1024)
    except OSError as error:
        raise CannotListen(
            f"cannot listen for OTLP/HTTP on {address}: {error.strerror or error}. "
            f"Stop what listens on port {address.port}, or choose another with --http {address.host}:PORT"
        ) from error
