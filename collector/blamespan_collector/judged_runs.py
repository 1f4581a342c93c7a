"""Stored runs with the verdicts they went out with."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from blamespan.annotate import is_verdict, read_verdict
from blamespan.attribution import Attribution
from blamespan.errors import BlamespanError
from blamespan.importing.recorded import RecordedRun
from blamespan.rebuilding.rebuild import rebuild_run
from blamespan.rebuilding.runs import Run, split_runs
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace
from blamespan_collector.local_runs import local_stores
from blamespan_collector.options import local_store
from blamespan_collector.store import RunQuery, RunStore

__all__ = ["judged_runs", "runs_of", "verdict_of"]

Judged: TypeAlias = tuple[RecordedRun, Attribution | None]

_AT_ONCE = 100

_logger = logging.getLogger("blamespan.collector")


def judged_runs(store: Path | None = None) -> tuple[Path, Iterator[Judged]]:
    """Open a store: its path, and its runs, the last to start first, each with the verdict on its spans if it has one.

    Args:
        store: The file; None for `BLAMESPAN_STORE`, else that of this user's embedded programs, else of the collector
            on the usual ports.

    Raises:
        StoreUnavailable: if there is none, or it cannot be read now.
        StoreMismatch: if it is of another version or damaged.
    """
    path = store or next(iter(local_stores()), local_store())
    found = RunStore(path)
    found.search(RunQuery(limit=1))
    return path, _judged(found)


def _judged(store: RunStore) -> Iterator[Judged]:
    after: str | None = None
    while some := store.search(RunQuery(limit=_AT_ONCE, after=after)):
        for summary in some:
            spans = store.spans_of(summary.trace_id)
            yield from runs_of(f"{store.path.name}:{summary.trace_id}", spans)
        after = some[-1].place


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
