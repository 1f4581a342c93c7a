"""Appends to the journal, many requests in one commit."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from blamespan_collector.journal.entries import NewEntry, Position
from blamespan_collector.journal.errors import JournalFull, JournalUnavailable
from blamespan_collector.journal.folder import (
    LARGEST_SEGMENT,
    NO_ROOM,
    check_version,
    delete,
    folder_bytes,
    has_room,
    make_folder,
    mark_path,
    note_last_segment,
    read_last_segment,
    segment_path,
    segments,
)
from blamespan_collector.journal.log import HEADER_BYTES, new_marker, pack_header, pack_record, span_count
from blamespan_collector.journal.mark import Mark, MarkFile, write_all
from blamespan_collector.journal.segment import marker_of
from blamespan_collector.settings import Sync

_logger = logging.getLogger("blamespan.collector")

_MIB = 1024 * 1024
_SEGMENT_BYTES = 64 * _MIB
_SMALLEST_SEGMENT_BYTES = 1 * _MIB
_MIN_FREE_BYTES = 256 * _MIB
"""Left free on the disk, or a twentieth of it where it is small: the worker needs room to get rid of what is there."""
_MEASURE_EVERY_S = 0.5
_TRY_AGAIN_S = 0.5
"""How often a disk that failed is tried while no request comes."""
_QUICK_ATTEMPTS = 8
"""Attempts to begin a segment, one after the other; further ones wait for `_TRY_AGAIN_S`, as each uses up a number."""
_SLOW_S = 5.0
"""A commit that takes longer is told to who asks whether we work."""
_GROUP_BYTES = 16 * _MIB
_sync_data = getattr(os, "fdatasync", os.fsync)


@dataclass(slots=True)
class _PendingAppend:
    entries: Sequence[NewEntry]
    size_bytes: int
    written: Future[Position]


class JournalWriter:
    """Writes entries in one thread of its own; `append` may be called from any.

    While a commit is under way, what comes waits for the next one: alone, a request is committed at once;
    under load, many share one commit. Where the disk is full, also at the start, appending is refused until
    there is room.

    Args:
        folder: The journal's; hold its `FolderLock`. A new segment is begun in it.
        sync: `full`: an answer means that it survives a power cut; `normal`: that it survives our end.
        max_bytes: How large the folder may grow, with all that is in it.
        max_waiting_bytes: How much may wait for a commit in memory.

    Raises:
        JournalUnreadable: if the folder holds segments of a newer version or of something else.
        JournalUnavailable: if it cannot be written for another reason than a full disk.
    """

    def __init__(
        self,
        folder: Path,
        *,
        sync: Sync = "full",
        max_bytes: int = 10 * 1024 * _MIB,
        max_waiting_bytes: int = 64 * _MIB,
    ) -> None:
        self._folder = folder
        self._sync: Sync = sync
        self._max_bytes = max_bytes
        self._max_waiting_bytes = max_waiting_bytes
        make_folder(folder)
        check_version(folder)
        try:
            self._number = self._find_last()
        except OSError as error:
            raise JournalUnavailable(f"cannot read the journal in {str(folder)!r} now: {error}") from error
        disk = shutil.disk_usage(folder)
        self._min_free_bytes = min(_MIN_FREE_BYTES, disk.total // 20)
        room_bytes = min(max_bytes, disk.total)
        self._segment_bytes = max(_SMALLEST_SEGMENT_BYTES, min(_SEGMENT_BYTES, room_bytes // 8))
        self._used_bytes = 0
        self._free_bytes = 0
        self._measured_s = -_MEASURE_EVERY_S
        self._measuring = threading.Lock()
        self._segment: _Segment | None = None
        self._refusal: JournalFull | JournalUnavailable | None = None
        self._begin_failures: list[tuple[float, OSError]] = []
        self._busy_since_s: float | None = None
        self._waiting: deque[_PendingAppend] = deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._is_closing = False
        try:
            self._begin_segment()
        except OSError as error:
            if has_room(folder):
                raise JournalUnavailable(f"cannot begin a journal in {str(folder)!r}: {error}") from error
            _logger.error("the journal's disk is full: requests are refused until there is room (%s)", error)
            self._refusal = _refusal_of(error)
        self._thread = threading.Thread(target=self._write, name="blamespan-journal", daemon=True)
        self._thread.start()

    def append(self, entries: Sequence[NewEntry]) -> Future[Position]:
        """Write *entries* together: all of them or none.

        Returns:
            Set once they are on disk, to the last one's position; or to `JournalFull`, `JournalUnavailable`.

        Raises:
            JournalFull: at once, if there is no room.
            JournalUnavailable: if the writer is closed.
        """
        size_bytes = sum(entry.size_bytes for entry in entries)
        self._check_room(size_bytes)
        waiting = _PendingAppend(entries, size_bytes, Future())
        with self._changed:
            if self._is_closing:
                raise JournalUnavailable("the journal is closed. Send this again")
            if self._waiting and self._waiting_bytes + size_bytes > self._max_waiting_bytes:
                raise JournalFull(f"{self._waiting_bytes} bytes wait for the disk already. Send this again later")
            self._waiting.append(waiting)
            self._waiting_bytes += size_bytes
            self._changed.notify()
        return waiting.written

    @property
    def used_bytes(self) -> int:
        """What the folder took on disk when it was last measured, and what was written since."""
        self._measure()
        return self._used_bytes

    @property
    def waiting_bytes(self) -> int:
        """What waits in memory for a commit."""
        return self._waiting_bytes

    @property
    def trouble(self) -> str | None:
        """Why nothing is written now, as the last attempt failed or does not end; None where the disk takes it."""
        since_s, refusal = self._busy_since_s, self._refusal
        if since_s is not None and (silent_s := time.monotonic() - since_s) > _SLOW_S:
            return f"the journal's disk has not answered for {silent_s:.0f} s"
        return None if refusal is None else str(refusal)

    def check_room(self) -> None:
        """Check whether there is room, before reading a request.

        Raises:
            JournalFull: if there is none.
        """
        self._check_room(0)

    def close(self) -> None:
        """Write what waits, then stop. A second call does nothing."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join()

    def _check_room(self, size_bytes: int) -> None:
        self._measure()
        if self._used_bytes + size_bytes > self._max_bytes:
            raise JournalFull(
                f"the journal takes {self._used_bytes} of {self._max_bytes} bytes: a backend is slow or unreachable. "
                "Send this again later"
            )
        if self._free_bytes - size_bytes < self._min_free_bytes:
            raise JournalFull(
                f"{self._free_bytes} bytes are left on the journal's disk, {self._min_free_bytes} are kept free. "
                "Send this again later"
            )

    def _measure(self) -> None:
        with self._measuring:  # nobody goes on with what was not measured yet
            now_s = time.monotonic()
            if now_s - self._measured_s < _MEASURE_EVERY_S:
                return
            try:
                self._used_bytes = folder_bytes(self._folder)
                self._free_bytes = shutil.disk_usage(self._folder).free
            except OSError as error:
                raise JournalFull(
                    f"the journal's folder cannot be read: {error.strerror}. Send this again later"
                ) from error
            self._measured_s = now_s

    def _write(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._is_closing:
                    # Where the disk failed, whoever asks whether we work must not wait for the next request
                    if not self._changed.wait(None if self._refusal is None else _TRY_AGAIN_S):
                        break
                group = self._next_group()
                is_last = self._is_closing and not self._waiting
            self._busy_since_s = time.monotonic()
            self._commit(group)
            self._busy_since_s = None
            if is_last:
                break
        if self._segment is not None:
            self._segment.close()

    def _next_group(self) -> list[_PendingAppend]:
        group: list[_PendingAppend] = []
        size_bytes = 0
        while self._waiting and size_bytes < _GROUP_BYTES:
            waiting = self._waiting.popleft()
            if waiting.written.set_running_or_notify_cancel():
                group.append(waiting)
                size_bytes += waiting.size_bytes
            else:  # its sender went away before it was its turn
                self._waiting_bytes -= waiting.size_bytes
        return group

    def _commit(self, group: list[_PendingAppend]) -> None:
        try:
            if group or self._refusal is not None:
                self._settle(group)
        finally:
            with self._changed:
                self._waiting_bytes -= sum(waiting.size_bytes for waiting in group)

    def _settle(self, group: list[_PendingAppend]) -> None:
        try:
            positions = self._insert(group)
        except Exception as error:
            self._fail(group, error)
        else:
            for waiting, position in zip(group, positions, strict=True):
                waiting.written.set_result(position)

    def _fail(self, group: list[_PendingAppend], error: Exception) -> None:
        refusal: Exception = error
        if isinstance(error, OSError):
            if self._refusal is None:
                _logger.error("the journal could not be written: %s", error)
            self._take_back()
            refusal = self._refusal = _refusal_of(error)
        elif len(group) > 1:  # one of them cannot be written: which?
            for waiting in group:
                self._settle([waiting])
            return
        for waiting in group:
            waiting.written.set_exception(refusal)

    def _insert(self, group: list[_PendingAppend]) -> list[Position]:
        if self._segment is None or self._segment.mark.end >= self._segment_bytes or not self._segment.is_in_place():
            self._begin_segment()
        assert self._segment is not None
        mark = self._segment.mark
        row, spans = mark.entries, mark.spans
        pieces: list[bytes] = []
        positions: list[Position] = []
        for waiting in group:
            for entry in waiting.entries:
                row += 1
                pieces += pack_record(mark.marker, row, spans, entry)
                spans += span_count(entry.signal, len(entry.keys))
            positions.append(Position(self._number, row))
        data = b"".join(pieces)
        self._segment.append(data, Mark(mark.marker, mark.end + len(data), row, spans))
        self._used_bytes += len(data)
        self._refusal = None
        return positions

    def _find_last(self) -> int:
        """Return the largest number that a segment ever had, and check that all of them can be read.

        Raises:
            JournalUnreadable: if a newer version wrote one.
        """
        last = read_last_segment(self._folder) or 0
        for segment in segments(self._folder, last=LARGEST_SEGMENT):
            with suppress(OSError):  # whoever reads it tries again
                if marker_of(self._folder, segment) is not None:  # else it is somebody else's, or begun and no more
                    last = max(last, segment)
        return last

    def _begin_segment(self) -> None:
        """Begin the next segment: whoever sees it knows that nothing comes to the one before it any more.

        No number is used twice, whatever fails: a reader may have seen a file of that name.

        Raises:
            OSError: if it cannot be; then nothing of it is left.
        """
        if self._segment is not None:
            self._segment.close()
            self._segment = None
        if len(self._begin_failures) == _QUICK_ATTEMPTS:
            failed_s, error = self._begin_failures[-1]
            if time.monotonic() - failed_s < _TRY_AGAIN_S:
                raise OSError(error.errno, error.strerror)
        try:
            while self._segment is None:
                self._number += 1
                make_folder(self._folder)
                note_last_segment(self._folder, self._number, is_durable=self._sync == "full")
                with suppress(FileExistsError):  # somebody else's file of that name
                    self._segment = _Segment(self._folder, self._number, self._sync)
        except OSError as failure:
            self._begin_failures = [*self._begin_failures, (time.monotonic(), failure)][-_QUICK_ATTEMPTS:]
            with suppress(OSError):  # whoever reads it finds nothing in it
                delete(self._folder, self._number)
            raise
        self._begin_failures.clear()

    def _take_back(self) -> None:
        """Cut off what was not written in full, and go on in a new segment: the outcome is not known."""
        if self._segment is not None:
            with suppress(OSError):
                self._segment.cut()
            self._segment.close()
            self._segment = None


def _refusal_of(error: OSError) -> JournalFull | JournalUnavailable:
    if error.errno in NO_ROOM:
        return JournalFull("the journal's disk is full. Send this again later")
    return JournalUnavailable(f"the journal could not be written: {error}. Send this again later")


class _Segment:
    """The segment that is being written: its file, and its mark.

    Raises:
        FileExistsError: if there is a file of that name.
        OSError: if they cannot be made.
    """

    def __init__(self, folder: Path, segment: int, sync: Sync) -> None:
        self._is_durable = sync == "full"
        self.mark = Mark(new_marker(), HEADER_BYTES)
        self._path = segment_path(folder, segment)
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._mark_file: MarkFile | None = None
        try:
            write_all(self._file, pack_header(self.mark.marker), 0)
            if self._is_durable:
                os.fsync(self._file)
            self._mark_file = MarkFile(mark_path(folder, segment), self.mark, is_durable=self._is_durable)
            if self._is_durable:
                _sync_folder(self._path.parent)
        except BaseException:
            self.close()
            raise

    def is_in_place(self) -> bool:
        """Check whether its name still leads to it: what is written to a file without a name is lost.

        Raises:
            OSError: if the folder cannot be read now.
        """
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._file))
        except FileNotFoundError:
            return False

    def append(self, data: bytes, mark: Mark) -> None:
        """Write records behind the last one, and their mark.

        Raises:
            OSError: if they could not be; then `cut`, and begin another segment.
        """
        assert self._mark_file is not None
        write_all(self._file, data, self.mark.end)
        if self._is_durable:
            _sync_data(self._file)
        self._mark_file.write(mark)
        self.mark = mark

    def cut(self) -> None:
        """Take back what the last `append` left.

        Raises:
            OSError: if it cannot be.
        """
        assert self._mark_file is not None
        self._mark_file.write(self.mark)
        os.ftruncate(self._file, self.mark.end)

    def close(self) -> None:
        """Close the files; what could be lost with that was synced before."""
        with suppress(OSError):
            os.close(self._file)
        if self._mark_file is not None:
            with suppress(OSError):
                self._mark_file.close()


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
