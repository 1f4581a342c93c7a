"""An outbox of a test, and its delivery."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from blamespan_collector.delivering.backend import MAX_BATCH_BYTES, BackendAccess
from blamespan_collector.delivering.delivery import Delivery, LaneCounts
from blamespan_collector.delivering.forwarder import forwarder
from blamespan_collector.delivering.outbox import Outbox
from blamespan_collector.delivering.sinks import Sink
from blamespan_collector.state.state import State
from blamespan_collector.wire.outgoing import Kind, Outgoing
from blamespan_collector.wire.raw_spans import encode, pieces
from tests.collector.fakes import run
from tests.collector.working import until


def enqueue(folder: Path, *payloads: bytes, kind: Kind = "traces", spans: int = 4) -> None:
    """Put payloads of so many spans each into the outbox of *folder*."""
    enqueue_pieces(folder, *(Outgoing(kind, spans, payload) for payload in payloads))


def enqueue_pieces(folder: Path, *rows: Outgoing) -> None:
    state = State(folder / "state.db", sync="normal")
    with state.commit():
        state.enqueue(rows)
    state.close()


def delivered(folder: Path, *sinks: Sink, for_s: float = 20) -> Delivery:
    """Deliver what is in the outbox of *folder*, for at most so long."""
    delivery = Delivery(lambda all_: Outbox(folder / "state.db", all_, sync="normal"), sinks)
    delivery.start()
    try:
        until(lambda: delivery.failure or not any(counts.waiting for counts in delivery.counts.values()), for_s)
    finally:
        delivery.stop(5)
    assert delivery.failure is None
    return delivery


def forwarded(folder: Path, url: str, *, for_s: float = 20, size: int = 1, steps: int = 3, runs: int = 1) -> LaneCounts:
    """Forward runs, one row of the outbox each, for at most so long; gives the counts of traces."""
    client = BackendAccess(headers=(("x-key", "secret"),))
    for number in range(1, runs + 1):
        raw = encode(run(number, content="x" * size, steps=steps))
        enqueue_pieces(folder, *(Outgoing("traces", *piece) for piece in pieces(raw, MAX_BATCH_BYTES)))
    counts = delivered(folder, forwarder(url, client), for_s=for_s).counts
    return next(of_lane for (_, kind), of_lane in counts.items() if kind == "traces")


def set_aside(folder: Path, columns: str = "reason, spans") -> list[tuple[Any, ...]]:
    """List what was set aside, in order."""
    with sqlite3.connect(folder / "state.db") as database:
        return database.execute(f"SELECT {columns} FROM set_aside ORDER BY row").fetchall()
