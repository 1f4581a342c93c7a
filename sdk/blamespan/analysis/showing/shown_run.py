"""Which run is shown: one of what files hold, or of a trace that a collector stored.

The collector's part `stored_trace` is called with a trace id as a user wrote it, and a store's file or None for the
usual one. It returns the trace's runs, or raises an error that names the nearest ids. So this package shows stored runs
without knowing how they are stored.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import cast

from blamespan.analysis.showing.legible import printable
from blamespan.analysis.sources import runs_in
from blamespan.attribution import Attribution
from blamespan.errors import BlamespanError, ConfigError, UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.importing.selection import is_named
from blamespan.plugins import load_part
from blamespan.trace import MessageActionTrace

__all__ = ["SeveralRuns", "ShownRun", "chosen", "found_runs"]

_TRACE_ID = re.compile(r"[0-9a-fA-F]{4,32}")
_LISTED = 50
_NOT_WHOLE = "it names no task and has no span of the run itself: perhaps not all of it has come"


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run to look at.

    Attributes:
        source: Where it was read.
        trace: It.
        verdict: As its spans tell, where they do.
        notes: What is missing of it, and what came later.
    """

    source: str
    trace: MessageActionTrace
    verdict: Attribution | None = None
    notes: tuple[str, ...] = ()


class SeveralRuns(BlamespanError):
    """There are several runs, and none or no known one was chosen.

    Attributes:
        runs: The first of them.
        has_more: Whether there are more than these.
    """

    def __init__(self, message: str, runs: Sequence[ShownRun], *, has_more: bool) -> None:
        super().__init__(message)
        self.runs = tuple(runs)
        self.has_more = has_more


def found_runs(argument: str, store: Path | None, format_name: str | None) -> Iterator[ShownRun | UnreadableInput]:
    """Find the runs that a user means by *said*: files as `blamespan analyze` takes them, else an id of the store.

    Raises:
        ConfigError: if the store, or *said* as a path, does not fit.
        UnreadableInput: if there is neither such a file nor such an id.
        BlamespanError: if the store cannot be read.
    """
    is_id = _TRACE_ID.fullmatch(argument) is not None
    if store is not None and not is_id:
        raise ConfigError(f"expected the id of a stored trace beside --store, 4 to 32 hex digits, got {argument!r}")
    if store is not None or (is_id and not Path(argument).exists()):
        yield from _read_stored(argument, store)
        return
    if not argument or not (argument == "-" or "://" in argument or has_magic(argument) or Path(argument).exists()):
        raise UnreadableInput(
            f"expected a file, or the id of a stored trace (4 to 32 hex digits), got {argument!r}. Check the path"
        )
    for item in runs_in([argument], format_name=format_name):
        yield item if isinstance(item, UnreadableInput) else _of_file(item)


def chosen(runs: Iterable[ShownRun], which: str | None) -> ShownRun:
    """Choose a run.

    Args:
        runs: In their order; no more are read than needed.
        which: Its number, from 1, or what its trace id begins with; None where there should be one only.

    Raises:
        UnreadableInput: if there is none.
        SeveralRuns: if it is not clear which.
    """
    given = iter(runs)
    if which is None:
        first = list(itertools.islice(given, _LISTED + 1))
        if len(first) == 1:
            return first[0]
        if not first:
            raise UnreadableInput("expected a recorded run, got none. Check the path")
        count = f"more than {_LISTED}" if len(first) > _LISTED else str(len(first))
        raise SeveralRuns(f"expected one run, got {count}. Choose one with --run NUMBER", first[:_LISTED],
                          has_more=len(first) > _LISTED)  # fmt: skip
    seen: list[ShownRun] = []
    for number, run in enumerate(given, 1):
        if is_named(which, number, run.trace):
            return run
        if number <= _LISTED:
            seen.append(run)
    if not seen:
        raise UnreadableInput("expected a recorded run, got none. Check the path")
    raise SeveralRuns(
        f"expected a number from 1 to {number}, or a trace id, got --run {which!r}", seen, has_more=number > _LISTED
    )


def _of_file(run: RecordedRun) -> ShownRun:
    trace = run.trace
    is_whole = bool(trace.task) or run.root_id is not None or trace.outcome != "unknown"
    return ShownRun(printable(run.source), trace, notes=() if is_whole else (_NOT_WHOLE,))


def _read_stored(argument: str, store: Path | None) -> Sequence[ShownRun]:
    load = cast(Callable[[str, "Path | None"], Sequence[ShownRun]], load_part("stored_trace"))
    return load(argument, store)
