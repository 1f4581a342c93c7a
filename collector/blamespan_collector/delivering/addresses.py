"""Backends' URLs: what is appended to them, and what is told of them."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit, urlunsplit

from blamespan.errors import ConfigError
from blamespan_collector.worker.state import Kind

__all__ = ["RULE", "public_name", "signal_path", "signal_url", "url_parts"]

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
