"""What was set aside or delivered lately goes out again: the same bytes, in order, to who may have lost it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from blamespan.errors import ConfigError
from blamespan_collector.command import collect
from blamespan_collector.delivering.delivered_rows import Grace
from blamespan_collector.delivering.delivery import Delivery
from blamespan_collector.delivering.file_sink import FileSink
from blamespan_collector.delivering.outbox import Outbox
from blamespan_collector.delivering.resending import Resend, resend
from blamespan_collector.delivering.sinks import PARTIAL, Receipt, Refused, Sink, TryAgain
from blamespan_collector.delivering.store_sink import StoreSink
from blamespan_collector.store import Retention, RunStore
from blamespan_collector.wire.outgoing import Kind
from tests.collector.fakes import request, run
from tests.collector.outbox import enqueue
from tests.collector.working import MemorySink, until, working

BODIES = [request(run(number)).SerializeToString() for number in range(1, 9)]
GRACE = Grace(300, 1024 * 1024)


@contextmanager
def delivering(
    folder: Path, *sinks: Sink, grace: Grace = GRACE, is_tight: threading.Event | None = None
) -> Iterator[Delivery]:
    """Deliver what is in the outbox of *folder*, and what is asked for meanwhile."""
    tight = is_tight or threading.Event()
    delivery = Delivery(lambda all_: Outbox(folder / "state.db", all_, sync="normal", grace=grace), sinks, tight.is_set)
    delivery.start()
    until(lambda: is_done(delivery))
    try:
        yield delivery
    finally:
        delivery.stop(5)
        assert delivery.failure is None


def is_done(delivery: Delivery) -> bool:
    return not any(counts.waiting or counts.resending for counts in delivery.counts.values())


def rows(folder: Path, table: str = "outbox") -> int:
    with sqlite3.connect(folder / "state.db") as database:
        return int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def bodies(sink: MemorySink) -> list[bytes]:
    return [payload for _, payload in sink.payloads]


def refusing(*refused: bytes, reason: str = "HTTP 400: 'no'") -> MemorySink:
    sink = MemorySink("picky")
    sink.fails = lambda _, payloads: Refused(reason) if set(payloads) & set(refused) else None
    return sink


@pytest.mark.parametrize("is_running", [True, False])
def test_what_was_delivered_since_goes_out_again(tmp_path: Path, is_running: bool) -> None:
    """A backend that lost its last seconds gets them again, whether a collector runs or the next one starts."""
    sink = MemorySink()
    enqueue(tmp_path, *BODIES[:3])
    with delivering(tmp_path, sink) as delivery:
        time.sleep(0.05)
        since_s = time.time()
        enqueue(tmp_path, *BODIES[3:6])
        delivery.wake()
        until(lambda: delivery.counts["memory", "traces"].delivered == 24)
        if is_running:
            assert resend(tmp_path, since_s=since_s) == [
                Resend(
                    "memory",
                    kind,
                    "delivered",
                    12 * (kind == "traces"),
                    kind == "traces",
                    "" if kind == "traces" else "nothing since then",
                )
                for kind in ("logs", "metrics", "traces", "verdicts")
            ]
            until(lambda: len(sink.payloads) == 9)
    if not is_running:
        resend(tmp_path, since_s=since_s)
        with delivering(tmp_path, sink) as delivery:
            until(lambda: len(sink.payloads) == 9)

    assert bodies(sink) == [*BODIES[:6], *BODIES[3:6]]
    assert delivery.counts["memory", "traces"].resent == 12
    assert delivery.counts["memory", "traces"].delivered == (24 if is_running else 0)
    assert rows(tmp_path, "resend") == 0


def test_what_is_new_waits_for_what_is_sent_again(tmp_path: Path) -> None:
    """Order is kept: what is sent again is older than what is to come."""
    sink = MemorySink()
    enqueue(tmp_path, *BODIES[:2])
    with delivering(tmp_path, sink):
        pass
    enqueue(tmp_path, *BODIES[2:4])
    resend(tmp_path, since_s=0)
    with delivering(tmp_path, sink):
        pass

    assert bodies(sink) == [*BODIES[:2], *BODIES[:2], *BODIES[2:4]]


def test_only_who_is_asked_for_gets_it_again(tmp_path: Path) -> None:
    """Other sinks get nothing twice; the file and the store, which have it, get nothing at all."""
    one, other, file = MemorySink("one"), MemorySink("other"), FileSink(str(tmp_path / "out"))
    store = StoreSink(tmp_path / "runs.db", Retention(), sync="normal")
    enqueue(tmp_path, *BODIES[:3])
    with delivering(tmp_path, one, other, file, store):
        asked = resend(tmp_path, since_s=0, sink="one")
        everything = resend(tmp_path, since_s=0, dry_run=True)
        until(lambda: len(one.payloads) == 6)

    assert {result.sink for result in asked} == {"one"}
    assert {result.sink: result.spans for result in everything if result.kind == "traces"} == {
        "one": 12,
        "other": 12,
        str(tmp_path / "out"): 0,
        f"store {tmp_path / 'runs.db'}": 0,
    }
    assert (len(other.payloads), len((tmp_path / "out").read_bytes().splitlines())) == (3, 3)


def test_what_was_set_aside_goes_out_again_in_order(tmp_path: Path) -> None:
    """Once the backend takes it, it is set aside no more; what is refused again is, with its new reason."""
    sink = refusing(BODIES[1], BODIES[3], BODIES[4])
    enqueue(tmp_path, *BODIES[:6])
    with delivering(tmp_path, sink) as delivery:
        sink.fails = lambda _, payloads: Refused("still no") if BODIES[3] in payloads else None
        assert resend(tmp_path, aside=True) == [Resend("picky", "traces", "aside", 12)]
        until(lambda: len(sink.payloads) == 5 and is_done(delivery))

    assert bodies(sink) == [BODIES[0], BODIES[2], BODIES[5], BODIES[1], BODIES[4]]
    with sqlite3.connect(tmp_path / "state.db") as database:
        assert database.execute("SELECT reason, payload FROM set_aside").fetchall() == [("still no", BODIES[3])]
    assert rows(tmp_path, "resend_aside") == 0
    assert delivery.set_aside == {"traces": 4}


def test_what_a_file_could_not_hold_goes_there_again(tmp_path: Path) -> None:
    """Set aside by the file, as by any sink: asked for, its line is written, once."""
    file = FileSink(str(tmp_path / "out"))
    enqueue(tmp_path, b"\xff\xff", BODIES[0])
    with delivering(tmp_path, file):
        pass
    with sqlite3.connect(tmp_path / "state.db") as database:
        database.execute("UPDATE set_aside SET payload = ?", (BODIES[1],))
    database.close()
    resend(tmp_path, aside=True)
    for _ in range(2):
        with delivering(tmp_path, FileSink(str(tmp_path / "out"))):
            pass

    assert len((tmp_path / "out").read_bytes().splitlines()) == 2


def test_requests_taken_in_part_are_left_unless_asked_for(tmp_path: Path) -> None:
    """To send again what a backend took in part doubles that part: it takes one more flag."""
    sink = refusing(BODIES[0], reason=f"{PARTIAL}2 spans: 'bad ids'")
    enqueue(tmp_path, *BODIES[:2])
    with delivering(tmp_path, sink):
        sink.fails = lambda *_: None
        (left,) = resend(tmp_path, aside=True)
        assert len(sink.payloads) == 1
        (sent,) = resend(tmp_path, aside=True, partial=True)
        until(lambda: len(sink.payloads) == 2)

    assert (left.is_enqueued, sent.is_enqueued, left.origin) == (False, True, "partial")
    assert "--partial sends them whole" in left.note


def test_what_a_former_sink_set_aside_goes_to_another(tmp_path: Path) -> None:
    """After an address was put right its sink has another name: what the first one set aside goes there if told."""
    enqueue(tmp_path, *BODIES[:2])
    with delivering(tmp_path, refusing(*BODIES[:2])):
        pass
    mended = MemorySink("mended")
    with delivering(tmp_path, mended):
        (nowhere,) = resend(tmp_path, aside=True)
        (sent,) = resend(tmp_path, aside=True, sink="picky", to="mend")
        until(lambda: len(mended.payloads) == 2)

    assert (nowhere.is_enqueued, nowhere.note) == (False, "nothing is forwarded there any more: --sink picky --to NAME")
    assert (sent.sink, sent.note) == ("mended", "set aside by picky")
    assert bodies(mended) == BODIES[:2]


def test_refused_row_among_those_sent_again_holds_up_none(tmp_path: Path) -> None:
    """What is sent again is halved, doubted and set aside as what is new is."""
    sink = MemorySink()
    enqueue(tmp_path, *BODIES[:5])
    with delivering(tmp_path, sink) as delivery:
        failures = iter([TryAgain("down")] * 3)
        sink.fails = lambda _, payloads: Refused("no") if BODIES[2] in payloads else next(failures, None)
        resend(tmp_path, since_s=0)
        until(lambda: len(sink.payloads) == 9 and is_done(delivery))

    assert bodies(sink)[5:] == [*BODIES[:2], *BODIES[3:5]]
    assert rows(tmp_path, "set_aside") == 1


def test_killed_in_between_it_is_gone_on_with(tmp_path: Path) -> None:
    """A resend that was noted survives any end; what had been noted as sent again is not sent a third time."""
    sink = MemorySink(max_bytes=1)  # a row at a time
    enqueue(tmp_path, *BODIES[:4])
    with delivering(tmp_path, sink):
        pass
    resend(tmp_path, since_s=0)
    outbox = Outbox(tmp_path / "state.db", [sink], sync="normal", grace=GRACE)
    outbox.take_resends()
    (row,) = outbox.next_resend("memory", "traces", 1)
    outbox.advance_resend("memory", "traces", [row], "")
    outbox.close()
    with delivering(tmp_path, sink):
        pass

    assert bodies(sink) == [*BODIES[:4], *BODIES[1:4]]


@pytest.mark.parametrize("grace", [Grace(0, 10**9), Grace(300, 0), Grace(0.05, 10**9), Grace(300, len(BODIES[0]))])
def test_kept_rows_are_bounded(tmp_path: Path, grace: Grace) -> None:
    """By time and by size; nothing is kept where either is 0."""
    sink = MemorySink(max_bytes=1)
    enqueue(tmp_path, *BODIES)
    with delivering(tmp_path, sink, grace=grace) as delivery:
        expected = 1 if grace.seconds and grace.max_bytes == len(BODIES[0]) else 0
        until(lambda: rows(tmp_path) == expected)
        until(lambda: delivery.kept_bytes == expected * len(BODIES[0]))
        spans = sum(result.spans for result in resend(tmp_path, since_s=0, dry_run=True))

    assert spans == 4 * expected


def test_room_that_is_short_takes_what_is_kept_first(tmp_path: Path) -> None:
    """Nothing delivered is kept while room is short, also not what somebody asked for; deliveries go on."""
    sink, is_tight = MemorySink(), threading.Event()
    enqueue(tmp_path, *BODIES[:4])
    with delivering(tmp_path, sink, is_tight=is_tight) as delivery:
        assert rows(tmp_path) == 4
        is_tight.set()
        until(lambda: rows(tmp_path) == 0)
        enqueue(tmp_path, *BODIES[4:6])
        delivery.wake()
        until(lambda: rows(tmp_path) == 0 and len(sink.payloads) == 6)

    assert bodies(sink) == BODIES[:6]


def test_kept_rows_survive_a_restart_and_are_no_backlog(tmp_path: Path) -> None:
    """They count as waiting for nobody, and a sink that is new gets none of them."""
    sink, new = MemorySink(), MemorySink("new")
    enqueue(tmp_path, *BODIES[:3])
    with delivering(tmp_path, sink):
        pass
    with delivering(tmp_path, sink, new) as delivery:
        until(lambda: delivery.kept_bytes == sum(map(len, BODIES[:3])))
        assert delivery.oldest_s is None
        enqueue(tmp_path, BODIES[3])
        delivery.wake()
        until(lambda: new.payloads and len(sink.payloads) == 4)

    assert (bodies(new), bodies(sink)) == ([BODIES[3]], BODIES[:4])


def test_sink_that_is_behind_keeps_its_rows(tmp_path: Path) -> None:
    """What one sink lacks is no kept row, however long ago another got it."""
    quick, slow = MemorySink("quick"), MemorySink("slow")
    slow.fails = lambda *_: TryAgain("down")
    enqueue(tmp_path, *BODIES)
    delivery = Delivery(
        lambda all_: Outbox(tmp_path / "state.db", all_, sync="normal", grace=Grace(0.01, 1)), [quick, slow]
    )
    delivery.start()
    until(lambda: len(quick.payloads) == len(BODIES))
    time.sleep(0.2)
    assert rows(tmp_path) == len(BODIES)
    slow.fails = lambda *_: None
    until(lambda: len(slow.payloads) == len(BODIES))
    delivery.stop(5)

    assert bodies(slow) == BODIES


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sink": "nobody"}, "expected --sink to name one of one, other, got 'nobody'"),
        ({"sink": "o"}, "got 'o', which 2 of them have"),
        ({"aside": True, "sink": "one", "to": "x"}, "expected --to to name one of one, other, got 'x'"),
    ],
)
def test_mistaken_sinks_are_named(tmp_path: Path, options: dict[str, str], said: str) -> None:
    """A sink that is not meant for sure gets nothing."""
    with delivering(tmp_path, MemorySink("one"), MemorySink("other")):
        pass

    with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
        resend(tmp_path, since_s=0, **options)  # type: ignore[arg-type]  # as given


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(collect, ["resend", *arguments])
    return result.exit_code, result.output if result.exception is None else str(result.exception)


def test_command_tells_what_it_enqueued(tmp_path: Path) -> None:
    """Numbers per sink on stdout; without a request nothing is sent; `--dry-run` changes nothing."""
    sink = refusing(BODIES[0])
    enqueue(tmp_path, *BODIES[:3])
    with delivering(tmp_path, sink):
        pass
    journal = ("--journal", str(tmp_path))
    listed = invoke(*journal)
    dry = invoke(*journal, "--since", "1h", "--dry-run")
    assert rows(tmp_path, "resend") == rows(tmp_path, "resend_aside") == 0
    document = json.loads(invoke(*journal, "--since", "60", "--aside", "--json")[1])

    assert listed[1].splitlines()[:3] == [
        "number  kind    origin     sink",
        "     4  traces  aside      picky",
        "    12  traces  delivered  picky",
    ]
    assert "Nothing is sent" in listed[1]
    assert dry == (0, "number  kind    origin     sink\n    12  traces  delivered  picky\n")
    assert [one["spans"] for one in document["results"] if one["is_enqueued"]] == [4, 12]
    assert (document["is_running"], document["is_dry_run"]) == (False, False)
    assert (rows(tmp_path, "resend"), rows(tmp_path, "resend_aside")) == (1, 1)


def test_command_says_why_a_file_gets_nothing(tmp_path: Path) -> None:
    """Asked to send a file what it has, it says that it has it."""
    path = str(tmp_path / "out")
    enqueue(tmp_path, *BODIES[:2])
    with delivering(tmp_path, FileSink(path)):
        pass

    said = invoke("--journal", str(tmp_path), "--since", "5m", "--sink", path)
    assert said == (0, f"nothing to send again\n{path}: nothing is kept: what it took it has\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--since", "yesterday"], "expected a time, got 'yesterday'"),
        (["--aside", "--to", "x"], "--to needs --aside and --sink"),
        (["--since", "5m", "--journal", "/nonexistent"], "expected a collector's journal at '/nonexistent', got none"),
    ],
)
def test_command_names_mistakes(tmp_path: Path, arguments: Sequence[str], said: str) -> None:
    """What was asked for wrongly changes nothing, and the message says what to do."""
    enqueue(tmp_path)

    assert said in invoke("--journal", str(tmp_path), *arguments)[1]


def test_running_worker_sends_again(tmp_path: Path) -> None:
    """The whole way: a run that a backend forgot comes again from a worker at work, and is counted."""
    sink = MemorySink()
    store = StoreSink(tmp_path / "runs.db", Retention(), sync="normal")
    with working(tmp_path / "journal", sink, store) as worker:
        worker.take(run(1))
        until(lambda: sink.payloads and RunStore(tmp_path / "runs.db").run("1"))
        first = bodies(sink)
        resend(tmp_path / "journal", since_s=time.time() - 60)
        until(lambda: worker.counts["spans_resent"] == 4)

    assert bodies(sink) == [*first, *first]


def test_what_was_sent_again_can_be_lost_again(tmp_path: Path) -> None:
    """A backend that is killed once more after it got its rows again gets them a third time, old as they are."""
    sink = MemorySink(max_bytes=1)
    enqueue(tmp_path, *BODIES[:4])
    with delivering(tmp_path, sink) as delivery:
        time.sleep(0.05)
        first_s = time.time()
        enqueue(tmp_path, *BODIES[4:6])
        delivery.count_added("traces", 8)
        delivery.wake()
        until(lambda: len(sink.payloads) == 6 and is_done(delivery))
        resend(tmp_path, since_s=first_s)
        until(lambda: len(sink.payloads) == 8 and is_done(delivery))
        time.sleep(0.05)
        second_s = time.time()
        resend(tmp_path, since_s=second_s)
        resend(tmp_path, since_s=first_s)
        until(lambda: len(sink.payloads) == 10 and is_done(delivery))
        again = resend(tmp_path, since_s=second_s, dry_run=True)

    assert bodies(sink) == [*BODIES[:4], *[*BODIES[4:6]] * 3]
    assert [result.spans for result in again if result.kind == "traces"] == [8]


def test_request_for_earlier_rows_is_not_passed_over(tmp_path: Path) -> None:
    """Somebody who asks for more while some of it is on its way gets all that was asked for."""
    sink = MemorySink(max_bytes=1)
    enqueue(tmp_path, *BODIES[:2])
    with delivering(tmp_path, sink):
        pass
    time.sleep(0.02)
    since_s = time.time()
    enqueue(tmp_path, *BODIES[2:4])
    with delivering(tmp_path, sink):
        pass
    resend(tmp_path, since_s=since_s)
    outbox = Outbox(tmp_path / "state.db", [sink], sync="normal", grace=GRACE)
    outbox.take_resends()
    (row,) = outbox.next_resend("memory", "traces", 1)
    resend(tmp_path, since_s=0)
    outbox.take_resends()
    outbox.advance_resend("memory", "traces", [row], "")
    outbox.close()
    with delivering(tmp_path, sink):
        pass

    assert row.payload == BODIES[2]
    assert bodies(sink) == [*BODIES[:4], *BODIES[:4]]


async def test_resend_while_a_batch_is_on_its_way_loses_nothing(tmp_path: Path) -> None:
    """Requests that come while the sink hangs are seen to after it."""
    go = threading.Event()

    class Slow(MemorySink):
        async def send(self, kind: Kind, payloads: Sequence[bytes]) -> Receipt:
            await asyncio.to_thread(go.wait, 10)
            return await super().send(kind, payloads)

    sink = Slow()
    enqueue(tmp_path, *BODIES[:2])
    delivery = Delivery(lambda all_: Outbox(tmp_path / "state.db", all_, sync="normal", grace=GRACE), [sink])
    await asyncio.to_thread(delivery.start)
    for _ in range(3):
        resend(tmp_path, since_s=0)
    go.set()
    await asyncio.to_thread(until, lambda: is_done(delivery) and len(sink.payloads) >= 2)
    resend(tmp_path, since_s=0)
    await asyncio.to_thread(until, lambda: is_done(delivery) and len(sink.payloads) >= 4)
    await asyncio.to_thread(delivery.stop, 5)

    assert bodies(sink) == [*BODIES[:2], *BODIES[:2]]
