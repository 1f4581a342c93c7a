"""Runs that paused, as files and stores hold them: their parts are found in any order, and joined to one run.

spans of a source ── runs_of_trace: joined with the parts in the same source ──> runs
runs of several sources ── SeparateParts: joined with the parts that stood elsewhere ──> runs
"""

from __future__ import annotations

import pickle  # our own records, in a temporary file of our own
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from blamespan import conventions as words
from blamespan.annotate import is_verdict
from blamespan.errors import MalformedTrace
from blamespan.importing.recorded import PartId, RecordedRun
from blamespan.rebuilding.continuing import MOST_PARTS, is_waiting, join_parts, link_to_earlier, rebuild_with_earlier
from blamespan.rebuilding.runs import Run, split_runs
from blamespan.spans import Span


class Continuations:
    """Which parts of runs others go on from, as the links of spans say."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._later: dict[PartId, PartId] = {}
        for span in spans:
            self.add(span)

    def add(self, span: Span) -> None:
        """Note what a span goes on from."""
        for link in span.links:
            if link.attributes.get(words.LINK_RELATION) == "continues":
                self.note((link.trace_id, link.span_id), (span.trace_id, span.span_id))

    def note(self, before: PartId, after: PartId) -> None:
        """Note that a part goes on from another."""
        self._later[before] = after

    def has(self, part: PartId) -> bool:
        """Check whether a part that paused is told with a run that goes on from it, rather than by itself."""
        at: PartId | None = part
        for count in range(MOST_PARTS + 1):
            at = self._later.get(at) if at is not None else None
            if at is None:
                return count > 0
        return False  # a circle of links, or more parts than are joined: each is told by itself


def runs_of_trace(
    source: str,
    spans: Sequence[Span],
    spans_of: Callable[[str], Sequence[Span]],
    continuations: Continuations,
    *,
    keeps_spans: bool = False,
) -> Iterator[RecordedRun]:
    """Yield the runs of a trace, each joined with its earlier parts; a part that another one is joined with, is not.

    Args:
        source: What the trace is called.
        spans: All there are of the trace.
        spans_of: Returns the spans of a trace of the same source by its id; nothing where it is not there.
        continuations: Of that source.
        keeps_spans: Whether each run comes with its spans; what belongs to no run of a trace comes with its first.

    Raises:
        BlamespanError: if the trace cannot be split or rebuilt.
    """
    runs = split_runs(spans)
    verdict_ids = frozenset(span.span_id for span in spans if is_verdict(span))
    left = _outside(runs, spans) if keeps_spans else ()
    for run in runs:
        if run.root is not None and is_waiting(run) and continuations.has((run.root.trace_id, run.root.span_id)):
            continue
        rebuilt = rebuild_with_earlier(run, spans_of)
        link = link_to_earlier(rebuilt.earlier_runs[0] if rebuilt.earlier_runs else run)
        is_elsewhere = link is not None and not spans_of(link.trace_id)
        goes_on_from = (link.trace_id, link.span_id) if link is not None and is_elsewhere else None
        is_kept = keeps_spans or rebuilt.waits or goes_on_from is not None
        parts = [
            RecordedRun(source, trace, root_id=_root_id(part), spans=part.spans if is_kept else (), waits=True)
            for part, trace in zip(rebuilt.earlier_runs, rebuilt.earlier, strict=True)
        ]
        own = RecordedRun(
            source,
            rebuilt.trace,
            root_id=_root_id(run),
            spans=(*run.spans, *left) if is_kept else (),
            waits=rebuilt.waits,
            verdict_ids=verdict_ids,
        )
        yield replace(join_runs([*parts, own]), goes_on_from=goes_on_from)
        left = ()


def runs_of_spans(source: str, spans: Iterable[Span]) -> list[RecordedRun]:
    """Return the runs of spans of several traces, with their spans, in the order in which the traces begin.

    Raises:
        BlamespanError: if one of them cannot be rebuilt.
    """
    by_trace: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_trace[span.trace_id].append(span)
    continuations = Continuations(span for spans in by_trace.values() for span in spans)
    return [
        run
        for own in by_trace.values()
        for run in runs_of_trace(
            source, own, lambda trace_id: by_trace.get(trace_id, ()), continuations, keeps_spans=True
        )
    ]


def join_runs(runs: Sequence[RecordedRun]) -> RecordedRun:
    """Join parts, the first one first, to one run; the last alone where they cannot be joined, as with equal ids."""
    parts = [part for run in runs for part in run.parts or (run,)]
    if len(parts) == 1:
        return parts[0]
    try:
        trace = join_parts([part.trace for part in parts])
    except MalformedTrace:
        return runs[-1]
    spans = tuple(span for part in parts for span in part.spans)
    return replace(runs[-1], trace=trace, parts=tuple(parts), spans=spans, goes_on_from=runs[0].goes_on_from)


def part_ids(run: RecordedRun) -> tuple[PartId, ...]:
    """Name the parts of a run that others may go on from."""
    return tuple((part.trace.trace_id, part.root_id) for part in run.parts or (run,) if part.root_id is not None)


class SeparateParts:
    """Holds the parts whose other parts may stand in another file, on disk, until every file was read."""

    def __init__(self) -> None:
        self._parts = sqlite3.connect("", isolation_level=None, check_same_thread=False)  # a temporary file, unnamed
        self._parts.execute("PRAGMA journal_mode = OFF")
        self._parts.execute("CREATE TABLE parts (trace TEXT, root TEXT, run BLOB, UNIQUE (trace, root))")
        self._continuations = Continuations()

    def close(self) -> None:
        """Forget all."""
        self._parts.close()

    def add(self, run: RecordedRun) -> None:
        """Hold a run that may go on elsewhere."""
        self._parts.execute(
            "INSERT OR IGNORE INTO parts VALUES (?, ?, ?)", (run.trace.trace_id, run.root_id, pickle.dumps(run))
        )
        ids = part_ids(run)
        self.note_told(ids)
        if run.goes_on_from is not None and ids:
            self._continuations.note(run.goes_on_from, ids[-1])

    def note_told(self, parts: Sequence[PartId]) -> None:
        """Note the parts of a run that is told as a whole."""
        for part in parts[:-1]:
            self._continuations.note(part, parts[-1])

    def join(self) -> Iterator[RecordedRun]:
        """Yield each run once: those whose parts were found, and those that go on nowhere, as they came."""
        for run in self._all():
            ids = part_ids(run)
            if not (run.waits and ids and self._continuations.has(ids[-1])):
                yield join_runs(self._chain(run))

    def _all(self) -> Iterator[RecordedRun]:
        for (blob,) in self._parts.execute("SELECT run FROM parts ORDER BY rowid"):
            yield pickle.loads(blob)  # noqa: S301  # written by `add`

    def _chain(self, run: RecordedRun) -> list[RecordedRun]:
        """Return the run and what stands before it, the first part first."""
        runs = [run]
        seen = set(part_ids(run))
        while (link := runs[0].goes_on_from) is not None and link not in seen and len(runs) <= MOST_PARTS:
            row = self._parts.execute("SELECT run FROM parts WHERE trace = ? AND root = ?", link).fetchone()
            before: RecordedRun | None = None if row is None else pickle.loads(row[0])  # noqa: S301  # likewise
            if before is None or not before.waits:
                break
            runs.insert(0, before)
            seen.update(part_ids(before))
        return runs


def _root_id(run: Run) -> str | None:
    return run.root.span_id if run.root is not None else None


def _outside(runs: Iterable[Run], spans: Iterable[Span]) -> tuple[Span, ...]:
    """List the spans of a trace that belong to no run of it, each once."""
    inside = {span.span_id for run in runs for span in run.spans}
    outside = {span.span_id: span for span in reversed(list(spans)) if span.span_id not in inside}
    return tuple(reversed(outside.values()))
