"""A trace of the local store as `blamespan show` draws it: its runs, their verdicts, and what is missing."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from blamespan.analysis.showing.shown_run import ShownRun
from blamespan.errors import UnreadableInput
from blamespan_collector.options import local_store
from blamespan_collector.page.trace_view import TraceView, trace_view
from blamespan_collector.store import RunQuery, RunStore

__all__ = ["stored_trace"]

_MOST_IDS = 10_000
_NAMED = 3


def stored_trace(trace_id: str, store: Path | None = None) -> Sequence[ShownRun]:
    """Find a stored trace, and give its runs, first to start first.

    Args:
        trace_id: Hex digits: all of them, or as many of the first ones as tell it from others.
        store: The store's file; None for the one of this user's collector.

    Raises:
        UnreadableInput: if there is no such trace, or several, or no agents took part in it.
        StoreError: if the store is not there, or is of another version.
    """
    opened = RunStore(store or local_store())
    found = opened.run(trace_id) or opened.run(_known(opened, trace_id.lower()))
    if found is None or not found.spans:
        raise UnreadableInput(f"trace {trace_id!r} was let go just now. Look at another")
    view = trace_view(found.spans)
    if not view.runs:
        raise UnreadableInput(
            f"expected a run of agents, got trace {view.trace_id}: {view.spans} spans"
            f"{''.join(f'; {reason}' for reason in view.unread)}. Look at another"
        )
    notes = _notes(view)
    return [
        ShownRun(f"{view.trace_id} in {opened.path.name}", run.trace, run.verdict, notes) for run in view.runs
    ]  # fmt: skip


def _known(store: RunStore, said: str) -> str:
    """Find the one id that begins with *said*."""
    ids = [summary.trace_id for summary in store.search(RunQuery(limit=_MOST_IDS, is_run=False))]
    beginning = [one for one in ids if one.startswith(said)]
    if len(beginning) == 1:
        return beginning[0]
    near = beginning or difflib.get_close_matches(said, ids, n=_NAMED, cutoff=0.0) or ids
    named = ", ".join(near[:_NAMED])
    if beginning:
        raise UnreadableInput(f"expected one stored trace, got {len(beginning)} that begin with {said!r}: {named}. "
                              "Give more digits")  # fmt: skip
    where = f"the nearest are {named}" if near else "the store is empty"
    raise UnreadableInput(
        f"expected the id of a trace in {str(store.path)!r}, got {said!r}; {where}. "
        "It may have been let go, or be still under way: a run is stored when it has ended"
    )


def _notes(view: TraceView) -> tuple[str, ...]:
    notes = ["partial: the run had not ended when it was judged, or its own span has not come"] * view.is_partial
    if view.missing:
        notes.append(f"spans that others lie below and that have not come: {view.missing}")
    for later in view.later:
        what = f"{later.agent} at step {later.step}, {later.mode}" if later.agent else f"no verdict, {later.abstained}"
        notes.append(f"revision {later.revision}, made when the spans were out already: {what}")
    return (*notes, *view.unread)
