"""The delivering side of the outbox: what is next for a sink, and what a sink has."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from blamespan.sqlite_files import is_full, transaction
from blamespan_collector.delivering.delivered_rows import TABLES, DeliveredRows, Grace, Lane
from blamespan_collector.delivering.sinks import Local, Sink
from blamespan_collector.state.state import GROWING, StateDamaged, checksum, connect, enqueued_note
from blamespan_collector.wire.outgoing import Kind

_logger = logging.getLogger("blamespan.collector")

_ROWS_AT_ONCE = 512
_ROWS_ON_FULL_DISK = 8
_NO_END = 2**63 - 1
_MAX_SET_ASIDE_BYTES = 64 * 1024 * 1024
"""Kept of what was refused, for people to look at; beyond it the oldest goes. It stays counted."""


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """What is next.

    Attributes:
        row: Its place in the order of its origin.
        spans: How many it holds.
        queued_s: Since when it waits.
        payload: The bytes to send.
        origin: `outbox`; or, where it is sent again, `delivered` or `aside`.
    """

    row: int
    spans: int
    queued_s: float
    payload: bytes
    origin: Literal["outbox", "delivered", "aside"] = "outbox"


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
        sinks: All there are. Sinks that are new begin with the oldest row that one before them lacks.
        grace: How long to keep what was delivered.
        sync: As for `State`.
        lost: Told of spans that are lost, as their rows are damaged or gone.
        vfs: As `State.vfs`.
        log_pages: As `Reserve.log_pages`.
    """

    def __init__(
        self,
        path: Path,
        sinks: Sequence[Sink],
        *,
        sync: Literal["full", "normal"] = "full",
        grace: Grace | None = None,
        lost: Callable[[Kind, int], None] = lambda kind, spans: None,
        vfs: str = "",
        log_pages: int = 1000,
    ) -> None:
        self._path = path
        self._database = connect(path, sync, vfs)
        self._database.execute(f"PRAGMA wal_autocheckpoint = {log_pages}")
        self._database.executescript(TABLES)
        self._lost = lost
        self._resends: dict[Lane, tuple[int, int]] = {}
        self._fresh_resends: set[Lane] = set()
        self._read_after: dict[Lane, int] = {}
        self._has_aside: set[Lane] = set()
        self._at: dict[tuple[str, Kind], int] = {}
        self._cursors: dict[tuple[str, Kind], str] = {}
        self._spans_to: dict[tuple[str, Kind], int | None] = {}
        self._ends: dict[tuple[Kind, int], int] = {}
        self._gaps: set[tuple[Kind, int]] = set()
        self._kept: set[int] = set()
        lanes = [(sink.name, kind) for sink in sinks for kind in sorted(sink.kinds)]
        with self._transaction():
            done: dict[Kind, int] = {}
            damaged: set[Lane] = set()
            for rowid, expected, *values in self._database.execute("SELECT rowid, checksum, * FROM lanes").fetchall():
                sink, kind, row, cursor, spans_to, _ = values
                is_whole = checksum(*values[:-1]) == expected
                if is_whole:
                    done[kind] = min(row, done.get(kind, row))
                else:
                    damaged.add((sink, kind))
                    _logger.error("how far a sink is is damaged in the state: it gets again what is still there")
                if (sink, kind) in lanes and is_whole:
                    self._at[sink, kind], self._cursors[sink, kind], self._spans_to[sink, kind] = row, cursor, spans_to
                else:
                    self._database.execute("DELETE FROM lanes WHERE rowid = ?", (rowid,))
            for lane in lanes:
                if lane not in self._at:
                    row = 0 if lane in damaged else done.get(lane[1], 0)
                    values = (*lane, row, "", self._spans_before(lane[1], row))
                    self._at[lane], self._cursors[lane], self._spans_to[lane] = values[2:]
                    self._database.execute("INSERT INTO lanes VALUES (?, ?, ?, ?, ?, ?)", (*values, checksum(*values)))
            self._drop_without_lane()
            forgetful = {sink.name for sink in sinks if not isinstance(sink, Local)}
            lanes_kept = {lane: row for lane, row in self._at.items() if lane[0] in forgetful}
            self.delivered = DeliveredRows(self._database, lanes_kept, grace or Grace())
            self.delivered.drop_foreign(self._at)

    def cursor(self, sink: str, kind: Kind) -> str:
        """Return where the sink is, as its last receipt has it."""
        return self._cursors[sink, kind]

    def next(self, sink: str, kind: Kind, max_bytes: int, *, after: int | None = None) -> list[OutboxRow]:
        """Read what the sink gets next: at least one row if there is one, then as many as fit.

        Rows that are damaged or gone are left out, and the spans that are lost with them are told.

        Raises:
            StateDamaged: if SQLite does not find rows that are there.
        """
        rows: list[OutboxRow] = []
        size = 0
        row_before = self._at[sink, kind] if after is None else after
        spans_to = self._spans_to[sink, kind] if after is None else None
        rows_read = self._database.execute(
            "SELECT * FROM outbox WHERE kind = ? AND row > ? ORDER BY row LIMIT ?", (kind, row_before, _ROWS_AT_ONCE)
        ).fetchall()
        for *values, expected in rows_read:
            if checksum(*values) != expected:
                self._keep_damaged_row(kind, *values)
                continue
            number, _, spans, queued_s, payload, spans_before = values
            size += len(payload)
            if rows and size > max_bytes:
                return rows
            if spans_to is not None and spans_before > spans_to:
                self._note_gap(kind, row_before, number, spans_before - spans_to)
            rows.append(OutboxRow(number, spans, queued_s, payload))
            row_before, spans_to = number, spans_before + spans
            self._ends[kind, number] = spans_to
        if len(rows_read) < _ROWS_AT_ONCE and spans_to is not None and after is None:
            self._note_end(kind, row_before, spans_to)
        return rows

    def _spans_before(self, kind: Kind, row: int) -> int:
        """Return how many spans were put in before the first row after this one."""
        row_after = (
            self._database.execute(
                "SELECT spans_before FROM outbox WHERE kind = ? AND row > ? ORDER BY row LIMIT 1", (kind, row)
            ).fetchone()
            or self._database.execute("SELECT value FROM notes WHERE name = ?", (enqueued_note(kind),)).fetchone()
        )
        return 0 if row_after is None else int(row_after[0])

    def _note_end(self, kind: Kind, row: int, spans_to: int) -> None:
        """Compare the last row there is with what was put in."""
        name = enqueued_note(kind)
        # In one statement, as more may be put in meanwhile
        enqueued, expected, more = self._database.execute(
            "SELECT value, checksum, (SELECT max(row) FROM outbox WHERE kind = ?) FROM notes WHERE name = ?",
            (kind, name),
        ).fetchone() or (0, 0, None)
        if checksum(name, enqueued) == expected and enqueued > spans_to and (more is None or more <= row):
            self._note_gap(kind, row, _NO_END, enqueued - spans_to)

    def _note_gap(self, kind: Kind, row: int, next_row: int, spans: int) -> None:
        """Report spans whose rows are damaged or gone, once."""
        rows = "SELECT * FROM outbox NOT INDEXED WHERE row > ? AND row < ?"
        for *values, expected in self._database.execute(rows, (row, next_row)).fetchall():
            if values[1] == kind and checksum(*values) == expected:
                raise StateDamaged(f"row {values[0]} of the outbox is not in its index")
        if (kind, row) not in self._gaps:
            self._gaps.add((kind, row))
            what = "spans" if kind == "traces" else kind
            _logger.error("%d %s are lost: their rows in the state behind row %d are damaged or gone", spans, what, row)
            self._lost(kind, spans)

    def _keep_damaged_row(
        self, kind: Kind, row: int, _: object, spans: object, queued_s: object, payload: object, *__: object
    ) -> None:
        """Set a damaged row aside, for a person to look at, once."""
        if row in self._kept or not isinstance(payload, bytes):
            return
        self._kept.add(row)
        with self._transaction():
            self._database.execute(
                "INSERT INTO set_aside (at_s, sink, kind, reason, spans, payload) VALUES (?, '', ?, ?, ?, ?)",
                (time.time(), kind, f"row {row} of the outbox was damaged on the disk", 0, payload),
            )
            self._bound_set_aside()

    def next_resend(self, sink: str, kind: Kind, max_bytes: int, *, after: OutboxRow | None = None) -> list[OutboxRow]:
        """Read what the sink is to get again, as `take_resends` saw it: what was set aside, then what was delivered."""
        if (sink, kind) in self._has_aside and (after is None or after.origin == "aside"):
            rows = self._database.execute(
                "SELECT row, spans, at_s, payload FROM set_aside JOIN resend_aside USING (row) "
                "WHERE resend_aside.sink = ? AND kind = ? AND row > ? ORDER BY row LIMIT ?",
                (sink, kind, 0 if after is None else after.row, _ROWS_AT_ONCE),
            ).fetchall()
            if rows or after is not None:
                return _within(max_bytes, [OutboxRow(row, n, at_s, data, "aside") for row, n, at_s, data in rows])
            self._has_aside.discard((sink, kind))
        if (sink, kind) in self._resends and (after is None or after.origin == "delivered"):
            after_row, until_row = self._begin_resend(sink, kind)
            if after is None:
                self._read_after[sink, kind] = after_row
            rows = self._database.execute(
                "SELECT * FROM outbox WHERE kind = ? AND row > ? AND row <= ? ORDER BY row LIMIT ?",
                (kind, after_row if after is None else after.row, until_row, _ROWS_AT_ONCE),
            ).fetchall()
            whole = [values for *values, expected in rows if checksum(*values) == expected]
            if whole or after is not None:
                return _within(
                    max_bytes, [OutboxRow(row, n, at_s, data, "delivered") for row, _, n, at_s, data, _ in whole]
                )
            with self._transaction():  # it had to make room meanwhile
                self._note_resent(sink, kind, until_row)
        return []

    def advance_resend(
        self, sink: str, kind: Kind, rows: Sequence[OutboxRow], cursor: str, refused: Sequence[SetAside] = ()
    ) -> None:
        """Note that the sink has *rows* again, all of one origin, but for what it *refused*."""
        with self._transaction():
            if rows[-1].origin == "aside":
                for table in ("set_aside", "resend_aside"):
                    self._database.executemany(f"DELETE FROM {table} WHERE row = ?", [(row.row,) for row in rows])  # noqa: S608
            else:
                self._note_resent(sink, kind, rows[-1].row)
                self.delivered.note_again((sink, kind), rows[0].row, rows[-1].row, time.time())
            self._note_place(sink, kind, self._at[sink, kind], cursor, self._spans_to[sink, kind])
            self._set_aside(sink, kind, refused)

    def _begin_resend(self, sink: str, kind: Kind) -> tuple[int, int]:
        """Return after which row and up to which rows are sent again.

        What the sink took since that was asked for belongs to it: it may have been lost before its taking was noted.
        """
        after_row, until_row = self._resends[sink, kind]
        if (sink, kind) in self._fresh_resends:
            self._fresh_resends.discard((sink, kind))
            until_row = max(until_row, self._at[sink, kind])
            with self._transaction():
                self._database.execute(
                    "UPDATE resend SET until_row = ? WHERE sink = ? AND kind = ?", (until_row, sink, kind)
                )
            self._resends[sink, kind] = after_row, until_row
        return after_row, until_row

    def _note_resent(self, sink: str, kind: Kind, row: int) -> None:
        """Note how far what is sent again came, unless somebody asked for earlier rows meanwhile."""
        self._database.execute(
            "UPDATE resend SET after_row = max(after_row, ?) WHERE sink = ? AND kind = ? AND after_row >= ?",
            (row, sink, kind, self._read_after[sink, kind]),
        )
        self._database.execute(
            "DELETE FROM resend WHERE sink = ? AND kind = ? AND after_row >= until_row", (sink, kind)
        )
        left = self._database.execute(
            "SELECT after_row, until_row FROM resend WHERE sink = ? AND kind = ?", (sink, kind)
        ).fetchone()
        self._resends.pop((sink, kind), None)
        if left is not None:
            self._resends[sink, kind] = left

    def take_resends(self) -> dict[Lane, int]:
        """Read what somebody asked to be sent again; return how many spans each sink is to get, if there is news."""
        resends = {
            (sink, kind): (after_row, until_row)
            for sink, kind, after_row, until_row in self._database.execute(
                "SELECT sink, kind, after_row, until_row FROM resend"
            )
        }
        aside = {
            (sink, kind): spans
            for sink, kind, spans in self._database.execute(
                "SELECT resend_aside.sink, kind, sum(spans) FROM resend_aside JOIN set_aside USING (row) "
                "GROUP BY resend_aside.sink, kind"
            )
        }
        is_known = resends == self._resends and aside.keys() <= self._has_aside
        self._fresh_resends |= {lane for lane, rows in resends.items() if self._resends.get(lane) != rows}
        self._resends, self._has_aside = resends, self._has_aside | aside.keys()
        if is_known:
            return {}
        return {
            lane: aside.get(lane, 0) + self._spans_between(lane[1], *resends.get(lane, (0, 0))) for lane in self._at
        }

    def _spans_between(self, kind: Kind, after_row: int, until_row: int) -> int:
        (spans,) = self._database.execute(
            "SELECT ifnull(sum(spans), 0) FROM outbox WHERE kind = ? AND row > ? AND row <= ?",
            (kind, after_row, until_row),
        ).fetchone()
        return int(spans)

    def prune(self, *, is_tight: bool) -> None:
        """Drop what was delivered and need not be kept any more.

        Args:
            is_tight: Whether room is short: then nothing that was delivered is kept.
        """
        kinds = {kind for _, kind in self._at}
        try:
            with self._transaction():
                self.delivered.prune(time.time(), self._resends, is_tight=is_tight)
                for kind in kinds:
                    self._drop_done(kind, is_tight=is_tight)
        except sqlite3.OperationalError as error:
            if not is_full(error):
                raise
            for kind in kinds:
                self._drop_on_full_disk(kind)

    def _drop_done(self, kind: Kind, *, is_tight: bool = False) -> None:
        done = min(at for (_, of), at in self._at.items() if of == kind)
        if not is_tight:  # else also what is to be sent again: what was never delivered needs the room
            done = min([done, *(after for (_, of), (after, _) in self._resends.items() if of == kind)])
        self._database.execute(
            "DELETE FROM outbox WHERE kind = ? AND row <= ?", (kind, self.delivered.floor(kind, done))
        )

    def set_aside_spans(self) -> dict[Kind, int]:
        """Count what is set aside, by kind."""
        return dict(self._database.execute("SELECT kind, sum(spans) FROM set_aside GROUP BY kind").fetchall())

    def advance(
        self, sink: str, kind: Kind, row: int, cursor: str, refused: Sequence[SetAside] = (), size_bytes: int = 0
    ) -> None:
        """Note that the sink has everything up to *row*, but for what it *refused*; since then *size_bytes* came."""
        try:
            with self._transaction():
                self._note_place(sink, kind, row, cursor, self._ends.get((kind, row)))
                self._set_aside(sink, kind, refused)
                self.delivered.note((sink, kind), row, time.time(), size_bytes)
                self._drop_done(kind)
        except sqlite3.OperationalError as error:
            if not is_full(error):
                raise
            with self._transaction():  # without the bytes that were refused, and without room for what was delivered
                self._note_place(sink, kind, row, cursor, self._ends.get((kind, row)))
                self._set_aside(sink, kind, [replace(batch, payload=b"") for batch in refused])
            self._drop_on_full_disk(kind)
        oldest = min(at for (_, of), at in self._at.items() if of == kind)
        self._ends = {place: end for place, end in self._ends.items() if place[0] != kind or place[1] > oldest}

    def _drop_on_full_disk(self, kind: Kind) -> None:
        """Drop what every sink has, a few rows at a time: there is no room to drop all of them at once."""
        done = min(at for (_, of), at in self._at.items() if of == kind)
        dropped = _ROWS_ON_FULL_DISK
        while dropped == _ROWS_ON_FULL_DISK:
            try:
                with self._transaction():
                    dropped = self._database.execute(
                        "DELETE FROM outbox WHERE row IN "
                        "(SELECT row FROM outbox WHERE kind = ? AND row <= ? ORDER BY row LIMIT ?)",
                        (kind, done, _ROWS_ON_FULL_DISK),
                    ).rowcount
            except sqlite3.OperationalError as error:
                _logger.debug("rows that were delivered cannot be dropped now: %s", error)
                with GROWING:
                    self._database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                return  # the next time; nobody is given them again

    def _note_place(self, sink: str, kind: Kind, row: int, cursor: str, spans_to: int | None) -> None:
        self._database.execute(
            "UPDATE lanes SET row = ?, place = ?, spans_to = ?, checksum = ? WHERE sink = ? AND kind = ?",
            (row, cursor, spans_to, checksum(sink, kind, row, cursor, spans_to), sink, kind),
        )
        self._at[sink, kind], self._cursors[sink, kind], self._spans_to[sink, kind] = row, cursor, spans_to

    def _set_aside(self, sink: str, kind: Kind, refused: Sequence[SetAside]) -> None:
        self._database.executemany(
            "INSERT INTO set_aside (at_s, sink, kind, reason, spans, payload) VALUES (?, ?, ?, ?, ?, ?)",
            [(time.time(), sink, kind, batch.reason, batch.spans, batch.payload) for batch in refused],
        )
        if refused:
            self._bound_set_aside()

    def waiting(self, sink: str, kind: Kind) -> tuple[int, int]:
        """Count the rows and spans that the sink does not have yet."""
        rows, spans = self._database.execute(
            "SELECT count(*), ifnull(sum(spans), 0) FROM outbox WHERE kind = ? AND row > ?",
            (kind, self._at[sink, kind]),
        ).fetchone()
        return rows, spans

    def oldest_s(self) -> float | None:
        """Return since when (Unix time) the oldest row waits; None where nothing does."""
        behind = {kind: min(at for (_, of), at in self._at.items() if of == kind) for _, kind in self._at}
        waiting = [
            self._database.execute(
                "SELECT queued_s FROM outbox WHERE kind = ? AND row > ? ORDER BY row LIMIT 1", (kind, row)
            ).fetchone()
            for kind, row in behind.items()
        ]
        return min((float(row[0]) for row in waiting if row is not None), default=None)

    @property
    def has_losses(self) -> bool:
        """Return whether rows were found damaged or gone, so that counts of what waits are too high."""
        return bool(self._gaps or self._kept)

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
                (spans,) = self._database.execute("SELECT sum(spans) FROM set_aside WHERE row <= ?", (row,)).fetchone()
                _logger.error("%d spans that were set aside first are dropped: more than 64 MiB are set aside", spans)
                for table in ("set_aside", "resend_aside"):
                    self._database.execute(f"DELETE FROM {table} WHERE row <= ?", (row,))  # noqa: S608
                break

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with GROWING, transaction(self._database):
            yield


def _within(max_bytes: int, rows: Sequence[OutboxRow]) -> list[OutboxRow]:
    """Return as many rows as fit, and at least one if there is one."""
    batch: list[OutboxRow] = []
    size = 0
    for row in rows:
        size += len(row.payload)
        if batch and size > max_bytes:
            break
        batch.append(row)
    return batch
