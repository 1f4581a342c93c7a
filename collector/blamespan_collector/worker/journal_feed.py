"""The first stage of the worker: entries of the journal in order, their payloads, and the time that they stand for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from blamespan_collector.journal import Damage, Entry, JournalReader, Position
from blamespan_collector.journal.entries import item_of, unpack_position
from blamespan_collector.state.state import State
from blamespan_collector.worker.commits import PASSED, Wait, retry_disk
from blamespan_collector.worker.counts import WorkerCounts

_logger = logging.getLogger("blamespan.collector")

_READ_AT_ONCE = 512


class JournalFeed:
    """Reads on in the journal, and counts what of it is damaged. `payloads` may be called by any thread.

    Time is the journal's while the worker lags behind and the clock's once it has caught up, so that neither a restart
    nor a backlog cuts a trace in two.

    Args:
        reader: Reads the journal.
        state: Holds entries that were carried over from dropped segments.
        counts: Counts.
        now: Unix time in seconds that never runs backwards.
        wait: Called by any thread between two attempts to use the disk, as for `retry_disk`.

    Attributes:
        read_to: Where the last entry stood.
        clock_s: The time that the entries read so far stand for.
        is_replaying: Whether entries may be ones that the last process was done with.
        passed: Up to where logs and metrics were sent on, as committed.
    """

    def __init__(
        self,
        reader: JournalReader,
        state: State,
        counts: WorkerCounts,
        now: Callable[[], float],
        wait: Wait | None = None,
    ) -> None:
        self._reader, self._state, self._counts, self._now, self._wait = reader, state, counts, now, wait
        self._damaged_segments: set[int] = set()
        self.read_to = Position(0, 0)
        self.clock_s = 0.0
        self.is_replaying = True
        self.passed = unpack_position(state.read_note(PASSED))

    @property
    def lag_s(self) -> float:
        """Return how far we are behind the journal."""
        return max(0.0, self._now() - self.clock_s) if self.clock_s else 0.0

    def read(self) -> list[Entry]:
        """Return the next entries; none where there is none yet. Each is behind us once `advance` gets it."""
        entries = retry_disk(
            "the journal cannot be read", lambda: self._reader.read(self.read_to, _READ_AT_ONCE), self._wait
        )
        self.note_damages()
        return entries

    def advance(self, entries: Sequence[Entry]) -> Iterator[Entry]:
        """Yield entries that `read` returned, and go past each one when the next is asked for."""
        for entry in entries:
            yield entry
            self.read_to = entry.position
        if len(entries) < _READ_AT_ONCE:
            self.is_replaying = False
            self.clock_s = max(self.clock_s, self._now())

    def set_clock(self, entry: Entry) -> None:
        """Go on to the time at which an entry was received."""
        self.clock_s = max(self.clock_s, min(entry.received_ns / 1e9, self._now()))

    def read_below(self) -> int:
        """Return the segment below which everything was read."""
        segments = self._reader.segments()
        return self.read_to.segment if self._reader.read(self.read_to, 1) else max(segments, default=0)

    def payloads(self, items: Sequence[int]) -> list[bytes]:
        """Read what stands for a trace's spans, from the journal or from what was carried over.

        Raises:
            KeyError: if some of it is gone.
        """
        return retry_disk("the journal cannot be read", lambda: self._read_payloads(items), self._wait)

    def _read_payloads(self, items: Sequence[int]) -> list[bytes]:
        carried = self._state.carried
        if not carried or carried.isdisjoint(items):
            return self._reader.payloads([unpack_position(item) for item in items])
        return [
            self._state.carried_payload(item) if item in carried else self._reader.payload(unpack_position(item))
            for item in items
        ]

    def is_carried(self, entry: Entry) -> bool:
        """Check whether the last process carried an entry over."""
        return item_of(entry) in self._state.carried

    def carried_entries(self) -> list[Entry]:
        """List what the last process carried over."""
        return list(self._state.carried_entries())

    def note_damages(self) -> None:
        """Count, log and keep what the journal's reader found damaged since the last call."""
        for damage in self._reader.take_damages():
            rows = self._list_unknown_rows(damage)
            # Of what was read before, the spans are counted when their trace goes on without them
            spans = damage.spans if rows and not damage.was_read else 0
            try:
                copy = self._reader.keep_damaged(damage)
            except OSError as error:
                _logger.warning("damaged bytes of the journal cannot be kept: %s", error)
            else:
                if copy is None:  # the process before us reported it
                    continue
            self._damaged_segments.add(damage.segment)
            self._counts.counts["segments_damaged"] = len(self._damaged_segments)
            self._counts.add("entries_damaged", len(rows))
            self._counts.add("spans_lost", spans)
            _logger.error("%s. %d entries with %d spans are lost; everything else goes on", damage, len(rows), spans)

    def _list_unknown_rows(self, damage: Damage) -> list[int]:
        """List the rows of a damage that were not let go, sent on or carried over before."""
        if not damage.rows:
            return []
        if damage.signal in ("logs", "metrics"):
            return [row for row in damage.rows if Position(damage.segment, row) > self.passed]
        done = self._state.done_rows(damage.segment)
        return [row for row in damage.rows if row not in done]
