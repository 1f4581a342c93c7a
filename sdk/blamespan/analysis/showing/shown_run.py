"""Which run is shown: one of what files hold, or of a trace that a collector stored.

The collector's part `stored_trace` is called with a run's name as a user wrote it, and a store's file or None for the
usual one. It yields the runs of its trace, or raises an error that names others. So this package shows stored runs
without knowing how they are stored.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from blamespan.analysis.showing.legible import printable
from blamespan.analysis.sources import is_stored_name, runs_in, store_in
from blamespan.attribution import Attribution
from blamespan.errors import ConfigError, UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.importing.selection import is_named
from blamespan.plugins import load_part
from blamespan.trace import MessageActionTrace

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
        waits: Whether it waits for an answer from outside, so that it is not judged.
    """

    source: str
    trace: MessageActionTrace
    verdict: Attribution | None = None
    notes: tuple[str, ...] = ()
    waits: bool = False


class SeveralRuns(ConfigError):
    """There are several runs, and none or no known one was chosen.

    Attributes:
        runs: The first of them.
        has_more: Whether there are more than these.
    """

    def __init__(self, message: str, runs: Sequence[ShownRun], *, has_more: bool) -> None:
        super().__init__(message)
        self.runs = tuple(runs)
        self.has_more = has_more


def found_runs(argument: str) -> Iterator[ShownRun | UnreadableInput]:
    """Find the runs that a user means by *argument*: files as `blamespan analyze` takes them, else a stored run.

    Args:
        argument: As the user wrote it; empty for all runs of this machine's store.

    Raises:
        ConfigError: if *argument* means several stored runs.
        UnreadableInput: if it means neither a file nor a stored run.
        BlamespanError: if the store cannot be read.
    """
    if not argument:
        yield from list_stored(None)
    elif is_stored_name(argument):
        load = cast(Callable[[str, "Path | None"], Iterator[ShownRun]], load_part("stored_trace"))
        yield from load(argument, None)
    elif (at := store_in(Path(argument))) is not None:
        yield from list_stored(at)
    else:
        for item in runs_in([argument]):
            yield item if isinstance(item, UnreadableInput) else _of_file(item)


def list_stored(store: Path | None) -> Iterator[ShownRun]:
    """Yield the runs of a store, the last first; None for this machine's.

    Raises:
        BlamespanError: if it cannot be read.
    """
    ask = cast(
        "Callable[[Path | None], tuple[Path, Iterator[tuple[RecordedRun, Attribution | None]]]]",
        load_part("stored_runs"),
    )
    _, judged = ask(store)
    for run, verdict in judged:
        yield ShownRun(run.source, run.trace, verdict, waits=run.waits)


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
    return ShownRun(printable(run.source), trace, notes=() if is_whole else (_NOT_WHOLE,), waits=run.waits)
