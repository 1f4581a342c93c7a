"""`blamespan collect`."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from blamespan.cores import keep_to_one_thread
from blamespan.errors import BlamespanError, ConfigError
from blamespan.plugins import plugins, require
from blamespan.tracers import load_tracer
from blamespan_collector.logs import announce, configure_logs
from blamespan_collector.options import options, settings_of, shown

if TYPE_CHECKING:
    from blamespan_collector.service import Service
    from blamespan_collector.settings import CollectorSettings

__all__ = ["collect"]


@click.command()
@click.option("--check", is_flag=True, help="Check the settings, files, addresses and tracer; print them; exit.")
@options
def collect(*, check: bool, **chosen: Any) -> None:  # every option that `options` makes
    """Receive OTLP spans, say who failed, and pass them on.

    What is acknowledged is in the journal: it survives a crash, and a backend that is down. Traces are held
    until they are complete, annotated and forwarded once; logs, metrics and other spans pass untouched.
    SIGTERM or Ctrl-C delivers what there is time for; the rest waits in the journal for the next start.

    Example:  blamespan collect --forward http://localhost:14318
    """
    settings = settings_of(chosen)
    for package in ("grpc", "httpx", "jinja2", "platformdirs", "prometheus_client", "starlette", "uvicorn"):
        require(package, "collector")
    configure_logs(settings.log_format, settings.log_level)
    keep_to_one_thread()
    if check:
        _check(settings)
        return
    _check_tracer(settings.tracer)
    from blamespan_collector.service import serve

    ended = asyncio.run(serve(settings, lambda service: announce(settings.log_format, _ready(service))))
    if ended.is_all_delivered:
        announce(settings.log_format, "everything that was acknowledged is delivered")
    else:
        announce(
            settings.log_format,
            f"{ended.spans_waiting or 'some'} deliveries of spans wait in {settings.journal}; "
            "they go on when a collector with this --journal starts again",
        )


def _ready(service: Service) -> str:
    listening = " ".join(f"{kind}={address}" for kind, address in service.addresses.items())
    about = service.about_worker
    return f"ready {listening} tracer={about.get('tracer', '')} to={','.join(about.get('to', ()))}"


def _check_tracer(name: str) -> None:
    """Make sure that somebody offers the tracer; only the worker loads it."""
    offered = plugins("blamespan.tracers")
    if name not in offered:
        raise ConfigError(f"expected --tracer to be one of {', '.join(offered) or 'nothing'}, got {name!r}")


def _check(settings: CollectorSettings) -> None:
    """Try everything that a start tries and print the settings that count; ends with 1 where one fails."""
    from blamespan_collector.checks import problems

    for name, value in shown(settings):
        click.echo(f"{name} = {value}")
    found = problems(settings)
    try:
        identity = load_tracer(settings.tracer).identity
        click.echo(f"tracer loaded: {identity.name}/{identity.version}", err=True)
    except BlamespanError as error:
        found.append(str(error))
    for problem in found:
        click.echo(f"blamespan: {problem}", err=True)
    if found:
        sys.exit(1)
    click.echo("blamespan: everything is in order", err=True)
