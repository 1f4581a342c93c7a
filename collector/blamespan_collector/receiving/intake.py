"""Takes requests in: reads them, writes them into the journal, answers once they are on disk."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from blamespan.errors import BlamespanError, MalformedSpan
from blamespan_collector.journal import JournalFull, JournalUnavailable, JournalWriter, Position
from blamespan_collector.receiving.request_reader import Encoding, Request, RequestReader
from blamespan_collector.receiving.signals import ExportResponse, OtlpService

_logger = logging.getLogger("blamespan.collector")

_READ_BESIDE_BYTES = 512 * 1024
"""Larger bodies are read in a thread, so that others need not wait for them."""
_RETRY_AFTER_S = 5
_MOST_BROKEN = 100
_MOST_BROKEN_BYTES = 256 * 1024 * 1024


class Busy(BlamespanError):
    """There is no room for the request now; the sender should try it again after `retry_after_s`.

    Attributes:
        retry_after_s: When to come back.
        is_full: Whether a limit is reached, rather than that we are about to stop or the disk fails.
    """

    def __init__(self, reason: str, retry_after_s: int = _RETRY_AFTER_S, *, is_full: bool = True) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s
        self.is_full = is_full


@dataclass(slots=True)
class IntakeCounts:
    """What came in, since the start."""

    requests: int = 0
    requests_malformed: int = 0
    requests_busy: int = 0
    requests_unauthorized: int = 0
    requests_set_aside: int = 0
    spans_received: int = 0
    spans_refused: int = 0
    logs_requests: int = 0
    metrics_requests: int = 0


class BrokenRequests:
    """A folder of request bodies, each beside a JSON file that says what happened.

    Bounded by number and size: past it a request is counted and logged, but not kept.

    Args:
        folder: Made when the first one comes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, body: bytes, about: Mapping[str, str]) -> Path | None:
        """Keep *body* with what is known *about* it; the same body once. Returns where; None where it was not kept."""
        path = self._folder / f"{hashlib.sha256(body).hexdigest()[:16]}.bin"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            files = list(self._folder.glob("*.bin"))
            used_bytes = sum(file.stat().st_size for file in files)
            if path not in files and (len(files) >= _MOST_BROKEN or used_bytes + len(body) > _MOST_BROKEN_BYTES):
                _logger.error("%r is full: a request that broke us was not kept", str(self._folder))
                return None
            path.write_bytes(body)
            path.with_suffix(".json").write_text(json.dumps(dict(about), indent=2), encoding="utf-8")
        except OSError as error:
            _logger.error("a request that broke us could not be kept: %s", error)
            return None
        return path


class Intake:
    """What both receivers hand their bodies to. For one event loop.

    Args:
        writer: Gets what could be read.
        reader: Reads bodies.
        broken: Folder for requests that break us.
        on_written: Told where the journal ends, after each commit.
    """

    def __init__(
        self,
        writer: JournalWriter,
        reader: RequestReader,
        broken: Path,
        *,
        on_written: Callable[[Position], None] = lambda _: None,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._set_aside = BrokenRequests(broken)
        self._on_written = on_written
        self._is_stopping = False
        self.counts = IntakeCounts()

    def stop(self) -> None:
        """Refuse what comes from now on."""
        self._is_stopping = True

    def check_room(self) -> None:
        """Check whether a request may be sent, before its body is read.

        Raises:
            Busy: if there is no room now.
        """
        busy = self.busy()
        if busy is not None:
            self.counts.requests_busy += 1
            raise busy

    def busy(self) -> Busy | None:
        """Return why a request would be refused now; None where it would be taken."""
        if self._is_stopping:
            return Busy("the collector is stopping. Send this again", 1, is_full=False)
        try:
            self._writer.check_room()
        except JournalFull as error:
            return Busy(str(error))
        return None

    async def take(self, service: OtlpService, body: bytes, encoding: Encoding) -> ExportResponse:
        """Take in one request; what the answer does not refuse is in the journal.

        Raises:
            TooLarge: if it holds too much at once.
            MalformedSpan: if it is not OTLP, or cannot be read; trying again cannot help.
            Busy: if there is no room now.
        """
        start_ns = time.time_ns()
        self.counts.requests += 1
        try:
            request = await self._read(service, body, encoding, start_ns)
            if request.entries:
                await self._write(request)
        except MalformedSpan:
            self.counts.requests_malformed += 1
            raise
        except Busy:
            self.counts.requests_busy += 1
            raise
        except Exception as error:
            raise self._broken_by(service, body, encoding, error) from error
        self._count(request)
        return request.response()

    async def _read(self, service: OtlpService, body: bytes, encoding: Encoding, now_ns: int) -> Request:
        if len(body) <= _READ_BESIDE_BYTES:
            return self._reader.read(service, body, encoding, now_ns)
        return await asyncio.to_thread(self._reader.read, service, body, encoding, now_ns)

    async def _write(self, request: Request) -> None:
        try:
            position = await asyncio.wrap_future(self._writer.append(request.entries))
        except JournalFull as error:
            raise Busy(str(error)) from error
        except JournalUnavailable as error:
            raise Busy(str(error), is_full=False) from error
        self._on_written(position)

    def _count(self, request: Request) -> None:
        self.counts.spans_received += request.spans
        self.counts.spans_refused += request.refused
        self.counts.logs_requests += request.service.signal == "logs"
        self.counts.metrics_requests += request.service.signal == "metrics"

    def _broken_by(self, service: OtlpService, body: bytes, encoding: Encoding, error: Exception) -> MalformedSpan:
        """Keep a request that broke us and give the answer to it: sent again, it would break us again."""
        self.counts.requests_set_aside += 1
        about = {"service": service.name, "encoding": encoding, "reason": f"{type(error).__name__}: {error}"}
        path = self._set_aside.put(body, about)
        _logger.error("a request could not be read and was set aside at %r", str(path), exc_info=error)
        return MalformedSpan(f"the request could not be read ({type(error).__name__}) and was set aside. See our log")
