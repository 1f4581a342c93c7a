"""Incidents: failed runs of one service that fail alike, counted as they are stored.

An incident begins with its first run, is open from the n-th on, and closes after quiet or when a person closes it. The
next run that fails so opens it again. It outlives the runs that it counts, which are let go as they age. Its id follows
from what its runs have in common, so that two stores call the same failure by the same id.
"""

from __future__ import annotations

import hashlib
import sqlite3
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from blamespan.attribution import FAILURE_WORDS
from blamespan.sqlite_files import transaction
from blamespan_collector.store.records import RunSummary
from blamespan_collector.store.schema import open_to_write

IncidentState: TypeAlias = Literal["counted", "open", "quiet", "closed"]
"""`counted`: too few runs to be open; `quiet`: closed, as no more came for a while; `closed`: by a person."""

_MOST: Final = 10_000
"""Incidents kept: agents that are named anew in every run must not fill the disk."""


@dataclass(frozen=True, slots=True)
class IncidentRule:
    """When incidents open and close.

    Attributes:
        after: How many alike runs open one, none of them `quiet_s` after the one before.
        quiet_s: Seconds without another after which it is closed.
    """

    after: int = 1
    quiet_s: float = 86_400.0


@dataclass(frozen=True, slots=True)
class Incident:
    """Runs that fail alike.

    Attributes:
        id: 12 hex digits.
        service: That made the runs, or empty.
        likeness: What they have in common, as `blamespan.likeness` writes it.
        state: Whether it is open.
        state_ns: Unix time since which.
        opened: How often it was opened.
        runs: How many there were.
        since: How many of them came since it was opened last, or since counting began.
        first_ns: Unix time at which the first was stored, and
        last_ns: the last.
        first_trace: Trace id of the first, and
        last_trace: of the last.
        version: Of the service, in the last run, or empty.
        agent: Who is blamed in the last run.
        mode: For what, as `taxonomy:code`, or empty.
        mode_name: In words.
        quote: Words of the decisive step of the last run.
    """

    id: str
    service: str
    likeness: str
    state: IncidentState
    state_ns: int
    opened: int
    runs: int
    since: int
    first_ns: int
    last_ns: int
    first_trace: str
    last_trace: str
    version: str
    agent: str
    mode: str
    mode_name: str
    quote: str


@dataclass(frozen=True, slots=True)
class VersionCount:
    """How many stored runs of a version with a verdict are counted to an incident.

    Attributes:
        service: Of the runs.
        version: Of the service, or empty.
        incident: Its id; empty of runs that did not fail.
        runs: How many.
        first_ns: Unix time at which the first of them started.
    """

    service: str
    version: str
    incident: str
    runs: int
    first_ns: int


COLUMNS: Final = ", ".join(field.name for field in fields(Incident))
_REPLACE: Final = f"REPLACE INTO incidents ({COLUMNS}) VALUES ({', '.join('?' * len(fields(Incident)))})"  # noqa: S608


def incident_of(row: sqlite3.Row) -> Incident:
    """Read an incident from a row that has `COLUMNS`."""
    values: dict[str, Any] = {field.name: row[field.name] for field in fields(Incident)}
    return Incident(**values)


def count_run(database: sqlite3.Connection, counted: str, run: RunSummary, rule: IncidentRule, now_ns: int) -> str:
    """Count a run to its incident, inside a transaction, and no longer to the one it was counted to before.

    Args:
        database: The store, with rows that have names.
        counted: Id of the incident that it was counted to, or empty.
        run: What is known of it now.
        rule: When incidents open.
        now_ns: Unix time.

    Returns:
        Id of its incident; empty of a run that did not fail, or in which nobody is named.
    """
    is_counted = run.verdict in FAILURE_WORDS and run.likeness
    name = f"{run.service}\0{run.likeness}".encode("utf-8", "replace")
    key = hashlib.blake2b(name, digest_size=6).hexdigest() if is_counted else ""
    if key == counted:
        return key
    if counted:
        database.execute("UPDATE incidents SET runs = runs - 1, since = max(0, since - 1) WHERE id = ?", (counted,))
        # It stays with what was told of it: the next run opens it again
        database.execute("UPDATE incidents SET state = 'counted', since = 0 WHERE id = ? AND runs <= 0", (counted,))
    if key:
        row = database.execute(f"SELECT {COLUMNS} FROM incidents WHERE id = ?", (key,)).fetchone()  # noqa: S608
        _put(database, _with_run(None if row is None else incident_of(row), key, run, rule, now_ns))
    return key


def _with_run(before: Incident | None, key: str, run: RunSummary, rule: IncidentRule, now_ns: int) -> Incident:
    """Return the incident with one run more."""
    state: IncidentState = "counted" if before is None else before.state
    is_quiet = before is not None and now_ns - before.last_ns > rule.quiet_s * 1e9
    since = 1 if before is None or is_quiet else before.since + 1
    opens = (
        state in ("quiet", "closed") or (state == "open" and is_quiet) or (state == "counted" and since >= rule.after)
    )
    is_reopened = opens and state != "counted"
    return Incident(
        id=key,
        service=run.service,
        likeness=run.likeness,
        state="open" if opens else state,
        state_ns=now_ns if opens or before is None else before.state_ns,
        opened=(0 if before is None else before.opened) + opens,
        runs=1 if before is None else before.runs + 1,
        since=1 if is_reopened else since,
        first_ns=now_ns if before is None else before.first_ns,
        last_ns=now_ns,
        first_trace=run.trace_id if before is None else before.first_trace,
        last_trace=run.trace_id,
        version=run.version,
        agent=run.blamed_agent,
        mode=run.mode,
        mode_name=run.mode_name,
        quote=run.quote,
    )


def _put(database: sqlite3.Connection, incident: Incident) -> None:
    database.execute(_REPLACE, tuple(getattr(incident, field.name) for field in fields(Incident)))


def close_quiet(database: sqlite3.Connection, rule: IncidentRule, now_ns: int) -> None:
    """Close what has been quiet, and let go of the oldest where there are too many; inside a transaction."""
    database.execute(
        "UPDATE incidents SET state = 'quiet', state_ns = ? WHERE state = 'open' AND last_ns < ?",
        (now_ns, now_ns - int(rule.quiet_s * 1e9)),
    )
    dropped = database.execute(
        "DELETE FROM incidents WHERE id IN (SELECT id FROM incidents ORDER BY state = 'open', last_ns "
        "LIMIT max(0, (SELECT count(*) FROM incidents) - ?))",
        (_MOST,),
    ).rowcount
    if dropped:
        database.execute("DELETE FROM told WHERE incident NOT IN (SELECT id FROM incidents)")


def close_incident(path: Path, incident_id: str, now_ns: int) -> bool:
    """Close an incident as a person asks; the next run that fails so opens it again.

    Args:
        path: The store's file.
        incident_id: As `Incident.id`.
        now_ns: Unix time.

    Returns:
        Whether it was open.

    Raises:
        StoreError: if the store cannot be written.
    """
    database = open_to_write(path, "full")
    try:
        with transaction(database):
            done = database.execute(
                "UPDATE incidents SET state = 'closed', state_ns = ? WHERE id = ? AND state IN ('open', 'counted')",
                (now_ns, incident_id),
            )
            return done.rowcount > 0
    finally:
        database.close()
