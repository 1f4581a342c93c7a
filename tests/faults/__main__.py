"""Break `blamespan collect` at random, many times, and count what its sinks got.

scripts/faults [--rounds 200] [--seed N] [--faults kill_all,outage] [--keep FOLDER]
scripts/faults --syscalls all|"sync EIO,write ENOSPC"
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click

from tests.faults.disk import DISK_BYTES, may_mount_in_a_namespace
from tests.faults.ledger import Count
from tests.faults.life import Plan, Report, live
from tests.faults.rounds import FAULTS, NAMED_FAULTS
from tests.faults.syscalls import TABLE
from tests.faults.table import TableReport, fill_table

ROUNDS_PER_LIFE = 10
_NAMES = [fault.__name__ for fault in FAULTS]
_NAMED = [fault.__name__ for fault in NAMED_FAULTS]
_TABLE = ", ".join(map(str, TABLE))
_MB = 1024 * 1024
_COLUMNS = ("delivered", "lost", "repeated_different", "repeated_identical", "altered", "annotated", "added", "resent")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", default=200, show_default=True, help="Faults in all.")
@click.option("--seed", default=1, show_default=True, help="Decides traffic and faults.")
@click.option("--life", type=int, help="Only this one of the lives of ten rounds that a run is made of.")
@click.option("--faults", default="", help=f"Only these: {', '.join(_NAMES + _NAMED)}. {len(_NAMED)} come only so.")
@click.option("--syscalls", default="", help=f"The table of failing calls instead: all, or some of {_TABLE}.")
@click.option("--disk-mb", default=DISK_BYTES // _MB, show_default=True, help="How large the collector's disk is.")
@click.option("--keep", type=click.Path(path_type=Path), help="Where failed lives leave what they left.")
def main(
    *,
    rounds: int,
    seed: int,
    life: int | None,
    faults: str,
    syscalls: str,
    disk_mb: int,
    keep: Path | None,
) -> None:
    """Break the collector in every way that happens; exit 0 if it kept its promises."""
    if syscalls:
        sys.exit(_run_table(syscalls, seed, keep))
    if os.geteuid() and may_mount_in_a_namespace():  # a disk that can be filled takes a mount
        os.execvp("unshare", ["unshare", "-rm", sys.executable, "-m", "tests.faults", *sys.argv[1:]])
    keep = keep or Path(tempfile.mkdtemp(prefix="blamespan-faults-"))
    chosen = tuple(name for name in faults.split(",") if name)
    if unknown := set(chosen).difference(_NAMES, _NAMED):
        raise click.BadParameter(f"there is no fault {min(unknown)!r}", param_hint="--faults")
    signal.signal(signal.SIGTERM, _end)
    began_s = time.monotonic()
    reports = []
    for index in range(-(-rounds // ROUNDS_PER_LIFE)) if life is None else [life]:
        number = min(ROUNDS_PER_LIFE, rounds - index * ROUNDS_PER_LIFE) if life is None else ROUNDS_PER_LIFE
        plan = Plan(f"{seed}/{index}", number, chosen, disk_bytes=disk_mb * _MB)
        reports.append(live(plan, keep / f"life-{index}"))
        _tell(index, reports[-1], keep / f"life-{index}")
    _sum_up(reports, time.monotonic() - began_s)
    sys.exit(any(report.crimes for report in reports))


def _run_table(syscalls: str, seed: int, keep: Path | None) -> int:
    """Let each call fail in each way, print the table, and return the exit code."""
    chosen = {str(row): row for row in TABLE}
    names = list(chosen) if syscalls == "all" else syscalls.split(",")
    if unknown := set(names).difference(chosen):
        raise click.BadParameter(f"there is no fault {min(unknown)!r}", param_hint="--syscalls")
    folder = (keep or Path(tempfile.mkdtemp(prefix="blamespan-faults-"))) / "table"
    signal.signal(signal.SIGTERM, _end)
    report, began_s = TableReport(), time.monotonic()
    try:
        for row, column, cell in fill_table(report, [chosen[name] for name in names], folder, str(seed)):
            click.echo(f"{row!s:<22} {column:<12} {cell.failed:>6} calls failed   {cell}", err=True)
    except OSError as error:
        click.echo(f"skipped: {error}", err=True)
        return 0
    for crime in report.crimes:
        click.echo(f"FAILED {crime}   left behind: {folder}", err=True)
    columns = list(next(iter(report.cells.values())))
    click.echo("| " + " | ".join(["call", *columns]) + " |\n" + "|---" * (len(columns) + 1) + "|")
    for row, cells in report.cells.items():
        click.echo("| " + " | ".join([str(row), *(str(cells[column]) for column in columns)]) + " |")
    click.echo(
        f"{report.acknowledged} spans acknowledged in {time.monotonic() - began_s:.0f} s; {report.repeated} repeated "
        f"at the backend, {report.repeated_in_file} in the file, {report.lost_in_file} lost in it"
    )
    return int(bool(report.crimes))


def _end(number: int, _: object) -> None:
    """Leave in order, so that nothing is left running; a second signal must not cut that short."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(1)


def _tell(index: int, report: Report, folder: Path) -> None:
    told = ", ".join(f"{name} x{number}" for name, number in sorted(report.faults.items()))
    click.echo(
        f"life {index:>3}  {report.acknowledged:>7} acknowledged  drained {report.drained_s:.1f} s  "
        f"stood still {report.standstill_s:.1f} s  {told}",
        err=True,
    )
    if report.damages:
        damages = ", ".join(f"{name} x{number}" for name, number in sorted(report.damages.items()))
        click.echo(f"          damaged: {damages}; {report.counted} spans counted as lost", err=True)
    for reason, number in report.reasons.items():
        click.echo(f"          not ready x{number}: {reason}", err=True)
    for crime in report.crimes:
        click.echo(f"          FAILED {crime}", err=True)
    if report.crimes:
        seed, _, _ = report.seed.partition("/")
        click.echo(f"          again: scripts/faults --seed {seed} --life {index}   left behind: {folder}", err=True)


def _sum_up(reports: list[Report], took_s: float) -> None:
    names = sorted({name for report in reports for name in report.sinks})
    sinks = {name: sum((report.sinks.get(name, Count()) for report in reports), Count()) for name in names}
    faults = sum((report.faults for report in reports), Counter[str]())
    acknowledged = sum(report.acknowledged for report in reports)
    counted, standstill_s = (
        sum(report.counted for report in reports),
        max(report.standstill_s for report in reports),
    )
    click.echo(
        f"{faults.total()} rounds in {took_s:.0f} s; {acknowledged} spans acknowledged, {counted} found damaged; "
        f"it stood still for {standstill_s:.1f} s at most"
    )
    click.echo("sink    " + "".join(f"{name.replace('_', ' '):>20}" for name in _COLUMNS))
    for name, count in sinks.items():
        click.echo(f"{name:<8}" + "".join(f"{getattr(count, column):>20}" for column in _COLUMNS))


if __name__ == "__main__":
    main()
