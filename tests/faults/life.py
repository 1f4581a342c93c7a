"""One life: a folder, a backend and a collector, some rounds of faults under load, and the count at the end."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.otlp import request_from_json
from tests.faults.backend import Backend
from tests.faults.client import Clients
from tests.faults.collector import CollectorProcess, NotReady
from tests.faults.disk import DISK_BYTES, Disk
from tests.faults.ledger import Arrivals, Count, Ledger
from tests.faults.rounds import FAULTS, NAMED_FAULTS, World
from tests.faults.traffic import runs

_ANSWERED_WITHIN_S = 40.0
_STALLED_AFTER_S = 45.0
"""Longer than any wait between two attempts to deliver."""
_RUNS_PER_S_ON_FULL = 4.0
"""Beside what fills the disk: few, for all of them wait until there is room again."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do in one life.

    Attributes:
        seed: Decides traffic and faults; not when they meet.
        rounds: How many faults.
        faults: Names of those to choose from; empty: all.
        runs_per_s: How many agent runs begin each second.
        disk_bytes: How large the collector's disk is.
    """

    seed: str
    rounds: int
    faults: tuple[str, ...] = ()
    runs_per_s: float = 40.0
    disk_bytes: int = DISK_BYTES

    @property
    def fills_disk(self) -> bool:
        """Return whether the journal fills its disk; then the file is elsewhere, for both do not fit on it."""
        return any(name.startswith("disk_full_by") for name in self.faults)


@dataclass(slots=True)
class Report:
    """What came of one life.

    Attributes:
        damages: What was done to which kind of file, with how often.
        counted: Spans that the collector counted as lost by damage.
        standstill_s: The longest time without a delivery after a fault, while something waited.
        reasons: What `/readyz` said where that was too long.
    """

    seed: str
    acknowledged: int = 0
    sinks: dict[str, Count] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    drained_s: float = 0.0
    damages: Counter[str] = field(default_factory=Counter)
    counted: int = 0
    standstill_s: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def crimes(self) -> list[str]:
        """What breaks the guarantee, in words."""
        found = list(self.failures)
        for name, count in self.sinks.items():
            for what in ("repeated_different", "altered"):
                found += [f"{name}: {getattr(count, what)} {what}"] if getattr(count, what) else []
            if count.lost > (self.counted if self.damages else 0):
                found.append(f"{name}: {count.lost} lost, {self.counted} of them found damaged and counted")
            if name == "file" and count.repeated_identical and not self.damages:
                found.append(f"file: {count.repeated_identical} repeated")
        return found


def live(plan: Plan, folder: Path) -> Report:
    """Run *plan* in *folder*, which stays if there was a crime and goes if there was none."""
    report = Report(plan.seed)
    shutil.rmtree(folder, ignore_errors=True)  # what an earlier life left
    disk = Disk(folder / "disk", plan.disk_bytes)
    backend = Backend(Arrivals("otlp", repeats_allowed=True))
    ledger = Ledger()
    collector = CollectorProcess(disk.folder, backend.url, out=folder / "traces.jsonl" if plan.fills_disk else None)
    clients = Clients(ledger, runs(plan.seed), _RUNS_PER_S_ON_FULL if plan.fills_disk else plan.runs_per_s)
    world = World(Random(f"{plan.seed} faults"), collector, backend, disk, clients)
    try:
        _rounds(world, plan, report)
        _settle(world, ledger, report)
    except NotReady as error:
        report.failures.append(str(error))
    finally:
        clients.stop()
        collector.stop()
        backend.close()
        _count(collector, backend, clients, ledger, report)
        report.sinks[backend.arrivals.name].resent = world.resent
        report.damages, report.reasons, report.standstill_s = world.damages, world.reasons, world.standstill_s
        disk.close(folder / "kept" if report.crimes else None)
    _keep(report, ledger, backend, folder) if report.crimes else shutil.rmtree(folder)
    return report


def _rounds(world: World, plan: Plan, report: Report) -> None:
    faults = {fault: weight for fault, weight in FAULTS.items() if fault.__name__ in plan.faults or not plan.faults}
    faults |= {fault: 2 for fault in NAMED_FAULTS if fault.__name__ in plan.faults}
    faults = {fault: n for fault, n in faults.items() if world.disk.can_fill or "disk" not in fault.__name__}
    world.start()
    world.clients.start()
    for _ in range(plan.rounds):
        fault: Callable[[World], None] = world.random.choices(list(faults), list(faults.values()))[0]
        report.faults[fault.__name__] += 1
        fault(world)
        if world.collector.note_unexpected_end():
            world.start()
        world.check_goes_on()


def _settle(world: World, ledger: Ledger, report: Report) -> None:
    """Let everything be well, and wait until what was acknowledged has arrived, or nothing comes any more."""
    if not world.clients.finish(_ANSWERED_WITHIN_S):
        report.failures.append(f"requests not answered {_ANSWERED_WITHIN_S:g} s after the last fault")
    began_s = progress_s = time.monotonic()
    left = -1
    while left and time.monotonic() - progress_s < _STALLED_AFTER_S:
        time.sleep(0.3)
        now = len(world.backend.arrivals.missing(ledger.acknowledged))
        now = now or len(written(world.collector.out, report, note=False).missing(ledger.acknowledged))
        progress_s = progress_s if now == left else time.monotonic()
        left = now
        if world.collector.note_unexpected_end():
            world.start()
    time.sleep(1.0)  # for what comes twice
    report.drained_s = time.monotonic() - began_s


def _count(collector: CollectorProcess, backend: Backend, clients: Clients, ledger: Ledger, report: Report) -> None:
    report.acknowledged = len(ledger.acknowledged)
    report.counted = collector.spans_counted_as_lost()
    report.failures += collector.failures
    report.failures += [f"refused {number} times: {reason}" for reason, number in clients.refusals.items()]
    for arrivals in (backend.arrivals, written(collector.out, report)):
        report.sinks[arrivals.name] = arrivals.count(ledger.sent, ledger.acknowledged)


def written(path: Path, report: Report, *, note: bool = True) -> Arrivals:
    """Read what the file sink wrote; a line that is not whole is a failure once the collector has stopped."""
    arrivals = Arrivals("file", repeats_allowed=False)
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            request = request_from_json(line) if line else ExportTraceServiceRequest()
        except ValueError as error:
            if note:
                report.failures.append(f"file: line {number} of {len(lines)} is broken: {str(error)[:200]}")
            continue
        arrivals.add(request)
    return arrivals


def _keep(report: Report, ledger: Ledger, backend: Backend, folder: Path) -> None:
    """Write down which spans are lost or repeated beside what the collector left."""
    seen = backend.arrivals.seen
    lost = [f"lost {key[:16].hex()} {key[16:].hex()}" for key in backend.arrivals.missing(ledger.acknowledged)]
    repeated = [
        f"different {key[:16].hex()} {key[16:].hex()} {[one.whole.hex() for one in seen[key]]}"
        for key in seen
        if len({one.whole for one in seen[key]}) > 1
    ]
    with suppress(OSError):
        (folder / "spans.txt").write_text("\n".join([*report.crimes, *lost, *repeated]) + "\n")
