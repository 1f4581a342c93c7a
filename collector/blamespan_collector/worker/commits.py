"""What must happen together: bytes in the outbox, and the note that they were let go.

What is about to be committed, the assembler knows already (`ReleasedMemory`).
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from blamespan import sqlite_files
from blamespan_collector.assembling.parts import Released, TracePart
from blamespan_collector.journal import Position
from blamespan_collector.journal.entries import pack_position
from blamespan_collector.state.state import Record, State
from blamespan_collector.wire.outgoing import Outgoing

_logger = logging.getLogger("blamespan.collector")

PASSED = "passed"
"""Name of the note that says up to where logs and metrics were sent on."""
_TRY_AGAIN_S = 0.5
_TRY_SOON_S = 0.05
"""Where only room is missing: sinks make some at any time."""
_LOG_EVERY = 20
"""Attempts between two lines in the log."""
_GIVE_UP_S = 60.0
"""After that a new process begins once there is room: one that says nothing for longer is taken for hung."""

_Result = TypeVar("_Result")

Wait: TypeAlias = Callable[[str, bool], bool]
"""What is done between two attempts to use the disk; see `retry_disk`."""


@dataclass(slots=True)
class CommitBatch:
    """What one commit holds.

    Attributes:
        outgoing: For the outbox.
        records: What was let go.
        parts: The parts it was let go in.
        settled: Parts that were attributed, with or without a verdict.
        passed: Up to where logs and metrics were sent on.
    """

    outgoing: list[Outgoing] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    parts: list[TracePart[int]] = field(default_factory=list)
    settled: list[TracePart[int]] = field(default_factory=list)
    passed: Position | None = None

    @property
    def size_bytes(self) -> int:
        """Count what is to be written, roughly."""
        noted = sum(len(record.released.span_ids) + len(record.released.items) for record in self.records)
        return sum(len(outgoing.payload) for outgoing in self.outgoing) + 8 * noted

    def clear(self) -> None:
        """Begin with nothing again."""
        self.__init__()  # type: ignore[misc]  # a dataclass's own, on a value that nobody subclasses

    @property
    def is_empty(self) -> bool:
        """Check whether there is nothing to write."""
        return not (self.outgoing or self.records or self.passed)


class ReleasedMemory:
    """What was let go, as the assembler sees it: what is not committed yet, then what the state file says.

    Args:
        state: The state file.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._fresh: dict[bytes, tuple[Released[int], int]] = {}
        self._looked_up: dict[bytes, Released[int] | None] = {}

    def look_up(self, trace_ids: Collection[bytes]) -> None:
        """Read what is noted of some traces that are about to be asked for; until the next commit."""
        released = self._state.get_all(trace_ids)
        self._looked_up = {trace_id: released.get(trace_id) for trace_id in trace_ids}

    def get(self, trace_id: bytes) -> Released[int] | None:
        """Return what was let go of a trace; None where nothing was, or it is forgotten."""
        noted = self._looked_up[trace_id] if trace_id in self._looked_up else self._state.get(trace_id)
        fresh = self._fresh.get(trace_id)
        if fresh is None:
            return noted
        return fresh[0] if noted is None else noted.merged(fresh[0])

    def put(self, trace_id: bytes, released: Released[int]) -> None:
        """Note what was let go until `forget_committed` hears that it is on disk."""
        before = self._fresh.get(trace_id)
        self._fresh[trace_id] = (released, 1) if before is None else (before[0].merged(released), before[1] + 1)

    def forget_committed(self, trace_ids: Iterable[bytes]) -> None:
        """Forget one `put` for each: it is on disk."""
        self._looked_up = {}
        for trace_id in trace_ids:
            released, count = self._fresh[trace_id]
            if count == 1:
                del self._fresh[trace_id]
            else:
                self._fresh[trace_id] = released, count - 1


def commit(
    state: State,
    batch: CommitBatch,
    outgoing: Sequence[Outgoing],
    cleared: Iterable[bytes],
    wait: Wait | None = None,
) -> None:
    """Write all of it or nothing, trying again where the disk has no room, until there is some.

    Args:
        state: Where to.
        batch: What.
        outgoing: The part of `batch.outgoing` that some sink takes.
        cleared: Traces that did not end the process.
        wait: As for `retry_disk`.
    """
    cleared = tuple(cleared)

    def attempt() -> None:
        with state.commit():
            state.enqueue(outgoing)
            state.record(batch.records)
            state.forget_attempts(cleared)
            if batch.passed is not None:
                state.note(PASSED, pack_position(batch.passed))

    retry_disk("what is to be delivered cannot be written", attempt, wait, is_patient=True)


def retry_disk(
    failure: str, attempt: Callable[[], _Result], wait: Wait | None = None, *, is_patient: bool = False
) -> _Result:
    """Use the disk, again and again where it fails: most likely it is full, also for reading, and may have room again.

    Args:
        failure: What the log says of it.
        attempt: What to do; all of it or nothing.
        wait: Called after each attempt that failed, with a sentence about it and whether only room was missing; returns
            whether there may be some now.
        is_patient: Whether it is tried for as long as only room is missing: sinks that take what waits for them make
            some.

    Raises:
        sqlite3.OperationalError, OSError: if it fails for a minute.
    """
    attempts = 0
    until_s = time.monotonic() + _GIVE_UP_S
    while True:
        try:
            return attempt()
        except (sqlite3.OperationalError, OSError) as error:
            is_full = is_patient and sqlite_files.is_full(error)
            with suppress(sqlite3.OperationalError):
                if wait is not None and wait(f"{failure}: {error}", is_full):
                    continue
            if attempts % (_LOG_EVERY * (10 if is_full else 1)) == 0:
                _logger.error("%s, and is tried again: %s", failure, error)
            attempts += 1
            if not is_full and time.monotonic() > until_s:
                raise
            time.sleep(_TRY_SOON_S if is_full else _TRY_AGAIN_S)
