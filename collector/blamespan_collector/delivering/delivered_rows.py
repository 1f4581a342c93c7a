"""What was delivered lately, kept for a while to be sent again: many backends acknowledge before they persist.

    delivered     up to which row of the outbox a sink had everything, and when
    resend        rows of the outbox that a sink is to get again
    resend_aside  what was set aside and a sink is to get

These tables stand beside the outbox. `blamespan collect resend` writes the last two, whether a collector runs or not;
the delivery thread reads them every second, and does everything else.
"""

from __future__ import annotations

import math
import sqlite3
from collections import deque
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from blamespan_collector.wire.outgoing import Kind

Lane: TypeAlias = tuple[str, Kind]
"""A sink's name and what it gets."""

TABLES = """
    CREATE TABLE IF NOT EXISTS delivered (
        sink TEXT NOT NULL, kind TEXT NOT NULL, row INTEGER NOT NULL, at_s REAL NOT NULL, size_bytes INTEGER NOT NULL,
        PRIMARY KEY (sink, kind, row)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS resend (
        sink TEXT NOT NULL, kind TEXT NOT NULL, after_row INTEGER NOT NULL, until_row INTEGER NOT NULL,
        PRIMARY KEY (sink, kind)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS resend_aside (row INTEGER PRIMARY KEY, sink TEXT NOT NULL);
"""
"""Made where they are missing, so that a state of a version without them can be gone on with."""


@dataclass(frozen=True, slots=True)
class Grace:
    """How long rows are kept once a sink has them.

    Attributes:
        seconds: 0: not at all.
        max_bytes: Of them at most; the oldest go first. 0: not at all.
    """

    seconds: float = 0.0
    max_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _KeptRow:
    row: int
    at_s: float
    size_bytes: int


class DeliveredRows:
    """Knows which rows of the outbox are kept though every sink has them. Uses the outbox's connection.

    Args:
        database: The state's, inside a transaction.
        lanes: Those whose sinks may lose what they took, and how far they are.
        grace: How long to keep what they have.
    """

    def __init__(self, database: sqlite3.Connection, lanes: Mapping[Lane, int], grace: Grace) -> None:
        self._database, self._grace = database, grace
        self._deliveries: dict[Lane, deque[_KeptRow]] = {}
        self._sizes: dict[Lane, int] = {}
        if grace.seconds <= 0 or grace.max_bytes <= 0:
            lanes = {}
        rows = database.execute("SELECT sink, kind, row, at_s, size_bytes FROM delivered ORDER BY row").fetchall()
        for sink, kind, row, at_s, size_bytes in rows:
            if (sink, kind) in lanes and row <= lanes[sink, kind]:
                self._deliveries.setdefault((sink, kind), deque()).append(_KeptRow(row, at_s, size_bytes))
            else:
                database.execute("DELETE FROM delivered WHERE sink = ? AND kind = ? AND row = ?", (sink, kind, row))
        for lane, row in lanes.items():
            if lane not in self._deliveries:  # the first one says behind which row anything is kept at all
                self._deliveries[lane] = deque()
                self.note(lane, row, 0.0, 0)
            self._sizes[lane] = sum(delivery.size_bytes for delivery in list(self._deliveries[lane])[1:])

    def __contains__(self, lane: Lane) -> bool:
        return lane in self._deliveries

    @property
    def size_bytes(self) -> int:
        """What is kept in all; what several sinks had counts once."""
        sizes: dict[Kind, int] = {}
        for (_, kind), size_bytes in self._sizes.items():
            sizes[kind] = max(sizes.get(kind, 0), size_bytes)
        return sum(sizes.values())

    def note(self, lane: Lane, row: int, at_s: float, size_bytes: int) -> None:
        """Note that a sink has everything up to a row; inside a transaction."""
        if lane not in self._deliveries:
            return
        self._deliveries[lane].append(_KeptRow(row, at_s, size_bytes))
        self._sizes[lane] = self._sizes.get(lane, 0) + size_bytes
        values = (*lane, row, at_s, size_bytes)
        self._database.execute("INSERT OR REPLACE INTO delivered VALUES (?, ?, ?, ?, ?)", values)

    def floor(self, kind: Kind, done: int) -> int:
        """Return up to which row nothing is kept, where every sink has those up to *done*."""
        rows = [deliveries[0].row for (_, of), deliveries in self._deliveries.items() if of == kind]
        return min([done, *rows])

    def note_again(self, lane: Lane, first_row: int, row: int, at_s: float) -> None:
        """Note that a sink got rows once more: a backend may lose them once more; inside a transaction."""
        deliveries = self._deliveries.get(lane, ())
        for index, delivery in enumerate(deliveries):
            if index and delivery.row >= first_row:
                self._deliveries[lane][index] = replace(delivery, at_s=at_s)
                self._database.execute(
                    "UPDATE delivered SET at_s = ? WHERE sink = ? AND kind = ? AND row = ?", (at_s, *lane, delivery.row)
                )
                if delivery.row >= row:
                    break

    def prune(self, now_s: float, resent: Container[Lane], *, is_tight: bool) -> None:
        """Forget what is too old or too much; inside a transaction.

        Args:
            now_s: Unix time.
            resent: Lanes that are to get some of it again: nothing of theirs is too old.
            is_tight: Whether room is short: then nothing is kept.
        """
        changed: set[Lane] = set()
        for lane, deliveries in self._deliveries.items():
            oldest_s = -math.inf if lane in resent else now_s - self._grace.seconds
            while len(deliveries) > 1 and (is_tight or deliveries[1].at_s < oldest_s):
                self._forget(lane)
                changed.add(lane)
        while self.size_bytes > self._grace.max_bytes:
            lane = max(self._sizes, key=lambda lane: self._sizes[lane])
            self._forget(lane)
            changed.add(lane)
        self._database.executemany(
            "DELETE FROM delivered WHERE sink = ? AND kind = ? AND row < ?",
            [(*lane, self._deliveries[lane][0].row) for lane in changed],
        )

    def _forget(self, lane: Lane) -> None:
        self._deliveries[lane].popleft()
        self._sizes[lane] -= self._deliveries[lane][0].size_bytes

    def drop_foreign(self, lanes: Iterable[Lane]) -> None:
        """Forget what was to be sent again to sinks that are no longer named; inside a transaction."""
        lanes_here, sinks = set(lanes), {sink for sink, _ in lanes}
        for sink, kind in self._database.execute("SELECT sink, kind FROM resend").fetchall():
            if (sink, kind) not in lanes_here:
                self._database.execute("DELETE FROM resend WHERE sink = ? AND kind = ?", (sink, kind))
        for (sink,) in self._database.execute("SELECT DISTINCT sink FROM resend_aside").fetchall():
            if sink not in sinks:
                self._database.execute("DELETE FROM resend_aside WHERE sink = ?", (sink,))
