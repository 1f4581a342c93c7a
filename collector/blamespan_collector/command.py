"""`blamespan collect`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from blamespan.analysis.showing.legible import counted
from blamespan.cores import keep_to_one_thread
from blamespan.errors import BlamespanError, ConfigError
from blamespan.importing.selection import time_of
from blamespan.learnt_files import JUDGE_HEADS, OUTCOME_HEADS, SCHEMATA_FILE, STEP_HEADS, USUAL_COURSE_FILE
from blamespan.plugins import plugins, require
from blamespan.tracers import load_tracer
from blamespan_collector.logs import announce, configure_logs
from blamespan_collector.options import SettingsHelp, folder_of, folder_options, options, settings_of, shown

if TYPE_CHECKING:
    from blamespan_collector.delivering.resending import Resend
    from blamespan_collector.service.service import Service, ServiceEnd
    from blamespan_collector.settings import CollectorSettings


@click.group(cls=SettingsHelp, invoke_without_command=True)
@click.pass_context
@click.option("--check", is_flag=True, help="Check the settings, files, addresses and tracer; print them; exit.")
@options
def collect(context: click.Context, /, *, check: bool, **chosen: Any) -> None:  # every option that `options` makes
    """Receive OTLP spans, say who failed, and pass them on.

    What is acknowledged is in the journal: it survives a crash, and a backend that is down. Traces are held
    until they are complete, annotated and forwarded once; logs, metrics and other spans pass untouched.
    SIGTERM or Ctrl-C delivers what there is time for; the rest waits in the journal for the next start.

    Example:  blamespan collect --forward http://localhost:14318 --log-level info
    """
    if context.invoked_subcommand is not None:
        context.obj = chosen
        return
    settings = settings_of(chosen)
    if settings.alerts_to:
        require("apprise", "alerts")
    for package in ("grpc", "httpx", "platformdirs", "prometheus_client", "starlette", "uvicorn"):
        require(package, "collector")
    configure_logs(settings.log_format, settings.log_level)
    keep_to_one_thread()
    if check:
        _check(settings)
        return
    _use_files_beside(settings.store)
    _check_tracer(settings.tracer)
    from blamespan_collector.service.service import serve

    ended = asyncio.run(serve(settings, lambda service: announce(settings.log_format, _ready(service))))
    announce(settings.log_format, _last_words(ended, settings))


def _use_files_beside(store: Path | None) -> None:
    """Let the processes of this collector use the heads and the schemata beside its store.

    What variables say goes before. The schemata need not be there yet: they are read when they come.
    """
    if store is None:
        return
    if any(any(store.parent.glob(files)) for files in (OUTCOME_HEADS, STEP_HEADS, JUDGE_HEADS, USUAL_COURSE_FILE)):
        os.environ.setdefault("BLAMESPAN_LEARNT", str(store.parent))
    os.environ.setdefault("BLAMESPAN_SCHEMATA", str(store.parent / SCHEMATA_FILE))


@collect.command("resend")
@folder_options
@click.option("--since", metavar="TIME", help="What was delivered since: 30s or 5m ago, or 2026-11-21T08:00:00Z.")
@click.option("--aside", is_flag=True, help="What was set aside, as a sink refused it or broke on it.")
@click.option(
    "--partial", is_flag=True, help="With --aside: also requests that a sink took a part of; some come twice."
)
@click.option("--sink", metavar="NAME", help="Only to this sink: its name, or a part of it that no other has.")
@click.option(
    "--to", metavar="NAME", help="With --aside --sink: send it to this sink instead, as after an address changed."
)
@click.option("--dry-run", is_flag=True, help="Only tell what would be sent.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.pass_context
def resend_command(
    context: click.Context,
    /,
    *,
    since: str | None,
    aside: bool,
    partial: bool,
    sink: str | None,
    to: str | None,
    dry_run: bool,
    as_json: bool,
    **folder: Any,
) -> None:
    """Send again what was set aside, or what was delivered lately and a backend has lost.

    Backends that acknowledge before they persist lose their last seconds when they are killed. What a collector
    delivered is kept for keep-delivered-s, and goes out again as the same bytes, in order, to the sinks that may have
    lost it; the file and the store of runs have it. A collector that runs on the journal begins within a second, else
    the next one does. Without --since or --aside it tells what there is.

    Example:  blamespan collect resend --since 30s
    """
    from blamespan_collector.delivering.resending import is_running, resend

    before = context.parent.obj if context.parent is not None and context.parent.obj else {}
    is_given = context.get_parameter_source("journal") is not ParameterSource.DEFAULT
    journal = folder_of(folder if is_given or not before else before)
    if to is not None and not (aside and sink):
        raise ConfigError("--to needs --aside and --sink: it says who gets what that sink set aside")
    is_asked = since is not None or aside
    now = datetime.now(UTC)
    since_s = time_of(f"{since}s" if since and since.isdigit() else since, now).timestamp() if since else None
    results = resend(
        journal,
        since_s=since_s if is_asked else 0.0,
        aside=aside or not is_asked,
        partial=partial,
        sink=sink,
        to=to,
        dry_run=dry_run or not is_asked,
    )
    running = is_running(journal)
    if as_json:
        document = {
            "journal": str(journal),
            "is_running": running,
            "is_dry_run": dry_run or not is_asked,
            "results": [asdict(result) for result in results],
        }
        click.echo(json.dumps(document, indent=2))
        return
    for line in _table(results):
        click.echo(line)
    if not is_asked:
        click.echo("Nothing is sent. Send with --aside or --since 30s", err=True)
    elif not dry_run and any(result.is_enqueued for result in results):
        begins = "now" if running else f"when a collector with --journal {journal} starts"
        click.echo(f"blamespan: it is sent {begins}", err=True)


def _table(results: Sequence[Resend]) -> Iterator[str]:
    """Yield a line for each thing that is sent again, and for each that is not, with the reason."""
    rows = [
        (str(result.spans), result.kind, result.origin, result.sink, result.note or "")
        for result in results
        if result.spans or result.is_enqueued
    ]
    if not rows:
        yield "nothing to send again"
        yield from sorted({_printable(f"{result.sink}: {result.note}") for result in results if result.note})
        return
    lines: list[tuple[str, ...]] = [("number", "kind", "origin", "sink", ""), *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    for number, kind, origin, name, note in lines:
        text = f"{number:>{widths[0]}}  {kind:<{widths[1]}}  {origin:<{widths[2]}}  {name:<{widths[3]}}  {note}"
        yield _printable(text).rstrip()


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def _last_words(ended: ServiceEnd, settings: CollectorSettings) -> str:
    """Return one line on what became of what was acknowledged."""
    parts = []
    if not ended.is_all_delivered:
        waiting, verb = ended.spans_waiting, "waits" if ended.spans_waiting == 1 else "wait"
        deliveries = counted(waiting, "delivery", "deliveries") if waiting else "some deliveries"
        parts.append(
            f"{deliveries} of spans {verb} in {settings.journal}, to go on when a collector with this --journal starts "
            "again"
        )
    if ended.spans_set_aside or ended.records_set_aside:
        numbers = ((ended.spans_set_aside, "spans"), (ended.records_set_aside, "records"))
        what = " and ".join(f"{number} {noun}" for number, noun in numbers if number)
        rest = "; everything else that was acknowledged is delivered" if ended.is_all_delivered else ""
        parts.append(f"{what} were set aside: blamespan collect resend --aside --journal {settings.journal}{rest}")
    return "; ".join(parts) or "everything that was acknowledged is delivered"


def _ready(service: Service) -> str:
    listening = " ".join(f"{kind}={address}" for kind, address in service.addresses.items())
    about = service.about_worker
    return f"ready {listening} tracer={about.get('tracer', '')} to={','.join(about.get('to', ()))}"


def _try_alerts(settings: CollectorSettings) -> Iterator[str]:
    """Yield what receivers of alerts would be told of the latest open incident; nobody is told.

    Raises:
        BlamespanError: if a receiver cannot be what it is told to be.
    """
    from blamespan_collector.alerting.receivers import page_link, receivers
    from blamespan_collector.alerting.text import write_alert
    from blamespan_collector.store import RunStore, StoreUnavailable

    names = [receiver.name for receiver in receivers(settings) if not receiver.hears_states]
    if not names or settings.store is None:
        return
    try:
        latest = [incident for incident in RunStore(settings.store).incidents(1) if incident.state == "open"]
    except StoreUnavailable:  # it is made when the collector starts
        latest = []
    yield f"alerts: to {', '.join(names)}; {'this is what they would be told:' if latest else 'no incident is open'}"
    if latest:
        title, body = write_alert(latest, page_link(settings))
        yield from (f"  {line}" for line in (title, *body.splitlines()))


def _check_tracer(name: str) -> None:
    """Make sure that somebody offers the tracer; only the worker loads it."""
    offered = plugins("blamespan.tracers")
    if name not in offered:
        raise ConfigError(f"expected --tracer to be one of {', '.join(offered) or 'nothing'}, got {name!r}")


def _check(settings: CollectorSettings) -> None:
    """Try everything that a start tries and print the settings that count; ends with 1 where one fails."""
    from blamespan_collector.service.checks import check

    for name, value in shown(settings):
        click.echo(f"{name} = {value}")
    checked = check(settings)
    for address in checked.addresses:
        click.echo(address)
    for answer in checked.answers:
        click.echo(answer, err=True)
    problems = list(checked.problems)
    try:
        for line in _try_alerts(settings):
            click.echo(line)
    except BlamespanError as error:
        problems.append(str(error))
    try:
        identity = load_tracer(settings.tracer).identity
        click.echo(f"tracer loaded: {identity.name}/{identity.version}", err=True)
    except BlamespanError as error:
        problems.append(str(error))
    for problem in problems:
        click.echo(f"blamespan: {problem}", err=True)
    if problems:
        sys.exit(1)
    click.echo("blamespan: everything is in order", err=True)
