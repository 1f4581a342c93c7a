"""What the worker knows across restarts: one SQLite file, written by the worker alone.

    released   traces that were let go: late spans and duplicates are known by it
    carried    entries of long traces, so that their journal segments can be dropped
    outbox     what is to be delivered, encoded, until each sink has it
    lanes      how far each sink is
    set_aside  what a sink refused for good, with its reason
    attempts   how often a trace took the process down while it was attributed
    notes      single values

What is let go of a trace, its place in `released` and its bytes in `outbox` are one commit: whatever happens
to the process, they go on once, and if they are sent again, then as the same bytes.

Every row whose damage would lose or change spans has a checksum (`checksum`). Rows of the outbox say how many spans of
their kind were put in before them, and a note how many in all, so that rows that are gone are missed. What is damaged
in a file that can be used is left out; a file that cannot be is begun anew with what can be read of it (`salvage.py`).
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from blamespan import sqlite_files
from blamespan_collector.assembling.parts import Released
from blamespan_collector.journal.entries import (
    KEY_BYTES,
    Content,
    Entry,
    holds_events,
    item_of,
    unpack_keys,
    unpack_position,
)
from blamespan_collector.journal.errors import JournalUnavailable, JournalUnreadable
from blamespan_collector.wire.outgoing import Outgoing

_logger = logging.getLogger("blamespan.collector")

FORMAT = 2
APPLICATION_ID = 0x62_6C_73_74
"""Marks our file among SQLite's."""
PAGE_BYTES = 16_384
ALONE = "unix-excl"
"""SQLite's file system layer that keeps the index of the log in memory, for the connections of one process."""
GROWING = threading.Lock()
"""Held while the file gets longer, and while the other connection of this process works the log into it: that cuts the
file to the length that the log knows of."""
_BUSY_S = 5.0
"""How long to wait for another process that writes: a worker that says nothing for longer is taken for hung."""
_SHRUNK_PAGES = 4096
_PRAGMAS = (
    f"page_size = {PAGE_BYTES}",
    "auto_vacuum = INCREMENTAL",
    "journal_mode = WAL",
    "journal_size_limit = 67108864",
)
_IDS_AT_ONCE = 500
"""SQLite takes at least 999 values in one statement."""
_RELEASED = "trace_id, span_ids, items, missing, flags, revision, verdicts, last_segment"
_NONE: frozenset[bytes] = frozenset()
SCHEMA = """
    CREATE TABLE released (
        row INTEGER PRIMARY KEY, trace_id BLOB NOT NULL UNIQUE, span_ids BLOB NOT NULL, items BLOB NOT NULL,
        missing BLOB NOT NULL, flags INTEGER NOT NULL, revision INTEGER NOT NULL, verdicts BLOB NOT NULL,
        last_segment INTEGER NOT NULL, checksum INTEGER NOT NULL);
    CREATE INDEX released_awaiting ON released (row) WHERE flags >= 4;
    CREATE TABLE carried (
        position INTEGER PRIMARY KEY, received_ns INTEGER NOT NULL, trace_id BLOB NOT NULL, keys BLOB NOT NULL,
        payload BLOB NOT NULL, checksum INTEGER NOT NULL);
    CREATE TABLE outbox (
        row INTEGER PRIMARY KEY, kind TEXT NOT NULL, spans INTEGER NOT NULL, queued_s REAL NOT NULL,
        payload BLOB NOT NULL, spans_before INTEGER NOT NULL, checksum INTEGER NOT NULL);
    CREATE INDEX outbox_kind ON outbox (kind, row);
    CREATE TABLE lanes (
        sink TEXT NOT NULL, kind TEXT NOT NULL, row INTEGER NOT NULL, place TEXT NOT NULL,
        spans_to INTEGER, checksum INTEGER NOT NULL, PRIMARY KEY (sink, kind));
    CREATE TABLE set_aside (
        row INTEGER PRIMARY KEY, at_s REAL NOT NULL, sink TEXT NOT NULL, kind TEXT NOT NULL, reason TEXT NOT NULL,
        spans INTEGER NOT NULL, payload BLOB NOT NULL);
    CREATE TABLE attempts (trace_id BLOB PRIMARY KEY, count INTEGER NOT NULL);
    CREATE TABLE notes (name TEXT PRIMARY KEY, value INTEGER NOT NULL, checksum INTEGER NOT NULL);
"""
_CARRIED_SPANS = "carried_spans"
_SETTLED = "settled"
"""Name of the note that says how many spans `carried` holds."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is to be noted of one trace.

    Attributes:
        trace_id: 16 bytes.
        released: What was let go now; its items are packed positions. Added to what is noted already.
        verdicts: Digests of verdicts on its runs, 8 bytes each.
        is_revision: Whether they are on all of its runs, rather than beside those that are noted.
    """

    trace_id: bytes
    released: Released[int]
    verdicts: frozenset[bytes] = frozenset()
    is_revision: bool = False


class StateDamaged(Exception):
    """SQLite found the file damaged while it was used: the next process begins it anew with what can be read."""


class State:
    """Reads and writes the file; for one thread.

    Args:
        path: The file; made where it is not.
        sync: `full`: a commit survives a power cut; `normal`: it survives our end.

    Raises:
        JournalUnreadable: if it is not ours, of a newer version, or damaged.
        JournalUnavailable: if the disk does not let us open it, e.g. because it is full.
    """

    def __init__(self, path: Path, *, sync: Literal["full", "normal"] = "full") -> None:
        self._path = path
        self.vfs = ""
        """How the file is open; whoever opens it beside us must do it likewise."""
        log_kept = path.with_name(f"{path.name}-wal-kept")
        log_kept.unlink(missing_ok=True)
        try:
            self.database = connect(path, sync)
        except JournalUnavailable:
            if os.name == "nt" or not path.exists():
                raise
            self.vfs = ALONE  # on a disk without room for so much as the index of the log
            self.database = connect(path, sync, self.vfs)
        self.damaged_rows = self.lost_spans = 0
        """Rows that were found damaged, and spans that are lost with them."""
        try:
            self._read()
        except BaseException:
            self.database.close()
            raise

    def _read(self) -> None:
        lanes = [
            row[2] for *row, expected in self.database.execute("SELECT * FROM lanes") if checksum(*row) == expected
        ]
        (last_row,) = self.database.execute("SELECT ifnull(max(row), 0) FROM outbox").fetchone()
        self._last_row = max(last_row, *lanes, 0)
        self._enqueued: Counter[str] = Counter(
            {kind: self.read_note(enqueued_note(kind)) for kind in ("traces", "logs", "metrics", "verdicts")}
        )
        self._drop_damaged()
        self.carried = {row[0] for row in self.database.execute("SELECT position FROM carried")}
        """Packed positions of what was carried over."""

    def is_sound(self, *, with_indexes: bool) -> bool:
        """Check the whole file for damage to its structure; what is in its rows is checked when they are read."""
        return sqlite_files.is_sound(self.database, with_indexes=with_indexes)

    @property
    def has_enqueued(self) -> bool:
        """Return whether the file knows of anything that was ever put into the outbox."""
        return any(self._enqueued.values())

    def close(self) -> None:
        """Close the file; the log beside it stays as long as it is, without contents."""
        log, spare = (self._path.with_name(f"{self._path.name}{suffix}") for suffix in ("-wal", "-wal-kept"))
        with suppress(OSError):
            spare.unlink(missing_ok=True)
            spare.hardlink_to(log)
        self.database.close()
        if spare.exists() and not log.exists():  # who closes the file last deletes the log: all of it is in the file
            with suppress(OSError):
                _empty(spare)
                spare.replace(log)
        spare.unlink(missing_ok=True)

    @contextmanager
    def commit(self) -> Iterator[None]:
        """Make what is written inside one transaction.

        Raises:
            sqlite3.Error: if it could not be written; then nothing of it is.
        """
        before = self._last_row, self._enqueued
        try:
            with sqlite_files.transaction(self.database):
                yield
        except BaseException:
            self._last_row, self._enqueued = before
            raise

    def get(self, trace_id: bytes) -> Released[int] | None:
        """Return what was let go of a trace; None where nothing was, or it is forgotten."""
        noted = self._read_noted((trace_id,))
        return noted[trace_id][0] if noted else None

    def get_all(self, trace_ids: Collection[bytes]) -> dict[bytes, Released[int]]:
        """Return what was let go of each of some traces, in one go."""
        return {trace_id: released for trace_id, (released, _) in self._read_noted(trace_ids).items()}

    def verdicts(self, trace_id: bytes) -> frozenset[bytes]:
        """List the digests of the verdicts on a trace's runs."""
        noted = self._read_noted((trace_id,))
        return noted[trace_id][1] if noted else frozenset()

    def awaiting(self, after_row: int, most: int) -> list[tuple[int, bytes, Released[int]]]:
        """List traces that await a verdict, in order: their row, their id, and what was let go."""
        rows = self.database.execute(
            f"SELECT row, checksum, {_RELEASED} FROM released WHERE flags >= 4 AND row > ? ORDER BY row LIMIT ?",  # noqa: S608
            (after_row, most),
        )
        return [(at, row[0], _unpack_released(*row[1:6])) for at, expected, *row in rows if checksum(*row) == expected]

    def record(self, records: Sequence[Record]) -> None:
        """Note what was let go of traces."""
        noted = self._read_noted({record.trace_id for record in records})
        for record in records:
            released, verdicts = noted.get(record.trace_id, (None, _NONE))
            noted[record.trace_id] = (
                record.released if released is None else released.merged(record.released),
                record.verdicts if record.is_revision else verdicts | record.verdicts,
            )
        self.database.executemany(
            "INSERT INTO released "
            "(trace_id, span_ids, items, missing, flags, revision, verdicts, last_segment, checksum) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (trace_id) DO UPDATE SET span_ids = excluded.span_ids, "
            "items = excluded.items, missing = excluded.missing, flags = excluded.flags, revision = excluded.revision, "
            "verdicts = excluded.verdicts, last_segment = excluded.last_segment, checksum = excluded.checksum",
            [(*row, checksum(*row)) for row in (_row(trace_id, *values) for trace_id, values in noted.items())],
        )

    def _read_noted(self, trace_ids: Collection[bytes]) -> dict[bytes, tuple[Released[int], frozenset[bytes]]]:
        noted: dict[bytes, tuple[Released[int], frozenset[bytes]]] = {}
        ids = list(trace_ids)
        for start in range(0, len(ids), _IDS_AT_ONCE):
            some = ids[start : start + _IDS_AT_ONCE]
            rows = self.database.execute(
                f"SELECT {_RELEASED}, checksum FROM released "  # noqa: S608
                f"WHERE trace_id IN ({','.join('?' * len(some))})",
                some,
            ).fetchall()
            for *row, expected in rows:
                if checksum(*row) == expected:
                    trace_id, span_ids, items, missing, flags, revision, verdicts, _ = row
                    noted[trace_id] = _unpack_released(span_ids, items, missing, flags, revision), _split(verdicts)
                else:  # its entries in the journal go on again, as if they were never let go
                    _logger.error(
                        "what was let go of trace %s is damaged in the state: some may go on again", row[0].hex()
                    )
                    self.damaged_rows += 1
        return noted

    def done_rows(self, segment: int) -> set[int]:
        """List the rows of a segment that were let go or carried over. Reads all there is: for rare occasions."""
        done = {position.row for item in self.carried if (position := unpack_position(item)).segment == segment}
        for *row, expected in self.database.execute(f"SELECT {_RELEASED}, checksum FROM released"):  # noqa: S608
            items = row[2] if checksum(*row) == expected else b""
            for at in range(0, len(items), 8):
                position = unpack_position(int.from_bytes(items[at : at + 8], "big"))
                if position.segment == segment:
                    done.add(position.row)
        return done

    def forget(self, keep: int, below_segment: int, most: int) -> int:
        """Forget the traces that were let go first, but for the latest *keep*; return how many were forgotten.

        Those with an entry in *below_segment* or later stay: after a restart they are known by it.
        """
        return self.database.execute(
            "DELETE FROM released WHERE row IN (SELECT row FROM released "
            "WHERE row <= (SELECT ifnull(max(row), 0) FROM released) - ? ORDER BY row LIMIT ?) "
            "AND last_segment < ? AND flags < 4",
            (keep, most, below_segment),
        ).rowcount

    def enqueue(self, outgoing: Iterable[Outgoing]) -> None:
        """Put bytes into the outbox, in order."""
        now_s = time.time()
        rows = []
        last_row, enqueued = self._last_row, self._enqueued.copy()
        for item in outgoing:
            last_row += 1
            row = (last_row, item.kind, item.spans, now_s, item.payload, enqueued[item.kind])
            rows.append((*row, checksum(*row)))
            enqueued[item.kind] += item.spans
        self.database.executemany("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        for kind in {row[1] for row in rows}:
            self.note(enqueued_note(kind), enqueued[kind])
        self._last_row, self._enqueued = last_row, enqueued

    @property
    def carried_spans(self) -> int:
        """Return how many spans were carried over."""
        return self.read_note(_CARRIED_SPANS)

    def carry(self, entry: Entry, keys: bytes, payload: bytes) -> None:
        """Keep an entry whose segment is about to be dropped."""
        row = (item_of(entry), entry.received_ns, entry.trace_id, keys, payload)
        inserted = self.database.execute(
            "INSERT OR IGNORE INTO carried VALUES (?, ?, ?, ?, ?, ?)", (*row, checksum(*row))
        )
        if inserted.rowcount > 0 and not holds_events(row[0]):
            self.note(_CARRIED_SPANS, self.read_note(_CARRIED_SPANS) + len(entry.keys))

    def carried_entries(self) -> Iterator[Entry]:
        """List what was carried over, in order."""
        for packed, received_ns, trace_id, keys, size in self.database.execute(
            "SELECT position, received_ns, trace_id, keys, length(payload) FROM carried ORDER BY position"
        ):
            content: Content = "events" if holds_events(packed) else "traces"
            yield Entry(unpack_position(packed), received_ns, content, trace_id, unpack_keys(keys), size)

    def carried_payload(self, packed: int) -> bytes:
        """Read what was carried over.

        Raises:
            KeyError: if there is no such entry.
        """
        row = self.database.execute("SELECT * FROM carried WHERE position = ?", (packed,)).fetchone()
        if row is None or checksum(*row[:-1]) != row[-1]:
            raise KeyError(packed)
        payload: bytes = row[4]
        return payload

    def _drop_damaged(self) -> None:
        """Drop what was carried over and is damaged, and count the spans that are lost with it."""
        spans, damaged = 0, []
        for *row, expected in self.database.execute("SELECT * FROM carried"):
            if checksum(*row) == expected:
                spans += 0 if holds_events(row[0]) else len(row[3]) // KEY_BYTES
            else:
                _logger.error("what was carried over of trace %r is damaged in the state and lost", row[2])
                damaged.append((row[0],))
        self.database.executemany("DELETE FROM carried WHERE position = ?", damaged)
        self.damaged_rows += len(damaged)
        if lost := self.read_note(_CARRIED_SPANS) - spans:
            self.lost_spans += max(0, lost)
            _logger.error("%d spans that were carried over are lost: their rows in the state are damaged", lost)
            self.note(_CARRIED_SPANS, spans)

    def uncarry(self, items: Iterable[int]) -> None:
        """Let go of what was carried over."""
        with self.commit():
            for item in items:
                row = self.database.execute(
                    "DELETE FROM carried WHERE position = ? RETURNING length(keys)", (item,)
                ).fetchone()
                if row is not None and not holds_events(item):
                    self.note(_CARRIED_SPANS, max(0, self.read_note(_CARRIED_SPANS) - row[0] // KEY_BYTES))

    def attempts(self) -> dict[bytes, int]:
        """Return how often traces took the process down while they were attributed."""
        return dict(self.database.execute("SELECT trace_id, count FROM attempts"))

    def note_attempts(self, trace_ids: Iterable[bytes]) -> None:
        """Count one more attempt for each."""
        self.database.executemany(
            "INSERT INTO attempts VALUES (?, 1) ON CONFLICT (trace_id) DO UPDATE SET count = count + 1",
            [(trace_id,) for trace_id in trace_ids],
        )

    def forget_attempts(self, trace_ids: Iterable[bytes]) -> None:
        """Clear traces of suspicion."""
        self.database.executemany("DELETE FROM attempts WHERE trace_id = ?", [(trace_id,) for trace_id in trace_ids])

    def note(self, name: str, value: int) -> None:
        """Keep a single value."""
        self.database.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", (name, value, checksum(name, value)))

    def read_note(self, name: str) -> int:
        """Read a single value; 0 where there is none, or a damaged one."""
        row = self.database.execute("SELECT value, checksum FROM notes WHERE name = ?", (name,)).fetchone()
        return int(row[0]) if row is not None and checksum(name, row[0]) == row[1] else 0

    def shrink(self, most_pages: int) -> None:
        """Free disk where much of the file is empty, but for *most_pages*."""
        free, pages = (sqlite_files.read_count(self.database, name) for name in ("freelist_count", "page_count"))
        if free > max(pages // 2, most_pages):
            # Executed as a statement it would give back one page: each step of it frees one
            self.database.executescript(f"PRAGMA incremental_vacuum({min(free - most_pages, _SHRUNK_PAGES)})")

    def flush(self) -> bool:
        """Work what was committed into the file itself; return whether all of it is there.

        What is only in the file beside it is lost with one damaged byte of that.
        """
        is_busy, frames, done = self.database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return not is_busy and frames == done

    def settle(self) -> bool:
        """Have all that was committed stand in the file itself, and the log begun anew; return whether that is so.

        A log that was worked into the file still hides newer pages of it as long as it is not begun anew: where its
        end is damaged, SQLite would go back to what it says before that.
        """
        if not self.flush():
            return False
        before = self._log_header()
        with self.commit():
            self.note(_SETTLED, self.read_note(_SETTLED) + 1)
        return self._log_header() != before

    def _log_header(self) -> bytes:
        """Read the header of the log, which is a new one each time that the log is begun anew."""
        file = os.open(f"{self._path}-wal", os.O_RDONLY)
        try:
            return os.pread(file, 32, 0)
        finally:
            os.close(file)


def connect(path: Path, sync: Literal["full", "normal"], vfs: str = "") -> sqlite3.Connection:
    """Open the file, making it where it is not.

    Args:
        path: The file.
        sync: As for `State`.
        vfs: `ALONE` keeps other processes out, and needs no file of SQLite's own beside the log.

    Raises:
        JournalUnreadable: if it is not ours, of a newer version, or damaged.
        JournalUnavailable: if the disk does not let us open it, e.g. because it is full.
    """
    pragmas = (*_PRAGMAS, f"synchronous = {sync}")
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite_files.connect(path, busy_s=_BUSY_S, pragmas=pragmas, vfs=vfs)
        connection.text_factory = lambda text: text.decode("utf-8", "replace")  # a checksum shows what is no text now
        application = sqlite_files.read_count(connection, "application_id")
        version = sqlite_files.read_count(connection, "user_version")
        if version == 0 and application == 0:
            connection.executescript(
                f"BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT};"
                f"{SCHEMA} COMMIT;"
            )
            connection.execute("INSERT INTO notes VALUES ('format', ?, ?)", (FORMAT, checksum("format", FORMAT)))
        elif application != APPLICATION_ID:
            raise sqlite3.DatabaseError(f"it is marked as {application:#x}")
        elif version != FORMAT:
            _check_format(connection, path, version)
    except sqlite3.OperationalError as error:  # most likely a full disk: it is no fault of the file's
        _close(connection)
        if "malformed" in str(error):
            raise JournalUnreadable(f"{str(path)!r} cannot be read ({error})") from error
        raise JournalUnavailable(f"cannot open the collector's state {str(path)!r} now: {error}") from error
    except (sqlite3.DatabaseError, UnicodeError) as error:
        _close(connection)
        raise JournalUnreadable(
            f"expected the collector's state, got {str(path)!r}, which cannot be read ({error}). "
            "Move it away and start again: the journal's spans are delivered, some perhaps again"
        ) from error
    except BaseException:
        _close(connection)
        raise
    return connection


def _close(connection: sqlite3.Connection | None) -> None:
    if connection is not None:
        connection.close()


def _empty(log: Path) -> None:
    """Have SQLite take a log for an empty one, without asking the disk for room."""
    file = os.open(log, os.O_RDWR)
    try:
        os.pwrite(file, bytes(32), 0)
    finally:
        os.close(file)


def _check_format(connection: sqlite3.Connection, path: Path, version: int) -> None:
    """Check whether the version is only damaged where SQLite keeps it, and write it there again."""
    row = connection.execute(
        "SELECT value, checksum FROM notes WHERE name = 'format'" if version != 1 else "SELECT 1, 0"
    ).fetchone()
    if row != (FORMAT, checksum("format", FORMAT)):
        raise JournalUnreadable(
            f"expected the collector's state of version {FORMAT}, got {str(path)!r} of version {version}. "
            "Run the version that wrote it until it has delivered, then move it and the folder segments away"
        )
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def checksum(*values: object) -> int:
    """Return the CRC-32 of a row's values."""
    crc = 0
    for value in values:
        packed = value if isinstance(value, bytes) else repr(value).encode("utf-8", "replace")
        crc = zlib.crc32(packed, zlib.crc32(b"%d " % len(packed), crc))
    return crc


def enqueued_note(kind: str) -> str:
    """Name the note that says how many spans of a kind were put into the outbox."""
    return f"enqueued_{kind}"


def _unpack_released(span_ids: bytes, items: bytes, missing: bytes, flags: int, revision: int) -> Released[int]:
    return Released(
        _split(span_ids),
        tuple(int.from_bytes(items[at : at + 8], "big") for at in range(0, len(items), 8)),
        _split(missing),
        bool(flags & 1),
        bool(flags & 2),
        revision,
        bool(flags & 4),
    )


def _row(trace_id: bytes, released: Released[int], verdicts: frozenset[bytes]) -> tuple[object, ...]:
    return (
        trace_id,
        b"".join(sorted(released.span_ids)),
        b"".join([item.to_bytes(8, "big") for item in released.items]),
        b"".join(sorted(released.missing)),
        released.has_root + 2 * released.has_ended + 4 * released.awaits_verdict,
        released.revision,
        b"".join(sorted(verdicts)),
        max((unpack_position(item).segment for item in released.items), default=0),
    )


def _split(packed: bytes) -> frozenset[bytes]:
    return frozenset(packed[at : at + 8] for at in range(0, len(packed), 8))
