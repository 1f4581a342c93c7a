"""How fast exports are analyzed, in how much memory: by engine, and an archive.

    scripts/bench offline [--quick] [--runs N] [--archive-mb MB] [--json]

Every row is a fresh `blamespan analyze ... --out`, with all it takes to start. Memory is the most that it and its
worker processes held at once, added up (what they share counts in each, so it is an upper bound); of Ray only what
this program and its actors hold, not Ray's own servers. Exit code 1 where the archive takes more than 1.5 GB, or
engines differ in a row.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import click
import psutil
from tests.benchmarks.machine import describe, versions
from tests.benchmarks.offline_archives import write_archive, write_file

MAX_ARCHIVE_BYTES = 1_500_000_000
_SAMPLE_S = 0.1
_FILES = 8
_SERVERS = ("gcs_server", "raylet", "dashboard", "log_monitor", "runtime_env", "monitor.py")


@dataclass(frozen=True, slots=True)
class Figure:
    """What one analysis took.

    Attributes:
        what: Its name.
        runs: How many rows came out.
        text_bytes: What was read, before compression.
        wall_s: By the clock.
        cpu_s: Of all its processes that it started and waited for; 0 with Ray.
        peak_bytes: Memory, see above.
        digest: Of its rows.
    """

    what: str
    runs: int
    text_bytes: int
    wall_s: float
    cpu_s: float
    peak_bytes: int
    digest: str


def main() -> None:
    parser = argparse.ArgumentParser("scripts/bench offline", description="How fast exports are analyzed.")
    parser.add_argument("--quick", action="store_true", help="few runs, no large archive")
    parser.add_argument("--runs", type=int, metavar="N", help="by each engine (2,000; quick: 200)")
    parser.add_argument("--archive-mb", type=int, metavar="MB", help="size of the archive (500; quick: 20; 0: none)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    arguments = parser.parse_args()
    count = arguments.runs or (200 if arguments.quick else 2_000)
    archive_mb = (20 if arguments.quick else 500) if arguments.archive_mb is None else arguments.archive_mb
    with tempfile.TemporaryDirectory() as folder:
        figures = list(_measured(Path(folder), count, archive_mb))
    failures = _failures(figures)
    document = {"machine": describe(), "versions": versions(("pyarrow", "ray")), "figures": list(map(asdict, figures))}
    click.echo(json.dumps(document | {"failures": failures}, indent=2) if arguments.json else _table(figures))
    for failure in failures:
        click.echo(f"missed: {failure}", err=True)
    sys.exit(bool(failures))


def _measured(folder: Path, count: int, archive_mb: int) -> Iterator[Figure]:
    several = folder / "several"
    several.mkdir()
    each = count // _FILES
    size = sum(write_file(several / f"{n}.jsonl", each, first=1 + n * each) for n in range(_FILES))
    for processes in ("1", "2"):
        yield measured(f"{_FILES} files, local {processes}", several, size, "--processes", processes)
    if find_spec("ray"):
        for processes in ("1", "2", "4"):
            yield measured(
                f"{_FILES} files, Ray {processes}", several, size, "--engine", "ray", "--processes", processes
            )
    if archive_mb:
        archive = folder / "archive"
        write_archive(archive, archive_mb * 1_000_000, files=max(1, archive_mb // 250))
        size = sum(file.stat().st_size for file in archive.iterdir())
        yield measured(f"archive of {archive_mb} MB", archive, size)


def measured(what: str, source: Path, text_bytes: int, *arguments: str) -> Figure:
    """Analyze *source* in a process of its own.

    Raises:
        RuntimeError: if it gives no results.
    """
    click.echo(what, err=True)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.jsonl"
        command = ["analyze", str(source), "--out", str(out), *arguments]
        code = f"import sys; sys.argv = ['blamespan', *{command!r}]; from blamespan.cli import main; main()"
        environment = {**os.environ, "RAY_DISABLE_MEMORY_MONITOR": "1", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
        before = os.times()
        start_s = time.monotonic()
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
        ) as process:
            peak = 0
            while process.poll() is None:
                peak = max(peak, _held(process.pid))
                time.sleep(_SAMPLE_S)
            told = process.stderr.read().decode() if process.stderr else ""
        wall_s = time.monotonic() - start_s
        after = os.times()
        if not out.exists():
            raise RuntimeError(f"{what}: expected results, got none: {told[-2000:]}")
        lines = out.read_bytes()
    return Figure(
        what=what,
        runs=lines.count(b"\n"),
        text_bytes=text_bytes,
        wall_s=wall_s,
        cpu_s=after.children_user + after.children_system - before.children_user - before.children_system,
        peak_bytes=peak,
        digest=hashlib.sha256(lines).hexdigest()[:16],
    )


def _held(pid: int) -> int:
    """Add up what a process and its children hold; Ray's own servers left out."""
    total = 0
    try:
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            try:
                if not any(server in " ".join(process.cmdline()) for server in _SERVERS):
                    total += process.memory_info().rss
            except psutil.Error:
                continue
    except psutil.Error:
        return total
    return total


def _failures(figures: list[Figure]) -> list[str]:
    failed = []
    same = {figure.digest for figure in figures if figure.what.startswith(f"{_FILES} files")}
    if len(same) > 1:
        failed.append("engines differ in their rows")
    return failed + [
        f"{figure.what}: {figure.peak_bytes / 1e6:,.0f} MB of memory, expected 1,500 at most"
        for figure in figures
        if figure.what.startswith("archive") and figure.peak_bytes > MAX_ARCHIVE_BYTES
    ]


def _table(figures: list[Figure]) -> str:
    lines = [
        ", ".join(f"{key} {value}" for key, value in describe().items()),
        "| what | runs | MB | wall s | CPU s | runs/s | MB/s | peak MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.what} | {one.runs:,} | {one.text_bytes / 1e6:,.1f} | {one.wall_s:,.1f} | {one.cpu_s:,.1f} | "
        f"{one.runs / one.wall_s:,.0f} | {one.text_bytes / 1e6 / one.wall_s:,.1f} | {one.peak_bytes / 1e6:,.0f} |"
        for one in figures
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
