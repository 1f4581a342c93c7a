"""What reading traces one by one has in common: which ids, and from a trace's spans to its runs.

A search without pages returns some of the traces in a range of time, and does not say whether there are more. As many
as were asked for means that there may be: such a range is halved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from blamespan.errors import ConfigError, UnreadableInput
from blamespan.importing.backends import Address
from blamespan.importing.recorded import RecordedRun
from blamespan.importing.selection import Selection, nanoseconds_of
from blamespan_integrations.backends._api import AnswerTooLarge, BackendApi
from blamespan_integrations.importers._span_files import SpanItem, rebuild_runs

SECOND_NS = 1_000_000_000
DAY_NS = 86_400 * SECOND_NS
LOOK_BACK_DAYS = 30
"""How far back is looked where no one says since when: stores keep an index per day, and most keep fewer."""
_MOST_AT_ONCE = 100_000

Search: TypeAlias = Callable[[int, int, int], list[tuple[int, str]]]
"""Asks for at most so many traces between two times in ns: when each began, and its id."""
TRACE_ID = "trace_id"


def not_writable(address: Address, product: str) -> ConfigError:
    """Return the error that a back end which is asked at *address* takes spans elsewhere."""
    return ConfigError(
        f"expected where to write verdicts, got {address.name!r}: {product} takes spans over OTLP, at another port. "
        "Write it like --write-back http://localhost:4318"
    )


class TraceReader:
    """Reads a back end trace by trace: what is wrong with one keeps no other back.

    Args:
        name: Of the source, for messages and runs.
        api: To ask; closed with the reader.
        selection: Which runs are wanted.
        find: Finds their traces' ids, in any order, perhaps twice.
        fetch: Asks for the spans of one trace.
        asked: Filters that *find* asks the back end for.
    """

    def __init__(
        self,
        name: str,
        api: BackendApi,
        selection: Selection,
        *,
        find: Callable[[], Iterable[str | UnreadableInput]],
        fetch: Callable[[str], Iterable[SpanItem]],
        asked: Iterable[str] = (),
    ) -> None:
        self._name = name
        self._api = api
        self._find = find
        self._fetch = fetch
        self._selection = selection
        pushed = {TRACE_ID, *asked}
        self.remaining = replace(
            selection,
            filters={key: value for key, value in selection.filters.items() if key not in pushed},
            limit=None,
        )

    def trace_ids(self) -> Iterator[str | UnreadableInput]:
        """Yield each wanted trace's id once, up to the limit; a trouble on the way is an error in its place."""
        if TRACE_ID in self._selection.filters:
            yield self._selection.filters[TRACE_ID]
            return
        ids: set[str] = set()
        try:
            for item in self._find():
                if isinstance(item, UnreadableInput):
                    yield item
                elif item not in ids:
                    ids.add(item)
                    yield item
                    if len(ids) == self._selection.limit:
                        return
        except UnreadableInput as error:
            yield UnreadableInput(f"{self._name}: the list of traces ends after {len(ids)}: {error}")

    def runs(self, trace_ids: Sequence[str]) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield the runs of these traces; for a trace that cannot be read as a whole, one error."""
        return self._runs(trace_ids, keeps_spans=False)

    def runs_with_spans(self, trace_ids: Sequence[str]) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield the runs of these traces likewise, each with its spans."""
        return self._runs(trace_ids, keeps_spans=True)

    def _runs(self, trace_ids: Sequence[str], *, keeps_spans: bool) -> Iterator[RecordedRun | UnreadableInput]:
        for trace_id in trace_ids:
            try:
                items = list(self._fetch(trace_id))
            except UnreadableInput as error:
                yield UnreadableInput(f"{self._name}:{trace_id}: {error}")
                continue
            yield from rebuild_runs(self._name, items, keeps_spans=keeps_spans)

    def close(self) -> None:
        """Close the connections."""
        self._api.close()


def find_in_range(
    search: Search, selection: Selection, *, name: str, at_once: int, finest_ns: int, widest_ns: int
) -> Iterator[str | UnreadableInput]:
    """Yield the ids of all traces in the range of *selection*, the oldest first, perhaps some twice.

    Args:
        search: Asks.
        selection: Says since when, by default for `LOOK_BACK_DAYS`, and until when.
        name: Of the back end, for messages.
        at_once: How many traces to ask for.
        finest_ns: The shortest range that can be asked for.
        widest_ns: The longest.
    """
    until_ns = nanoseconds_of(selection.until) if selection.until else time.time_ns() + SECOND_NS
    since_ns = nanoseconds_of(selection.since) if selection.since else until_ns - LOOK_BACK_DAYS * DAY_NS
    start_ns = since_ns if selection.since else since_ns - since_ns % DAY_NS
    while start_ns < until_ns:
        end_ns = min(until_ns, start_ns - start_ns % widest_ns + widest_ns)
        yield from _search_range(search, start_ns, end_ns, name, at_once, finest_ns)
        start_ns = end_ns


def _search_range(
    search: Search, start_ns: int, end_ns: int, name: str, at_once: int, finest_ns: int
) -> Iterator[str | UnreadableInput]:
    try:
        matches: list[tuple[int, str]] | None = search(start_ns, end_ns, at_once)
    except AnswerTooLarge as error:
        matches, trouble = None, error
    except UnreadableInput as error:
        yield UnreadableInput(
            f"{name}: traces from {_format_time(start_ns)} to {_format_time(end_ns)} are not known: {error}"
        )
        return
    if matches is not None and len(matches) < at_once:
        yield from (trace_id for _, trace_id in sorted(matches))
    elif end_ns - start_ns > finest_ns:
        middle_ns = max(start_ns + finest_ns, (start_ns + end_ns) // 2 // finest_ns * finest_ns)
        yield from _search_range(search, start_ns, middle_ns, name, at_once, finest_ns)
        yield from _search_range(search, middle_ns, end_ns, name, at_once, finest_ns)
    elif matches is None:
        yield UnreadableInput(f"{name}: traces at {_format_time(start_ns)} are not known: {trouble}")
    elif at_once < _MOST_AT_ONCE:
        yield from _search_range(search, start_ns, end_ns, name, at_once * 10, finest_ns)
    else:
        yield from (trace_id for _, trace_id in sorted(matches))
        yield UnreadableInput(
            f"{name}: expected at most {at_once} traces at {_format_time(start_ns)}, got as many or more."
        )


def _format_time(time_ns: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time_ns // SECOND_NS))
