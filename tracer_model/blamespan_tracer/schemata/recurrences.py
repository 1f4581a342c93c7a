"""How often a known failure has come: `the same failure as in run 4bf92f35, third time this week`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from blamespan.trace import MessageActionTrace
from blamespan_tracer.schemata.schema import ErrorSchema

_WEEK: Final = timedelta(days=7)
_ORDINALS: Final = ("", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ID_DIGITS: Final = 8


class Recurrences:
    """Counts in which runs each schema was seen: those that it was confirmed in, and those that are added.

    Args:
        schemata: What is known.
    """

    def __init__(self, schemata: Iterable[ErrorSchema] = ()) -> None:
        self._runs: dict[str, dict[str, datetime | None]] = defaultdict(dict)
        self._made_of: dict[str, set[str]] = defaultdict(set)
        for schema in schemata:
            for seen in schema.seen:
                self._runs[schema.name].setdefault(seen.trace_id, _read_time(seen.at))
                self._made_of[schema.name].add(seen.trace_id)

    def add(self, name: str, trace_id: str, at: datetime | None) -> None:
        """Count a run, once."""
        self._runs[name].setdefault(trace_id, at)

    def count(self, name: str) -> int:
        """Count the runs that a schema was seen in."""
        return len(self._runs[name])

    def describe(self, name: str, trace_id: str, at: datetime | None) -> str:
        """Say in which run a failure came first, and how often up to this run, within the week before it where known.

        Args:
            name: Of the schema.
            trace_id: Of the run that is spoken of.
            at: When it began; None where no clock says so.
        """
        others = {other: seen for other, seen in self._runs[name].items() if other != trace_id}
        if at is not None:
            others = {other: seen for other, seen in others.items() if seen is None or seen <= at}
        if not others:
            return "the run that it was made of" if trace_id in self._made_of[name] else "the first time"
        first = min(
            others, key=lambda other: (others[other] is None, others[other] or datetime.max.replace(tzinfo=UTC))
        )
        of_week = [seen for seen in others.values() if at is not None and seen is not None and at - seen <= _WEEK]
        count, when = (len(of_week) + 1, " this week") if of_week else (len(others) + 1, "")
        ordinal = _ORDINALS[count] if count < len(_ORDINALS) else f"{count}th"
        return f"the same failure as in run {first[:_ID_DIGITS]}, {ordinal} time{when}"


def began_at(trace: MessageActionTrace) -> datetime | None:
    """Return when a run's first step began, UTC; None where no clock says so."""
    try:
        return datetime.fromtimestamp(trace.start_ns / 1e9, UTC) if trace.start_ns >= 10**15 else None
    except (ValueError, OverflowError, OSError):
        return None


def _read_time(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at.astimezone(UTC) if at.tzinfo is not None else at.replace(tzinfo=UTC)
