"""A commit of the state that fails leaves nothing behind: the next one is made, and everything goes on once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from blamespan import sqlite_files
from blamespan_collector.delivering import outbox as delivering
from blamespan_collector.state import reserve as reserving
from blamespan_collector.state.reserve import Reserve
from blamespan_collector.state.salvage import open_state
from blamespan_collector.state.state import PAGE_BYTES, State
from blamespan_collector.wire.outgoing import Outgoing
from blamespan_collector.worker import main as working_on
from tests.collector.fakes import run
from tests.collector.working import MemorySink, ids, until, working

RUNS = 4


class FailingCommits:
    """Lets the commits whose numbers, counted from 0, are in a range fail as on a disk with an I/O error."""

    def __init__(self, numbers: range) -> None:
        self._numbers = numbers
        self._real = sqlite_files.transaction
        self.commits = 0

    @contextmanager
    def __call__(self, database: sqlite3.Connection, *, is_kept: bool = True) -> Iterator[None]:
        with self._real(database, is_kept=is_kept):
            yield
            self.commits += 1
            if self.commits - 1 in self._numbers:
                raise sqlite3.OperationalError("disk I/O error")


@contextmanager
def failing_commits(numbers: range) -> Iterator[FailingCommits]:
    failing = FailingCommits(numbers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_files, "transaction", failing)
        patch.setattr(delivering, "transaction", failing)
        yield failing


@pytest.fixture(autouse=True)
def _small_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reserving, "_LEAST_BYTES", 40 * PAGE_BYTES)
    monkeypatch.setattr(reserving, "_MOST_BYTES", 40 * PAGE_BYTES)


def free_bytes(state: State) -> int:
    return sqlite_files.read_count(state.database, "freelist_count") * PAGE_BYTES


def test_any_commit_by_which_the_state_grows_may_fail(tmp_path: Path) -> None:
    """Whichever one fails, the next attempt sets the room aside, and nothing of the failed one is in the file."""
    number, commits = 0, 1
    while number < commits:
        state = State(tmp_path / f"{number}.db", sync="normal")
        reserve = Reserve(tmp_path / f"{number}.db", state, 2**40)
        with failing_commits(range(number, number + 1)) as failing:
            reserve.keep(0)
            reserve.keep(0)
            commits = failing.commits
        (left,) = state.database.execute("SELECT count(*) FROM set_aside").fetchone()

        assert (left, free_bytes(state) >= reserve.size_bytes) == (0, True)
        state.close()
        number += 1


def test_state_that_an_earlier_release_left_half_grown_is_healed(tmp_path: Path) -> None:
    """A row that stayed behind where the second of two commits failed is gone with the next start, and room is kept."""
    state = State(tmp_path / "state.db", sync="normal")
    state.database.execute(
        "INSERT INTO set_aside (row, at_s, sink, kind, reason, spans, payload) VALUES (-1, 0, '', '', '', 0, x'00')"
    )
    state.close()
    state = open_state(tmp_path / "state.db", "normal")
    reserve = Reserve(tmp_path / "state.db", state, 2**40)
    reserve.keep(0)
    rows = state.database.execute("SELECT row FROM set_aside").fetchall()

    assert (rows, free_bytes(state) >= reserve.size_bytes) == ([], True)
    state.close()


def test_row_in_the_way_of_growing_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement that breaks a rule of ours is a fault of ours: it fails that attempt, and nothing else."""
    state = State(tmp_path / "state.db", sync="normal")
    reserve = Reserve(tmp_path / "state.db", state, 2**40)
    monkeypatch.setattr(reserving, "_FORGET_BALLAST", "INSERT INTO set_aside SELECT -1, 0, '', '', '', 0, x'00'")
    reserve.keep(0)
    monkeypatch.undo()
    reserve.keep(0)
    with state.commit():
        state.enqueue([Outgoing("traces", 1, b"x")])

    assert free_bytes(state) >= 40 * PAGE_BYTES
    state.close()


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("number", range(0, 10, 3))
def test_any_commit_of_the_worker_may_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, length: int
) -> None:
    """Whichever of its commits fail once it works, all spans are delivered, each once, without another process."""
    monkeypatch.setattr("blamespan_collector.worker.commits._TRY_AGAIN_S", 0.01)
    monkeypatch.setattr("blamespan_collector.delivering.delivery._FIRST_DELAY_S", 0.01)
    sink, expected = MemorySink(kinds=frozenset({"traces"})), [span.span_id for n in range(RUNS) for span in run(n + 1)]
    with working(tmp_path, sink) as one:
        until(lambda: one.worker._delivery._looked_s is not None)
        with failing_commits(range(number, number + length)) as failing:
            for index in range(RUNS):
                one.take(run(index + 1))
            until(lambda: one.failure or (len(sink.spans) >= len(expected) and failing.commits > number))
        assert not one.failure

    assert sorted(ids(sink.spans)) == sorted(expected)


def test_worker_whose_disk_fails_says_so_and_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While its commits fail it says that it lives and why nothing is delivered; then all goes on in this process."""
    monkeypatch.setattr(working_on, "_STUCK_AFTER_S", 0.2)
    monkeypatch.setattr(working_on, "_FAILS_AGAIN_S", 0.5)
    monkeypatch.setattr(working_on, "_TELL_EVERY_S", 0.1)
    monkeypatch.setattr("blamespan_collector.worker.commits._TRY_AGAIN_S", 0.05)
    sink = MemorySink(kinds=frozenset({"traces"}))
    with working(tmp_path, sink) as one:
        until(lambda: one.worker._delivery._looked_s is not None)
        with failing_commits(range(10**6)):
            one.take(run(1))
            until(lambda: one.worker._message()["trouble"])
            trouble = one.worker._message()["trouble"]
        until(lambda: len(sink.spans) >= len(run(1)))
        until(lambda: one.worker._message()["trouble"] is None)

    assert trouble == (
        "the disk of the journal: what is to be delivered cannot be written: disk I/O error. "
        "It goes on when the disk does"
    )
    assert any(message.get("trouble") == trouble for message in one.said)


def test_worker_whose_delivery_stands_still_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that does not come back on the thread that delivers is told, and ends the process when it lasts."""
    with working(tmp_path, MemorySink(kinds=frozenset({"traces"})), stop_s=0) as one:
        until(lambda: one.worker._delivery._looked_s is not None)
        sound = one.worker._message()["trouble"]
        monkeypatch.setattr(type(one.worker._delivery), "standstill_s", 12.0)
        trouble = one.worker._message()["trouble"]
        monkeypatch.setattr(type(one.worker._delivery), "standstill_s", 31.0)
        until(lambda: one.failure)

    assert sound is None
    assert trouble == "delivering has stood still for 12 s: a disk does not answer"
    assert isinstance(one.failure[0], SystemExit)
