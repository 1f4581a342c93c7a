"""Reading the store, from any process and thread, while it is written."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

from blamespan.analysis.sources import store_in
from blamespan.spans import Span
from blamespan.trace import Outcome
from blamespan_collector.store.incidents import COLUMNS as INCIDENT_COLUMNS
from blamespan_collector.store.incidents import Incident, IncidentState, VersionCount, incident_of
from blamespan_collector.store.records import RunQuery, RunSummary, StoredRun
from blamespan_collector.store.rows import COLUMNS, condition, summary_of
from blamespan_collector.store.schema import StoreMismatch, StoreUnavailable, open_to_read
from blamespan_collector.wire.raw_spans import read_what_can_be

_MOST = 10_000
_SELECTED = f"row, {', '.join(COLUMNS)}"


class RunStore:
    """Answers what is stored. Each call stands for itself, so that any thread may ask.

    Every method raises `StoreUnavailable` where the store is not there or cannot be read now, and `StoreMismatch`
    where it is of another version or damaged.

    Args:
        path: The store's file, or the folder it lies in; need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = (store_in(path) or path) if path.is_dir() else path

    def search(self, query: RunQuery | None = None) -> list[RunSummary]:
        """List the traces that *query* wants, the last to start first.

        Raises:
            ConfigError: if `query.after` is no place.
        """
        query = query or RunQuery()
        where, values = condition(query)
        with self._reading() as database:
            rows = database.execute(
                f"SELECT {_SELECTED} FROM traces WHERE {where} ORDER BY start_ns DESC, row DESC LIMIT ?",  # noqa: S608
                (*values, max(0, min(query.limit, _MOST))),
            ).fetchall()
        return [summary_of(row) for row in rows]

    def summary(self, trace_id: str) -> RunSummary | None:
        """Return a trace in a line; None where it is not stored, or no longer. Its id as for `run`."""
        key = _key(trace_id)
        if key is None:
            return None
        with self._reading() as database:
            row = database.execute(f"SELECT {_SELECTED} FROM traces WHERE trace_id = ?", (key,)).fetchone()  # noqa: S608
        return None if row is None else summary_of(row)

    def run(self, trace_id: str) -> StoredRun | None:
        """Return a trace with all its spans; None where it is not stored, or no longer.

        Args:
            trace_id: Hex digits, without regard to case; leading zeros may be left out.
        """
        key = _key(trace_id)
        if key is None:
            return None
        with self._reading() as database:
            row = database.execute(f"SELECT {_SELECTED} FROM traces WHERE trace_id = ?", (key,)).fetchone()  # noqa: S608
            if row is None:
                return None
            parts = database.execute("SELECT payload FROM parts WHERE trace = ? ORDER BY row", (row["row"],)).fetchall()
        payloads = tuple(zlib.decompress(part["payload"]) for part in parts)
        return StoredRun(summary_of(row), payloads, _spans(payloads))

    def payloads(self, query: RunQuery) -> Generator[bytes, None, None]:
        """Return what the traces that *query* wants hold, the last to start first; its limit does not count.

        They are read as they are asked for: ask for no more than is needed, and close the iterator.

        Yields:
            Of each trace one serialised `ExportTraceServiceRequest` with all its spans, some perhaps twice.

        Raises:
            ConfigError: if `query.after` is no place.
        """
        where, values = condition(query)
        with self._reading() as database:
            rows = database.execute(
                f"SELECT row FROM traces WHERE {where} ORDER BY start_ns DESC, row DESC",  # noqa: S608
                values,
            )
            for row in rows:
                parts = database.execute("SELECT payload FROM parts WHERE trace = ? ORDER BY row", (row["row"],))
                yield b"".join([zlib.decompress(part["payload"]) for part in parts])

    def spans_of(self, trace_id: str) -> Sequence[Span]:
        """Return a trace's spans, also where no agents took part; none where it is not stored."""
        run = self.run(trace_id)
        return () if run is None else run.spans

    def count_outcomes(self) -> dict[Outcome, int]:
        """Count the traces with a run of agents, by how the program said they ended."""
        with self._reading() as database:
            rows = database.execute(
                "SELECT outcome, COUNT(*) AS n FROM traces WHERE is_run GROUP BY outcome"
            ).fetchall()
        counts = {str(row["outcome"]): int(row["n"]) for row in rows}
        return {outcome: counts.get(outcome, 0) for outcome in get_args(Outcome)}

    def incidents(self, limit: int = 100, *, incident_id: str | None = None) -> list[Incident]:
        """List incidents, the open ones first, each with the latest run first; or one, by its id."""
        where, values = ("runs > 0", ()) if incident_id is None else ("id = ?", (incident_id,))
        with self._reading() as database:
            rows = database.execute(
                f"SELECT {INCIDENT_COLUMNS} FROM incidents WHERE {where} "  # noqa: S608
                "ORDER BY state <> 'open', state = 'counted', last_ns DESC, id LIMIT ?",
                (*values, max(0, min(limit, _MOST))),
            ).fetchall()
        return [incident_of(row) for row in rows]

    def count_incidents(self) -> dict[IncidentState, int]:
        """Count incidents by their state."""
        with self._reading() as database:
            rows = database.execute("SELECT state, count(*) FROM incidents WHERE runs > 0 GROUP BY state").fetchall()
        counts = {str(state): int(number) for state, number in rows}
        return {state: counts.get(state, 0) for state in get_args(IncidentState)}

    def versions(self) -> list[VersionCount]:
        """Count the stored runs with a verdict, by service, version and incident."""
        with self._reading() as database:
            rows = database.execute(
                "SELECT service, version, incident, count(*), min(start_ns) FROM traces "
                "WHERE is_run AND failure_score IS NOT NULL GROUP BY service, version, incident"
            ).fetchall()
        return [VersionCount(*row) for row in rows]

    def services(self) -> list[str]:
        """List the services that made spans, by name."""
        return self._select_names("SELECT DISTINCT service FROM services WHERE service <> '' ORDER BY service")

    def operations(self, service: str) -> list[tuple[str, int]]:
        """List a service's span names and kinds (OTLP's numbers), by name."""
        with self._reading() as database:
            rows = database.execute(
                "SELECT name, kind FROM operations WHERE service = ? ORDER BY name, kind", (service,)
            ).fetchall()
        return [(row["name"], row["kind"]) for row in rows]

    def agents(self) -> list[str]:
        """List who is blamed for anything, by name."""
        return self._select_names(
            "SELECT DISTINCT blamed_agent FROM traces WHERE blamed_agent <> '' ORDER BY blamed_agent"
        )

    def modes(self) -> list[tuple[str, str]]:
        """List the error modes that anybody is blamed for, and their names."""
        with self._reading() as database:
            rows = database.execute(
                "SELECT mode, max(mode_name) AS name FROM traces WHERE mode <> '' GROUP BY mode LIMIT ?", (_MOST,)
            ).fetchall()
        return [(row["mode"], row["name"]) for row in rows]

    def _select_names(self, query: str) -> list[str]:
        with self._reading() as database:
            return [str(row[0]) for row in database.execute(f"{query} LIMIT ?", (_MOST,))]

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        database = open_to_read(self.path)
        database.row_factory = sqlite3.Row
        try:
            yield database
        except sqlite3.OperationalError as error:
            raise StoreUnavailable(f"cannot read the store of runs {str(self.path)!r} now: {error}") from error
        except sqlite3.DatabaseError as error:
            raise StoreMismatch(
                f"expected a store of runs, got {str(self.path)!r}, which is damaged ({error}). "
                f"Begin anew with: mv {self.path} {self.path}.damaged"
            ) from error
        finally:
            database.close()


def _key(trace_id: str) -> bytes | None:
    try:
        return bytes.fromhex(trace_id.zfill(32)) if len(trace_id) <= 32 and trace_id.isalnum() else None
    except ValueError:
        return None


def _spans(payloads: Sequence[bytes]) -> list[Span]:
    """Read every span once: the first of an id counts, as everywhere."""
    spans: dict[str, Span] = {}
    for payload in payloads:
        for _, span in read_what_can_be(payload):
            spans.setdefault(span.span_id, span)
    return list(spans.values())
