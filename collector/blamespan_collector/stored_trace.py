"""Which stored run a name means, and that run as `blamespan show` draws it: its verdict, and what is missing."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

from blamespan.analysis.showing.legible import printable
from blamespan.analysis.showing.shown_run import ShownRun
from blamespan.errors import ConfigError, UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan_collector.judged_runs import judged_runs_of_trace
from blamespan_collector.local_runs import embedded_store, local_stores
from blamespan_collector.page.trace_view import TraceView, trace_view
from blamespan_collector.store import RunQuery, RunStore, RunSummary

_LAST: Final = "last"
_ID: Final = re.compile(r"[0-9a-fA-F]{1,32}")
_LEAST_CHARS: Final = 4
"""Of the beginning of an id or a title; a shorter one must be all of it."""
_MOST_FOUND: Final = 1_000
_LISTED: Final = 10
_NEAR: Final = 3
_SHOWN_DIGITS: Final = 12
_TITLE_CHARS: Final = 60

_Match: TypeAlias = tuple[RunSummary, Path]


def find_stored(name: str, store: Path | None = None) -> tuple[Path, str]:
    """Find the one stored trace that a name means; return its store and its id.

    Args:
        name: The trace's id or its beginning, the beginning of the run's task, or `last`: the last run to start.
        store: The store's file; None for those of this user: of embedded programs, and of the collector.

    Raises:
        ConfigError: if several are meant.
        UnreadableInput: if none is.
        StoreError: if a store cannot be read, or is of another version.
    """
    stores = [RunStore(path) for path in ([store] if store is not None else local_stores())]
    matches = _find(stores, " ".join(name.split()))
    if len(matches) == 1:
        [(summary, path)] = matches
        return path, summary.trace_id
    if matches:
        more = f"\n  and {len(matches) - _LISTED} more" if len(matches) > _LISTED else ""
        raise ConfigError(
            f"expected one stored run, got {len(matches)} that {name!r} may mean:\n{_describe(matches)}{more}\n"
            "Name one by more of its id; `last` is the last run to start"
        )
    raise UnreadableInput(
        f"expected a file, or a stored run by its id, the beginning of its task, or `last`, got {name!r}: no such "
        f"file, and {_describe_stores(stores, name)}"
    )


def _find(stores: Sequence[RunStore], name: str) -> list[_Match]:
    if name == _LAST:
        newest = [(summary, store.path) for store in stores for summary in store.search(RunQuery(limit=1))]
        return sorted(newest, key=lambda match: match[0].start_ns)[-1:]
    matches: list[_Match] = []
    if _ID.fullmatch(name):
        exact = [(summary, store.path) for store in stores if (summary := store.summary(name)) is not None]
        matches = exact[:1] or _search(stores, name.lower(), lambda summary: summary.trace_id)
    title = name.rstrip("\u2026.").rstrip().lower()  # a line shows a long one cut
    return matches or _search(stores, title, lambda summary: " ".join(_title(summary).lower().split()), is_run=True)


def _search(
    stores: Sequence[RunStore], beginning: str, text_of: Callable[[RunSummary], str], *, is_run: bool = False
) -> list[_Match]:
    """Search for traces of which a text begins so, or is so where *beginning* is short."""
    matches: dict[str, _Match] = {}
    for store in stores:
        for summary in store.search(RunQuery(text=beginning, limit=_MOST_FOUND, is_run=is_run)):
            text = text_of(summary)
            if text == beginning or (len(beginning) >= _LEAST_CHARS and text.startswith(beginning)):
                matches.setdefault(summary.trace_id, (summary, store.path))
    return list(matches.values())


def _title(summary: RunSummary) -> str:
    return summary.task or summary.name.removeprefix("invoke_workflow ")


def _describe(matches: Iterable[_Match]) -> str:
    """List matches, a line each: id, when, title."""
    return "\n".join(
        f"  {summary.trace_id[:_SHOWN_DIGITS]}  {_when(summary)}  {printable(_title(summary))[:_TITLE_CHARS]}"
        for summary, _ in list(matches)[:_LISTED]
    )


def _when(summary: RunSummary) -> str:
    return datetime.fromtimestamp(summary.start_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _describe_stores(stores: Sequence[RunStore], name: str) -> str:
    """Say where no run of that name is, and which are there instead."""
    if not stores:
        expected = embedded_store()
        where = f" at {str(expected)!r}" if expected is not None else ""
        return f"no store of runs{where}. Check the path, or run a program with blamespan.instrument(embedded=True)"
    where = " or ".join(repr(str(store.path)) for store in stores)
    known = [(summary, store.path) for store in stores for summary in store.search(RunQuery(limit=_MOST_FOUND))]
    if not known:
        return f"no run in {where}: a run is stored when it has ended"
    by_id = {match[0].trace_id: match for match in sorted(known, key=lambda match: -match[0].start_ns)}
    near = difflib.get_close_matches(name.lower(), by_id, n=_NEAR, cutoff=0.0) if _ID.fullmatch(name) else []
    shown = [by_id[trace_id] for trace_id in near] or list(by_id.values())[:_NEAR]
    return (
        f"no such run in {where}; the {'nearest' if near else 'last'} are\n{_describe(shown)}\n"
        "It may have been let go, or be still under way. List all with: blamespan show"
    )


def stored_trace(name: str, store: Path | None = None) -> Sequence[ShownRun]:
    """Find a stored trace, and return its runs, first to start first.

    Args:
        name: As for `find_stored`.
        store: Likewise.

    Raises:
        ConfigError: if several are meant.
        UnreadableInput: if none is, or no agents took part in it.
        StoreError: if no store is there, or one is of another version.
    """
    path, trace_id = find_stored(name, store)
    opened = RunStore(path)
    runs = list(judged_runs_of_trace(opened, trace_id))
    shown_id = runs[0][0].trace.trace_id if runs else trace_id
    stored = opened.run(shown_id)
    if stored is None or not stored.spans:
        raise UnreadableInput(f"trace {name!r} was let go just now. Look at another")
    view = trace_view(stored.spans)
    if not runs:
        raise UnreadableInput(
            f"expected a run of agents, got trace {view.trace_id}: {view.spans} spans"
            f"{''.join(f'; {reason}' for reason in view.unread)}. Look at another"
        )
    notes = _notes(view)
    return [
        ShownRun(f"{shown_id} in {path.name}", run.trace, verdict, (*notes, *_paused_parts(run)), run.waits)
        for run, verdict in runs
    ]


def _paused_parts(run: RecordedRun) -> Iterator[str]:
    if run.parts:
        paused = ", ".join(part.trace.trace_id for part in run.parts[:-1])
        yield f"one run with the parts before it that paused: {paused}"


def _notes(view: TraceView) -> tuple[str, ...]:
    notes = ["partial: the run had not ended when it was judged, or its own span has not come"] * view.is_partial
    if view.missing:
        notes.append(f"spans that others lie below and that have not come: {view.missing}")
    for number, later in enumerate(view.later):
        what = f"no verdict, {later.abstained}" if later.abstained else later.verdict
        what = f"{later.agent} at step {later.step}, {later.mode}" if later.agent else what
        holds = "" if number else "; this verdict holds, shares and quotes below are of the first one"
        notes.append(f"judged again with {later.cause} (revision {later.revision}): {what}{holds}")
    return (*notes, *view.unread)
