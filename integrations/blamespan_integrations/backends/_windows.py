"""Finding all traces in a back end whose search has no pages: a range of time that holds too many is halved.

Such a search gives some of the traces in a range, and does not say whether there are more. As many as were asked for
means that there may be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

from blamespan.errors import UnreadableInput
from blamespan.importing.selection import Selection, nanoseconds_of
from blamespan_integrations.backends._api import AnswerTooLarge

__all__ = ["DAY_NS", "LOOK_BACK_DAYS", "SECOND_NS", "Search", "found_in_range"]

SECOND_NS = 1_000_000_000
DAY_NS = 86_400 * SECOND_NS
LOOK_BACK_DAYS = 30
"""How far back is looked where no one says since when: stores keep an index per day, and most keep fewer."""
_MOST_AT_ONCE = 100_000

Search: TypeAlias = Callable[[int, int, int], list[tuple[int, str]]]
"""Asks for at most so many traces between two times in ns: when each began, and its id."""


def found_in_range(
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
        yield from _found(search, start_ns, end_ns, name, at_once, finest_ns)
        start_ns = end_ns


def _found(
    search: Search, start_ns: int, end_ns: int, name: str, at_once: int, finest_ns: int
) -> Iterator[str | UnreadableInput]:
    try:
        found: list[tuple[int, str]] | None = search(start_ns, end_ns, at_once)
    except AnswerTooLarge as error:
        found, trouble = None, error
    except UnreadableInput as error:
        yield UnreadableInput(f"{name}: traces from {_shown(start_ns)} to {_shown(end_ns)} are not known: {error}")
        return
    if found is not None and len(found) < at_once:
        yield from (trace_id for _, trace_id in sorted(found))
    elif end_ns - start_ns > finest_ns:
        middle_ns = max(start_ns + finest_ns, (start_ns + end_ns) // 2 // finest_ns * finest_ns)
        yield from _found(search, start_ns, middle_ns, name, at_once, finest_ns)
        yield from _found(search, middle_ns, end_ns, name, at_once, finest_ns)
    elif found is None:
        yield UnreadableInput(f"{name}: traces at {_shown(start_ns)} are not known: {trouble}")
    elif at_once < _MOST_AT_ONCE:
        yield from _found(search, start_ns, end_ns, name, at_once * 10, finest_ns)
    else:
        yield from (trace_id for _, trace_id in sorted(found))
        yield UnreadableInput(f"{name}: expected at most {at_once} traces at {_shown(start_ns)}, got as many or more.")


def _shown(time_ns: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time_ns // SECOND_NS))
