"""Writing the store: one thread of each process that writes it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from blamespan import conventions as words
from blamespan.annotate import cut, is_verdict
from blamespan.spans import Span
from blamespan.sqlite_files import is_full, transaction
from blamespan_collector.store.incidents import IncidentRule, close_quiet, count_run
from blamespan_collector.store.rows import COLUMNS, row_of, summary_of
from blamespan_collector.store.schema import open_to_write
from blamespan_collector.store.summary import merged, service_of, summarize
from blamespan_collector.wire.raw_spans import RawSpan, read_what_can_be, request

_FAST = 1
"""zlib's level: spans are text, and take a fifth of their size even so."""
_DROPPED_AT_ONCE = 16
_VACUUMED_PAGES = 4096
_LEAST_BYTES = 16 * 1024 * 1024
"""What a store may keep on a disk that is short of room."""
_FREE_BYTES = 512 * 1024 * 1024
_FREE_SHARE = 10
"""A disk is short of room with less than this part of it free, or less than `_FREE_BYTES`."""
_LOOK_EVERY_S = 1.0
_MOST_OPERATIONS = 1_000
"""Span names kept of one service: some programs put ids into them."""
_MAX_NAME_BYTES = 500
_TRACE_ID = re.compile("[0-9a-f]{32}")
_VERDICT = ("failure_score", "blamed_agent", "mode", "mode_name", "mode_score", "tracer")
"""Columns of a verdict; in which step of a part it is, says nothing of the run as a whole."""
_INSERT = (
    f"INSERT INTO traces ({', '.join(COLUMNS)}, stored_ns) VALUES ({', '.join('?' * len(COLUMNS))}, ?) "  # noqa: S608
    "ON CONFLICT (trace_id) DO UPDATE SET "
    f"{', '.join(f'{name} = excluded.{name}' for name in (*COLUMNS, 'stored_ns'))} RETURNING row"
)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long traces are kept.

    Attributes:
        max_age_s: Seconds after the last span of a trace came.
        max_bytes: Size of the store's file; the traces stored first go first. The last one is kept whatever its size.
    """

    max_age_s: float = 7 * 86_400.0
    max_bytes: int = 2 * 1024**3


class RunWriter:
    """Adds traces and lets old ones go. What is added twice counts once.

    Args:
        path: The store's file; made where it is not.
        retention: What to keep.
        rule: When incidents open and close.
        sync: `full`: what was put survives a power cut; `normal`: it survives our end.
        busy_s: Seconds to wait for another process that writes.
        now_ns: Gives Unix time.

    Raises:
        StoreMismatch: if the file is of a newer version, damaged, or something else.
        StoreUnavailable: if the disk does not let us.
    """

    def __init__(
        self,
        path: Path,
        retention: Retention | None = None,
        rule: IncidentRule | None = None,
        *,
        sync: Literal["full", "normal"] = "full",
        busy_s: float = 30.0,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._path = path
        self._looked_s = time.monotonic()
        self._database = open_to_write(path, sync, busy_s)
        self._identity = path.stat()
        self._database.row_factory = sqlite3.Row
        self._retention, self._rule = retention or Retention(), rule or IncidentRule()
        self._now_ns = now_ns

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def is_in_place(self) -> bool:
        """Check whether the file still bears its name: what is put into one that was deleted, nobody finds."""
        try:
            return os.path.samestat(self._path.stat(), self._identity)
        except OSError:
            return False

    def put(self, payloads: Iterable[bytes]) -> None:
        """Add serialised `ExportTraceServiceRequest`s, all or none; a span that cannot be read is left out.

        Raises:
            sqlite3.Error: if they could not be written; then nothing of them is.
        """
        parts = [part for payload in payloads for part in _by_trace(payload)]
        now_s = time.monotonic()
        if now_s - self._looked_s > _LOOK_EVERY_S:  # the store is a copy to look at: on a short disk it yields first
            self._looked_s = now_s
            if self._missing_bytes():
                with suppress(sqlite3.OperationalError):
                    self.prune()
        for is_last in (False, True):
            try:
                with transaction(self._database):
                    for raw, spans in parts:
                        self._add(request(raw), spans)
                return
            except sqlite3.OperationalError as error:
                if is_last or not is_full(error):
                    raise
                self._make_room(3 * sum(len(span.data) for raw, _ in parts for span in raw))

    def prune(self) -> int:
        """Let go of what is too old or too much, and give the disk back some of it; tells how many traces went.

        Raises:
            sqlite3.Error: if it could not be written.
        """
        oldest_ns = self._now_ns() - int(self._retention.max_age_s * 1e9)
        missing_bytes = self._missing_bytes()
        max_bytes = self._retention.max_bytes
        if missing_bytes:
            max_bytes = min(max_bytes, max(_LEAST_BYTES, self._used_bytes() - missing_bytes))
        with transaction(self._database):
            dropped = self._database.execute("DELETE FROM traces WHERE stored_ns < ?", (oldest_ns,)).rowcount
            close_quiet(self._database, self._rule, self._now_ns())
            if dropped:
                self._database.execute("DELETE FROM operations WHERE latest_ns < ?", (oldest_ns,))
        while self._used_bytes() > max_bytes:
            # Small ones: on a full disk they have room in the log, which is as long as it was
            with transaction(self._database):
                more = self._drop_oldest()
            if not more:
                break
            dropped += more
        if dropped:
            self._database.executescript(f"PRAGMA incremental_vacuum({_VACUUMED_PAGES})")  # `execute` frees one page
            self._database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        return dropped

    def _make_room(self, size_bytes: int) -> None:
        """Drop the oldest traces, so that as much as that fits into the file without making it larger."""
        self._database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        until_bytes = self._used_bytes() - size_bytes
        while self._used_bytes() > until_bytes:
            with transaction(self._database):
                if not self._drop_oldest():
                    break
        self._database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _drop_oldest(self) -> int:
        """Drop some of the oldest traces, never the last one; return how many."""
        return self._database.execute(
            "DELETE FROM traces WHERE row IN (SELECT row FROM traces ORDER BY stored_ns, row "
            "LIMIT min(?, (SELECT count(*) - 1 FROM traces)))",
            (_DROPPED_AT_ONCE,),
        ).rowcount

    def _missing_bytes(self) -> int:
        """Return how much the disk lacks of what is to be free of it, before requests have to be refused."""
        disk = shutil.disk_usage(self._path.parent)
        return max(0, min(_FREE_BYTES, disk.total // _FREE_SHARE) - disk.free)

    def _add(self, payload: bytes, spans: Sequence[Span]) -> None:
        digest = hashlib.blake2b(payload, digest_size=8).digest()
        summary = summarize(spans)
        stored = self._database.execute(
            f"SELECT row, incident, {', '.join(COLUMNS)}, EXISTS "  # noqa: S608
            "(SELECT 1 FROM parts WHERE trace = traces.row AND digest = ?) AS is_known FROM traces WHERE trace_id = ?",
            (digest, bytes.fromhex(summary.trace_id)),
        ).fetchone()
        if stored is not None:
            if stored["is_known"]:
                return
            summary = merged(summary_of(stored), summary)
        now_ns = self._now_ns()
        [row] = self._database.execute(_INSERT, (*row_of(summary), now_ns)).fetchone()
        before_id = "" if stored is None else stored["incident"]
        incident = count_run(self._database, before_id, summary, self._rule, now_ns)
        if incident != before_id:
            self._database.execute("UPDATE traces SET incident = ? WHERE row = ?", (incident, row))
        self._database.execute(
            "INSERT INTO parts (trace, digest, spans, payload) VALUES (?, ?, ?, ?)",
            (row, digest, len(spans), zlib.compress(payload, _FAST)),
        )
        before = [(part, row) for part in _parts_before(spans)]
        self._database.executemany("UPDATE traces SET is_run = 0 WHERE trace_id = ? AND row <> ?", before)
        if summary.steps and not summary.is_run and summary.blamed_agent:  # it is to blame in the run that went on
            self._database.execute(
                f"UPDATE traces SET {', '.join(f'{name} = ?' for name in _VERDICT)}, abstained = '' "  # noqa: S608
                "WHERE is_run AND failure_score IS NULL AND instr(words, ?)",
                (*(getattr(summary, name) for name in _VERDICT), summary.trace_id),
            )
        self._note_services(row, spans)

    def _note_services(self, row: int, spans: Sequence[Span]) -> None:
        # OTLP's kinds begin with "unspecified", ours with INTERNAL
        seen = {(service_of(span), cut(span.name, _MAX_NAME_BYTES), span.kind.value + 1) for span in spans}
        services = {service for service, _, _ in seen}
        self._database.executemany("INSERT OR IGNORE INTO services VALUES (?, ?)", [(row, name) for name in services])
        counted = {
            service: self._database.execute("SELECT count(*) FROM operations WHERE service = ?", (service,)).fetchone()[
                0
            ]
            for service in services
        }
        self._database.executemany(
            "INSERT INTO operations VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "latest_ns = max(latest_ns, excluded.latest_ns)",
            [(*name, self._now_ns()) for name in seen if counted[name[0]] < _MOST_OPERATIONS],
        )

    def _used_bytes(self) -> int:
        pages, free, size = (
            self._database.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)


def _parts_before(spans: Sequence[Span]) -> list[bytes]:
    """List the traces of the parts that a run was judged with: they are one run, and it is listed once."""
    named = [span.attributes.get(words.RUN_JUDGED_AFTER) for span in spans if not is_verdict(span)]
    ids = [str(trace_id) for value in named if isinstance(value, tuple) for trace_id in value]
    return [bytes.fromhex(trace_id) for trace_id in ids if _TRACE_ID.fullmatch(trace_id)]


def _by_trace(payload: bytes) -> list[tuple[list[RawSpan], list[Span]]]:
    """Part a request into its traces, first come first; spans as they came, and as read."""
    parts: dict[str, tuple[list[RawSpan], list[Span]]] = {}
    for raw, span in read_what_can_be(payload):
        of_trace = parts.setdefault(span.trace_id, ([], []))
        of_trace[0].append(raw)
        of_trace[1].append(span)
    return list(parts.values())
