"""The delivering side of the outbox: what is next for a sink, and what a sink has."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from blamespan_collector.delivering.sinks import Sink
from blamespan_collector.worker.state import Kind, connect

__all__ = ["Outbox", "Row", "SetAside"]

_logger = logging.getLogger("blamespan.collector")

_ROWS_AT_ONCE = 512
_MAX_SET_ASIDE_BYTES = 64 * 1024 * 1024
"""Kept of what was refused, for people to look at; beyond it the oldest goes. It stays counted."""


@dataclass(frozen=True, slots=True)
class Row:
    """What is next."""

    row: int
    spans: int
    queued_s: float
    payload: bytes


@dataclass(frozen=True, slots=True)
class SetAside:
    """What a sink will not take."""

    reason: str
    spans: int
    payload: bytes


class Outbox:
    """Reads the outbox and notes what is delivered, on a connection of its own; for one thread.

    Args:
        path: The state file, which must exist.
        sinks: All there are. Sinks that are new begin with the oldest row there is.
        sync: As for `State`.
    """

    def __init__(self, path: Path, sinks: Sequence[Sink], *, sync: Literal["full", "normal"] = "full") -> None:
        self._database = connect(path, sync)
        self._at: dict[tuple[str, Kind], int] = {}
        self._places: dict[tuple[str, Kind], str] = {}
        lanes = [(sink.name, kind) for sink in sinks for kind in sorted(sink.kinds)]
        with self._transaction():
            for sink, kind, row, place in self._database.execute("SELECT sink, kind, row, place FROM lanes").fetchall():
                if (sink, kind) in lanes:
                    self._at[sink, kind], self._places[sink, kind] = row, place
                else:
                    self._database.execute("DELETE FROM lanes WHERE sink = ? AND kind = ?", (sink, kind))
            for lane in lanes:
                if lane not in self._at:
                    self._at[lane], self._places[lane] = 0, ""
                    self._database.execute("INSERT INTO lanes VALUES (?, ?, 0, '')", lane)
            self._drop_without_lane()

    def place(self, sink: str, kind: Kind) -> str:
        """Tell where the sink said it was."""
        return self._places[sink, kind]

    def next(self, sink: str, kind: Kind, max_bytes: int, *, after: int | None = None) -> list[Row]:
        """Read what the sink gets next: at least one row if there is one, then as many as fit."""
        rows: list[Row] = []
        size = 0
        found = self._database.execute(
            "SELECT row, spans, queued_s, payload FROM outbox WHERE kind = ? AND row > ? ORDER BY row LIMIT ?",
            (kind, self._at[sink, kind] if after is None else after, _ROWS_AT_ONCE),
        )
        for row, spans, queued_s, payload in found:
            size += len(payload)
            if rows and size > max_bytes:
                break
            rows.append(Row(row, spans, queued_s, payload))
        found.close()
        return rows

    def advance(self, sink: str, kind: Kind, row: int, place: str, refused: Sequence[SetAside] = ()) -> None:
        """Note that the sink has everything up to *row*, but for what it *refused*."""
        with self._transaction():
            self._database.execute(
                "UPDATE lanes SET row = ?, place = ? WHERE sink = ? AND kind = ?", (row, place, sink, kind)
            )
            self._database.executemany(
                "INSERT INTO set_aside (at_s, sink, kind, reason, spans, payload) VALUES (?, ?, ?, ?, ?, ?)",
                [(time.time(), sink, kind, one.reason, one.spans, one.payload) for one in refused],
            )
            if refused:
                self._bound_set_aside()
            self._at[sink, kind], self._places[sink, kind] = row, place
            done = min(at for (_, of), at in self._at.items() if of == kind)
            self._database.execute("DELETE FROM outbox WHERE kind = ? AND row <= ?", (kind, done))

    def waiting(self, sink: str, kind: Kind) -> tuple[int, int]:
        """Count the rows and spans that the sink does not have yet."""
        rows, spans = self._database.execute(
            "SELECT count(*), ifnull(sum(spans), 0) FROM outbox WHERE kind = ? AND row > ?",
            (kind, self._at[sink, kind]),
        ).fetchone()
        return rows, spans

    def oldest_s(self) -> float | None:
        """Tell since when (Unix time) the oldest row waits; None where nothing does."""
        (oldest_s,) = self._database.execute(
            "SELECT queued_s FROM outbox WHERE row = (SELECT min(row) FROM outbox)"
        ).fetchone() or (None,)
        return None if oldest_s is None else float(oldest_s)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _drop_without_lane(self) -> None:
        """Drop what waited for sinks that are no longer named, where no other takes its kind."""
        kinds = {kind for _, kind in self._at}
        for kind, rows in self._database.execute("SELECT kind, count(*) FROM outbox GROUP BY kind").fetchall():
            if kind not in kinds:
                _logger.warning("%d batches of %s are dropped: no sink that takes them is named any more", rows, kind)
                self._database.execute("DELETE FROM outbox WHERE kind = ?", (kind,))

    def _bound_set_aside(self) -> None:
        size = 0
        for row, length in self._database.execute(
            "SELECT row, length(payload) FROM set_aside ORDER BY row DESC"
        ).fetchall():
            size += length
            if size > _MAX_SET_ASIDE_BYTES:
                self._database.execute("DELETE FROM set_aside WHERE row <= ?", (row,))
                break

    def _transaction(self) -> _Transaction:
        return _Transaction(self._database)


class _Transaction:
    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        if self._database.in_transaction:
            self._database.execute("ROLLBACK" if kind else "COMMIT")
