"""Runs that stand in more than one place: exports that overlap, and traces torn over files."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator

from blamespan.analysis.outcomes import AttributedOutcome, Finished, Outcome, digest_of
from blamespan.errors import UnreadableInput

_DONE_BEFORE = -1


class RepeatedRun(UnreadableInput):
    """A run, or another one of its trace, came before."""


class Repeats:
    """Remembers every run by its trace, on disk where they are many."""

    def __init__(self) -> None:
        self._seen = sqlite3.connect("", isolation_level=None, check_same_thread=False)  # a temporary file, unnamed
        self._seen.execute("PRAGMA journal_mode = OFF")
        self._seen.execute("CREATE TABLE seen (trace BLOB, digest BLOB, piece INTEGER, source TEXT)")
        self._seen.execute("CREATE INDEX of_trace ON seen (trace)")

    def close(self) -> None:
        """Forget all."""
        self._seen.close()

    def add_row(self, line: str) -> None:
        """Remember a run of a piece that was done before, by its row as JSON."""
        row = json.loads(line)
        source = row.pop("source")
        self.add(row["trace_id"], digest_of(json.dumps(row)), _DONE_BEFORE, source)

    def add(self, trace_id: str, digest: bytes, piece: int, source: str) -> tuple[str, bool] | None:
        """Remember a run.

        Args:
            trace_id: Its trace.
            digest: Of what it says and how it was judged.
            piece: Which piece it came from: a trace may hold several runs, and they stand together.
            source: Its place.

        Returns:
            Where the same trace was met before, and whether the run is the same; None where it is new.
        """
        trace = bytes.fromhex(trace_id)
        rows = self._seen.execute("SELECT digest, piece, source FROM seen WHERE trace = ?", (trace,)).fetchall()
        for seen, _, source_there in rows:
            if seen == digest:
                return source_there, True
        place_of_bytes = source.encode("utf-8", "replace").decode()  # half a surrogate pair is no text for SQLite
        self._seen.execute("INSERT INTO seen VALUES (?, ?, ?, ?)", (trace, digest, piece, place_of_bytes))
        return next(((source_there, False) for _, other, source_there in rows if other != piece), None)


def without_repeats(outcomes: Iterable[Outcome], repeats: Repeats) -> Iterator[Outcome]:
    """Leave out a run that came before, and name it; name a trace that another piece tells otherwise, and keep both."""
    piece = 0
    for outcome in outcomes:
        if isinstance(outcome, AttributedOutcome):
            repeat = repeats.add(outcome.trace_id, outcome.digest, piece, outcome.source)
            if repeat is not None:
                yield _describe_repeat(outcome, *repeat)
            if repeat is not None and repeat[1]:
                continue
        piece += isinstance(outcome, Finished)
        yield outcome


def _describe_repeat(outcome: AttributedOutcome, first: str, is_same: bool) -> RepeatedRun:
    if is_same:
        return RepeatedRun(f"{outcome.source}: expected a run once, got that of {first} again. It is left out")
    return RepeatedRun(
        f"{outcome.source}: expected each trace in one place, got {outcome.trace_id} in {first} too, with other steps. "
        "Both are kept; if a trace was torn over files, put them together"
    )
