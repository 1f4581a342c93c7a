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
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from blamespan_collector.assembling.parts import Released
from blamespan_collector.journal.entries import Content, Entry, unpack_keys
from blamespan_collector.journal.errors import JournalUnavailable, JournalUnreadable
from blamespan_collector.worker.items import holds_events, item_of, unpack_position

__all__ = ["Kind", "Outgoing", "Record", "State"]

Kind: TypeAlias = Literal["traces", "logs", "metrics", "verdicts"]
"""What is in an outbox row: an OTLP export request, or the verdicts of one trace as JSON."""

FORMAT = 1
_APPLICATION_ID = 0x62_6C_73_74
_PAGE_BYTES = 16_384
_BUSY_S = 30.0
_IDS_AT_ONCE = 500
"""SQLite takes at least 999 values in one statement."""
_NONE: frozenset[bytes] = frozenset()
_SCHEMA = """
    CREATE TABLE released (
        row INTEGER PRIMARY KEY, trace_id BLOB NOT NULL UNIQUE, span_ids BLOB NOT NULL, items BLOB NOT NULL,
        missing BLOB NOT NULL, flags INTEGER NOT NULL, revision INTEGER NOT NULL, verdicts BLOB NOT NULL,
        last_segment INTEGER NOT NULL);
    CREATE INDEX released_awaiting ON released (row) WHERE flags >= 4;
    CREATE TABLE carried (
        position INTEGER PRIMARY KEY, received_ns INTEGER NOT NULL, trace_id BLOB NOT NULL, keys BLOB NOT NULL,
        payload BLOB NOT NULL);
    CREATE TABLE outbox (
        row INTEGER PRIMARY KEY, kind TEXT NOT NULL, spans INTEGER NOT NULL, queued_s REAL NOT NULL,
        payload BLOB NOT NULL);
    CREATE INDEX outbox_kind ON outbox (kind, row);
    CREATE TABLE lanes (
        sink TEXT NOT NULL, kind TEXT NOT NULL, row INTEGER NOT NULL, place TEXT NOT NULL, PRIMARY KEY (sink, kind));
    CREATE TABLE set_aside (
        row INTEGER PRIMARY KEY, at_s REAL NOT NULL, sink TEXT NOT NULL, kind TEXT NOT NULL, reason TEXT NOT NULL,
        spans INTEGER NOT NULL, payload BLOB NOT NULL);
    CREATE TABLE attempts (trace_id BLOB PRIMARY KEY, count INTEGER NOT NULL);
    CREATE TABLE notes (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Bytes on their way.

    Attributes:
        kind: What they are.
        spans: How many spans, log records or metrics are in them; for verdicts, how many verdicts.
        payload: An OTLP export request, or JSON.
    """

    kind: Kind
    spans: int
    payload: bytes


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
        self.database = connect(path, sync)
        self._last_row = self._one(
            "SELECT max((SELECT ifnull(max(row), 0) FROM outbox), (SELECT ifnull(max(row), 0) FROM lanes))"
        )
        self.carried = {row[0] for row in self.database.execute("SELECT position FROM carried")}
        """Packed positions of what was carried over."""

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    @contextmanager
    def commit(self) -> Iterator[None]:
        """Make what is written inside one transaction.

        Raises:
            sqlite3.Error: if it could not be written; then nothing of it is.
        """
        self.database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.database.execute("COMMIT")
        except BaseException:
            if self.database.in_transaction:
                self.database.execute("ROLLBACK")
            raise

    def get(self, trace_id: bytes) -> Released[int] | None:
        """Tell what was let go of a trace; None where nothing was, or it is forgotten."""
        found = self._noted((trace_id,))
        return found[trace_id][0] if found else None

    def get_all(self, trace_ids: Collection[bytes]) -> dict[bytes, Released[int]]:
        """Tell what was let go of each of some traces, in one go."""
        return {trace_id: released for trace_id, (released, _) in self._noted(trace_ids).items()}

    def verdicts(self, trace_id: bytes) -> frozenset[bytes]:
        """List the digests of the verdicts on a trace's runs."""
        row = self.database.execute("SELECT verdicts FROM released WHERE trace_id = ?", (trace_id,)).fetchone()
        return frozenset() if row is None else _split(row[0])

    def awaiting(self, after_row: int, most: int) -> list[tuple[int, bytes, Released[int]]]:
        """List traces that await a verdict, in order: their row, their id, and what was let go."""
        rows = self.database.execute(
            "SELECT row, trace_id, span_ids, items, missing, flags, revision FROM released "
            "WHERE flags >= 4 AND row > ? ORDER BY row LIMIT ?",
            (after_row, most),
        )
        return [(row, trace_id, _released(*rest)) for row, trace_id, *rest in rows]

    def record(self, records: Sequence[Record]) -> None:
        """Note what was let go of traces."""
        noted = self._noted({record.trace_id for record in records})
        for record in records:
            released, verdicts = noted.get(record.trace_id, (None, _NONE))
            noted[record.trace_id] = (
                record.released if released is None else released.merged(record.released),
                record.verdicts if record.is_revision else verdicts | record.verdicts,
            )
        self.database.executemany(
            "INSERT INTO released (trace_id, span_ids, items, missing, flags, revision, verdicts, last_segment) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (trace_id) DO UPDATE SET span_ids = excluded.span_ids, "
            "items = excluded.items, missing = excluded.missing, flags = excluded.flags, "
            "revision = excluded.revision, verdicts = excluded.verdicts, last_segment = excluded.last_segment",
            [_row(trace_id, *values) for trace_id, values in noted.items()],
        )

    def _noted(self, trace_ids: Collection[bytes]) -> dict[bytes, tuple[Released[int], frozenset[bytes]]]:
        found: dict[bytes, tuple[Released[int], frozenset[bytes]]] = {}
        ids = list(trace_ids)
        for start in range(0, len(ids), _IDS_AT_ONCE):
            some = ids[start : start + _IDS_AT_ONCE]
            rows = self.database.execute(
                "SELECT trace_id, verdicts, span_ids, items, missing, flags, revision FROM released "  # noqa: S608
                f"WHERE trace_id IN ({','.join('?' * len(some))})",
                some,
            )
            found.update((trace_id, (_released(*rest), _split(verdicts))) for trace_id, verdicts, *rest in rows)
        return found

    def forget(self, keep: int, below_segment: int, most: int) -> None:
        """Forget the traces that were let go first, but for the latest *keep*.

        Those with an entry in *below_segment* or later stay: after a restart they are known by it.
        """
        self.database.execute(
            "DELETE FROM released WHERE row IN (SELECT row FROM released "
            "WHERE row <= (SELECT ifnull(max(row), 0) FROM released) - ? ORDER BY row LIMIT ?) "
            "AND last_segment < ? AND flags < 4",
            (keep, most, below_segment),
        )

    def enqueue(self, outgoing: Iterable[Outgoing]) -> None:
        """Put bytes into the outbox, in order."""
        now_s = time.time()
        rows = []
        for one in outgoing:
            self._last_row += 1
            rows.append((self._last_row, one.kind, one.spans, now_s, one.payload))
        self.database.executemany("INSERT INTO outbox VALUES (?, ?, ?, ?, ?)", rows)

    def carry(self, entry: Entry, keys: bytes, payload: bytes) -> None:
        """Keep an entry whose segment is about to be dropped."""
        packed = item_of(entry)
        self.database.execute(
            "INSERT OR IGNORE INTO carried VALUES (?, ?, ?, ?, ?)",
            (packed, entry.received_ns, entry.trace_id, keys, payload),
        )

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
        row = self.database.execute("SELECT payload FROM carried WHERE position = ?", (packed,)).fetchone()
        if row is None:
            raise KeyError(packed)
        payload: bytes = row[0]
        return payload

    def uncarry(self, items: Iterable[int]) -> None:
        """Let go of what was carried over."""
        self.database.executemany("DELETE FROM carried WHERE position = ?", [(item,) for item in items])

    def attempts(self) -> dict[bytes, int]:
        """Tell how often traces took the process down while they were attributed."""
        return dict(self.database.execute("SELECT trace_id, count FROM attempts"))

    def note_attempts(self, trace_ids: Iterable[bytes]) -> None:
        """Count one more attempt for each."""
        self.database.executemany(
            "INSERT INTO attempts VALUES (?, 1) ON CONFLICT (trace_id) DO UPDATE SET count = count + 1",
            [(trace_id,) for trace_id in trace_ids],
        )

    def forget_attempts(self, trace_ids: Iterable[bytes]) -> None:
        """Clear traces of suspicion."""
        self.database.executemany("DELETE FROM attempts WHERE trace_id = ?", [(one,) for one in trace_ids])

    def note(self, name: str, value: int) -> None:
        """Keep a single value."""
        self.database.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (name, value))

    def noted(self, name: str) -> int:
        """Read a single value; 0 where there is none."""
        return self._one("SELECT ifnull((SELECT value FROM notes WHERE name = ?), 0)", name)

    def shrink(self, most_pages: int = 2048) -> None:
        """Give disk back where much of the file is empty, some of it at a time."""
        free, pages = self._one("PRAGMA freelist_count"), self._one("PRAGMA page_count")
        if free > max(pages // 2, most_pages):
            self.database.execute(f"PRAGMA incremental_vacuum({most_pages})").fetchall()

    def flush(self) -> None:
        """Make sure that what was committed survives a power cut."""
        self.database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _one(self, query: str, *values: object) -> int:
        (value,) = self.database.execute(query, values).fetchone()
        return int(value)


def connect(path: Path, sync: Literal["full", "normal"]) -> sqlite3.Connection:
    """Open the file, making it where it is not.

    Raises:
        JournalUnreadable: if it is not ours, of a newer version, or damaged.
        JournalUnavailable: if the disk does not let us open it, e.g. because it is full.
    """
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {sync}")
        connection.execute("PRAGMA journal_size_limit = 67108864")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if version == 0 and application == 0:
            connection.executescript(
                f"BEGIN IMMEDIATE; PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {FORMAT};"
                f"{_SCHEMA} COMMIT;"
            )
        elif application != _APPLICATION_ID or version != FORMAT:
            raise JournalUnreadable(
                f"expected the collector's state of version {FORMAT}, got {str(path)!r} of version {version}. "
                "Run the version that wrote it until it has delivered, or move the folder away"
            )
    except sqlite3.OperationalError as error:  # most likely a full disk: it is no fault of the file's
        connection.close()
        raise JournalUnavailable(f"cannot open the collector's state {str(path)!r} now: {error}") from error
    except sqlite3.DatabaseError as error:
        connection.close()
        raise JournalUnreadable(
            f"expected the collector's state, got {str(path)!r}, which cannot be read ({error}). "
            "Move it away and start again: the journal's spans are delivered, some perhaps again"
        ) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _released(span_ids: bytes, items: bytes, missing: bytes, flags: int, revision: int) -> Released[int]:
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
