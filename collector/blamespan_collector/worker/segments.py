"""Drops journal segments once nothing in them is needed, and sees to it that no long trace keeps one."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from blamespan_collector.journal import JournalReader, Position
from blamespan_collector.journal.entries import item_of, pack_keys, unpack_position
from blamespan_collector.journal.folder import segment_path
from blamespan_collector.state.state import State

_logger = logging.getLogger("blamespan.collector")

_KEEP_BYTES = 256 * 1024 * 1024
"""Segments without need are kept up to this size, and for `keep_s`: a late span's run can be attributed again."""
_CARRY_AFTER_S = 60.0
_CARRY_SHARE = 0.5
"""A segment is emptied by carrying over what is left when that is less than this share of it."""


class SegmentKeeper:
    """Looks after the segments that were read to their end.

    Args:
        folder: The journal's.
        reader: Reads it.
        state: Gets what is carried over.
        keep_s: How long a segment is kept after its last need.
        max_bytes: How large the journal may grow; at half of it nothing is kept without need.
        is_short: Checks whether the disk is short of room; then nothing is, either.
    """

    def __init__(
        self,
        folder: Path,
        reader: JournalReader,
        state: State,
        keep_s: float,
        max_bytes: int,
        is_short: Callable[[], bool] = lambda: False,
    ) -> None:
        self._folder = folder
        self._reader = reader
        self._state = state
        self._keep_s = keep_s
        self._max_bytes = max_bytes
        self._is_short = is_short
        self._free_since_s: dict[int, float] = {}
        self._first_seen_s: dict[int, float] = {}

    def tidy(self, read_below: Callable[[], int], needed: Callable[[], Iterable[int]]) -> int:
        """Drop what can be dropped, carry over what keeps it from being.

        Args:
            read_below: Tells below which segment everything was read.
            needed: Lists the packed positions of what is held or awaits a verdict.

        Returns:
            The oldest segment there is.
        """
        segments = self._reader.segments()
        if len(segments) < 2:
            return min(segments, default=0)
        rows: dict[int, list[int]] = defaultdict(list)
        for packed in needed():
            if packed not in self._state.carried:
                rows[unpack_position(packed).segment].append(packed)
        now_s = time.monotonic()
        below = read_below()
        done = [segment for segment in segments[:-1] if segment < below]
        sizes = {segment: self._size(segment) for segment in done}
        kept_bytes = sum(sizes.values())
        is_tight = kept_bytes > self._max_bytes / 2 or self._is_short()
        for segment in done:
            self._first_seen_s.setdefault(segment, now_s)
            if rows[segment]:
                self._free_since_s.pop(segment, None)
                is_old = now_s - self._first_seen_s[segment] > _CARRY_AFTER_S
                if not (is_old or is_tight) or not self._carry(rows[segment], sizes[segment]):
                    continue
            since_s = self._free_since_s.setdefault(segment, now_s)
            if is_tight or kept_bytes > _KEEP_BYTES or now_s - since_s >= self._keep_s:
                self._drop(segment)
                kept_bytes -= sizes[segment]
        return min(self._reader.segments(), default=0)

    def _carry(self, packed: list[int], segment_bytes: int) -> bool:
        """Carry over what is left of a segment, where it is little; what is damaged by now cannot be."""
        entries = [
            entry
            for position in map(unpack_position, sorted(packed))
            for entry in self._reader.read(Position(position.segment, position.row - 1), 1)
            if entry.position == position
        ]
        if sum(entry.size_bytes for entry in entries) > _CARRY_SHARE * segment_bytes:
            return False
        with self._state.commit():
            for entry in list(entries):
                try:
                    payload = self._reader.payload(entry.position)
                except KeyError:
                    entries.remove(entry)
                else:
                    self._state.carry(entry, pack_keys(entry.keys), payload)
        self._state.carried |= {item_of(entry) for entry in entries}
        return True

    def _drop(self, segment: int) -> None:
        if not self._state.settle():
            return  # what is known of its entries is in the file beside the state's as yet: damage there would lose it
        try:
            self._reader.drop(segment)
        except (OSError, ValueError) as error:
            _logger.warning("journal segment %d could not be dropped: %s", segment, error)
        self._free_since_s.pop(segment, None)
        self._first_seen_s.pop(segment, None)

    def _size(self, segment: int) -> int:
        try:
            return segment_path(self._folder, segment).stat().st_size
        except OSError:
            return 0
