"""How fast `blamespan collect` takes spans in, judges them and passes them on, beside Phoenix and MLflow.

    scripts/bench collector [--quick] [--json] [--only blamespan]

Agent traces of 12 spans with 1 KB of content, 120 spans a request, 4 connections, sent by a process on the same
machine. Ours runs with its journal and its default tracer and forwards to a process that only counts; the others
store in SQLite. docs/why/reliability.md says how to read the figures. Exit code 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from typing import Any

import click
import psutil
from tests.benchmarks.collector_bodies import SPANS_PER_TRACE, TRACES_PER_REQUEST
from tests.benchmarks.collector_servers import ROOT, Out, Server, blamespan, mlflow, phoenix
from tests.benchmarks.machine import describe

HALF_LOAD_SPANS_PER_S = 7_500
OPEN_TRACES, QUICK_OPEN_TRACES = 20_000, 2_000
_PEERS: dict[str, Callable[[], AbstractContextManager[Server]]] = {"phoenix": phoenix, "mlflow": mlflow}
_COLUMNS = {
    "what": "",
    "acknowledged_per_s": "ack spans/s",
    "out_per_s": "out spans/s",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "cpu_s_per_1000": "CPU s/1000",
    "peak_mb": "peak MB",
    "left": "not out",
    "not_judged": "not judged",
    "judged_late": "judged late",
    "load": "load",
}


@dataclass(frozen=True, slots=True)
class Figures:
    """What one load on one server gave.

    Attributes:
        what: Server and load.
        acknowledged_per_s: Spans, from the first request to the last answer.
        out_per_s: Spans stored or forwarded, from the first request until the last one was through, for ours with
            the last verdict; or until waiting for it ended.
        cpu_s_per_1000: CPU seconds of all its processes per 1,000 spans that came out.
        peak_mb: What its processes hold together, 10^6 bytes; see `Meter`.
        left: Acknowledged spans that were not through when waiting ended.
        not_judged: Traces without a verdict when waiting ended.
        judged_late: Traces whose verdict came after them, on a span of its own: they had waited long enough.
        load: How many programs wanted a core over the last minute: well above these few, speeds say little, and only
            CPU seconds compare.
        pushed_back: Requests answered with "later".
    """

    what: str
    acknowledged_per_s: float
    out_per_s: float
    p50_ms: float | None
    p99_ms: float | None
    cpu_s_per_1000: float
    peak_mb: float
    left: int
    not_judged: int | None
    judged_late: int | None
    load: float
    pushed_back: int
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """What must be reached."""

    what: str
    limit: str
    got: float
    is_met: bool


def main() -> None:
    parser = argparse.ArgumentParser("scripts/bench collector", description="Speed, latency, memory beside the peers.")
    parser.add_argument("--quick", action="store_true", help="3 s a load, 2,000 open traces: about a minute, rough")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    parser.add_argument("--only", choices=["blamespan", *_PEERS], help="measure this one alone")
    parser.add_argument("--option", action="append", default=[], help="one more argument for `blamespan collect`")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    figures: dict[str, Figures] = {}
    for name, row in _measured(arguments):
        figures[name] = row
        click.echo(f"{row.what}: {row.acknowledged_per_s} acknowledged, {row.out_per_s} out spans/s", err=True)
    bars = list(_bars(figures, QUICK_OPEN_TRACES if arguments.quick else OPEN_TRACES))
    click.echo(_document(figures, bars) if arguments.json else _table(figures, bars))
    sys.exit(0 if all(bar.is_met for bar in bars) else 1)


def _end(number: int, _: object) -> None:
    """Leave in order, so that nothing is left running; a second signal must not cut that short."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(1)


def _measured(arguments: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    seconds = 3.0 if arguments.quick else 15.0
    if arguments.only in (None, "blamespan"):
        yield from _ours(seconds, QUICK_OPEN_TRACES if arguments.quick else OPEN_TRACES, arguments.option)
    for name, peer in _PEERS.items():
        if arguments.only in (None, name):
            with peer() as server:
                drain_s = 30.0 if arguments.quick else 120.0
                yield name, _loaded(server, "full load, HTTP", min(seconds, 10.0), drain_s=drain_s)


def _ours(seconds: float, open_traces: int, options: list[str]) -> Iterator[tuple[str, Figures]]:
    loads = {
        "full http": ("full load, HTTP", "http", 0),
        "full grpc": ("full load, gRPC", "grpc", 0),
        "half http": (f"{HALF_LOAD_SPANS_PER_S} spans/s, HTTP", "http", HALF_LOAD_SPANS_PER_S),
        "half grpc": (f"{HALF_LOAD_SPANS_PER_S} spans/s, gRPC", "grpc", HALF_LOAD_SPANS_PER_S),
    }
    for key, (title, protocol, pace) in loads.items():
        with blamespan(*options) as server:
            yield key, _loaded(server, title, seconds, protocol=protocol, pace=pace)
    with blamespan(*options, max_traces=2 * open_traces, max_bytes=2_000_000_000) as server:
        yield "open", _held_open(server, open_traces)


def _loaded(
    server: Server, title: str, seconds: float, *, protocol: str = "http", pace: float = 0, drain_s: float = 120.0
) -> Figures:
    cpu_s = server.meter.cpu_s()
    sent = _send(server, protocol, "--seconds", str(seconds), "--spans-per-s", str(pace))
    out = _drained(server, sent["acknowledged"], drain_s)
    return _figures(f"{server.name}, {title}", server, sent, out, server.meter.cpu_s() - cpu_s)


def _held_open(server: Server, traces: int) -> Figures:
    """Send traces without their roots, look at the memory, then send the roots and see everything come out."""
    cpu_s = server.meter.cpu_s()
    requests = ("--requests", str(traces // TRACES_PER_REQUEST), "--seconds", "120")
    sent = _send(server, "http", "--kind", "open", *requests)
    time.sleep(3)
    peak_bytes = server.meter.peak_bytes
    roots = _send(server, "http", "--kind", "roots", *requests)
    acknowledged = sent["acknowledged"] + roots["acknowledged"]
    out = _drained(server, acknowledged, 120.0)
    sent = {**sent, "acknowledged": acknowledged, "failed": sent["failed"] + roots["failed"]}
    title = f"{server.name}, {traces} open traces"
    return _figures(title, server, sent, out, server.meter.cpu_s() - cpu_s, peak_bytes)


def _send(server: Server, protocol: str, *arguments: str) -> dict[str, Any]:
    url = server.grpc if protocol == "grpc" else server.http
    headers = [part for name, value in server.headers.items() for part in ("--header", f"{name}={value}")]
    command = [sys.executable, "-m", "tests.benchmarks.collector_load", str(url), *headers, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT, timeout=600)
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def _drained(server: Server, acknowledged: int, within_s: float) -> Out:
    """Wait until all that was acknowledged is out, and judged where the server judges."""
    until_s = time.monotonic() + within_s
    traces = acknowledged // SPANS_PER_TRACE if server.stored.judges else 0
    out = server.stored.read()
    while (out.spans < acknowledged or out.judged < traces) and time.monotonic() < until_s:
        time.sleep(0.2)
        out = server.stored.read()
    is_out = out.spans >= acknowledged and out.judged >= traces
    return out if is_out else replace(out, last_unix_s=time.time())


def _figures(
    what: str, server: Server, sent: dict[str, Any], out: Out, cpu_s: float, peak_bytes: int | None = None
) -> Figures:
    return Figures(
        what=what,
        acknowledged_per_s=round(sent["acknowledged_per_s"]),
        out_per_s=round(out.spans / max(out.last_unix_s - sent["began_unix_s"], 1e-9)),
        p50_ms=sent["p50_ms"] and round(sent["p50_ms"], 1),
        p99_ms=sent["p99_ms"] and round(sent["p99_ms"], 1),
        cpu_s_per_1000=round(cpu_s / max(out.spans, 1) * 1000, 3),
        peak_mb=round((peak_bytes or server.meter.peak_bytes) / 1e6),
        left=max(0, sent["acknowledged"] - out.spans),
        not_judged=max(0, sent["acknowledged"] // SPANS_PER_TRACE - out.judged) if server.stored.judges else None,
        judged_late=out.judged_late if server.stored.judges else None,
        load=round(psutil.getloadavg()[0], 1),
        pushed_back=sent["pushed_back"],
        failed=tuple(sent["failed"]),
    )


def _bars(figures: dict[str, Figures], open_traces: int) -> Iterator[Bar]:
    for key, row in figures.items():
        if key.startswith("full"):
            yield _at_least(f"{row.what}: acknowledged spans/s", row.acknowledged_per_s, 15_000)
            yield _at_least(f"{row.what}: judged and forwarded spans/s", row.out_per_s, 5_000)
        if key.startswith("half"):
            yield _at_most(f"{row.what}: p99 ms", row.p99_ms if row.p99_ms is not None else float("inf"), 100)
        if key == "open":
            yield _at_most(f"blamespan, {open_traces} open traces: MB", row.peak_mb, 400)
        if key not in _PEERS:
            undone = row.left + (row.not_judged or 0) + len(row.failed)
            yield _at_most(f"{row.what}: acknowledged and not forwarded or not judged", undone, 0)


def _at_least(what: str, got: float, limit: float) -> Bar:
    return Bar(what, f">= {limit:,}", got, got >= limit)


def _at_most(what: str, got: float, limit: float) -> Bar:
    return Bar(what, f"<= {limit:,}", got, got <= limit)


def _table(figures: dict[str, Figures], bars: list[Bar]) -> str:
    width = max(len(row.what) for row in figures.values())
    lines = [", ".join(f"{name} {value}" for name, value in describe().items()), ""]
    lines.append(" " * width + "".join(f"{title:>13}" for title in list(_COLUMNS.values())[1:]))
    for row in figures.values():
        cells = [getattr(row, name) for name in list(_COLUMNS)[1:]]
        lines.append(f"{row.what:<{width}}" + "".join(f"{'-' if cell is None else cell:>13}" for cell in cells))
        lines += [f"    failed: {reason}" for reason in row.failed]
    lines += ["", *(f"{'met   ' if bar.is_met else 'MISSED'}  {bar.what}: {bar.got:,} ({bar.limit})" for bar in bars)]
    return "\n".join(lines)


def _document(figures: dict[str, Figures], bars: list[Bar]) -> str:
    rows = {name: asdict(row) for name, row in figures.items()}
    return json.dumps({"machine": describe(), "figures": rows, "bars": [asdict(bar) for bar in bars]}, indent=2)


if __name__ == "__main__":
    main()
