"""Sends spans, logs and metrics on to OTLP backends, over HTTP or gRPC."""

from __future__ import annotations

import asyncio
import gzip
import logging
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import cast
from urllib.parse import SplitResult, urlsplit, urlunsplit

import grpc
import grpc.aio
import httpx
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from blamespan.annotate import cut
from blamespan.errors import ConfigError
from blamespan_collector.delivering.renewed import Renewed
from blamespan_collector.delivering.sinks import (
    Doubtful,
    Oversized,
    Receipt,
    Refused,
    Sink,
    Stateless,
    TryAgain,
    Undelivered,
)
from blamespan_collector.receiving.signals import SERVICES, ExportResponse, Service
from blamespan_collector.settings import Address
from blamespan_collector.worker.state import Kind

__all__ = ["Client", "GrpcForwarder", "HttpForwarder", "forwarder", "undelivered"]

_logger = logging.getLogger("blamespan.collector")

MAX_BATCH_BYTES = 4 * 1024 * 1024 - 64 * 1024
"""Largest request sent: gRPC servers take 4 MiB unless told otherwise."""
ATTEMPT_TIMEOUT_S = 10.0
_SERVICES: dict[Kind, Service] = {service.signal: service for service in SERVICES}
_RETRIED_HTTP = {401, 403, 408, 425, 429, 502, 503, 504}
"""As OTLP's specification lists them, and what speaks of us rather than of the batch: an expired token, a slow link."""
_DOUBTFUL_HTTP = {500, 507, 520, 521, 522, 523, 524, 530}
_RETRIED_GRPC = {
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
}
"""As above; RESOURCE_EXHAUSTED only where the server says when to come back."""
_DOUBTFUL_GRPC = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Client:
    """How we come to a backend.

    Attributes:
        headers: Sent with every request.
        ca: Certificates (PEM) to trust instead of the system's.
        cert: Certificate (PEM) that we show.
        key: Its key (PEM).
        max_bytes: Largest request sent.
    """

    headers: tuple[tuple[str, str], ...] = ()
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    max_bytes: int = MAX_BATCH_BYTES

    @property
    def files(self) -> tuple[Path | None, ...]:
        """List the files of its TLS."""
        return self.ca, self.cert, self.key

    def ssl_context(self) -> ssl.SSLContext:
        """Make what HTTPS needs.

        Raises:
            ConfigError: if a file is not what it should be.
        """
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"expected PEM files in --forward-ca, --forward-cert and --forward-key: {error}"
            ) from error
        return context

    def grpc_credentials(self) -> grpc.ChannelCredentials:
        """Make what gRPC over TLS needs.

        Raises:
            ConfigError: if a file cannot be read.
        """
        self.ssl_context()  # names what is wrong; gRPC would fail at every request, without saying why
        ca, cert, key = (path.read_bytes() if path else None for path in (self.ca, self.cert, self.key))
        return grpc.ssl_channel_credentials(ca, key, cert)


def forwarder(url: str, client: Client | None = None, kinds: Iterable[Kind] = ("traces", "logs", "metrics")) -> Sink:
    """Make the sink for a backend's URL.

    Args:
        url: `http(s)://host:port[/path]` for OTLP/HTTP, where the path is that of its traces and none means
            `/v1/traces`; or `grpc://host:port`, `grpcs://host:port` for OTLP/gRPC.
        client: How to come there.
        kinds: What it gets.

    Raises:
        ConfigError: if the URL is something else.
    """
    client = client or Client()
    parts = url_parts(url, ("http", "https", "grpc", "grpcs"), "--forward http://localhost:14318")
    if parts.scheme.startswith("http"):
        return HttpForwarder(url, client, frozenset(kinds))
    if parts.port is None or parts.path.strip("/"):
        raise ConfigError(f"expected grpc(s)://HOST:PORT without a path, got {url!r}")
    return GrpcForwarder(parts, client, frozenset(kinds))


def url_parts(url: str, schemes: Sequence[str], example: str) -> SplitResult:
    """Read a backend's URL.

    Raises:
        ConfigError: if it is none, or not of *schemes*.
    """
    try:
        parts = urlsplit(url)
        if parts.hostname and (parts.port is None or parts.port > 0) and parts.scheme in schemes:
            return parts
    except ValueError:
        pass
    wanted = "http(s)://HOST:PORT" + (" or grpc(s)://HOST:PORT" if "grpc" in schemes else "")
    raise ConfigError(f"expected a backend's URL, {wanted}, got {url!r}. Set it like {example}")


class HttpForwarder(Stateless):
    """OTLP/HTTP with protobuf, gzipped where it leaves the machine."""

    def __init__(self, url: str, client: Client, kinds: frozenset[Kind]) -> None:
        parts = urlsplit(url)
        self._urls = {kind: urlunsplit(parts._replace(path=_path(parts.path, kind))) for kind in kinds}
        self.name = public_name(parts)
        self.kinds = kinds
        self.max_bytes = client.max_bytes
        self._is_near = Address(parts.hostname or "", 1).is_loopback
        own = {"content-type": "application/x-protobuf", "user-agent": "blamespan-collector"}
        if not self._is_near:
            own["content-encoding"] = "gzip"
        is_tls = parts.scheme == "https"
        if is_tls:
            client.ssl_context()  # what is wrong with it is said now
        # What the environment says of proxies is for other hosts
        self._connection = Renewed(
            lambda: httpx.AsyncClient(
                headers={**own, **dict(client.headers)},
                timeout=ATTEMPT_TIMEOUT_S,
                verify=client.ssl_context() if is_tls else False,
                trust_env=not self._is_near,
            ),
            httpx.AsyncClient.aclose,
            client.files if is_tls else (),
        )

    async def send(self, kind: Kind, payloads: Sequence[bytes]) -> Receipt:
        """Send payloads as one request.

        Raises:
            Undelivered: if they were not taken.
        """
        body = b"".join(payloads)  # messages one after the other are one message with all that is in them
        if not self._is_near:
            body = await asyncio.to_thread(gzip.compress, body, 1)
        try:
            answer = await (await self._connection.get()).post(self._urls[kind], content=body)
        except httpx.TransportError as error:
            raise TryAgain(f"{type(error).__name__}: {error}") from error
        except httpx.HTTPError as error:
            raise Refused(f"{type(error).__name__}: {error}") from error
        if not answer.is_success:
            raise undelivered(answer, is_optional=kind != "traces")
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return _receipt(self.name, _SERVICES[kind], answer.content, is_json=is_json)

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()


class GrpcForwarder(Stateless):
    """OTLP/gRPC, gzipped where it leaves the machine."""

    def __init__(self, parts: SplitResult, client: Client, kinds: frozenset[Kind]) -> None:
        target = parts.netloc.rpartition("@")[2]
        self.name = f"{parts.scheme}://{target}"
        self.kinds = kinds
        self.max_bytes = client.max_bytes
        self._metadata = tuple((key.lower(), value) for key, value in client.headers)
        self._compression = (
            grpc.Compression.NoCompression if Address(parts.hostname or "", 1).is_loopback else grpc.Compression.Gzip
        )
        self._target = target
        self._client = client if parts.scheme == "grpcs" else None
        if self._client:
            self._client.grpc_credentials()  # what is wrong with them is said now
        self._channel = Renewed(self._connected, _close, self._client.files if self._client else ())

    async def send(self, kind: Kind, payloads: Sequence[bytes]) -> Receipt:
        """Send payloads as one request.

        Raises:
            Undelivered: if they were not taken.
        """
        service = _SERVICES[kind]
        export = (await self._channel.get()).unary_unary(
            f"/{service.name}/Export", request_serializer=None, response_deserializer=None
        )
        try:
            answer = await export(
                b"".join(payloads), timeout=ATTEMPT_TIMEOUT_S, metadata=self._metadata, compression=self._compression
            )
        except grpc.aio.AioRpcError as error:
            raise _undelivered_grpc(error) from error
        return _receipt(self.name, service, answer)

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()

    def _connected(self) -> grpc.aio.Channel:
        options = [("grpc.max_reconnect_backoff_ms", 10_000)]
        if self._client is None:
            return grpc.aio.insecure_channel(self._target, options=options)
        return grpc.aio.secure_channel(self._target, self._client.grpc_credentials(), options=options)


async def _close(channel: grpc.aio.Channel) -> None:
    await channel.close(grace=None)


def public_name(parts: SplitResult) -> str:
    """Name a URL without its credentials and query."""
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))


def undelivered(answer: httpx.Response, *, is_optional: bool = False) -> Undelivered:
    """Say what an HTTP status other than success means for a batch.

    Args:
        answer: The answer.
        is_optional: Whether a backend may lack the path altogether, as many take no logs.
    """
    status = answer.status_code
    reason = f"HTTP {status}: {_reason(answer)!r}"
    if status in _RETRIED_HTTP or (status == 404 and not is_optional):
        return TryAgain(reason, _retry_after_s(answer.headers.get("retry-after")))
    if status == 413:
        return Oversized(reason)
    return Doubtful(reason) if status in _DOUBTFUL_HTTP else Refused(reason)


def _undelivered_grpc(error: grpc.aio.AioRpcError) -> Undelivered:
    reason = f"{error.code().name}: {cut(error.details() or '', 300)!r}"
    after_s = _retry_info_s(error)
    if error.code() in _RETRIED_GRPC or after_s is not None:
        return TryAgain(reason, after_s)
    if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
        return Oversized(reason)
    return Doubtful(reason) if error.code() in _DOUBTFUL_GRPC else Refused(reason)


def _path(path: str, kind: Kind) -> str:
    """Find a signal's path beside that of the traces."""
    path = path.rstrip("/") or "/v1/traces"
    if kind == "traces":
        return path
    return f"{path.removesuffix('/v1/traces')}/v1/{kind}"


def _receipt(name: str, service: Service, answer: bytes, *, is_json: bool = False) -> Receipt:
    """Read what a backend says to what it took; one that says something else than OTLP took all of it."""
    response: ExportResponse = service.response()
    try:
        if is_json:
            json_format.Parse(answer, response, ignore_unknown_fields=True)
        else:
            response.ParseFromString(answer)
    except (DecodeError, json_format.ParseError, ValueError, RecursionError):
        _logger.debug("%s accepted a batch with an answer that is not OTLP", name)
        return Receipt()
    said = response.partial_success
    rejected = next((value for field, value in said.ListFields() if field.name.startswith("rejected_")), 0)
    if rejected > 0:
        told = cut(said.error_message, 500)
        return Receipt(rejected=rejected, reason=f"of a request it took, {rejected} {_noun(service)}: {told!r}")
    if said.error_message:
        _logger.warning("%s took all of it, with a warning: %r", name, cut(said.error_message, 500))
    return Receipt()


def _noun(service: Service) -> str:
    return {"traces": "spans", "logs": "log records", "metrics": "data points"}[service.signal]


def _retry_after_s(said: str | None) -> float | None:
    """Read `Retry-After`: seconds or a date; None where it says nothing one can use."""
    if not said:
        return None
    try:
        seconds = float(said)
        return max(0.0, seconds) if seconds == seconds else None
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def _retry_info_s(error: grpc.aio.AioRpcError) -> float | None:
    metadata = cast("Iterable[tuple[str, str | bytes]]", error.trailing_metadata() or ())
    for key, value in metadata:
        found = _retry_delay_s(key, value) if isinstance(value, bytes) else None
        if found is not None:
            return found
    return None


def _retry_delay_s(key: str, value: bytes) -> float | None:
    """Read `RetryInfo`, by itself or among a status' details."""
    try:
        if key == "google.rpc.retryinfo-bin":
            delay = RetryInfo.FromString(value).retry_delay
            return float(delay.seconds + delay.nanos / 1e9)
        if key == "grpc-status-details-bin":
            for detail in Status.FromString(value).details:
                info = RetryInfo()
                if detail.Unpack(info):
                    return float(info.retry_delay.seconds + info.retry_delay.nanos / 1e9)
    except DecodeError:
        pass
    return None


def _reason(answer: httpx.Response) -> str:
    if answer.headers.get("content-type", "").startswith("application/x-protobuf"):
        try:
            return cut(Status.FromString(answer.content).message, 300)
        except DecodeError:
            return ""
    return cut(answer.text, 300)
