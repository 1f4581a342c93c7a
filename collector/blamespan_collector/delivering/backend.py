"""How a back end is reached: its URL, what we send with every request, certificates, connections renewed with them."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import SplitResult, urlsplit, urlunsplit

import grpc

from blamespan.errors import ConfigError
from blamespan_collector.stamps import Stamps
from blamespan_collector.wire.outgoing import Kind

__all__ = ["MAX_BATCH_BYTES", "RULE", "Client", "Renewed", "public_name", "signal_path", "signal_url", "url_parts"]

RULE = "/v1/traces is appended to a base URL; a path whose last part is traces, logs or metrics is used as it is"
"""How a URL is read, for people: as `OTEL_EXPORTER_OTLP_ENDPOINT` and `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` are."""

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


_logger = logging.getLogger("blamespan.collector")

_Connection = TypeVar("_Connection")


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
        """Give it; where files are not what they should be, the one from before.

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
