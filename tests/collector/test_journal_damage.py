"""Damaged bytes of the journal: found, counted, and nothing else is lost for them."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from blamespan_collector.journal import Damage, JournalReader, JournalWriter, NewEntry
from blamespan_collector.journal.entries import KEY_BYTES
from blamespan_collector.journal.folder import mark_path, segment_path
from blamespan_collector.journal.log import HEADER_BYTES, RECORD_BYTES

ENTRIES = 60


@dataclass(frozen=True)
class Written:
    """A journal of one closed segment, and where in it each entry lies."""

    folder: Path
    entries: list[NewEntry]
    places: list[range]

    @property
    def path(self) -> Path:
        return segment_path(self.folder, 1)

    def spans(self, rows: list[int]) -> int:
        return sum(len(self.entries[row - 1].keys) // KEY_BYTES for row in rows)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Entries of many sizes, written by a collector that was killed: its successor began the next segment."""
    folder = tmp_path_factory.mktemp("pristine")
    noise = random.Random(1)
    entries = [
        NewEntry(
            "traces",
            noise.randbytes(16),
            noise.randbytes(KEY_BYTES * noise.randint(1, 9)),
            noise.randbytes(noise.choice((1, 100, 3_000, 40_000))),
            number,
        )
        for number in range(ENTRIES)
    ]
    writer = JournalWriter(folder, sync="normal")
    places, at = [], HEADER_BYTES
    for entry in entries:
        writer.append([entry]).result(5)
        places.append(range(at, at + RECORD_BYTES + entry.size_bytes))
        at = places[-1].stop
    JournalWriter(folder, sync="normal").close()
    writer.close()
    return Written(folder, entries, places)


@pytest.fixture
def written(pristine: Written, tmp_path: Path) -> Written:
    folder = tmp_path / "journal"
    shutil.copytree(pristine.folder, folder)
    return Written(folder, pristine.entries, pristine.places)


def read(folder: Path) -> tuple[list[int], dict[int, bytes], list[Damage]]:
    """Read all there is, a few at a time: rows, payloads and damages."""
    reader = JournalReader(folder)
    rows: dict[int, bytes] = {}
    position = None
    while entries := reader.read(position, 7):
        position = entries[-1].position
        rows |= {entry.position.row: reader.payload(entry.position) for entry in entries if entry.position.segment == 1}
    damages = reader.take_damages()
    reader.close()
    return list(rows), rows, damages


def lost(damages: list[Damage]) -> list[int]:
    return sorted(row for damage in damages for row in damage.rows)


def check(written: Written, damaged: list[int]) -> list[Damage]:
    """Check that the *damaged* rows are told, all others come back whole, and the spans are counted to the last."""
    rows, payloads, damages = read(written.folder)
    whole = [row for row in range(1, ENTRIES + 1) if row not in damaged]

    assert rows == whole
    assert [payloads[row] for row in whole] == [written.entries[row - 1].payload for row in whole]
    assert lost(damages) == damaged
    assert sum(damage.spans for damage in damages) == written.spans(damaged)
    return damages


def flip_bit_of_each_slot(mark: bytes) -> bytes:
    """A mark is written twice, half a kilobyte apart."""
    return bytes(byte ^ 1 if at % 512 == 20 else byte for at, byte in enumerate(mark))


def test_whole_journal_has_no_damage(written: Written) -> None:
    """Nothing is reported where nothing is wrong."""
    assert check(written, []) == []


@pytest.mark.parametrize("seed", range(40))
def test_damage_costs_the_entries_whose_bytes_it_hits(written: Written, seed: int) -> None:
    """Whichever bytes flip or become zero, their entries are told with their spans, and all others are read."""
    chance = random.Random(seed)
    data = bytearray(written.path.read_bytes())
    hit: set[int] = set()
    for _ in range(chance.choice((1, 1, 3, 10))):
        at = chance.randrange(HEADER_BYTES, len(data))
        length = min(chance.choice((1, 1, 8, 5_000, 200_000)), len(data) - at)
        for index in range(at, at + length):
            data[index] = 0 if length > 1 else data[index] ^ (1 << chance.randrange(8))
        hit |= {row for row, place in enumerate(written.places, 1) if place.start < at + length and at < place.stop}
    # Where what is zeroed were zeros already, nothing is damaged
    before = written.path.read_bytes()
    hit = {row for row in hit if (p := written.places[row - 1]) and data[p.start : p.stop] != before[p.start : p.stop]}
    written.path.write_bytes(data)

    check(written, sorted(hit))


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.3, 0.9, 0.99999, None])
def test_cut_off_end_is_missed(written: Written, share: float | None) -> None:
    """What was acknowledged and is cut off is counted, wherever the cut is, also right between two entries."""
    size = written.places[40].stop if share is None else int(written.places[-1].stop * share)
    with written.path.open("r+b") as file:
        file.truncate(size)

    check(written, [row for row, place in enumerate(written.places, 1) if place.stop > size])


def test_lost_file_is_missed(written: Written) -> None:
    """Of a segment whose file is gone, its mark tells what was in it."""
    written.path.unlink()

    check(written, list(range(1, ENTRIES + 1)))


def test_bytes_put_in_or_taken_out_cost_the_entries_they_hit(written: Written) -> None:
    """The entries behind them are found where they are now."""
    data = written.path.read_bytes()
    inside, between = written.places[10].start + RECORD_BYTES + 20, written.places[30].start
    taken = written.places[50]
    written.path.write_bytes(
        data[:inside]
        + b"noise" * 100
        + data[inside:between]
        + b"noise"
        + data[between : taken.start]
        + data[taken.stop :]
    )

    check(written, [11, 51])


@pytest.mark.parametrize("damage", [flip_bit_of_each_slot, lambda data: bytes(len(data)), lambda data: b""])
def test_damaged_mark_is_told_and_costs_nothing(written: Written, damage: Callable[[bytes], bytes]) -> None:
    """Without its mark a segment is read to its end; that a cut would not be noticed any more is said."""
    mark = mark_path(written.folder, 1)
    mark.write_bytes(damage(mark.read_bytes()))

    damages = check(written, [])
    assert [damage.reason[:30] for damage in damages] == ["its mark is missing or damaged"]


def test_mark_with_one_damaged_slot_is_a_mark(written: Written) -> None:
    """It is written twice, so that one damaged place in it means nothing."""
    mark = mark_path(written.folder, 1)
    mark.write_bytes(bytes(48) + mark.read_bytes()[48:])
    with written.path.open("r+b") as file:
        file.truncate(written.places[40].stop)

    check(written, list(range(42, ENTRIES + 1)))


@pytest.mark.parametrize("length", [1, HEADER_BYTES, 3_000])
@pytest.mark.parametrize("has_mark", [True, False])
def test_damaged_header_costs_no_entry_but_those_it_hits(written: Written, length: int, *, has_mark: bool) -> None:
    """The sync marker is in the mark, too; where that is gone as well it is found by what a record looks like."""
    with written.path.open("r+b") as file:
        file.write(bytes(length))
    if not has_mark:
        mark_path(written.folder, 1).unlink()

    damages = check(written, [row for row, place in enumerate(written.places, 1) if place.start < length])
    assert damages[0].reason == "its header cannot be read"


def test_record_inside_a_payload_is_no_record(tmp_path: Path) -> None:
    """A sender that writes a segment into a span is not believed where damage makes us look for records."""
    first = JournalWriter(tmp_path / "first", sync="normal")
    first.append([NewEntry("traces", b"f" * 16, bytes(17), b"forged", 1)]).result(5)
    first.close()
    forged = segment_path(tmp_path / "first", 1).read_bytes()
    writer = JournalWriter(tmp_path / "second", sync="normal")
    for payload in (forged * 3, b"own"):
        writer.append([NewEntry("traces", b"t" * 16, bytes(17), payload, 1)]).result(5)
    writer.close()
    path = segment_path(tmp_path / "second", 1)
    data = bytearray(path.read_bytes())
    data[HEADER_BYTES + 9] ^= 1
    path.write_bytes(data)
    rows, payloads, damages = read(tmp_path / "second")

    assert (rows, payloads, lost(damages)) == ([2], {2: b"own"}, [1])


def test_damage_of_what_was_read_before_is_found(written: Written) -> None:
    """Payloads are read later than their entries, and checked then, too."""
    reader = JournalReader(written.folder)
    entries = reader.read(None, 1000)
    with written.path.open("r+b") as file:
        file.seek(written.places[20].stop - 1)
        file.write(b"\0")
    with pytest.raises(KeyError):
        reader.payload(entries[20].position)
    [damage] = reader.take_damages()

    assert (damage.rows, damage.trace_id, damage.was_read) == (range(21, 22), written.entries[20].trace_id, True)
    assert reader.payload(entries[19].position) == written.entries[19].payload
    reader.close()


def test_damage_in_the_segment_being_written_holds_nothing_up(tmp_path: Path) -> None:
    """What comes after the damage is read as soon as it is acknowledged."""
    writer = JournalWriter(tmp_path, sync="normal")
    entry = NewEntry("traces", b"t" * 16, bytes(17), bytes(1000), 1)
    for _ in range(5):
        writer.append([entry]).result(5)
    path = segment_path(tmp_path, 1)
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(len(data) - 1500)
        file.write(bytes([255] * 1500))
    reader = JournalReader(tmp_path)
    before = [one.position.row for one in reader.read(None, 10)]
    writer.append([entry]).result(5)
    after = [one.position.row for one in reader.read(None, 10)]
    writer.close()

    assert (before, after, lost(reader.take_damages())) == ([1, 2, 3], [1, 2, 3, 6], [4, 5])
    reader.close()


def test_blocks_that_the_disk_cannot_read_cost_their_entries(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad sector is damage like any other: an input/output error there keeps nobody from the rest."""
    pread, bad = os.pread, range(4096 * 20, 4096 * 21)

    def read_but_bad(file: int, size: int, offset: int) -> bytes:
        if offset < bad.stop and bad.start < offset + size:
            raise OSError(5, "Input/output error")
        data: bytes = pread(file, size, offset)
        return data

    monkeypatch.setattr("blamespan_collector.journal.mark.os.pread", read_but_bad)
    monkeypatch.setattr("blamespan_collector.journal.segment._PATIENCE_S", 0.0)
    hit = [row for row, place in enumerate(written.places, 1) if place.start < bad.stop and bad.start < place.stop]

    assert hit
    check(written, hit)


def test_kept_bytes_of_damage_are_what_was_there(written: Written) -> None:
    """Somebody can look into them, once for each damage."""
    with written.path.open("r+b") as file:
        file.seek(written.places[5].start + RECORD_BYTES)
        file.write(b"\xff\xff\xff")
    reader = JournalReader(written.folder)
    reader.read(None, 1000)
    [damage] = reader.take_damages()
    path = reader.keep_damaged(damage)

    assert path is not None
    assert path.read_bytes() == written.path.read_bytes()[written.places[5].start : written.places[5].stop]
    assert reader.keep_damaged(damage) is None
    reader.close()
