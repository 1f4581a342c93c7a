"""A trace of the local store as `blamespan show` draws it: its runs, their verdicts, and what is missing."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from blamespan.analysis.showing.shown_run import ShownRun
from blamespan.errors import UnreadableInput
from blamespan_collector.local_runs import local_stores
from blamespan_collector.options import local_store
from blamespan_collector.page.trace_view import TraceView, trace_view
from blamespan_collector.store import RunQuery, RunStore

__all__ = ["known_id", "stored_trace"]

_MOST_IDS = 10_000
_NAMED = 3


def stored_trace(trace_id: str, store: Path | None = None) -> Sequence[ShownRun]:
    """Find a stored trace, and return its runs, first to start first.

    Args:
        trace_id: Hex digits: all of them, or as many of the first ones as tell it from others.
        store: The store's file; None for those of this user: of embedded programs, and of the collector.

    Raises:
        UnreadableInput: if there is no such trace, or several, or no agents took part in it.
        StoreError: if no store is there, or one is of another version.
    """
    paths = [store] if store is not None else local_stores() or [local_store()]
    opened, known = known_id([RunStore(path) for path in paths], trace_id.lower())
    found = opened.run(known)
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
        ShownRun(f"{view.trace_id} in {opened.path.name}", run.trace, run.whole_verdict, notes) for run in view.runs
    ]  # fmt: skip


def known_id(stores: Sequence[RunStore], digits: str) -> tuple[RunStore, str]:
    """Find the one trace whose id is *digits*, or begins with them; return its store and its id.

    Raises:
        UnreadableInput: if there is none, or several.
        StoreError: if a store is not there, or is of another version.
    """
    for store in stores:
        exact = store.run(digits)
        if exact is not None:
            return store, exact.summary.trace_id
    ids = {
        summary.trace_id: store for store in stores for summary in store.search(RunQuery(limit=_MOST_IDS, is_run=False))
    }
    beginning = [one for one in ids if one.startswith(digits)]
    if len(beginning) == 1:
        return ids[beginning[0]], beginning[0]
    near = beginning or difflib.get_close_matches(digits, ids, n=_NAMED, cutoff=0.0) or list(ids)
    named = ", ".join(near[:_NAMED])
    if beginning:
        raise UnreadableInput(f"expected one stored trace, got {len(beginning)} that begin with {digits!r}: {named}. "
                              "Give more digits")  # fmt: skip
    where = f"the nearest are {named}" if near else "the store is empty"
    raise UnreadableInput(
        f"expected the id of a trace in {' or '.join(repr(str(store.path)) for store in stores)}, got {digits!r}; "
        f"{where}. It may have been let go, or be still under way: a run is stored when it has ended"
    )


def _notes(view: TraceView) -> tuple[str, ...]:
    notes = ["partial: the run had not ended when it was judged, or its own span has not come"] * view.is_partial
    if view.missing:
        notes.append(f"spans that others lie below and that have not come: {view.missing}")
    for number, later in enumerate(view.later):
        what = f"no verdict, {later.abstained}" if later.abstained else later.verdict
        what = f"{later.agent} at step {later.step}, {later.mode}" if later.agent else what
        holds = "" if number else "; this verdict holds, shares and quotes below are of the first one"
        notes.append(f"judged again with what came later (revision {later.revision}): {what}{holds}")
    return (*notes, *view.unread)
