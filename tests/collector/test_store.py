"""The store: what goes out is found again, once, for as long as it is to be kept."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from blamespan import conventions as words
from blamespan import sqlite_files
from blamespan.errors import ConfigError
from blamespan.pipeline import attribute_traces
from blamespan.spans import Span
from blamespan_collector.delivering.sinks import TryAgain
from blamespan_collector.delivering.store_sink import StoreSink
from blamespan_collector.store import (
    Retention,
    RunQuery,
    RunStore,
    RunWriter,
    StoreMismatch,
    StoreUnavailable,
    schema,
)
from tests.collector.fakes import request
from tests.collector.paging import LastStepsTracer, annotated, make_newer, stored
from tests.sdk.talks import NOW_NS, talk


def payload(spans: list[Span]) -> bytes:
    return request(spans).SerializeToString()


async def sent(path: Path, number: int) -> None:
    """Send a run to the store, as a collector that starts does."""
    sink = StoreSink(path, Retention())
    await sink.send("traces", [payload(spans) for spans in annotated(talk(number))])
    await sink.close()


def ids(store: RunStore, query: RunQuery | None = None) -> list[int]:
    return [int(found.trace_id, 16) for found in store.search(query)]


def test_run_comes_back_as_it_went(tmp_path: Path) -> None:
    """A run's bytes and spans come back as they were put; its summary says what its verdict says."""
    [spans] = annotated(talk(7))
    found = stored(tmp_path / "runs.db", spans).run("7")

    assert found is not None
    assert b"".join(found.payloads) == payload(spans)
    assert list(found.spans) == spans
    summary = found.summary
    assert (summary.blamed_agent, summary.blamed_step, summary.mode) == ("reviewer", 2, "mast:FM-3.3")
    assert (summary.outcome, summary.agents, summary.steps) == ("failed", ("planner", "solver", "reviewer"), 3)
    assert (summary.start_ns, summary.duration_ns) == (NOW_NS + 7 * 60 * 10**9, 3 * 10**9)


def test_what_is_put_twice_counts_once(tmp_path: Path) -> None:
    """After a kill a batch comes again, as the same bytes: it is stored once."""
    [spans] = annotated(talk(1))
    found = stored(tmp_path / "runs.db", spans, spans).run("1")

    assert found is not None
    assert found.summary.spans == len(found.spans) == len(spans)


def test_trace_in_pieces_is_one_run(tmp_path: Path) -> None:
    """A trace that goes out in several requests has the summary of the whole, whichever comes first."""
    [spans] = annotated(talk(1))
    whole = stored(tmp_path / "whole.db", spans).search()[0]
    pieces = stored(tmp_path / "pieces.db", spans[2:], spans[:2]).search()[0]

    assert sorted(pieces.agents) == sorted(whole.agents)
    assert replace(pieces, agents=whole.agents, words=whole.words) == whole


def test_half_a_run_says_so(tmp_path: Path) -> None:
    """While the run's own span is missing the summary tells."""
    [spans] = annotated(talk(1))

    assert not stored(tmp_path / "runs.db", spans[1:]).search()[0].has_root


def test_later_verdict_counts(tmp_path: Path) -> None:
    """A verdict that comes as a span of its own replaces the first one."""
    [spans] = annotated(talk(1))
    [attributed] = attribute_traces([spans], LastStepsTracer(), revision=1)
    store = stored(tmp_path / "runs.db", spans, attributed.beside(is_complete=True))

    assert (store.search()[0].revision, store.search()[0].blamed_agent) == (1, "reviewer")


def test_spans_without_agents_are_kept_for_those_who_ask(tmp_path: Path) -> None:
    """A trace of a web server is no run, but its spans, services and operations are there."""
    span = Span("0" * 31 + "9", "0" * 15 + "1", None, "GET /", start_ns=5, end_ns=9, resource={"service.name": "shop"})
    store = stored(tmp_path / "runs.db", [span], *annotated(talk(1)))

    assert (ids(store), ids(store, RunQuery(is_run=False))) == ([1], [1, 9])
    assert (store.services(), store.operations("shop"), list(store.spans_of("9"))) == (
        ["shop", "team"],
        [("GET /", 1)],
        [span],
    )


@pytest.fixture(scope="module")
def three_runs(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    painters = talk(3, ("a", "b", "c", "d"), agents=("writer", "painter"), outcome="unknown")
    path = tmp_path_factory.mktemp("three") / "runs.db"
    return stored(path, *annotated(talk(1), talk(2, task="Count the Lamps."), painters))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (RunQuery(), [3, 2, 1]),
        (RunQuery(text="LAMPS"), [2]),
        (RunQuery(text="lamps what"), []),
        (RunQuery(text="reviewer false"), []),
        (RunQuery(text="%"), []),
        (RunQuery(outcome="unknown"), [3]),
        (RunQuery(agent="painter"), [3]),
        (RunQuery(agent="nobody"), []),
        (RunQuery(mode="mast:FM-3.3", limit=2), [3, 2]),
        (RunQuery(service="team"), [3, 2, 1]),
        (RunQuery(service="' OR 1=1 --"), []),
        (RunQuery(since_ns=NOW_NS + 2 * 60 * 10**9), [3, 2]),
        (RunQuery(until_ns=NOW_NS + 2 * 60 * 10**9), [2, 1]),
        (RunQuery(until_ns=2**80), [3, 2, 1]),
        (RunQuery(min_duration_ns=4 * 10**9), [3]),
        (RunQuery(max_duration_ns=3 * 10**9), [2, 1]),
        (RunQuery(limit=0), []),
    ],
)
def test_runs_are_found(three_runs: RunStore, query: RunQuery, expected: list[int]) -> None:
    """Each part of a query leaves out what does not fit it, the latest run first."""
    assert ids(three_runs, query) == expected


def test_every_run_is_on_one_page(tmp_path: Path) -> None:
    """Page after page gives every run once, also where many started at the same time."""
    same_time = [[replace(span, start_ns=NOW_NS) for span in spans] for spans in annotated(*map(talk, range(1, 24)))]
    store = stored(tmp_path / "runs.db", *same_time)
    seen: list[str] = []
    place: str | None = None
    while page := store.search(RunQuery(limit=5, after=place)):
        seen += [run.trace_id for run in page]
        place = page[-1].place

    assert len(seen) == len(set(seen)) == 23
    with pytest.raises(ConfigError, match="expected a place as an earlier answer gave it, got 'x'"):
        store.search(RunQuery(after="x"))


@pytest.mark.parametrize("unknown", ["", "0", "8", "zz", "1" * 33, "../../etc", "\0", "\u0661"])
def test_unknown_ids_are_no_runs(talked: RunStore, unknown: str) -> None:
    """What is not stored, or no id at all, is None."""
    assert talked.run(unknown) is None


def test_extreme_values_are_stored(tmp_path: Path) -> None:
    """Times beyond what the file can hold, empty names and text of any kind do no harm."""
    [spans] = annotated(
        talk(1, ("\0 \u202e <script>", "b" * 200_000), task="\0" * 9, agents=("\0\U0001f4a5" * 300, ""))
    )
    wild = [replace(span, start_ns=0, end_ns=2**64 - 1, name="n" * 100_000) for span in spans]
    numbers = {words.FAILURE_SCORE: 2.0**1000, words.REVISION: 2**62, words.BLAME_STEP: -(2**63)}
    wild[0] = wild[0].with_attributes(numbers)
    store = stored(tmp_path / "runs.db", wild)

    [found] = store.search()
    assert (found.end_ns, found.failure_score, found.revision) == (2**63 - 1, 1.0, 2**62)
    assert len(store.spans_of("1")) == len(spans)


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    """Bytes that are no request cost nothing but themselves."""
    writer = RunWriter(tmp_path / "runs.db")
    writer.put([b"\xff\xff\xff", *(payload(spans) for spans in annotated(talk(1))), b"\x0a\x05\x12"])
    writer.close()

    assert ids(RunStore(tmp_path / "runs.db")) == [1]


def test_old_runs_go(tmp_path: Path) -> None:
    """A run is let go when nothing of it came for the time it is to be kept, with its spans and operations."""
    now_ns = [NOW_NS]
    writer = RunWriter(tmp_path / "runs.db", Retention(max_age_s=60), now_ns=lambda: now_ns[0])
    first, second = annotated(talk(1), talk(2))
    writer.put([payload(first)])
    now_ns[0] += 50 * 10**9
    writer.put([payload(second)])
    now_ns[0] += 20 * 10**9

    assert (writer.prune(), writer.prune()) == (1, 0)
    store = RunStore(tmp_path / "runs.db")
    assert (ids(store), store.run("1"), list(store.spans_of("1"))) == ([2], None, [])
    writer.close()


def test_size_is_kept(tmp_path: Path) -> None:
    """Beyond the size that is allowed the runs stored first go, but never the last one; the file shrinks."""
    path = tmp_path / "runs.db"
    writer = RunWriter(path, Retention(max_bytes=2_000_000))
    for number in range(1, 80):
        noise = [f"{number * 7919 + index:x}" * 9 for index in range(3_000)]  # does not compress to nothing
        writer.put(map(payload, annotated(talk(number, (" ".join(noise), "b")))))
        writer.prune()
    left = ids(RunStore(path))

    assert 79 in left
    assert 1 < len(left) < 79
    assert left == list(range(79, 79 - len(left), -1))
    writer.close()
    assert path.stat().st_size < 4_000_000


def test_one_huge_run_stays(tmp_path: Path) -> None:
    """A run larger than everything that may be kept is kept while it is the last one."""
    writer = RunWriter(tmp_path / "runs.db", Retention(max_bytes=1))
    writer.put(map(payload, annotated(talk(1), talk(2))))

    assert (writer.prune(), ids(RunStore(tmp_path / "runs.db"))) == (1, [2])
    writer.close()


def test_reading_goes_on_while_it_is_written(tmp_path: Path) -> None:
    """Readers never wait for the writer, nor see half a batch."""
    store = stored(tmp_path / "runs.db")
    done = threading.Event()

    def write() -> None:
        writer = RunWriter(tmp_path / "runs.db", sync="normal")
        for number in range(1, 40, 2):
            writer.put(map(payload, annotated(talk(number), talk(number + 1))))
        writer.close()
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = {len(ids(store))}
    while not done.is_set():
        seen.add(len(ids(store)))
    thread.join()

    assert len(ids(store)) == 40
    assert all(count % 2 == 0 for count in seen)


def make_foreign(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE mine (row)")


def make_text(path: Path) -> None:
    path.write_text("these are my notes, please do not touch them. " * 100)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (make_newer, r"of version 99: a newer blamespan wrote it\. Upgrade with: pip install .* mv \S+ \S+\.v99"),
        (make_foreign, r"which is something else\. Give another file with --store FILE"),
        (make_text, r"which cannot be read \(file is not a database\)\. Begin anew with: mv "),
    ],
)
def test_foreign_stores_are_refused(tmp_path: Path, make: Callable[[Path], None], said: str) -> None:
    """A file of a newer version, or of somebody else, is left as it is; the message says what to run."""
    path = tmp_path / "runs.db"
    make(path)
    before = path.read_bytes()

    with pytest.raises(StoreMismatch, match=said):
        RunWriter(path)
    with pytest.raises(StoreMismatch, match=said):
        RunStore(path).search()
    with pytest.raises(ConfigError, match=said):
        StoreSink(path, Retention())
    assert path.read_bytes() == before


def test_older_store_is_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer turns a store of an older version into this one's, with what is in it; a reader says what to run."""
    path = tmp_path / "runs.db"
    store = stored(path, *annotated(talk(1)))
    added = "ALTER TABLE traces ADD COLUMN colour TEXT; CREATE INDEX traces_colour ON traces (colour)"
    monkeypatch.setattr(schema, "_MIGRATIONS", (*schema._MIGRATIONS, added))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)

    with pytest.raises(StoreMismatch, match=r"of version \d+\. Bring it up to date with: blamespan collect --store "):
        store.search()
    RunWriter(path).close()
    assert ids(store) == [1]
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT colour FROM traces").fetchall() == [(None,)]


def test_absent_store_is_named(tmp_path: Path) -> None:
    """Where nothing was ever stored the message says how to begin."""
    with pytest.raises(StoreUnavailable, match=r"got nothing there\. Start blamespan collect --store "):
        RunStore(tmp_path / "runs.db").search()
    with pytest.raises(ConfigError, match=r"expected a file for the store of runs that can be written"):
        StoreSink(Path("/dev/null/runs.db"), Retention())


async def test_old_runs_go_while_nothing_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sink lets go of what is too old by itself, without waiting for the next batch."""
    monkeypatch.setattr("blamespan_collector.delivering.store_sink._PRUNE_EVERY_S", 0.01)
    store = stored(tmp_path / "runs.db", *annotated(talk(1)))
    sink = StoreSink(tmp_path / "runs.db", Retention(max_age_s=0.05))
    sink.resume({})
    for _ in range(500):
        if not ids(store):
            break
        await asyncio.sleep(0.01)
    await sink.close()

    assert ids(store) == []


async def test_full_disk_is_tried_again(tmp_path: Path) -> None:
    """What does not fit on the disk is tried again, and stored when there is room."""
    sink = StoreSink(tmp_path / "runs.db", Retention())
    assert sink._writer is not None
    sink._writer._database.execute("PRAGMA max_page_count = 20")
    payloads = [payload(spans) for spans in annotated(talk(1, [random.Random(1).randbytes(400_000).hex()]))]
    with pytest.raises(TryAgain, match="cannot write: database or disk is full"):
        await sink.send("traces", payloads)
    sink._writer._database.execute("PRAGMA max_page_count = 100000")
    await sink.send("traces", payloads)
    await sink.close()

    assert ids(RunStore(tmp_path / "runs.db")) == [1]


async def test_damaged_store_is_begun_anew(tmp_path: Path) -> None:
    """A store that the disk damaged is moved aside: what goes to the backends does not wait for it."""
    path = tmp_path / "runs.db"
    stored(path, *annotated(*map(talk, range(1, 30))))
    data = bytearray(path.read_bytes())
    data[8192:] = b"\x5a" * (len(data) - 8192)
    path.write_bytes(data)
    await sent(path, 99)

    assert ids(RunStore(path)) == [99]
    assert (tmp_path / "runs.db.damaged").exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: bytes(16) + data[16:],
        lambda data: random.Random(1).randbytes(100) + data[100:],
        lambda data: bytes(len(data)),
        lambda data: random.Random(2).randbytes(8192) + data[8192:],
    ],
)
async def test_store_damaged_in_its_first_bytes_is_begun_anew(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """Its mark is among them: the words that made its tables, or its place in the journal's folder, say whose it is."""
    (tmp_path / "segments").mkdir()
    path = tmp_path / "store" / "runs.db"
    stored(path, *annotated(talk(1)))
    damaged = damage(path.read_bytes())
    path.write_bytes(damaged)
    await sent(path, 99)

    assert ids(RunStore(path)) == [99]
    assert (path.parent / "runs.db.damaged").read_bytes() == damaged


async def test_store_whose_mark_alone_is_damaged_is_used(tmp_path: Path) -> None:
    """One flipped bit of its mark takes nothing from it."""
    path = tmp_path / "runs.db"
    stored(path, *annotated(talk(1)))
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    await sent(path, 99)

    assert sorted(ids(RunStore(path))) == [1, 99]


async def test_store_that_cannot_be_written_keeps_nobody_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs wait for a read-only store for a while, then go on without it; when it can be written, they are stored."""
    path = tmp_path / "runs.db"
    stored(path, *annotated(talk(1)))
    monkeypatch.setattr("blamespan_collector.delivering.store_sink._FAILS_FOR_S", 0.05)
    connect = sqlite_files.connect
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_files, "connect", lambda path, **_: connect(path, read_only=True))
        sink = StoreSink(path, Retention())
        with pytest.raises(TryAgain, match="cannot write"):
            await sink.send("traces", [payload(spans) for spans in annotated(talk(2))])
        await asyncio.sleep(0.1)
        await sink.send("traces", [payload(spans) for spans in annotated(talk(3))])
    await sink.send("traces", [payload(spans) for spans in annotated(talk(4))])
    await sink.close()

    assert sorted(ids(RunStore(path))) == [1, 4]


@pytest.mark.parametrize("suffixes", [("",), ("", "-wal", "-shm")])
async def test_store_that_is_deleted_is_begun_anew(tmp_path: Path, suffixes: tuple[str, ...]) -> None:
    """The page shows what comes from then on, without a restart; also before anything comes."""
    path = tmp_path / "runs.db"
    sink = StoreSink(path, Retention())
    await sink.send("traces", [payload(spans) for spans in annotated(talk(1))])
    for suffix in suffixes:
        path.with_name(f"runs.db{suffix}").unlink(missing_ok=True)
    sink._prune_now()
    empty = ids(RunStore(path))
    await sink.send("traces", [payload(spans) for spans in annotated(talk(2))])
    await sink.close()

    assert (empty, ids(RunStore(path))) == ([], [2])
