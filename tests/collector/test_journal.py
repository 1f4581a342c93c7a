"""The journal: what was acknowledged is there, whatever happens to whoever wrote it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
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
        writer = JournalWriter(tmp_path, sync="normal")
        writer.append([entry(number)]).result(5)
        writer.close()

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


def test_limit_is_refused_until_there_is_room(tmp_path: Path, reader: JournalReader) -> None:
    """At its limit the journal refuses, says so, and takes again once something was dropped."""
    writer = small_segments(JournalWriter(tmp_path, sync="normal", max_bytes=2_000_000))
    number, reason = fill(writer)
    for segment in reader.segments()[:-1]:
        reader.drop(segment)
    time.sleep(0.6)  # the folder is measured every half second

    assert 5 < number < 50
    assert reason.endswith("of 2000000 bytes: a backend is slow or unreachable. Send this again later")
    assert writer.append([entry(number)]).result(5).segment > 5
    writer.close()


def test_little_room_on_the_disk_is_refused(writer: JournalWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the disk is full the journal refuses: whoever empties it needs room for that."""
    monkeypatch.setattr(writing.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    time.sleep(0.6)

    with pytest.raises(JournalFull, match="1000 bytes are left on the journal's disk"):
        writer.append([entry(1)])


class _Failing:
    """A connection whose commits fail as a disk would have them fail."""

    def __init__(self, real: sqlite3.Connection, code: int) -> None:
        self._real, self._code = real, code

    def execute(self, statement: str) -> Any:
        if statement == "COMMIT":
            error = sqlite3.OperationalError("the disk said no")
            error.sqlite_errorcode = self._code
            raise error
        return self._real.execute(statement)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.mark.parametrize(
    ("code", "refusal"), [(sqlite3.SQLITE_FULL, JournalFull), (sqlite3.SQLITE_IOERR, JournalUnavailable)]
)
def test_failed_commit_is_refused_and_the_next_one_works(
    writer: JournalWriter, reader: JournalReader, code: int, refusal: type[Exception]
) -> None:
    """What could not be committed is not there and its sender knows; when the disk is well, all goes on by itself."""
    writer.append([entry(1)]).result(5)
    real = writer._connection
    writer._connection = _Failing(real, code)  # type: ignore[assignment]
    with pytest.raises(refusal, match="Send this again later"):
        writer.append([entry(2)]).result(5)
    if writer._connection is not None:
        writer._connection = real
    writer.append([entry(3)]).result(5)

    assert numbers(reader.read(None, 10)) == [1, 3]


def test_one_bad_request_does_not_refuse_its_neighbours(writer: JournalWriter, reader: JournalReader) -> None:
    """Of requests that share a commit only the one that cannot be written fails."""
    bad = NewEntry("traces", b"", b"", "\ud800", 0)  # type: ignore[arg-type]  # no database takes this text
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


def test_segment_begun_and_never_finished_is_empty(tmp_path: Path, reader: JournalReader) -> None:
    """A writer killed while it began a segment leaves an empty file: nothing in it was acknowledged."""
    writer = JournalWriter(tmp_path, sync="normal")
    writer.append([entry(1)]).result(5)
    writer.close()
    (tmp_path / "segments" / "0000000002.db").touch()
    writer = JournalWriter(tmp_path, sync="normal")
    writer.append([entry(2)]).result(5)
    writer.close()

    assert numbers(reader.read(None, 10)) == [1, 2]
    assert reader.segments() == [1, 2, 3]


def test_torn_tail_is_cut_off(tmp_path: Path) -> None:
    """Of a file whose last bytes are torn, what was written before is read."""
    writer = JournalWriter(tmp_path)
    for number in range(20):
        writer.append([entry(number, 20_000)]).result(5)
    beside = tmp_path / "segments" / "0000000001.db-wal"
    torn = tmp_path / "torn"
    (torn / "segments").mkdir(parents=True)
    (torn / "segments" / "0000000001.db").write_bytes((tmp_path / "segments" / "0000000001.db").read_bytes())
    (torn / "segments" / "0000000001.db-wal").write_bytes(beside.read_bytes()[:-30_000])
    writer.close()
    kept = numbers(JournalReader(torn).read(None, 100))

    assert kept == list(range(len(kept)))
    assert 10 < len(kept) < 20


def test_damaged_segment_is_set_aside_at_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file that is no database is moved away for a person to look at; the others are read."""
    writer = JournalWriter(tmp_path, sync="normal")
    writer.append([entry(1)]).result(5)
    writer.close()
    (tmp_path / "segments" / "0000000002.db").write_bytes(b"not a database, but long enough to be taken for one" * 50)
    JournalWriter(tmp_path).close()

    assert (tmp_path / "segments" / "0000000002.db.damaged").exists()
    assert "is damaged or something else" in caplog.text
    assert numbers(JournalReader(tmp_path).read(None, 10)) == [1]


def test_newer_format_is_refused(tmp_path: Path) -> None:
    """What a newer release wrote is not passed over in silence."""
    JournalWriter(tmp_path).close()
    with sqlite3.connect(tmp_path / "segments" / "0000000001.db") as database:
        database.execute("PRAGMA user_version = 99")
    database.close()

    with pytest.raises(JournalUnreadable, match="of version 99: a newer blamespan wrote it"):
        JournalWriter(tmp_path)


def test_foreign_database_is_refused(tmp_path: Path) -> None:
    """Somebody else's database is left alone."""
    (tmp_path / "segments").mkdir()
    with sqlite3.connect(tmp_path / "segments" / "0000000001.db") as database:
        database.execute("CREATE TABLE diary (day TEXT)")
    database.close()

    with pytest.raises(JournalUnreadable, match="a database of something else"):
        JournalWriter(tmp_path)


def test_second_collector_is_kept_out(tmp_path: Path) -> None:
    """One folder has one user of a kind; after its end, however it came, the next one gets in."""
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
