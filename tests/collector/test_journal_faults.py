"""A disk that fails for one call, or for a while: nothing acknowledged is lost for it, and all goes on by itself."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from blamespan_collector.journal import (
    FolderLock,
    JournalError,
    JournalFull,
    JournalReader,
    JournalUnavailable,
    JournalWriter,
    NewEntry,
    Position,
    Sync,
)
from blamespan_collector.journal import segment as reading
from blamespan_collector.journal import writer as writing
from blamespan_collector.journal.folder import mark_path, note_last_segment, segment_path
from tests.collector.failing_calls import READER_CALLS, WRITER_CALLS, Fault, failing_call, faults_of
from tests.collector.test_journal import entry
from tests.collector.working import until

WRITER, READER = "blamespan-journal", "MainThread"
ENTRIES = 8


class Following:
    """Reads as the worker does: on from where it was, every payload, dropping each segment that it is through with."""

    def __init__(self, folder: Path) -> None:
        self.reader = JournalReader(folder)
        self.at: Position | None = None
        self.numbers: list[int] = []

    def read(self) -> None:
        for one in self.reader.read(self.at, 100):
            assert self.reader.payload(one.position) == entry(one.received_ns, 100).payload
            self.numbers.append(one.received_ns)
            self.at = one.position
        if self.at is not None:
            for segment in self.reader.segments():
                if segment < self.at.segment:
                    self.reader.drop(segment)


def send(writer: JournalWriter, number: int) -> None:
    """Append an entry as senders do: again, until it is acknowledged."""
    until_s = time.monotonic() + 10
    while True:
        try:
            writer.append([entry(number, 100)]).result(10)
            return
        except (JournalFull, JournalUnavailable):
            assert time.monotonic() < until_s


def live(folder: Path, *, first: int = 0, sync: Sync = "normal") -> tuple[JournalWriter, Following]:
    """Write entries, two in each segment, and read each one after it; as a worker that is a step behind."""
    writer = JournalWriter(folder, sync=sync)
    writer._segment_bytes = 300
    follower = Following(folder)
    for number in range(first, first + ENTRIES):
        send(writer, number)
        for _ in range(10):
            try:
                follower.read()
                break
            except (OSError, ValueError):
                continue
    return writer, follower


def check(writer: JournalWriter, follower: Following) -> None:
    """Check that all that was acknowledged came, each once but for what was refused and came nevertheless."""
    send(writer, ENTRIES)
    writer.close()
    follower.read()

    assert sorted(set(follower.numbers)) == list(range(ENTRIES + 1))
    assert follower.reader.take_damages() == []
    follower.reader.close()


@pytest.fixture(autouse=True)
def _room_is_no_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_MEASURE_EVERY_S", 1000.0)


@pytest.mark.parametrize(("call", "fault"), faults_of(WRITER_CALLS))
def test_any_call_of_the_writer_may_fail(tmp_path: Path, call: str, fault: Fault) -> None:
    """Whichever one of its calls fails, and however, all that was acknowledged is read, and no number repeats."""
    number, calls = 0, 1
    while number < calls:
        folder = tmp_path / str(number)
        with failing_call(call, fault, range(number, number + 1), thread=WRITER) as failing:
            writer, follower = live(folder, sync="full" if "sync" in call else "normal")
            calls = failing.calls
        check(writer, follower)
        shutil.rmtree(folder)
        number += 1


@pytest.mark.parametrize("length", [2, 5])
@pytest.mark.parametrize(("call", "fault"), faults_of(("open", "pwrite", "fsync", "fdatasync", "unlink")))
def test_calls_of_the_writer_may_fail_one_after_the_other(tmp_path: Path, call: str, fault: Fault, length: int) -> None:
    """A fault that lasts for some calls is the same: also what takes back a failed attempt may fail."""
    number, calls = 0, 1
    while number < calls:
        folder = tmp_path / str(number)
        with failing_call(call, fault, range(number, number + length), thread=WRITER) as failing:
            writer, follower = live(folder, sync="full" if "sync" in call else "normal")
            calls = failing.calls
        check(writer, follower)
        shutil.rmtree(folder)
        number += 3


@pytest.mark.parametrize(("call", "fault"), faults_of(READER_CALLS))
def test_any_call_of_the_reader_may_fail(tmp_path: Path, call: str, fault: Fault) -> None:
    """A call that fails once is made again: nothing is taken for damaged, and nothing is passed over."""
    number, calls = 0, 1
    while number < calls:
        folder = tmp_path / str(number)
        with failing_call(call, fault, range(number, number + 1), thread=READER) as failing:
            try:
                writer, follower = live(folder)
            except (JournalUnavailable, OSError):  # before there is a writer: whoever started it starts it again
                writer, follower = live(folder)
            calls = failing.calls
        check(writer, follower)
        shutil.rmtree(folder, ignore_errors=True)
        number += 1


def test_reader_that_saw_a_segment_begun_in_vain_reads_the_one_that_follows(tmp_path: Path) -> None:
    """A segment that could not be begun leaves its number behind: the next one has another, and hides behind none."""
    writer = JournalWriter(tmp_path)
    follower = Following(tmp_path)
    send(writer, 0)
    follower.read()
    writer._segment_bytes = 1
    seen: list[list[int]] = []
    sync = writing._sync_folder

    def look_and_fail(folder: Path) -> None:
        follower.read()
        seen.append(follower.reader.segments())
        raise OSError(5, "Input/output error")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "_sync_folder", look_and_fail)
        with pytest.raises(JournalUnavailable):
            writer.append([entry(1, 100)]).result(10)
    assert writing._sync_folder is sync
    for number in range(1, 5):
        send(writer, number)
        follower.read()
    writer.close()

    assert seen == [[1, 2]]
    assert follower.numbers == [0, 1, 2, 3, 4]
    assert 2 not in {position.segment for position in (follower.at,) if position}
    follower.reader.close()


def test_numbers_are_used_once_over_restarts(tmp_path: Path) -> None:
    """What was deleted by hand leaves its numbers behind: notes of what was let go mean no later segment."""
    writer = JournalWriter(tmp_path)
    last = writer.append([entry(1)]).result(5)
    writer.close()
    shutil.rmtree(tmp_path / "segments")
    writer = JournalWriter(tmp_path)
    after = writer.append([entry(2)]).result(5)
    writer.close()

    assert after.segment > last.segment


@pytest.mark.parametrize("note", [None, b"", b"\0" * 12, b"\xff" * 12])
def test_damaged_note_of_the_last_number_costs_nothing(tmp_path: Path, note: bytes | None) -> None:
    """Without it, the segments that are there say which numbers were used."""
    writer = JournalWriter(tmp_path)
    send(writer, 0)
    writer.close()
    (tmp_path / "last-segment").unlink()
    if note is not None:
        (tmp_path / "last-segment").write_bytes(note)
    writer, follower = live(tmp_path, first=1)
    writer.close()

    assert follower.numbers == list(range(ENTRIES + 1))
    follower.reader.close()


def test_stale_note_of_the_last_number_hides_no_segment(tmp_path: Path) -> None:
    """A note that says too little, as after a power cut, is put right by the next writer."""
    writer = JournalWriter(tmp_path)
    writer._segment_bytes = 1
    for number in range(3):
        send(writer, number)
    writer.close()
    note_last_segment(tmp_path, 1, is_durable=False)
    writer = JournalWriter(tmp_path)
    send(writer, 3)
    writer.close()
    follower = Following(tmp_path)
    follower.read()

    assert follower.numbers == [0, 1, 2, 3]
    follower.reader.close()


@pytest.mark.parametrize("name", ["9999999999.log", "9999999999.mark", "0004194303.log", "0000000003.log"])
@pytest.mark.parametrize("content", [b"", b"somebody's" * 100])
@pytest.mark.parametrize("is_there_before", [True, False])
def test_foreign_file_among_the_segments_stops_nothing(
    tmp_path: Path, name: str, content: bytes, *, is_there_before: bool
) -> None:
    """A file with a number that no segment has had is nobody's segment, whenever it comes."""
    (tmp_path / "segments").mkdir()
    path = tmp_path / "segments" / name
    if is_there_before:
        path.write_bytes(content)
    writer = JournalWriter(tmp_path)
    writer._segment_bytes = 300
    follower = Following(tmp_path)
    for number in range(ENTRIES):
        if number == 1:
            path.write_bytes(content)
        send(writer, number)
        follower.read()
    writer.close()

    assert follower.numbers == list(range(ENTRIES))
    assert follower.at is not None
    assert follower.at.segment < 10
    assert name.startswith("0000000003") or path.exists()
    follower.reader.close()


def _replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("replace", [_replace_by_folder, _replace_by_pipe, Path.unlink])
@pytest.mark.parametrize("which", ["log", "mark", "both"])
def test_replaced_segment_costs_only_what_was_in_it(tmp_path: Path, replace: object, which: str) -> None:
    """In the place of a segment's files, also of the one being written, anything may stand: what comes goes on."""
    assert callable(replace)
    writer = JournalWriter(tmp_path)
    first = Following(tmp_path)
    send(writer, 0)
    first.read()
    for path in (segment_path(tmp_path, 1), mark_path(tmp_path, 1)):
        if which in (path.suffix[1:], "both"):
            replace(path)
    send(writer, 1)
    send(writer, 2)
    first.read()
    first.reader.drop(1) if which != "mark" else None
    later = Following(tmp_path)  # as the next worker does
    later.read()
    writer.close()

    assert first.numbers == [0, 1, 2]
    assert later.numbers[-2:] == [1, 2]
    first.reader.close()
    later.reader.close()


@pytest.mark.parametrize(("fails_s", "read", "lost"), [(29.0, [0, 1, 2, 3, 4], 0), (31.0, [], 5)])
def test_segment_that_cannot_be_read_for_a_while_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_s: float, read: list[int], lost: int
) -> None:
    """A disk that fails for some seconds damaged nothing; one that fails for long costs the blocks it cannot read."""
    writer = JournalWriter(tmp_path)
    for number in range(5):
        send(writer, number)
    writer.close()
    JournalWriter(tmp_path).close()
    clock = [0.0]
    reader = JournalReader(tmp_path)

    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(reading.time, "monotonic", lambda: clock[0])
        patch.setattr(reading, "read_all", fail)
        for clock[0] in (0.0, fails_s / 2, fails_s):
            with suppress(OSError):
                reader.read(None, 10)
        patch.undo()
        entries = reader.read(None, 10)
    damages = reader.take_damages()
    reader.close()

    assert [one.received_ns for one in entries] == read
    assert sum(len(damage.rows) for damage in damages) == lost


def test_segment_of_another_marker_is_not_dropped(tmp_path: Path) -> None:
    """Only the segment that was read is deleted, not one that stands in its place by now."""
    writer, follower = live(tmp_path)
    writer.close()
    assert follower.at is not None
    reader = JournalReader(tmp_path)
    number = reader.segments()[0]
    reader.read(None, 1)
    other = tmp_path / "other"
    JournalWriter(other).close()
    shutil.copyfile(segment_path(other, 1), segment_path(tmp_path, number))
    JournalWriter(tmp_path).close()
    opened = reader._open[number]
    opened._marker = b"m" * 8

    with pytest.raises(ValueError, match="got another one of that name"):
        reader.drop(number)
    assert segment_path(tmp_path, number).exists()


def test_writer_whose_disk_fails_says_so_until_it_does_not(tmp_path: Path) -> None:
    """Whoever asks hears why requests are refused, and, without another request, that they are not any more."""
    writer = JournalWriter(tmp_path)
    with failing_call("pwrite", "ENOSPC", range(10**6), thread=WRITER):
        with pytest.raises(JournalFull):
            writer.append([entry(1)]).result(5)
        trouble = writer.trouble
    until(lambda: writer.trouble is None)
    writer.close()

    assert trouble == "the journal's disk is full. Send this again later"


def test_writer_whose_disk_does_not_answer_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that does not come back is trouble, too."""
    monkeypatch.setattr(writing, "_SLOW_S", 0.05)
    troubles: list[str | None] = []
    writer = JournalWriter(tmp_path)

    def hang(file: int) -> None:
        time.sleep(0.1)
        troubles.append(writer.trouble)

    monkeypatch.setattr(writing, "_sync_data", hang)
    writer.append([entry(1)]).result(5)
    writer.close()

    assert troubles == ["the journal's disk has not answered for 0 s"]
    assert writer.trouble is None


@pytest.fixture
def intake(tmp_path: Path) -> Iterator[FolderLock]:
    lock = FolderLock(tmp_path, "intake")
    yield lock
    lock.release()


@pytest.mark.usefixtures("intake")
def test_deleted_lock_lets_nobody_in(tmp_path: Path) -> None:
    """The folder itself is locked as well, as long as its user lives."""
    (tmp_path / "intake.lock").unlink()

    with pytest.raises(JournalError, match="another collector uses"):
        FolderLock(tmp_path, "intake")


def test_lock_on_a_failing_disk_may_be_tried_again(tmp_path: Path) -> None:
    """An I/O error is no reason to give up."""
    with (
        failing_call("open", "EIO", range(1), thread=READER),
        pytest.raises(JournalUnavailable, match="cannot be used now"),
    ):
        FolderLock(tmp_path, "worker")
    FolderLock(tmp_path, "worker").release()


def test_new_entry_of_a_failed_commit_may_come_and_is_no_loss(tmp_path: Path) -> None:
    """What was refused may stand in the journal nevertheless: it is never told as lost."""
    writer = JournalWriter(tmp_path)
    with failing_call("fdatasync", "EIO", range(1), thread=WRITER), pytest.raises(JournalUnavailable):
        writer.append([NewEntry("traces", b"t" * 16, bytes(17), b"refused", 1)]).result(5)
    send(writer, 2)
    writer.close()
    reader = JournalReader(tmp_path)

    assert [one.received_ns for one in reader.read(None, 10)][-1:] == [2]
    assert reader.take_damages() == []
    reader.close()
