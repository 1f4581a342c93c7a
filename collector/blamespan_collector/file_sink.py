"""Writes annotated traces as OTLP-JSON lines: one trace, one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.errors import ConfigError
from blamespan.otlp import request_to_json, spans_to_proto
from blamespan.spans import Span
from blamespan_collector.sinks import Patience, TryAgain, Undelivered
from blamespan_collector.threads import in_daemon_thread

__all__ = ["FileSink"]


class FileSink:
    """Appends to a file, or writes to stdout; each line is out before the next begins.

    Args:
        path: The file, made if it is not there; `-` for stdout.

    Raises:
        ConfigError: if the file cannot be opened for writing.
    """

    def __init__(self, path: str) -> None:
        self._is_stdout = path == "-"
        self.name = "stdout" if self._is_stdout else path
        self._is_broken_line = False
        if self._is_stdout:
            self._file = sys.stdout.fileno()
            return
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise ConfigError(
                f"expected a file to append traces to, got {path!r}: {error.strerror}. Choose another with --out FILE"
            ) from error

    async def deliver(self, traces: Sequence[Sequence[Span]], patience: Patience) -> None:
        """Write one line per trace; a full disk is tried again as long as *patience* lasts.

        Raises:
            Undelivered: if lines could not be written; the others are.
        """
        failed: list[Undelivered] = []
        for spans in traces:
            line = await in_daemon_thread(partial(_line, spans))
            try:
                await patience.persist(partial(self._write, line, len(spans)), len(spans))
            except Undelivered as error:
                failed.append(error)
        if failed:
            raise Undelivered(str(failed[0]), sum(error.spans for error in failed))

    async def close(self) -> None:
        """Close the file; stdout stays open."""
        if not self._is_stdout:
            os.close(self._file)

    async def _write(self, line: bytes, spans: int) -> None:
        try:
            await in_daemon_thread(partial(self._write_now, line))
        except BrokenPipeError as error:
            raise Undelivered("nobody reads it any more", spans) from error
        except OSError as error:
            raise TryAgain(f"cannot write: {error.strerror}") from error

    def _write_now(self, line: bytes) -> None:
        rest = memoryview(b"\n" + line if self._is_broken_line else line)
        while rest:
            written = os.write(self._file, rest)
            self._is_broken_line = True
            rest = rest[written:]
        self._is_broken_line = False


def _line(spans: Sequence[Span]) -> bytes:
    request = ExportTraceServiceRequest(resource_spans=spans_to_proto(spans))
    return request_to_json(request).encode("utf-8", "replace") + b"\n"
