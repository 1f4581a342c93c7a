"""The journal: what was acknowledged is there, whatever happens to whoever wrote it."""

from __future__ import annotations

import errno
import os
import signal
import struct
import subprocess
import sys
import textwrap
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from blamespan_collector.journal import (
    FolderLock,
    JournalError,
    JournalFull,
    JournalReader,
    JournalUnavailable,
    JournalUnreadable,
    JournalWriter,
    NewEntry,
    Position,
    SpanKey,
    segments,
)
from blamespan_collector.journal import writer as writing
from blamespan_collector.journal.entries import pack_keys
from blamespan_collector.journal.folder import segment_path

HERE = Path(__file__).parents[2]
KEYS = [(b"s" * 8, b"", 3), (b"t" * 8, b"s" * 8, 12)]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[JournalWriter]:
    writer = JournalWriter(tmp_path, sync="normal")
    yield writer
    writer.close()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[JournalReader]:
    reader = JournalReader(tmp_path)
    yield reader
    reader.close()


def entry(number: int, size_bytes: int = 10) -> NewEntry:
    payload = number.to_bytes(4, "big") + bytes(size_bytes)
    return NewEntry("traces", bytes(15) + bytes([number % 251 + 1]), pack_keys(KEYS), payload, number)


def journalled(folder: Path, *numbers: int) -> None:
    """Write entries, and end."""
    writer = JournalWriter(folder, sync="normal")
    for number in numbers:
        writer.append([entry(number)]).result(5)
    writer.close()


def numbers(entries: Sequence[Any]) -> list[int]:
    return [entry.received_ns for entry in entries]


def small_segments(writer: JournalWriter) -> JournalWriter:
    writer._segment_bytes = 1000
    return writer


def test_entry_is_read_as_it_was_written(writer: JournalWriter, reader: JournalReader) -> None:
    """Everything of an entry comes back, keys unpacked; its position is what the writer said."""
    position = writer.append([entry(1), entry(2)]).result(5)
    first, second = reader.read(None, 10)

    assert second.position == position == Position(1, 2)
    assert (first.signal, first.received_ns, first.trace_id, first.size_bytes) == ("traces", 1, bytes(15) + b"\x02", 14)
    assert first.keys == (SpanKey(b"s" * 8, bytes(8), 3), SpanKey(b"t" * 8, b"s" * 8, 12))
    assert [key.parent_is_remote for key in first.keys] == [None, True]
    assert reader.payloads([second.position, first.position]) == [entry(2).payload, entry(1).payload]


def test_reading_goes_on_where_it_ended(writer: JournalWriter, reader: JournalReader) -> None:
    """Every entry is read once, in order, over segments and while more are written."""
    small_segments(writer)
    seen: list[int] = []
    last: Position | None = None
    for number in range(60):
        writer.append([entry(number, 100)]).result(5)
        for one in reader.read(last, 3):
            seen, last = [*seen, one.received_ns], one.position

    assert seen == list(range(60))
    assert len(segments(reader._folder)) > 5


def test_dropped_segments_are_passed_over(writer: JournalWriter, reader: JournalReader) -> None:
    """A segment that is done can go; the one being written cannot; numbers never come again."""
    small_segments(writer)
    for number in range(30):
        writer.append([entry(number, 100)]).result(5)
    *done, last = reader.segments()
    for segment in done:
        reader.drop(segment)

    assert reader.segments() == [last]
    assert numbers(reader.read(Position(1, 3), 100)) == numbers(reader.read(None, 100))
    with pytest.raises(ValueError, match=f"expected a segment below {last}, the one being written, got {last}"):
        reader.drop(last)
    with pytest.raises(KeyError):
        reader.payload(Position(1, 1))


def test_next_start_begins_a_new_segment(tmp_path: Path, reader: JournalReader) -> None:
    """What the writer before us wrote stays as it is."""
    for number in range(3):
        journalled(tmp_path, number)

    assert numbers(reader.read(None, 10)) == [0, 1, 2]
    assert reader.segments() == [1, 2, 3]


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_killed_writer_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    """After `kill -9` at any moment, every entry whose append was answered is there, whole and in order."""
    code = """
        import sys
        from pathlib import Path
        from blamespan_collector.journal import JournalWriter
        from tests.collector.test_journal import entry
        writer = JournalWriter(Path(sys.argv[1]))
        writer._segment_bytes = 50_000
        for number in range(1_000_000):
            writer.append([entry(number, 500)]).result(5)
            sys.stdout.write(f"{number}\\n")
            sys.stdout.flush()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)], stdout=subprocess.PIPE, cwd=HERE
    )
    assert process.stdout
    lines = [process.stdout.readline() for _ in range(300)]
    os.kill(process.pid, signal.SIGKILL)
    lines += [line for line in process.communicate()[0].splitlines(keepends=True) if line.endswith(b"\n")]
    JournalWriter(tmp_path).close()
    reader = JournalReader(tmp_path)
    kept = reader.read(None, 1_000_000)

    assert numbers(kept) == list(range(len(kept)))
    assert len(kept) > int(lines[-1])
    assert all(reader.payload(one.position) == entry(one.received_ns, 500).payload for one in kept)


def test_many_requests_share_a_commit(writer: JournalWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes while a commit is under way is committed together, all of it or none."""
    groups: list[int] = []
    insert = writer._insert

    def slow_insert(group: Any) -> Any:
        groups.append(len(group))
        time.sleep(0.05)
        return insert(group)

    monkeypatch.setattr(writer, "_insert", slow_insert)
    written = [writer.append([entry(number)]) for number in range(50)]

    assert [one.result(5).row for one in written] == list(range(1, 51))
    assert len(groups) <= 3


def fill(writer: JournalWriter) -> tuple[int, str]:
    """Append until the journal refuses; tell how often that went well, and why it then did not."""
    for number in range(1000):
        try:
            writer.append([entry(number, 50_000)]).result(5)
        except JournalFull as error:
            return number, str(error)
    raise AssertionError("the journal has no limit")


def test_limit_is_refused_until_there_is_room(
    tmp_path: Path, reader: JournalReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its limit the journal refuses, says so, and takes again once something was dropped."""
    monkeypatch.setattr(writing, "_MEASURE_EVERY_S", 0.01)
    writer = small_segments(JournalWriter(tmp_path, sync="normal", max_bytes=2_000_000))
    number, reason = fill(writer)
    for segment in reader.segments()[:-1]:
        reader.drop(segment)
    time.sleep(0.1)  # the folder is measured again

    assert 5 < number < 50
    assert reason.endswith("of 2000000 bytes: a backend is slow or unreachable. Send this again later")
    assert writer.append([entry(number)]).result(5).segment > 5
    writer.close()


def test_little_room_on_the_disk_is_refused(writer: JournalWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the disk is full the journal refuses: whoever empties it needs room for that."""
    monkeypatch.setattr(writing.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    monkeypatch.setattr(writing, "_MEASURE_EVERY_S", 0.0)

    with pytest.raises(JournalFull, match="1000 bytes are left on the journal's disk"):
        writer.append([entry(1)])


@pytest.mark.parametrize(
    ("call", "code", "refusal"),
    [
        ("pwrite", errno.ENOSPC, JournalFull),
        ("pwrite", errno.EIO, JournalUnavailable),
        ("fdatasync", errno.EIO, JournalUnavailable),
    ],
)
def test_failed_commit_is_refused_and_the_next_one_works(
    tmp_path: Path,
    reader: JournalReader,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    code: int,
    refusal: type[Exception],
) -> None:
    """What could not be committed is not there and its sender knows; when the disk is well, all goes on by itself."""
    writer = JournalWriter(tmp_path)
    writer.append([entry(1)]).result(5)
    with monkeypatch.context() as patch:
        patch.setattr(*_failing(call, code))
        with pytest.raises(refusal, match="Send this again later"):
            writer.append([entry(2, 5000)]).result(5)
    writer.append([entry(3)]).result(5)
    writer.close()

    assert numbers(reader.read(None, 10)) == [1, 3]
    assert reader.take_damages() == []


def _failing(call: str, code: int) -> tuple[str, Any]:
    """Make a disk that fails once records come, after it took a part of them."""
    pwrite = os.pwrite

    def write_some(file: int, data: Any, offset: int) -> int:
        if len(data) > 4000:
            return pwrite(file, data[:3000], offset)
        if offset > 3000:
            raise OSError(code, os.strerror(code))
        return pwrite(file, data, offset)

    def sync_nothing(file: int) -> None:
        raise OSError(code, os.strerror(code))

    if call == "pwrite":
        return "blamespan_collector.journal.writer.os.pwrite", write_some
    return "blamespan_collector.journal.writer._sync_data", sync_nothing


def test_one_bad_request_does_not_refuse_its_neighbours(writer: JournalWriter, reader: JournalReader) -> None:
    """Of requests that share a commit only the one that cannot be written fails."""
    bad = NewEntry("traces", b"", b"", "text", 0)  # type: ignore[arg-type]  # no file takes this
    written = [writer.append([one]) for one in (entry(1), bad, entry(2))]

    assert [one.exception(5) is None for one in written] == [True, False, True]
    assert numbers(reader.read(None, 10)) == [1, 2]


def test_sender_that_goes_away_disturbs_nobody(
    writer: JournalWriter, reader: JournalReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request whose sender gave up is left out or written; the others are answered, and nothing is kept for it."""
    insert = writer._insert

    def slow_insert(group: Any) -> Any:
        time.sleep(0.1)
        return insert(group)

    monkeypatch.setattr(writer, "_insert", slow_insert)
    written = [writer.append([entry(number)]) for number in range(9)]
    for one in written[::2]:
        one.cancel()
    answers = [one.result(5).row for one in written[1::2]]
    after = writer.append([entry(9)]).result(5)

    assert len(answers) == 4
    assert set(numbers(reader.read(None, 99))) >= {1, 3, 5, 7, 9}
    assert after.row == len(reader.read(None, 99))
    assert writer.waiting_bytes == 0


def test_what_waits_in_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the disk stands still, requests are refused before they fill the memory."""
    writer = JournalWriter(tmp_path, sync="normal", max_waiting_bytes=1_000)
    insert = writer._insert

    def slow_insert(group: Any) -> Any:
        time.sleep(0.2)
        return insert(group)

    monkeypatch.setattr(writer, "_insert", slow_insert)
    first = writer.append([entry(0)])
    time.sleep(0.05)
    second = writer.append([entry(1, 900)])

    with pytest.raises(JournalFull, match="bytes wait for the disk already"):
        writer.append([entry(2, 900)])
    assert (first.result(5).row, second.result(5).row) == (1, 2)
    writer.close()


@pytest.mark.parametrize("begun", [b"", bytes(32), b"blamespan"])
def test_segment_begun_and_never_finished_is_empty(tmp_path: Path, reader: JournalReader, begun: bytes) -> None:
    """A writer that ends while it begins a segment leaves a piece of a file: nothing in it was acknowledged."""
    journalled(tmp_path, 1)
    segment_path(tmp_path, 2).write_bytes(begun)
    journalled(tmp_path, 2)

    assert numbers(reader.read(None, 10)) == [1, 2]
    assert reader.segments() == [1, 2, 3]
    assert reader.take_damages() == []


def test_newer_format_is_refused(tmp_path: Path) -> None:
    """What a newer release wrote is not passed over in silence."""
    JournalWriter(tmp_path).close()
    packed = struct.pack(">16sI8s", b"blamespan journl", 99, b"m" * 8)
    segment_path(tmp_path, 1).write_bytes(packed + struct.pack(">I", zlib.crc32(packed)))

    with pytest.raises(JournalUnreadable, match="of version 99: a newer blamespan wrote it"):
        JournalWriter(tmp_path)


def test_journal_of_version_1_is_refused(tmp_path: Path) -> None:
    """What an earlier release acknowledged is not passed over in silence: the error says how it is delivered."""
    (tmp_path / "segments").mkdir()
    (tmp_path / "segments" / "0000000001.db").touch()

    with pytest.raises(JournalUnreadable, match=r"of version 1\. Start the blamespan that wrote it until it says"):
        JournalWriter(tmp_path)


@pytest.mark.parametrize("content", [None, os.urandom(5000)], ids=["none", "damaged"])
def test_second_collector_is_kept_out(tmp_path: Path, content: bytes | None) -> None:
    """One folder has one user of a kind, whatever is in its lock's file; after its end the next one gets in."""
    if content is not None:
        (tmp_path / "intake.lock").write_bytes(content)
    lock = FolderLock(tmp_path, "intake")
    worker = FolderLock(tmp_path, "worker")
    with pytest.raises(JournalError, match="another collector uses"):
        FolderLock(tmp_path, "intake")
    lock.release()

    FolderLock(tmp_path, "intake").release()
    worker.release()


def test_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    """Where there can be no folder the error says where and what to do."""
    (tmp_path / "file").touch()

    with pytest.raises(JournalUnreadable, match="Give one that this user owns with --journal DIR"):
        FolderLock(tmp_path / "file" / "journal", "intake")


@pytest.mark.skipif(sys.platform == "win32", reason="asks for POSIX permissions")
def test_folder_is_for_its_user_alone(tmp_path: Path) -> None:
    """What spans say is nobody else's business."""
    folder = tmp_path / "new" / "journal"
    FolderLock(folder, "intake").release()

    assert [path.stat().st_mode & 0o777 for path in (folder, folder / "segments")] == [0o700, 0o700]


def test_closed_journal_refuses(tmp_path: Path) -> None:
    """What comes after the end is refused, what came before is written."""
    writer = JournalWriter(tmp_path, sync="normal")
    written = writer.append([entry(1)])
    writer.close()

    assert written.result(0) == Position(1, 1)
    with pytest.raises(JournalUnavailable, match="closed"):
        writer.append([entry(2)])
