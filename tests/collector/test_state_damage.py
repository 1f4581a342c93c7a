"""Damaged bytes of the worker's state: the rest is delivered, nothing damaged is sent on, what is lost is counted."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from blamespan import conventions as words
from blamespan_collector.state.salvage import _read_waiting, suspect
from blamespan_collector.state.state import State
from blamespan_collector.wire.outgoing import Outgoing
from tests.collector.fakes import run
from tests.collector.working import MemorySink, down, ids, until, working

RUNS = 40
SPANS = {span.span_id for number in range(1, RUNS + 1) for span in run(number, content="x" * 3000)}


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a collector that was killed while its back end was away: all spans wait in the outbox alone."""
    folder = tmp_path_factory.mktemp("pristine")
    with working(folder, MemorySink(fails=down), stop_s=0) as one:
        one.take(*(run(number, content="x" * 3000) for number in range(1, RUNS + 1)))
        until(lambda: _read_waiting(folder / "state.db") == len(SPANS), 30)
    with closing(sqlite3.connect(folder / "state.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    shutil.copytree(pristine, tmp_path / "journal")
    return tmp_path / "journal"


def deliver(folder: Path) -> tuple[MemorySink, int]:
    """Start workers, as the supervisor does, until one has delivered all there is, as it does before it stops.

    Returns:
        Who got it, and what is counted as lost.
    """
    sink = MemorySink()
    lost = 0
    for _ in range(4):
        with working(folder, sink) as one:
            pass
        lost += one.counts["spans_lost"]
        if not one.failure:
            return sink, lost
        assert isinstance(one.failure[0], Exception)
        suspect(folder / "state.db")
    raise AssertionError(f"it never came up: {one.failure}")


def senders_spans(sink: MemorySink) -> set[str]:
    return {span.span_id for span in sink.spans if span.scope.name != words.VERDICT_SCOPE}


def test_whole_state_is_delivered(folder: Path) -> None:
    """Nothing is counted where nothing is damaged."""
    sink, lost = deliver(folder)

    assert (set(ids(sink.spans)), lost) == (SPANS, 0)


@pytest.mark.parametrize("seed", range(10))
def test_damage_of_the_state_is_counted_and_stops_nothing(folder: Path, seed: int) -> None:
    """Whichever of its bytes flip or become zero, the rest is delivered, and the loss is never understated."""
    chance = random.Random(seed)
    path = folder / "state.db"
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 1, 4))):
        at = chance.randrange(len(data))
        length = min(chance.choice((1, 1, 16, 4096, 50_000)), len(data) - at)
        for index in range(at, at + length):
            data[index] = 0 if length > 1 else data[index] ^ (1 << chance.randrange(8))
    path.write_bytes(data)
    sink, lost = deliver(folder)

    assert senders_spans(sink) <= SPANS
    assert len(SPANS - senders_spans(sink)) <= lost


@pytest.mark.parametrize(
    ("column", "value"), [("payload", b"\x01\x02"), ("kind", b"tr\xffces"), ("spans", 7), ("spans_before", 3)]
)
def test_damaged_row_of_the_outbox_costs_its_spans_alone(folder: Path, column: str, value: object) -> None:
    """A row whose checksum is wrong is not sent; those before and behind it are, and the count is exact."""
    with closing(sqlite3.connect(folder / "state.db")) as database:
        (spans,) = database.execute("SELECT spans FROM outbox WHERE row = 3").fetchone()
        text = "CAST(? AS TEXT)" if column == "kind" else "?"
        database.execute(f"UPDATE outbox SET {column} = {text} WHERE row = 3", (value,))
        database.commit()
    sink, lost = deliver(folder)

    assert (len(SPANS - senders_spans(sink)), lost) == (spans, spans)


@pytest.mark.parametrize("row", ["min(row)", "max(row)"])
def test_rows_that_are_gone_are_missed(folder: Path, row: str) -> None:
    """The first or the last row of the outbox may be the one that is gone."""
    with closing(sqlite3.connect(folder / "state.db")) as database:
        (number, spans) = database.execute(f"SELECT {row}, spans FROM outbox WHERE kind = 'traces'").fetchone()
        database.execute("DELETE FROM outbox WHERE row = ?", (number,))
        database.commit()
    sink, lost = deliver(folder)

    assert (len(SPANS - senders_spans(sink)), lost) == (spans, spans)


def test_damaged_place_of_a_sink_repeats_rather_than_loses(folder: Path) -> None:
    """Where it cannot be read how far a sink is, it gets everything that is there."""
    with closing(sqlite3.connect(folder / "state.db")) as database:
        database.execute("UPDATE lanes SET row = 1000000")
        database.commit()
    sink, lost = deliver(folder)

    assert (senders_spans(sink), lost) == (SPANS, 0)


@pytest.mark.parametrize("content", [b"", b"not a database" * 5000])
def test_state_that_is_gone_is_begun_anew_from_the_journal(folder: Path, content: bytes) -> None:
    """What the journal still holds goes on again; how much may be lost is said and counted."""
    (folder / "state.db").write_bytes(content)
    sink, lost = deliver(folder)

    assert (senders_spans(sink), lost) == (SPANS, len(SPANS))


def test_damaged_log_of_the_state_loses_nothing(pristine: Path, tmp_path: Path) -> None:
    """What SQLite forgets with one damaged byte of its WAL is still in the journal, and goes on from there."""
    folder = tmp_path / "journal"
    with working(folder, MemorySink(fails=down), stop_s=0) as one:
        one.take(*(run(number, content="x" * 3000) for number in range(1, RUNS + 1)))
        until(lambda: one.worker._spans_waiting() == len(SPANS))
        copy = tmp_path / "killed"
        shutil.copytree(folder, copy)
    data = bytearray((copy / "state.db-wal").read_bytes())
    data[len(data) // 2] ^= 1
    (copy / "state.db-wal").write_bytes(data)
    sink, lost = deliver(copy)

    assert (senders_spans(sink), lost) == (SPANS, 0)


@pytest.mark.parametrize("part", [0.0, 0.2, 0.5, 0.9])
def test_what_is_settled_outlives_damage_of_the_log(tmp_path: Path, part: float) -> None:
    """Where a segment may be dropped, no damaged byte of the state's log takes back what is known of it."""
    path = tmp_path / "state.db"
    state = State(path)
    for _ in range(20):
        with state.commit():
            state.enqueue([Outgoing("traces", 1, b"x" * 9_000)])
    is_settled = state.settle()
    copy = tmp_path / "killed" / "state.db"
    copy.parent.mkdir()
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
    state.close()
    log = bytearray(Path(f"{copy}-wal").read_bytes())
    log[int(part * len(log))] ^= 1
    Path(f"{copy}-wal").write_bytes(log)
    state = State(copy)
    (rows,) = state.database.execute("SELECT count(*) FROM outbox").fetchone()
    is_sound = state.is_sound(with_indexes=True)
    state.close()

    assert (is_settled, rows, is_sound) == (True, 20, True)


def test_damaged_small_files_stop_nothing(folder: Path) -> None:
    """Files beside the state may hold anything."""
    for name in ("attributing", "attributing-large", "state.db.waiting", "worker.lock", "intake.lock"):
        (folder / name).write_bytes(b"\xff" * 5000)
    sink, _ = deliver(folder)

    assert senders_spans(sink) == SPANS
