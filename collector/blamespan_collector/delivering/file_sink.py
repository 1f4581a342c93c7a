"""Writes what goes through as OTLP-JSON lines: one trace, or one request of logs or metrics, one line."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import errno
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import orjson
from google.protobuf import json_format
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.errors import ConfigError
from blamespan.otlp.json import request_to_document
from blamespan_collector.delivering.sinks import Local, Receipt, TryAgain
from blamespan_collector.threads import in_daemon_thread
from blamespan_collector.wire.outgoing import Kind

_logger = logging.getLogger("blamespan.collector")

_TRY_AGAIN_S = 1.0
"""A disk that is full may have room at any time, and asking it costs little."""
_LONGEST_TAIL_BYTES = 256 * 1024 * 1024
"""A batch is smaller as JSON, but for one huge trace."""
_CLOSE_S = 2.0
"""How long closing waits for a write under way, as to a pipe that nobody reads; then the file stays open."""


class FileSink(Local):
    """Appends to a file, or writes to stdout; each line is out before the next begins.

    A file gets every line once, whatever ends the process: where it ended is noted together with the
    delivery, and what was written after that note is found again and not written twice. Stdout cannot be
    read back: after a kill the lines of the last batch may come twice.

    A file that was moved away, emptied or replaced is begun again; what somebody else added to it stays.

    Args:
        path: The file, made if it is not there; `-` for stdout.
        is_durable: Whether lines must survive a power cut before they count as delivered.

    Raises:
        ConfigError: if the file cannot be opened for writing.
    """

    kinds: frozenset[Kind] = frozenset({"traces", "logs", "metrics"})
    max_bytes = 1024 * 1024

    def __init__(self, path: str, *, is_durable: bool = False) -> None:
        self._path = path
        self._is_stdout = path == "-"
        self._is_durable = is_durable
        self.name = "stdout" if self._is_stdout else path
        self.turn: AbstractAsyncContextManager[object, bool | None] = asyncio.Lock()
        self._is_broken_line = False
        self._use = threading.Lock()
        self._is_closed = False
        self._file = sys.stdout.fileno() if self._is_stdout else self._open_file()

    def resume(self, cursors: Mapping[Kind, tuple[str, Sequence[bytes]]]) -> None:
        """Cut off lines that were written but not noted: they are written again.

        Only what is, byte for byte, the beginning of the lines to come is cut.
        """
        if self._is_stdout:
            return
        noted = [cursor.rpartition(":") for cursor, _ in cursors.values() if cursor]
        offsets = [int(offset) for identity, _, offset in noted if identity == self._identity()]
        size = os.fstat(self._file).st_size
        if noted and (not offsets or size < max(offsets)):
            _logger.warning("%s was replaced or cut since the last start: lines go on at its end", self.name)
        elif size > max(offsets, default=0):
            self._cut_tail(max(offsets, default=0), size, cursors)
        self._is_broken_line = self._ends_amid_line()

    async def send(self, kind: Kind, payloads: Sequence[bytes]) -> Receipt:
        """Write one line per payload.

        Raises:
            TryAgain: if they could not be written, e.g. to a full disk.
        """
        try:
            return Receipt(await in_daemon_thread(partial(self._write, kind, payloads)))
        except OSError as error:
            raise TryAgain(f"cannot write: {error.strerror}", _TRY_AGAIN_S, is_steady=True) from error

    async def close(self) -> None:
        """Close the file once nothing writes to it; stdout stays open."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await in_daemon_thread(self._close)

    def _close(self) -> None:
        with self._use:
            if not (self._is_stdout or self._is_closed):
                os.close(self._file)
            self._is_closed = True

    def _write(self, kind: Kind, payloads: Sequence[bytes]) -> str:
        with self._use:
            if self._is_closed:
                raise OSError(errno.EBADF, "it is closed")
            return self._append(b"".join([line(kind, payload) for payload in payloads]))

    def _append(self, lines: bytes) -> str:
        self._reopen_if_moved()
        if self._is_stdout:
            self._write_all(lines)
            return ""
        before = os.fstat(self._file).st_size
        try:
            self._write_all(lines)
            if self._is_durable:
                os.fsync(self._file)
        except OSError:  # the whole batch is written again
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, before)
                self._is_broken_line = False
            raise
        return f"{self._identity()}:{os.fstat(self._file).st_size}"

    def _write_all(self, lines: bytes) -> None:
        rest = memoryview(b"\n" + lines if self._is_broken_line else lines)
        while rest:
            written = os.write(self._file, rest)
            self._is_broken_line = True
            rest = rest[written:]
        self._is_broken_line = False

    def _open_file(self) -> int:
        try:
            return os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise ConfigError(
                f"expected a file to append traces to, got {self._path!r}: {error.strerror}. "
                "Choose another with --out FILE"
            ) from error

    def _reopen_if_moved(self) -> None:
        """Follow the path where the file behind it was moved away, as log rotation does."""
        if self._is_stdout:
            return
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(self._path)  # noqa: PTH116  # beside fstat
            if f"{status.st_dev}:{status.st_ino}" == self._identity():
                return
        renewed = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        moved, self._file, self._is_broken_line = self._file, renewed, False
        with contextlib.suppress(OSError):
            os.close(moved)

    def _identity(self) -> str:
        status = os.fstat(self._file)
        return f"{status.st_dev}:{status.st_ino}"

    def _cut_tail(self, offset: int, size: int, cursors: Mapping[Kind, tuple[str, Sequence[bytes]]]) -> None:
        tail = os.pread(self._file, size - offset, offset) if size - offset <= _LONGEST_TAIL_BYTES else b""
        for kind, (_, upcoming) in cursors.items():
            expected = b""
            for payload in upcoming:
                with contextlib.suppress(Exception):  # what is no line was not written: it is set aside when it is sent
                    expected += line(kind, payload)
                if len(expected) >= len(tail):
                    break
            if tail and expected.startswith(tail):
                os.ftruncate(self._file, offset)
                return

    def _ends_amid_line(self) -> bool:
        size = os.fstat(self._file).st_size
        return size > 0 and os.pread(self._file, 1, size - 1) != b"\n"


_IDS = ("traceId", "spanId")


def line(kind: Kind, payload: bytes) -> bytes:
    """Write one serialised OTLP export request as a line of OTLP-JSON, with its end."""
    return orjson.dumps(_document(kind, payload), option=orjson.OPT_APPEND_NEWLINE)


def _document(kind: Kind, payload: bytes) -> dict[str, Any]:
    if kind == "traces":
        return request_to_document(ExportTraceServiceRequest.FromString(payload))
    request: Message = (ExportLogsServiceRequest if kind == "logs" else ExportMetricsServiceRequest).FromString(payload)
    document = json_format.MessageToDict(request, use_integers_for_enums=True)
    for owner in _owners(document):
        for key in _IDS:
            if isinstance(owner.get(key), str):
                owner[key] = binascii.hexlify(base64.b64decode(owner[key])).decode()
    return document


def _owners(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Find the log records and exemplars, which name spans."""
    todo: list[Any] = [document]
    while todo:
        item = todo.pop()
        if isinstance(item, list):
            todo += item
        elif isinstance(item, dict):
            yield item
            todo += [value for key, value in item.items() if key not in ("attributes", "body")]
