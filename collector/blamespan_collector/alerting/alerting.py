"""Tells receivers of incidents, each in a thread of its own: none holds up another, nor anything else.

There is no queue: what a receiver was told last stands beside the incident in the store, and what it is owed follows
from both. So a receiver that is down is told later, in one message with the counts of then; a restart or a kill loses
nothing; and what waits takes no room. A receiver whose answer is lost is told again.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from blamespan.sqlite_files import transaction
from blamespan_collector.alerting.receivers import NotTold, Receiver
from blamespan_collector.store import Incident, RunStore, StoreError
from blamespan_collector.store.incidents import COLUMNS, incident_of
from blamespan_collector.store.schema import open_to_read, open_to_write

_logger = logging.getLogger("blamespan.collector")

_LOOK_EVERY_S: Final = 2.0
_REST_S: Final = 10.0
"""Between two rounds of messages to one receiver: many new incidents are then one message."""
_FIRST_DELAY_S, _LONGEST_DELAY_S = 2.0, 30.0
_NEXT_ALERT_S: Final = 3_600.0
"""An incident is told to a receiver once in that time at most."""
_CLAIM_S: Final = 120.0
"""After that another collector on the same store takes over what this one was about to tell."""
_MOST_SINGLE: Final = 3
"""Incidents told in a message each; more are one message."""
_MOST_EVENTS: Final = 500
"""In one request to a log back end; a message counts all that it does not list."""
_MOST_SHOWN: Final = 50

_OWED_ALERT: Final = """(
    i.state = 'open' AND (t.incident IS NULL OR (t.told_ns <= :hour AND (t.opened < i.opened OR t.runs < i.runs)))
    OR i.state = 'quiet' AND t.opened < i.opened AND t.told_ns <= :hour)"""
"""Open, and not told since it opened or of its latest runs; or closed by itself before that was told."""
_OWED_STATE: Final = """(
    i.state = 'open' AND t.incident IS NULL
    OR i.state <> 'counted' AND (t.opened <> i.opened OR t.state <> i.state))"""
_JOINED: Final = "FROM incidents i LEFT JOIN told t ON t.incident = i.id AND t.receiver = :receiver"


class Alerting:
    """Watches the incidents of a store, and tells receivers of them.

    Args:
        path: The store's file; need not be there yet.
        receivers: Who is told.
        now_ns: Gives Unix time.
        look_every_s: Seconds between two looks.

    Attributes:
        open: The open incidents with the latest runs, as last looked at.
        n_open: How many are open.
        sent: Messages that receivers took.
        failed: Messages that they did not take.
        failing: How many receivers did not take the last one.
    """

    def __init__(
        self,
        path: Path,
        receivers: Sequence[Receiver],
        *,
        now_ns: Callable[[], int] = time.time_ns,
        look_every_s: float = _LOOK_EVERY_S,
    ) -> None:
        self._path, self._look_every_s = path, look_every_s
        self._stopping = threading.Event()
        self._lanes = [ReceiverLane(path, receiver, now_ns) for receiver in receivers]
        self.open: Sequence[Incident] = ()
        self.n_open = 0

    @property
    def sent(self) -> int:
        """As above."""
        return sum(lane.sent for lane in self._lanes)

    @property
    def failed(self) -> int:
        """As above."""
        return sum(lane.failed for lane in self._lanes)

    @property
    def failing(self) -> int:
        """As above."""
        return sum(lane.failures > 0 for lane in self._lanes)

    def start(self) -> None:
        """Begin; the threads end with the process, or with `stop`."""
        for look in (self._look, *(lane.step for lane in self._lanes)):
            threading.Thread(target=self._repeat, args=[look], name="blamespan-alert", daemon=True).start()

    def stop(self) -> None:
        """Tell nobody any more; what is owed is told after the next start."""
        self._stopping.set()

    def _repeat(self, look: Callable[[], float]) -> None:
        wait_s = 0.0
        while not self._stopping.wait(max(wait_s, self._look_every_s)):
            try:
                wait_s = look()
            except (StoreError, sqlite3.Error, OSError) as error:  # it may not be there yet, or be full
                _logger.debug("incidents cannot be looked at now: %s", error)
            except Exception:
                _logger.exception("looking at incidents broke, and is tried again")
                wait_s = _LONGEST_DELAY_S

    def _look(self) -> float:
        store = RunStore(self._path)
        self.open = [incident for incident in store.incidents(_MOST_SHOWN) if incident.state == "open"]
        self.n_open = store.count_incidents()["open"]
        return 0.0


class ReceiverLane:
    """One receiver: what it is owed, and what it was told.

    Args:
        path: The store's file.
        receiver: Who is told.
        now_ns: Gives Unix time.
    """

    def __init__(self, path: Path, receiver: Receiver, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._path, self._receiver, self._now_ns = path, receiver, now_ns
        self._owed = _OWED_STATE if receiver.hears_states else _OWED_ALERT
        self.sent = self.failed = self.failures = 0

    def step(self) -> float:
        """Tell what is owed. Return how many seconds to rest.

        Raises:
            StoreError, sqlite3.Error: if the store cannot be used now.
        """
        if not self._is_owed():
            return 0.0
        owed = self._claim()
        told: list[Incident] = []
        try:
            batches = [[one] for one in owed] if len(owed) <= _MOST_SINGLE else [owed]
            for batch in batches:
                self._receiver.send(batch)
                told += batch
                self.sent += 1
        except NotTold as error:
            self.failed += 1
            if self.failures % 16 == 0:
                _logger.warning(
                    "%s does not take alerts now, and is tried until it does: %s", self._receiver.name, error
                )
            self.failures += 1
            return min(_FIRST_DELAY_S * 2.0 ** min(self.failures - 1, 8), _LONGEST_DELAY_S)
        finally:
            self._note(owed, told)
        if self.failures:
            _logger.warning("%s takes alerts again", self._receiver.name)
        self.failures = 0
        return _REST_S if told else 0.0

    def _values(self) -> dict[str, object]:
        now_ns = self._now_ns()
        return {
            "receiver": self._receiver.name,
            "now": now_ns,
            "hour": now_ns - int(_NEXT_ALERT_S * 1e9),
            "claimed": now_ns - int(_CLAIM_S * 1e9),
            "most": _MOST_EVENTS if self._receiver.hears_states else -1,
        }

    def _is_owed(self) -> bool:
        database = open_to_read(self._path)
        try:
            query = f"SELECT 1 {_JOINED} WHERE {self._owed} LIMIT 1"
            return database.execute(query, self._values()).fetchone() is not None
        finally:
            database.close()

    def _claim(self) -> list[Incident]:
        """Take what is owed and no other collector is about to tell, the first to open first."""
        database = open_to_write(self._path, "normal")
        database.row_factory = sqlite3.Row
        values = self._values()
        try:
            with transaction(database):
                database.execute(
                    "INSERT OR IGNORE INTO told "
                    "SELECT id, :receiver, 0, 0, 0, '', 0 FROM incidents WHERE state = 'open'",
                    values,
                )
                columns = ", ".join(f"i.{name}" for name in COLUMNS.split(", "))
                rows = database.execute(
                    f"SELECT {columns} {_JOINED} WHERE {self._owed} AND t.claimed_ns <= :claimed "
                    "ORDER BY i.state_ns, i.id LIMIT :most",
                    values,
                ).fetchall()
                owed = [incident_of(row) for row in rows]
                database.executemany(
                    "UPDATE told SET claimed_ns = ? WHERE incident = ? AND receiver = ?",
                    [(values["now"], incident.id, self._receiver.name) for incident in owed],
                )
        finally:
            database.close()
        return owed

    def _note(self, owed: Sequence[Incident], told: Sequence[Incident]) -> None:
        database = open_to_write(self._path, "full")
        name, now_ns = self._receiver.name, self._now_ns()
        try:
            with transaction(database):
                database.executemany(
                    "UPDATE told SET claimed_ns = 0 WHERE incident = ? AND receiver = ?",
                    [(one.id, name) for one in owed],
                )
                database.executemany(
                    "UPDATE told SET told_ns = ?, opened = ?, state = ?, runs = ? WHERE incident = ? AND receiver = ?",
                    [(now_ns, one.opened, one.state, one.runs, one.id, name) for one in told],
                )
        finally:
            database.close()
