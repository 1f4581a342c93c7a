"""How a back end is reached: its URL, what we send with every request, certificates, and requests within limits."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import SplitResult, urlsplit, urlunsplit

import grpc
import httpx

from blamespan.errors import ConfigError
from blamespan.http_client import (
    HttpClient,
    HttpError,
    HttpLimits,
    HttpResponse,
    ResponseTimeout,
    TooManyRedirects,
    TransportError,
)
from blamespan_collector.delivering.sinks import Refused, TryAgain
from blamespan_collector.settings import CollectorSettings
from blamespan_collector.stamps import Stamps
from blamespan_collector.wire.outgoing import Kind

RULE = "/v1/traces is appended to a base URL; a path whose last part is traces, logs or metrics is used as it is"
"""How a URL is read, for people: as `OTEL_EXPORTER_OTLP_ENDPOINT` and `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` are."""

ATTEMPT_TIMEOUT_S = 10.0
"""How long an attempt may take, as long as the sink answers in time."""
LONGEST_ATTEMPT_S = 120.0
_CONNECT_S = 10.0
_ANSWER_S = 5.0
"""How long the body of an answer may take once its status is known: that says what became of the request."""
_MAX_ANSWER_BYTES = 256 * 1024

_SIGNALS = ("traces", "logs", "metrics")


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


def signal_url(url: str, kind: Kind) -> str:
    """Return where a signal goes, given a base URL or the full one of any signal; its query is kept."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=signal_path(parts.path, kind), fragment=""))


def signal_path(path: str, kind: Kind) -> str:
    """Return a signal's path.

    A path whose last part names a signal is a full one: used as it is for that signal, and for another with the last
    part replaced. To any other, `/v1/SIGNAL` is appended.
    """
    whole = path.rstrip("/")
    before, _, last = whole.rpartition("/")
    if last == kind:
        return path
    return f"{before}/{kind}" if last in _SIGNALS else f"{whole}/v1/{kind}"


def public_name(parts: SplitResult) -> str:
    """Name a URL without its credentials and query."""
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))


MAX_BATCH_BYTES = 4 * 1024 * 1024 - 64 * 1024
"""Largest request sent: gRPC servers take 4 MiB unless told otherwise."""


@dataclass(frozen=True, slots=True)
class BackendAccess:
    """How we come to a backend.

    Attributes:
        headers: Sent with every request.
        ca: Certificates (PEM) to trust instead of the system's.
        cert: Certificate (PEM) that we show.
        key: Its key (PEM).
    """

    headers: tuple[tuple[str, str], ...] = ()
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    @classmethod
    def of(cls, settings: CollectorSettings) -> BackendAccess:
        """Come there as the settings say."""
        return cls(settings.headers, settings.forward_ca, settings.forward_cert, settings.forward_key)

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
            raise ConfigError(f"expected PEM files in forward-ca, forward-cert and forward-key: {error}") from error
        return context

    def grpc_credentials(self) -> grpc.ChannelCredentials:
        """Make what gRPC over TLS needs.

        Raises:
            ConfigError: if a file cannot be read.
        """
        self.ssl_context()  # names what is wrong; gRPC would fail at every request, without saying why
        ca, cert, key = (path.read_bytes() if path else None for path in (self.ca, self.cert, self.key))
        return grpc.ssl_channel_credentials(ca, key, cert)


_logger = logging.getLogger("blamespan.collector")

_Connection = TypeVar("_Connection")
_Result = TypeVar("_Result")


class Renewed(Generic[_Connection]):
    """Gives the connection to use now.

    Args:
        make: Makes one of the files as they are; called first when one is asked for.
        close: Closes one.
        files: What it is made of.
    """

    def __init__(
        self,
        make: Callable[[], _Connection],
        close: Callable[[_Connection], Awaitable[object]],
        files: Iterable[Path | None],
    ) -> None:
        self._make, self._close = make, close
        self._stamps = Stamps(path for path in files if path)
        self._open: list[_Connection] = []

    async def get(self) -> _Connection:
        """Return it; where files are not what they should be, the one from before.

        Raises:
            ConfigError: if there is none from before.
        """
        if self._stamps.have_changed() or not self._open:
            try:
                self._open.append(self._make())
            except ConfigError as error:
                if not self._open:
                    raise
                _logger.error("certificates for backends stay as they were: %s", error)
            while len(self._open) > 2:  # requests may still be under way on the one before
                await self._close(self._open.pop(0))
        return self._open[-1]

    async def close(self) -> None:
        """Close all there are."""
        while self._open:
            await self._close(self._open.pop())


class AttemptLimit:
    """How long an attempt may take: twice as long after each that took too long, so that a backend that hangs does
    not get the same batch again and again; as before, or twice what it took, once one was answered.
    """

    def __init__(self) -> None:
        self.limit_s = ATTEMPT_TIMEOUT_S

    async def run(self, attempt: Callable[[float], Awaitable[_Result]], *, answer_s: float = 0.0) -> _Result:
        """Call *attempt* with the limit in seconds; it may raise TimeoutError by itself.

        Args:
            attempt: Makes the attempt.
            answer_s: How much longer it may take where it got a status in time.

        Raises:
            TryAgain: if it took too long.
        """
        began_s, limit_s = time.monotonic(), self.limit_s
        try:
            async with asyncio.timeout(limit_s + answer_s):
                result = await attempt(limit_s)
        except TimeoutError as error:
            self.limit_s = min(2 * limit_s, LONGEST_ATTEMPT_S)
            raise TryAgain(f"no answer in {limit_s:g} s; the next attempt may take {self.limit_s:g} s") from error
        self.limit_s = min(max(ATTEMPT_TIMEOUT_S, 2 * (time.monotonic() - began_s)), LONGEST_ATTEMPT_S)
        return result


class Poster:
    """Sends requests to one back end: no answer of its can hold us, fill our memory, or lead our credentials elsewhere.

    307 and 308 are followed with the same method and body, on the same host, never from https to http. What the user
    gave as headers, and what authenticates us, goes to the same port or to https only.

    Args:
        headers: Sent wherever we are led.
        secrets: Sent to the back end itself only.
        access: Its TLS.
        auth: Authenticates us.
        is_near: Whether it is on this machine: what the environment says of proxies is for other hosts.
        is_secure: Whether its URL is https, so that connections are renewed with the certificates.
    """

    def __init__(
        self,
        headers: Mapping[str, str],
        secrets: Mapping[str, str],
        access: BackendAccess,
        *,
        auth: httpx.Auth | None = None,
        is_near: bool = False,
        is_secure: bool = False,
    ) -> None:
        def connect() -> HttpClient:
            make_ssl_context = access.ssl_context
            if is_secure:
                context = access.ssl_context()  # what is wrong with it is raised now

                def make_ssl_context() -> ssl.SSLContext:
                    return context

            return HttpClient(
                headers=headers,
                secrets=secrets,
                auth=auth,
                redirects="same_host",
                make_ssl_context=make_ssl_context,
                trust_env=not is_near,
            )

        self._client = Renewed(connect, HttpClient.aclose, access.files if is_secure else ())

    async def request(self, limit: AttemptLimit, method: str, url: str, content: bytes = b"") -> HttpResponse:
        """Send one request and read its answer.

        Raises:
            TryAgain: if there is none, or not in time.
            Refused: if it cannot be sent at all.
            ConfigError: if certificates are not what they should be.
        """
        client = await self._client.get()

        async def attempt(limit_s: float) -> HttpResponse:
            limits = HttpLimits(
                total_s=limit_s + _ANSWER_S,
                head_s=limit_s,
                body_s=_ANSWER_S,
                silence_s=None,
                connect_s=_CONNECT_S,
                max_bytes=_MAX_ANSWER_BYTES,
                max_error_bytes=_MAX_ANSWER_BYTES,
                cuts_body=True,
            )
            try:
                return await client.request(method, url, content=content, limits=limits)
            except ResponseTimeout as error:
                if isinstance(error.__cause__, TimeoutError):  # else the connection had a limit of its own
                    raise TimeoutError from error
                raise

        try:
            return await limit.run(attempt, answer_s=2 * _ANSWER_S)
        except (TransportError, TooManyRedirects) as error:
            raise TryAgain(error.reason) from error
        except HttpError as error:
            raise Refused(error.reason) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
