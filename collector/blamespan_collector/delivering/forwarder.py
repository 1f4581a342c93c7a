"""Sends spans, logs and metrics on to OTLP backends, over HTTP or gRPC."""

from __future__ import annotations

import asyncio
import gzip
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import cast
from urllib.parse import SplitResult, urlsplit

import grpc
import grpc.aio
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from blamespan.annotate import cut
from blamespan.errors import ConfigError
from blamespan.http_client import HttpResponse
from blamespan_collector.delivering.backend import (
    MAX_BATCH_BYTES,
    RULE,
    AttemptLimit,
    BackendAccess,
    Poster,
    Renewed,
    public_name,
    signal_url,
    url_parts,
)
from blamespan_collector.delivering.sinks import (
    PARTIAL,
    Doubtful,
    Oversized,
    Receipt,
    Refused,
    Remote,
    TryAgain,
    Undelivered,
)
from blamespan_collector.receiving.signals import SERVICES, ExportResponse, OtlpService
from blamespan_collector.settings import ListenAddress
from blamespan_collector.wire.outgoing import Kind

_logger = logging.getLogger("blamespan.collector")

_SERVICES: dict[Kind, OtlpService] = {service.signal: service for service in SERVICES}
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
"""As above; RESOURCE_EXHAUSTED where the server says when to come back, else it is doubtful: a quota, or this batch."""
_DOUBTFUL_GRPC = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.RESOURCE_EXHAUSTED}
_TOO_LARGE = re.compile(r"larger than|too large|exceed.{0,40}size|size.{0,40}exceed|message size", re.IGNORECASE)
"""What servers say of a message that is too large, which gRPC gives no code of its own: it shares that of quotas."""


def forwarder(
    url: str, access: BackendAccess | None = None, kinds: Iterable[Kind] = ("traces", "logs", "metrics")
) -> Remote:
    """Make the sink for a backend's URL.

    Args:
        url: `http(s)://host:port[/path]` for OTLP/HTTP, read by `addresses.RULE`; `traces=http(s)://...` for one that
            takes traces alone, at exactly that URL; or `grpc://host:port`, `grpcs://host:port` for OTLP/gRPC.
        access: How to come there.
        kinds: What it gets.

    Raises:
        ConfigError: if the URL is something else.
    """
    access = access or BackendAccess()
    exact = url.removeprefix("traces=")
    parts = url_parts(exact, ("http", "https", "grpc", "grpcs"), "--forward http://localhost:14318")
    if parts.scheme.startswith("http"):
        urls: dict[Kind, str] = {kind: signal_url(exact, kind) for kind in kinds}
        return HttpForwarder(parts, access, urls if exact == url else {"traces": exact})
    if exact != url or parts.port is None or parts.path.strip("/"):
        raise ConfigError(f"expected grpc(s)://HOST:PORT without a path, got {url!r}")
    return GrpcForwarder(parts, access, frozenset(kinds))


class HttpForwarder(Remote):
    """OTLP/HTTP with protobuf, gzipped where it leaves the machine.

    Args:
        parts: The URL as it was given, which names the sink.
        access: How to come there.
        urls: Where each kind goes.
    """

    max_bytes = MAX_BATCH_BYTES

    def __init__(self, parts: SplitResult, access: BackendAccess, urls: Mapping[Kind, str]) -> None:
        self._urls = dict(urls)
        self.name = public_name(parts)
        self.kinds = frozenset(urls)
        self._limits = {kind: AttemptLimit() for kind in urls}
        self._is_near = ListenAddress(parts.hostname or "", 1).is_loopback
        own = {"content-type": "application/x-protobuf", "user-agent": "blamespan-collector"}
        if not self._is_near:
            own["content-encoding"] = "gzip"
        if parts.scheme == "https":
            access.ssl_context()  # what is wrong with it is said now
        self._poster = Poster(
            own, dict(access.headers), access, is_near=self._is_near, is_secure=parts.scheme == "https"
        )

    def addresses(self) -> dict[Kind, str]:
        """Return where each kind goes, without credentials."""
        return {kind: public_name(urlsplit(url)) for kind, url in self._urls.items()}

    async def probe(self, kind: Kind) -> str:
        """Send a request with nothing in it.

        Raises:
            Undelivered: if it is not taken.
        """
        return f"HTTP {(await self._post(kind, b'')).status}"

    async def send(self, kind: Kind, payloads: Sequence[bytes]) -> Receipt:
        """Send payloads as one request.

        Raises:
            Undelivered: if they were not taken.
        """
        answer = await self._post(kind, b"".join(payloads))  # one after the other, they are one message
        return _receipt(self.name, _SERVICES[kind], answer.content, is_json=answer.media_type == "application/json")

    async def close(self) -> None:
        """Close the connections."""
        await self._poster.close()

    async def _post(self, kind: Kind, body: bytes) -> HttpResponse:
        if not self._is_near:
            body = await asyncio.to_thread(gzip.compress, body, 1)
        answer = await self._poster.request(self._limits[kind], "POST", self._urls[kind], body)
        if not answer.is_success:
            raise http_failure(answer, is_optional=kind != "traces", rule=RULE)
        if answer.is_page:  # some proxy's, or a site's: who takes spans does not answer so
            raise TryAgain(f"HTTP {answer.status} with a page for people from {answer.url}. {_advice(RULE)}")
        return answer


class GrpcForwarder(Remote):
    """OTLP/gRPC, gzipped where it leaves the machine."""

    max_bytes = MAX_BATCH_BYTES

    def __init__(self, parts: SplitResult, access: BackendAccess, kinds: frozenset[Kind]) -> None:
        target = parts.netloc.rpartition("@")[2]
        self.name = f"{parts.scheme}://{target}"
        self.kinds = kinds
        self._metadata = tuple((key.lower(), value) for key, value in access.headers)
        self._compression = (
            grpc.Compression.NoCompression
            if ListenAddress(parts.hostname or "", 1).is_loopback
            else grpc.Compression.Gzip
        )
        self._target = target
        self._access = access if parts.scheme == "grpcs" else None
        if self._access:
            self._access.grpc_credentials()  # what is wrong with them is said now
        self._limits = {kind: AttemptLimit() for kind in kinds}
        self._channel = Renewed(self._connect, _close, self._access.files if self._access else ())

    def addresses(self) -> dict[Kind, str]:
        """Return where each kind goes."""
        return dict.fromkeys(self.kinds, self.name)

    async def probe(self, kind: Kind) -> str:
        """Send a request with nothing in it.

        Raises:
            Undelivered: if it is not taken.
        """
        await self._export(kind, b"")
        return "OK"

    async def send(self, kind: Kind, payloads: Sequence[bytes]) -> Receipt:
        """Send payloads as one request.

        Raises:
            Undelivered: if they were not taken.
        """
        return _receipt(self.name, _SERVICES[kind], await self._export(kind, b"".join(payloads)))

    async def _export(self, kind: Kind, request: bytes) -> bytes:
        export = (await self._channel.get()).unary_unary(
            f"/{_SERVICES[kind].name}/Export", request_serializer=None, response_deserializer=None
        )

        async def attempt(limit_s: float) -> bytes:
            try:
                return cast(
                    "bytes",
                    await export(request, timeout=limit_s, metadata=self._metadata, compression=self._compression),
                )
            except grpc.aio.AioRpcError as error:
                if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise TimeoutError from error
                raise _grpc_failure(error, is_optional=kind != "traces") from error

        return await self._limits[kind].run(attempt)

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()

    def _connect(self) -> grpc.aio.Channel:
        options = [("grpc.max_reconnect_backoff_ms", 10_000)]
        if self._access is None:
            return grpc.aio.insecure_channel(self._target, options=options)
        return grpc.aio.secure_channel(self._target, self._access.grpc_credentials(), options=options)


async def _close(channel: grpc.aio.Channel) -> None:
    await channel.close(grace=None)


def http_failure(answer: HttpResponse, *, is_optional: bool = False, rule: str = "") -> Undelivered:
    """Return what an HTTP status other than success means for a batch.

    Args:
        answer: The answer.
        is_optional: Whether a backend may lack the path altogether, as many take no logs.
        rule: How its URL is made of what was given, where that may be the reason.
    """
    status = answer.status
    reason = f"HTTP {status}: {_reason(answer)!r}"
    if status < 400:
        target = cut(answer.headers.get("location", ""), 300)
        return TryAgain(
            f"HTTP {status}: {answer.url} leads to {target!r}, where we do not go. Is that the right address?"
        )
    if status == 404 and not is_optional:
        return TryAgain(f"{reason} from {answer.url}. {_advice(rule)}")
    if status in _RETRIED_HTTP:
        return TryAgain(reason, answer.retry_after_s())
    if status == 413:
        return Oversized(reason)
    return Doubtful(reason) if status in _DOUBTFUL_HTTP else Refused(reason)


def _advice(rule: str) -> str:
    return f"Is the address right? {rule}. Try it with --check" if rule else "Is the address right?"


def _grpc_failure(error: grpc.aio.AioRpcError, *, is_optional: bool) -> Undelivered:
    details = error.details() or ""
    reason = f"{error.code().name}: {cut(details, 300)!r}"
    after_s = _retry_info_s(error)
    if error.code() == grpc.StatusCode.UNIMPLEMENTED and not is_optional:
        return TryAgain(f"{reason}. Does OTLP's trace service listen there?")
    if error.code() in _RETRIED_GRPC or after_s is not None:
        return TryAgain(reason, after_s)
    if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE.search(details):
        return Oversized(reason)
    return Doubtful(reason) if error.code() in _DOUBTFUL_GRPC else Refused(reason)


def _receipt(name: str, service: OtlpService, answer: bytes, *, is_json: bool = False) -> Receipt:
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
    partial = response.partial_success
    rejected = next((value for field, value in partial.ListFields() if field.name.startswith("rejected_")), 0)
    if rejected > 0:
        message = cut(partial.error_message, 500)
        return Receipt(rejected=rejected, reason=f"{PARTIAL}{rejected} {_noun(service)}: {message!r}")
    if partial.error_message:
        _logger.warning("%s took all of it, with a warning: %r", name, cut(partial.error_message, 500))
    return Receipt()


def _noun(service: OtlpService) -> str:
    return {"traces": "spans", "logs": "log records", "metrics": "data points"}[service.signal]


def _retry_info_s(error: grpc.aio.AioRpcError) -> float | None:
    metadata = cast("Iterable[tuple[str, str | bytes]]", error.trailing_metadata() or ())
    for key, value in metadata:
        delay_s = _retry_delay_s(key, value) if isinstance(value, bytes) else None
        if delay_s is not None:
            return delay_s
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


def _reason(answer: HttpResponse) -> str:
    if answer.media_type == "application/x-protobuf":
        try:
            return cut(Status.FromString(answer.content).message, 300)
        except DecodeError:
            return ""
    return cut(answer.text, 300)
