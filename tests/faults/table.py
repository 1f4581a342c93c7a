"""The table of system calls by fault: one collector, one fault after the other, and what each of them left behind."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.faults.backend import Backend
from tests.faults.client import Clients
from tests.faults.collector import CollectorProcess, NotReady
from tests.faults.ledger import Arrivals, Ledger
from tests.faults.life import Report, written
from tests.faults.rounds import GOES_ON_WITHIN_S
from tests.faults.syscalls import ALL_ROOMS, ROOMS, FailingCalls, Shim
from tests.faults.traffic import runs

LASTS_S = 6.0
_ONCE_WITHIN_S = 2.0
_DRAINED_WITHIN_S = 45.0
_RUNS_PER_S = 12.0
_OPTIONS = ("--tracer", "lexical", "--grpc", "none", "--page", "none")
_SILENCE_S = 2.0
"""Without an acknowledgement for so long, all requests count as refused: `/readyz` has to say why."""


@dataclass(slots=True)
class Cell:
    """What one fault left behind.

    Attributes:
        failed: How many calls failed.
        lost: Spans that were acknowledged and did not come, although nothing says why.
        again_s: How long after the fault the first span came that waited; 0 where none did.
        crimes: What breaks the promise, in words.
    """

    failed: int = 0
    lost: int = 0
    again_s: float = 0.0
    crimes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if not self.failed:
            return "no such call"
        return f"{self.lost} lost, again after {self.again_s:.1f} s" + " (!)" * bool(self.crimes)


@dataclass(slots=True)
class TableReport:
    """The table, and what the collector's life came to.

    Attributes:
        cells: By fault, then by column.
        acknowledged: Spans in all.
        lost_in_file: Of those, spans that the file sink lacks at the end.
        crimes: What breaks the promise, in words.
    """

    cells: dict[FailingCalls, dict[str, Cell]] = field(default_factory=dict)
    acknowledged: int = 0
    lost_in_file: int = 0
    repeated_in_file: int = 0
    repeated: int = 0
    crimes: list[str] = field(default_factory=list)


class _Life:
    def __init__(self, folder: Path, seed: str) -> None:
        self.shim = Shim(folder)
        self.backend = Backend(Arrivals("otlp", repeats_allowed=True))
        self.ledger = Ledger()
        self.collector = CollectorProcess(folder, self.backend.url, _OPTIONS, environment=self.shim.environment)
        self.clients = Clients(self.ledger, runs(seed, over_grpc=False), _RUNS_PER_S)

    def start(self) -> None:
        self.collector.spawn()
        self.clients.point_to(self.collector.wait_ready())

    def settle(self, cell: Cell) -> Cell:
        """Wait until all that was acknowledged up to now is delivered; note how long it stood still, and what lacks."""
        arrivals, began_s = self.backend.arrivals, time.monotonic()
        missing = arrivals.missing(self.ledger.copy_acknowledged())
        waited = len(missing)
        reason: str | None = None
        while missing and time.monotonic() - began_s < _DRAINED_WITHIN_S:
            time.sleep(0.05)
            missing = arrivals.missing(missing)
            now_s = time.monotonic() - began_s
            if len(missing) < waited and not cell.again_s:
                cell.again_s = now_s
            if not cell.again_s and now_s > GOES_ON_WITHIN_S and reason is None:
                reason = self.collector.not_ready()
                if reason is None:
                    cell.crimes.append(f"nothing came for {GOES_ON_WITHIN_S:g} s, and it says it is ready")
                    reason = ""
        if self.collector.note_unexpected_end():
            cell.crimes.append(f"it ended by itself: {self.collector.failures[-1]}")
            self.start()
        cell.lost = len(missing)
        if missing:
            cell.crimes.append(f"{len(missing)} spans did not come in {_DRAINED_WITHIN_S:g} s")
        return cell

    def once(self, calls: FailingCalls) -> Cell:
        """Let one call fail, in each room where none is named."""
        cell = Cell()
        for room in ROOMS if calls.room == ALL_ROOMS else (calls.room,):
            self.shim.begin(replace(calls, room=room), most=1)
            _until(lambda: self.shim.failed > 0, _ONCE_WITHIN_S)
            if calls.way == "hangs":
                time.sleep(_ONCE_WITHIN_S)
            self.shim.end()
            cell.failed += self.shim.failed
        return self.settle(cell)

    def lasting(self, calls: FailingCalls) -> Cell:
        """Let half of the calls fail, then all of them."""
        cell = Cell()
        with self.shim.failing(calls, share=0.5):
            time.sleep(LASTS_S / 2)
            cell.failed = self.shim.failed
        with self.shim.failing(calls):
            time.sleep(LASTS_S / 2 - _SILENCE_S)
            before = len(self.ledger.copy_acknowledged())
            time.sleep(_SILENCE_S)
            is_silent = len(self.ledger.copy_acknowledged()) == before
            cell.failed += self.shim.failed
            if is_silent and calls.way != "hangs" and self.collector.not_ready() is None:
                cell.crimes.append("it refused every request and said that it was ready")
        return self.settle(cell)

    def with_kills(self, calls: FailingCalls) -> Cell:
        """Let half of the calls fail, and kill all while they do; then a child of the next one, which starts on it."""
        cell = Cell()
        with self.shim.failing(calls, share=0.5):
            time.sleep(LASTS_S / 3)
            self.collector.kill()
            self.collector.spawn()
            time.sleep(LASTS_S / 3)
            for worker in self.collector.workers()[-1:]:
                worker.kill()
            time.sleep(LASTS_S / 3)
            cell.failed = self.shim.failed
        try:
            self.clients.point_to(self.collector.wait_ready())
        except NotReady:  # a disk that fails at the start is no start: in order, as long as it comes up now
            self.collector.kill()
            self.start()
        return self.settle(cell)

    def columns(self) -> dict[str, Callable[[FailingCalls], Cell]]:
        return {"once": self.once, f"for {LASTS_S:g} s": self.lasting, "with kills": self.with_kills}


def fill_table(
    report: TableReport, table: Sequence[FailingCalls], folder: Path, seed: str
) -> Iterator[tuple[FailingCalls, str, Cell]]:
    """Fill *report*, cell by cell, and yield each; *folder* stays if there was a crime.

    Raises:
        OSError: if there is no C compiler.
        NotReady: if the collector does not start.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    life = _Life(folder, seed)
    try:
        life.start()
        life.clients.start()
        for calls in table:
            for name, column in life.columns().items():
                cell = report.cells.setdefault(calls, {})[name] = column(calls)
                report.crimes += [f"{calls}, {name}: {crime}" for crime in cell.crimes]
                yield calls, name, cell
        life.clients.finish(GOES_ON_WITHIN_S)
        life.settle(Cell())
        time.sleep(1.0)
    finally:
        life.shim.end()
        life.clients.stop()
        life.collector.stop()
        life.backend.close()
    _count(life, report)
    if not report.crimes:
        shutil.rmtree(folder)


def _count(life: _Life, report: TableReport) -> None:
    ledger, failures = life.ledger, Report("")
    report.acknowledged = len(ledger.acknowledged)
    report.crimes += [f"refused {number} times: {reason}" for reason, number in life.clients.refusals.items()]
    for arrivals in (life.backend.arrivals, written(life.collector.out, failures)):
        count = arrivals.count(ledger.sent, ledger.acknowledged)
        found = {"lost": count.lost, "told differently": count.repeated_different, "altered": count.altered}
        report.crimes += [f"{arrivals.name}: {number} {what}" for what, number in found.items() if number]
        if arrivals.name == "file":
            report.lost_in_file, report.repeated_in_file = count.lost, count.repeated_identical
        else:
            report.repeated = count.repeated_identical
    report.crimes += failures.failures


def _until(condition: Callable[[], bool], within_s: float) -> None:
    until_s = time.monotonic() + within_s
    while not condition() and time.monotonic() < until_s:
        time.sleep(0.02)
