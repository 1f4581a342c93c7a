"""Which of the runs that a source holds are wanted: a range of time, a filter, a number."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import get_args

from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan.trace import AttributeValue, MessageActionTrace, Outcome

_AGO = re.compile(r"(\d{1,6})([smhdw])")
_RUN_NUMBER = re.compile(r"[1-9][0-9]{0,5}")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

RUN_WORDS = ("agent", "outcome", "trace_id")
"""Filters that speak of the run itself; all others are names of attributes, of its process or of one of its steps."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which runs are wanted. Nothing said, nothing left out.

    Attributes:
        since: A run that began before is left out. Taken for UTC where it names no zone.
        until: A run that began then or later is left out.
        filters: What must be so: `agent` (one of its agents), `outcome`, `trace_id`, or an attribute of the process or
            of one of the steps, compared as text.
        limit: At most so many runs of each piece; whoever reads several pieces counts over them.

    Raises:
        ConfigError: if the range is empty, the limit below 1, or the outcome in *filters* none that runs have.
    """

    since: datetime | None = None
    until: datetime | None = None
    filters: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.since and self.until and nanoseconds_of(self.since) >= nanoseconds_of(self.until):
            raise ConfigError(
                f"expected a range of time that ends after it begins, got since {self.since.isoformat()} "
                f"until {self.until.isoformat()}. Swap the two"
            )
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"expected a limit of 1 or more, got {self.limit!r}. Leave it out to read all")
        outcome = self.filters.get("outcome")
        if outcome is not None and outcome not in get_args(Outcome):
            raise ConfigError(f"expected outcome to be one of {', '.join(get_args(Outcome))}, got {outcome!r}")

    def takes(self, run: RecordedRun) -> bool:
        """Check whether *run* is wanted; one that does not know when it began is, whatever the range."""
        start_ns = run.trace.start_ns
        if start_ns and self.since and start_ns < nanoseconds_of(self.since):
            return False
        if start_ns and self.until and start_ns >= nanoseconds_of(self.until):
            return False
        return all(wanted in _values(run.trace, key) for key, wanted in self.filters.items())


def time_of(text: str, now: datetime) -> datetime:
    """Read a point in time as people write it: `2026-11-21`, `2026-11-21T08:00:00Z`, or `7d` for so long ago.

    Args:
        text: ISO 8601, UTC where it names no zone; or a number and one of s, m, h, d, w.
        now: What "ago" counts from.

    Raises:
        ConfigError: if it is neither.
    """
    ago = _AGO.fullmatch(text.strip())
    try:
        if ago:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        time = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"expected a time, got {text!r}. Write it like 2026-11-21, 2026-11-21T08:00:00Z, or 7d for seven days ago"
        ) from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def nanoseconds_of(time: datetime) -> int:
    """Return a point in time as Unix nanoseconds; UTC where it names no zone."""
    since = (time if time.tzinfo else time.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1_000


def _values(trace: MessageActionTrace, key: str) -> set[str]:
    if key == "agent":
        return {agent.name for agent in trace.agents}
    if key == "outcome":
        return {trace.outcome}
    if key == "trace_id":
        return {trace.trace_id}
    holders = (trace.resource, *(step.attributes for step in trace.steps))
    return {_text(holder[key]) for holder in holders if key in holder}


def _text(value: AttributeValue) -> str:
    """Write a value as people type it: `true`, not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def list_named(runs: Sequence[RecordedRun], which: str | None) -> list[RecordedRun]:
    """Return those of all runs of a source that `--run` *which* names; all where that is None.

    Raises:
        ConfigError: if it names none of them.
    """
    named = [run for number, run in enumerate(runs, 1) if which is None or is_named(which, number, run.trace)]
    if runs and not named:
        raise ConfigError(f"expected a number from 1 to {len(runs)}, or a trace id, got --run {which!r}")
    return named


def is_named(which: str, number: int, trace: MessageActionTrace) -> bool:
    """Check whether `--run` *which* names a run of a source: by its *number*, from 1, or by how its trace id begins."""
    if _RUN_NUMBER.fullmatch(which):
        return int(which) == number
    return trace.trace_id.startswith(which.lower())
