"""Stored runs: read one by one or all of a store, with the verdicts they went out with."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from blamespan import conventions as words
from blamespan.annotate import is_verdict, read_verdict
from blamespan.attribution import Attribution
from blamespan.errors import BlamespanError, UnreadableInput
from blamespan.importing.parts import Continuations, runs_of_trace
from blamespan.importing.recorded import RecordedRun
from blamespan.rebuilding.rebuild import rebuild_run
from blamespan.rebuilding.runs import Run, split_runs
from blamespan.spans import Span
from blamespan.sqlite_files import STORE_MARK, has_mark
from blamespan.trace import MessageActionTrace
from blamespan_collector.local_runs import default_store
from blamespan_collector.store import RunQuery, RunStore

Judged: TypeAlias = tuple[RecordedRun, Attribution | None]

_AT_ONCE = 100
_MOST_ANSWERS = 16

_logger = logging.getLogger("blamespan.collector")


class StoreImporter:
    """Reads the runs of a store, the last to start first."""

    name = "store"
    description = "the store of blamespan collect, or of programs with instrument(embedded=True); loses nothing"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the mark of the file."""
        return head.startswith(b"SQLite format 3\0") and has_mark(path, STORE_MARK)

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield every run; for a trace that cannot be rebuilt, the error in its place."""
        return self.read_with_spans(path)

    def read_with_spans(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Read as `read` does: whoever reads a store has the spans."""
        return self.read_traces(path, _trace_ids(RunStore(path)))

    def read_traces(self, path: Path, trace_ids: Iterable[str]) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield the runs of some stored traces likewise."""
        store = RunStore(path)
        try:
            for trace_id in trace_ids:
                try:
                    yield from (run for run, _ in judged_runs_of_trace(store, trace_id))
                except (BlamespanError, ValueError) as error:
                    yield UnreadableInput(f"{path}:{trace_id}: {error}")
        except BlamespanError as error:
            yield UnreadableInput(str(error))


def judged_runs(store: Path | None = None) -> tuple[Path, Iterator[Judged]]:
    """Open a store: its path, and its runs, the last to start first, each with the verdict on its spans if it has one.

    Args:
        store: The file; None for `BLAMESPAN_STORE`, else that of this user's embedded programs, else of the collector
            on the usual ports.

    Raises:
        StoreUnavailable: if there is none, or it cannot be read now.
        StoreMismatch: if it is of another version or damaged.
    """
    path = store or default_store()
    found = RunStore(path)
    found.search(RunQuery(limit=1))
    return found.path, _judged(found)


def _judged(store: RunStore) -> Iterator[Judged]:
    for trace_id in _trace_ids(store):
        try:
            yield from judged_runs_of_trace(store, trace_id)
        except (BlamespanError, ValueError):
            continue  # the page says why; there is nothing to show here


def _trace_ids(store: RunStore) -> Iterator[str]:
    after: str | None = None
    while some := store.search(RunQuery(limit=_AT_ONCE, after=after)):
        yield from (summary.trace_id for summary in some)
        after = some[-1].place


def judged_runs_of_trace(store: RunStore, trace_id: str) -> Iterator[Judged]:
    """Yield the runs of a stored trace, first to start first, each with the verdict on its spans if it has one.

    A run that paused comes as a whole, by whichever of its parts it is named, and without a verdict: those on the
    spans are of its parts.

    Raises:
        BlamespanError: if the trace cannot be rebuilt, or the store cannot be read.
    """
    spans = _own_spans(store, trace_id)
    later = _traces_that_go_on(store, trace_id, spans)
    answers = Continuations([*spans, *(span for trace in later.values() for span in trace)])
    runs = list(
        runs_of_trace(f"{store.path}:{trace_id}", spans, lambda key: _own_spans(store, key), answers, keeps_spans=True)
    )
    if spans and not runs:
        yield from (judged for other_id in later for judged in judged_runs_of_trace(store, other_id))
        return
    for run in runs:
        if run.parts:
            yield run, None
            continue
        root = next((span for span in run.spans if span.span_id == run.root_id), None)
        yield run, verdict_of(Run(root, run.spans), run.trace)


def _own_spans(store: RunStore, trace_id: str) -> Sequence[Span]:
    return [span for span in store.spans_of(trace_id) if not is_verdict(span)]


def _traces_that_go_on(store: RunStore, trace_id: str, spans: Sequence[Span]) -> dict[str, Sequence[Span]]:
    """Find the traces that go on from a part that paused, by their ids; ask for them only of such a part."""
    if not any(span.attributes.get(words.RUN_INTERRUPTED) is True for span in spans):
        return {}
    named = store.search(RunQuery(text=trace_id, limit=_MOST_ANSWERS, is_run=False))
    found = {summary.trace_id: _own_spans(store, summary.trace_id) for summary in named}
    return {
        other_id: other
        for other_id, other in found.items()
        if other_id != trace_id and any(link.trace_id == trace_id for span in other for link in span.links)
    }


def runs_of(source: str, spans: Sequence[Span]) -> Iterator[Judged]:
    """Yield the runs of one trace that can be rebuilt, first to start first.

    Args:
        source: What they are called.
        spans: All there are of the trace.
    """
    try:
        runs = split_runs([span for span in spans if not is_verdict(span)])
    except BlamespanError:
        return
    for run in runs:
        try:
            trace = rebuild_run(run)
        except (BlamespanError, ValueError):
            continue  # the page says why; there is nothing to show here
        yield RecordedRun(source, trace), verdict_of(run, trace)


def verdict_of(run: Run, trace: MessageActionTrace) -> Attribution | None:
    """Read the verdict on a run's spans; one that contradicts itself, as only others can write it, is none.

    Args:
        run: The run.
        trace: The run, rebuilt.
    """
    try:
        return read_verdict(run, trace)
    except ValueError as error:
        _logger.info("the verdict on trace %s cannot be read: %s", run.spans[0].trace_id, error)
        return None
