"""A short turn of `scripts/faults`, and proof that its count would notice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.faults.ledger import Arrivals, Count, Ledger
from tests.faults.life import Plan, live
from tests.faults.syscalls import FailingCalls, Shim
from tests.faults.table import TableReport, fill_table
from tests.faults.traffic import Batch, runs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_or_told_twice_differently(tmp_path: Path) -> None:
    """Through kills, outages and a full disk every acknowledged span arrives, unaltered, in a file exactly once."""
    report = live(Plan("short/0", rounds=8, runs_per_s=20), tmp_path / "life")

    assert report.acknowledged > 100
    assert report.crimes == []


@pytest.fixture
def shim(tmp_path: Path) -> Shim:
    """The library that makes calls fail."""
    try:
        return Shim(tmp_path)
    except OSError as error:
        pytest.skip(str(error))


_CALLS = """
import os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
other = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT)
calls = lambda: os.pwrite(file, b"four", 0), lambda: os.fsync(file), lambda: os.fsync(file), lambda: os.fsync(other)
for call in calls:
    try:
        print(call())
    except OSError as error:
        print(error.errno)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="preloads a library")
@pytest.mark.parametrize(
    ("calls", "most", "answers"),
    [
        (FailingCalls("sync", "EIO", "/here"), -1, ["4", "5", "5", "None"]),
        (FailingCalls("sync", "ENOSPC", "/here"), 1, ["4", "28", "None", "None"]),
        (FailingCalls("write", "short", "/here"), -1, ["2", "None", "None", "None"]),
        (FailingCalls("sync", "EIO", "/elsewhere"), -1, ["4", "None", "None", "None"]),
    ],
)
def test_calls_fail_as_they_are_told(
    tmp_path: Path, shim: Shim, calls: FailingCalls, most: int, answers: list[str]
) -> None:
    """The calls that are named fail, as often as is said, on the files that are meant, and no others."""
    shim.begin(calls, most=most)
    command = [sys.executable, "-c", _CALLS, str(tmp_path / "here"), str(tmp_path / "there")]
    done = subprocess.run(command, env=shim.environment, capture_output=True, text=True, check=True)
    shim.end()

    assert done.stdout.split() == answers
    assert shim.failed == len([answer for answer in answers if answer not in ("4", "None")])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="preloads a library")
@pytest.mark.usefixtures("shim")
def test_calls_that_fail_leave_nothing_behind(tmp_path: Path) -> None:
    """Through calls that fail once, for six seconds and between kills, every acknowledged span arrives."""
    report = TableReport()
    cells = list(fill_table(report, [FailingCalls("sync", "EIO")], tmp_path / "table", "1"))

    assert [cell.failed > 0 for _, _, cell in cells] == [True, True, True]
    assert report.acknowledged > 100
    assert report.crimes == []


def test_lost_span_is_counted() -> None:
    """A span that was acknowledged and never arrived is lost."""
    ledger, arrivals, batch = _sent_and_arrived()
    ledger.acknowledge([*batch.keys, b"x" * 24])

    assert arrivals.count(ledger.sent, ledger.acknowledged).lost == 1


def test_identical_repeat_is_told_from_a_different_one() -> None:
    """A span that comes again is a repeat; with other content it is another kind of repeat."""
    ledger, arrivals, batch = _sent_and_arrived()
    arrivals.add(_request(batch))
    arrivals.add(_with_attribute(batch, "blamespan.blame.score"))

    count = arrivals.count(ledger.sent, ledger.acknowledged)

    repeats = 2 * len(batch.keys) - 1
    assert count == Count(len(batch.keys), repeated_identical=repeats, repeated_different=1, annotated=1)


@pytest.mark.parametrize(
    ("key", "altered"), [("gen_ai.agent.name", 1), ("blamespan.step.index", 1), ("blamespan.error.mode", 0)]
)
def test_altered_span_is_counted(key: str, altered: int) -> None:
    """A span that comes with anything but a verdict added is altered."""
    ledger, arrivals, batch = Ledger(), Arrivals("otlp", repeats_allowed=True), _batch()
    ledger.send(batch.body)
    arrivals.add(_with_attribute(batch, key))

    assert arrivals.count(ledger.sent, set()) == Count(len(batch.keys), altered=altered, annotated=1 - altered)


def test_same_seed_makes_the_same_traffic() -> None:
    """A failed life can be lived again: what is sent, how and when follows from the seed."""
    one, other = runs("7/0"), runs("7/0")

    assert [next(one) for _ in range(50)] == [next(other) for _ in range(50)]


def _batch() -> Batch:
    return next(batch for batches in runs("1") for batch in batches if len(batch.keys) > 2)


def _sent_and_arrived() -> tuple[Ledger, Arrivals, Batch]:
    ledger, arrivals, batch = Ledger(), Arrivals("otlp", repeats_allowed=True), _batch()
    ledger.send(batch.body)
    ledger.acknowledge(batch.keys)
    arrivals.add(_request(batch))
    return ledger, arrivals, batch


def _request(batch: Batch) -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest.FromString(batch.body)


def _first(request: ExportTraceServiceRequest) -> Span:
    return request.resource_spans[0].scope_spans[0].spans[0]


def _with_attribute(batch: Batch, key: str) -> ExportTraceServiceRequest:
    """Read a batch whose first span has one more attribute."""
    request = _request(batch)
    _first(request).attributes.append(KeyValue(key=key, value=AnyValue(string_value="x")))
    return request
