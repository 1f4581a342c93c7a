"""Exporting where perhaps nobody listens: one line about it, and no waiting.

OpenTelemetry's OTLP exporters retry for 10 s when a connection is refused, and log each attempt. A refused
connection is known at once, so here it is asked for first.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from blamespan.forking import renewed_after_fork
from blamespan.host_safety import shield_host

_logger = logging.getLogger("blamespan")

EXPORTER_HANGS: Final = (
    "the end did not wait longer than %g s for the exporter: spans that it has not sent are lost. "
    "BLAMESPAN_EXIT_S sets how long"
)
"""The error of an embedded program whose exporter does not come back."""

_CONNECT_S: Final = 0.5
_ASK_AGAIN_S: Final = 1.0
"""A back end that answered so lately is not asked again, unless it is on this machine, where asking costs nothing."""
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")


class PresentExporter(SpanExporter):
    """Hands spans to an exporter while its back end accepts connections, and drops them while it refuses.

    A back end that is only slow, or whose host does not answer, is left to the exporter and its time limits. While
    an export is retried, `shutdown` ends the exporter at once if connections are refused.

    Args:
        exporter: An OTLP exporter.
        endpoint: Its URL, or `HOST:PORT`.
        advice: What becomes of the spans, and what to do, for the warning; None: no warning.
    """

    def __init__(self, exporter: SpanExporter, endpoint: str, advice: str | None) -> None:
        self._exporter = exporter
        self._endpoint = endpoint
        self._advice = advice
        self._is_told = False
        self._present_s = float("-inf")
        self._renew_lock()
        renewed_after_fork(self, PresentExporter._renew_lock)
        self._is_shut_down = False
        self.is_absent = False
        """Whether connections were refused when it was last asked."""

    def _renew_lock(self) -> None:
        self._exporting = threading.Lock()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export *spans*, or drop them if nobody listens."""
        with self._exporting:
            if not self._is_present():
                return SpanExportResult.FAILURE
            result = self._exporter.export(spans)
            if result is not SpanExportResult.SUCCESS:
                self._present_s = float("-inf")
            return result

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the exporter."""
        return self.is_absent or self._exporter.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Shut the exporter down; a second call does nothing."""
        if not self._is_shut_down:
            self._is_shut_down = True
            self._exporter.shutdown()

    def give_up(self) -> None:
        """End an export that is retried in vain, as the program ends: nobody will listen any more."""
        if self._exporting.locked() and refuses(self._endpoint):
            self._note_absent()
            self.shutdown()

    def _is_present(self) -> bool:
        if self._is_shut_down:
            return False
        now_s = time.monotonic()
        if now_s - self._present_s < _ASK_AGAIN_S and not _is_loopback(self._endpoint):
            return True
        if refuses(self._endpoint):
            self._note_absent()
            return False
        self.is_absent, self._present_s = False, now_s
        return True

    def _note_absent(self) -> None:
        self.is_absent = True
        if not self._is_told and self._advice is not None:
            self._is_told = True
            _logger.warning("nobody listens at %s: %s", self._endpoint, self._advice)


class AllExporters(SpanExporter):
    """Hands spans to several exporters; one that raises does not keep them from the others."""

    def __init__(self, exporters: Sequence[SpanExporter]) -> None:
        self._exporters = exporters

    @property
    def is_absent(self) -> bool:
        """Whether nobody listens behind any of them."""
        return all(getattr(exporter, "is_absent", False) for exporter in self._exporters)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export *spans* to each, in order."""
        results = [self._attempt(partial(exporter.export, spans)) for exporter in self._exporters]
        is_done = all(result is SpanExportResult.SUCCESS for result in results)
        return SpanExportResult.SUCCESS if is_done else SpanExportResult.FAILURE

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush each."""
        results = [self._attempt(partial(exporter.force_flush, timeout_millis)) for exporter in self._exporters]
        return all(results)

    def shutdown(self) -> None:
        """Shut each down."""
        for exporter in self._exporters:
            self._attempt(exporter.shutdown)

    def give_up(self) -> None:
        """End exports that are retried in vain."""
        for exporter in self._exporters:
            if isinstance(exporter, PresentExporter):
                self._attempt(exporter.give_up)

    @staticmethod
    def _attempt(call: Callable[[], object]) -> object:
        with shield_host("export spans"):
            return call()
        return None


def refuses(endpoint: str) -> bool:
    """Check whether connections to *endpoint* are refused, or its name is not known; a slow host does not refuse."""
    host, port = _address(endpoint)
    if host is None or (_is_proxied() and not _is_loopback(endpoint)):
        return False
    try:
        socket.create_connection((host, port), timeout=_CONNECT_S).close()
    except TimeoutError:
        return False
    except (ConnectionRefusedError, socket.gaierror):
        return True
    except OSError:
        return False
    return False


def _address(endpoint: str) -> tuple[str | None, int]:
    try:
        parts = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
        return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None, 0


def _is_loopback(endpoint: str) -> bool:
    host, _ = _address(endpoint)
    return host is not None and (host in ("localhost", "::1") or host.startswith("127."))


def _is_proxied() -> bool:
    return any(os.environ.get(name) or os.environ.get(name.upper()) for name in _PROXIES)
