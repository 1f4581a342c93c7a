"""Sends annotated traces on to OTLP backends, over HTTP or gRPC."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import cast
from urllib.parse import urlsplit, urlunsplit

import grpc
import grpc.aio
import httpx
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from blamespan.annotate import cut
from blamespan.errors import ConfigError
from blamespan.otlp import spans_to_proto
from blamespan.spans import Span
from blamespan_collector.sinks import Patience, Sink, TryAgain, Undelivered

__all__ = ["GrpcForwarder", "HttpForwarder", "forwarder"]

_logger = logging.getLogger("blamespan.collector")

MAX_BATCH_BYTES = 4 * 1024 * 1024 - 64 * 1024
"""Largest request sent: gRPC servers take 4 MiB unless told otherwise."""
_ATTEMPT_TIMEOUT_S = 10.0
_RETRIED_HTTP = {429, 502, 503, 504}
_RETRIED_GRPC = {
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
}
"""As OTLP's specification lists them; RESOURCE_EXHAUSTED only where the server says when to come back."""


class TooLarge(Exception):
    """The backend takes no request of this size."""


def forwarder(url: str, headers: Sequence[tuple[str, str]] = ()) -> Sink:
    """Make the sink for a backend's URL.

    Args:
        url: `http(s)://host:port[/path]` for OTLP/HTTP, where no path means `/v1/traces`; or
            `grpc://host:port`, `grpcs://host:port` for OTLP/gRPC.
        headers: Sent with every request.

    Raises:
        ConfigError: if the URL is something else.
    """
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_whole = False
    if not is_whole or parts.scheme not in ("http", "https", "grpc", "grpcs"):
        raise ConfigError(
            f"expected a backend's URL, http(s)://HOST:PORT or grpc(s)://HOST:PORT, got {url!r}. "
            "Set it like --forward http://localhost:14318"
        )
    if parts.scheme.startswith("http"):
        return HttpForwarder(url, headers)
    if parts.port is None or parts.path.strip("/"):
        raise ConfigError(f"expected grpc(s)://HOST:PORT without a path, got {url!r}")
    return GrpcForwarder(parts.netloc.rpartition("@")[2], parts.scheme == "grpcs", headers)


class _Forwarder:
    """Cuts traces into requests and sees each through."""

    name: str

    async def deliver(self, traces: Sequence[Sequence[Span]], patience: Patience) -> None:
        """Send *traces* in as few requests as fit; a request the backend finds too large is sent in halves."""
        failed: list[Undelivered] = []
        todo = [[span for spans in traces for span in spans]]
        while todo:
            spans = todo.pop()
            request = await asyncio.to_thread(_request, spans)
            if request is None:
                todo += _halves(spans)
                continue
            try:
                await patience.persist(partial(self._send, request), len(spans))
            except TooLarge as error:
                if len(spans) > 1:
                    todo += _halves(spans)
                else:
                    failed.append(Undelivered(f"a span is too large for it ({error})", 1))
            except Undelivered as error:
                failed.append(error)
        if failed:
            raise Undelivered(str(failed[0]), sum(error.spans for error in failed))

    async def _send(self, request: ExportTraceServiceRequest) -> None:
        """Send one request.

        Raises:
            TryAgain: if it may work later.
            TooLarge: if it may work in pieces.
            Undelivered: if it will not work.
        """
        raise NotImplementedError

    def _note(self, response: ExportTraceServiceResponse) -> None:
        said = response.partial_success
        if said.rejected_spans or said.error_message:
            _logger.warning("%s refused %d spans: %r", self.name, said.rejected_spans, cut(said.error_message, 500))


class HttpForwarder(_Forwarder):
    """OTLP/HTTP with gzipped protobuf."""

    def __init__(self, url: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        parts = urlsplit(url)
        self._url = urlunsplit(parts._replace(path=parts.path.rstrip("/") or "/v1/traces"))
        self.name = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))
        own = {
            "content-type": "application/x-protobuf",
            "content-encoding": "gzip",
            "user-agent": "blamespan-collector",
        }
        self._client = httpx.AsyncClient(headers={**own, **dict(headers)}, timeout=_ATTEMPT_TIMEOUT_S)

    async def _send(self, request: ExportTraceServiceRequest) -> None:
        body = await asyncio.to_thread(lambda: gzip.compress(request.SerializeToString(), compresslevel=1))
        try:
            answer = await self._client.post(self._url, content=body)
        except httpx.TransportError as error:
            raise TryAgain(f"{type(error).__name__}: {error}") from error
        except httpx.HTTPError as error:
            raise Undelivered(f"{type(error).__name__}: {error}", _count(request)) from error
        if answer.status_code in _RETRIED_HTTP:
            raise TryAgain(f"HTTP {answer.status_code}", _retry_after_s(answer.headers.get("retry-after")))
        if answer.status_code == 413:
            raise TooLarge("HTTP 413")
        if not answer.is_success:
            raise Undelivered(f"HTTP {answer.status_code}: {_reason(answer)!r}", _count(request))
        if answer.headers.get("content-type", "").startswith("application/x-protobuf"):
            try:
                self._note(ExportTraceServiceResponse.FromString(answer.content))
            except DecodeError:
                _logger.debug("%s accepted a batch with an answer that is not OTLP", self.name)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class GrpcForwarder(_Forwarder):
    """OTLP/gRPC with gzip."""

    def __init__(self, target: str, is_secure: bool, headers: Sequence[tuple[str, str]] = ()) -> None:
        self.name = f"{'grpcs' if is_secure else 'grpc'}://{target}"
        self._metadata = tuple((key.lower(), value) for key, value in headers)
        gzipped = grpc.Compression.Gzip
        self._channel = (
            grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(), compression=gzipped)
            if is_secure
            else grpc.aio.insecure_channel(target, compression=gzipped)
        )
        self._export = TraceServiceStub(self._channel).Export  # type: ignore[no-untyped-call]  # generated code

    async def _send(self, request: ExportTraceServiceRequest) -> None:
        try:
            answer = await self._export(request, timeout=_ATTEMPT_TIMEOUT_S, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            reason = f"{error.code().name}: {cut(error.details() or '', 300)!r}"
            after_s = _retry_info_s(error)
            if error.code() in _RETRIED_GRPC or after_s is not None:
                raise TryAgain(reason, after_s) from error
            if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise TooLarge(reason) from error
            raise Undelivered(reason, _count(request)) from error
        self._note(answer)

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close(grace=None)


def _request(spans: Sequence[Span]) -> ExportTraceServiceRequest | None:
    """Write a request; None where it would be too large and can be halved."""
    request = ExportTraceServiceRequest(resource_spans=spans_to_proto(spans))
    return request if len(spans) == 1 or request.ByteSize() <= MAX_BATCH_BYTES else None


def _halves(spans: list[Span]) -> Iterator[list[Span]]:
    """Give the later half first: they are taken from the end."""
    middle = len(spans) // 2
    yield spans[middle:]
    yield spans[:middle]


def _count(request: ExportTraceServiceRequest) -> int:
    return sum(len(scoped.spans) for group in request.resource_spans for scoped in group.scope_spans)


def _retry_after_s(said: str | None) -> float | None:
    """Read `Retry-After`: seconds or a date; None where it says nothing one can use."""
    if not said:
        return None
    try:
        return max(0.0, float(said))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def _retry_info_s(error: grpc.aio.AioRpcError) -> float | None:
    metadata = cast("Iterable[tuple[str, str | bytes]]", error.trailing_metadata() or ())
    for key, value in metadata:
        if key == "google.rpc.retryinfo-bin" and isinstance(value, bytes):
            try:
                delay = RetryInfo.FromString(value).retry_delay
            except DecodeError:
                return None
            return float(delay.seconds + delay.nanos / 1e9)
    return None


def _reason(answer: httpx.Response) -> str:
    if answer.headers.get("content-type", "").startswith("application/x-protobuf"):
        try:
            return cut(Status.FromString(answer.content).message, 300)
        except DecodeError:
            return ""
    return cut(answer.text, 300)
