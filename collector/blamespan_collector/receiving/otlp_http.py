"""OTLP over HTTP: traces, logs and metrics, protobuf or JSON, plain or compressed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence

from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc import code_pb2  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from blamespan.annotate import cut
from blamespan.errors import MalformedSpan
from blamespan_collector.receiving.hosts import HostChecked
from blamespan_collector.receiving.http_server import HttpServer
from blamespan_collector.receiving.intake import Busy, Intake
from blamespan_collector.receiving.request_reader import Encoding, TooLarge
from blamespan_collector.receiving.signals import SERVICES, OtlpService
from blamespan_collector.receiving.tls import ServerTls
from blamespan_collector.receiving.tokens import BearerTokens
from blamespan_collector.settings import ListenAddress

_logger = logging.getLogger("blamespan.collector")

_ENCODINGS: dict[str, Encoding] = {"application/x-protobuf": "protobuf", "application/json": "json"}
_WINDOW_BITS = {"gzip": 31, "deflate": 15}
_CODES = {
    400: code_pb2.INVALID_ARGUMENT,
    401: code_pb2.UNAUTHENTICATED,
    404: code_pb2.NOT_FOUND,
    405: code_pb2.UNIMPLEMENTED,
    408: code_pb2.DEADLINE_EXCEEDED,
    413: code_pb2.RESOURCE_EXHAUSTED,
    415: code_pb2.INVALID_ARGUMENT,
    429: code_pb2.RESOURCE_EXHAUSTED,
    503: code_pb2.UNAVAILABLE,
}
_SEND_TIMEOUT_S = 60.0
"""How long a sender may take for its body."""
_INFLATED_AT_ONCE = 1024 * 1024
_REQUESTS_AT_ONCE = 4
"""Bodies of full size that may be in memory at once; smaller ones share that room."""


class HttpReceiver(HttpServer):
    """Serves OTLP's three paths on one address.

    Args:
        intake: Gets the bodies.
        address: Where to listen; port 0 for any free one.
        max_request_bytes: Largest body taken, after decompression.
        tls: Certificate and key; None: without TLS.
        tokens: Who may send.
        routes: What else is served.
        hosts: Further names that we are asked by.

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
        routes: Sequence[BaseRoute] = (),
        hosts: Iterable[str] = (),
    ) -> None:
        app = application(intake, max_request_bytes, tokens or BearerTokens(), routes)
        app.add_middleware(HostChecked, address=address, names=tuple(hosts), refuse=_refusal_of_host)
        super().__init__(app, address, flag="--http", what="OTLP/HTTP", tls=tls)


def application(
    intake: Intake, max_request_bytes: int, tokens: BearerTokens, routes: Sequence[BaseRoute] = ()
) -> Starlette:
    """Build the ASGI application.

    Whatever a sender does wrong is answered with a `google.rpc.Status` in the encoding of its request.
    """
    room = _RequestMemory(_REQUESTS_AT_ONCE * max_request_bytes)

    def export(service: OtlpService) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            if not tokens.admits(request.headers.get("authorization")):
                intake.counts.requests_unauthorized += 1
                reason = "expected a bearer token that is known here"
                raise HTTPException(401, reason, {"WWW-Authenticate": "Bearer"})
            encoding = _encoding(request)
            try:
                intake.check_room()
                with room.share() as share:
                    body = await _body(request, max_request_bytes, share)
                    return _answer(200, await intake.take(service, body, encoding), encoding)
            except TooLarge as error:
                raise HTTPException(413, str(error)) from error
            except MalformedSpan as error:
                raise HTTPException(400, str(error)) from error
            except Busy as busy:
                code = 429 if busy.is_full else 503
                raise HTTPException(code, str(busy), {"Retry-After": str(busy.retry_after_s)}) from busy

        return answer

    paths = [Route(service.path, export(service), methods=["POST"]) for service in SERVICES]
    handlers = {HTTPException: _refusal, Exception: _failure}
    return Starlette(routes=[*paths, *routes], exception_handlers=handlers)


class _RequestMemory:
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
        chunks = _inflate(chunks, coding)
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


async def _inflate(chunks: AsyncIterator[bytes], coding: str) -> AsyncIterator[bytes]:
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
                await asyncio.sleep(0)  # others are to be answered between the pieces of a bomb
                rest = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
        if inflater is not None and not inflater.eof:
            raise zlib.error("it ends too early")
    except zlib.error as error:
        raise HTTPException(400, f"expected a body compressed with {coding}, got one that is not: {error}") from error


def _encoding(request: Request) -> Encoding:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in _ENCODINGS:
        raise HTTPException(
            415, f"expected content-type application/x-protobuf or application/json, got {media_type!r}"
        )
    return _ENCODINGS[media_type]


def _too_large(max_bytes: int) -> HTTPException:
    return HTTPException(413, f"expected at most {max_bytes} bytes after decompression, got more. Send smaller batches")


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, code_pb2.UNKNOWN)
    answer = _status(request, error.status_code, code, error.detail)
    answer.headers.update(error.headers or {})
    return answer


def _refusal_of_host(request: Request, reason: str) -> Response:
    return _status(request, 421, code_pb2.PERMISSION_DENIED, reason)


async def _failure(request: Request, error: Exception) -> Response:
    _logger.error("a request failed: %s", type(error).__name__, exc_info=error)
    return _status(request, 500, code_pb2.INTERNAL, f"the collector failed: {type(error).__name__}. See its log")


def _status(request: Request, status_code: int, code: int, reason: str) -> Response:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return _answer(status_code, Status(code=code, message=cut(reason, 1000)), _ENCODINGS.get(media_type, "json"))


def _answer(status_code: int, message: Message, encoding: Encoding) -> Response:
    if encoding == "protobuf":
        return Response(message.SerializeToString(), status_code, media_type="application/x-protobuf")
    return Response(json_format.MessageToJson(message, indent=None), status_code, media_type="application/json")
