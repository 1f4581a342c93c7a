"""`blamespan collect`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from blamespan.errors import ConfigError
from blamespan.plugins import require
from blamespan.tracers import DEFAULT_TRACER, load_tracer
from blamespan_collector.settings import DEFAULT_MAX_REQUEST_BYTES, Address, CollectorSettings, Limits

if TYPE_CHECKING:
    from blamespan.tracers import Tracer
    from blamespan_collector.receiver_grpc import GrpcReceiver
    from blamespan_collector.receiver_http import HttpReceiver
    from blamespan_collector.sinks import Sink

__all__ = ["collect"]

_Command = Callable[..., None]
_DEFAULT = Limits()


def _setting(name: str, variable: str, **options: Any) -> Callable[[_Command], _Command]:  # click's own options
    return click.option(name, envvar=variable, show_envvar=True, show_default=True, **options)


@click.command()
@_setting("--grpc", "BLAMESPAN_GRPC", default="127.0.0.1:4317", metavar="HOST:PORT", help="OTLP/gRPC; `none`: off.")
@_setting("--http", "BLAMESPAN_HTTP", default="127.0.0.1:4318", metavar="HOST:PORT", help="OTLP/HTTP; `none`: off.")
@_setting(
    "--forward",
    "BLAMESPAN_FORWARD",
    multiple=True,
    metavar="URL",
    help="Backend: http(s)://HOST:PORT[/PATH] or grpc(s)://HOST:PORT. May be given again.",
)
@_setting("--header", "BLAMESPAN_HEADER", multiple=True, metavar="NAME=VALUE", help="Sent with what is forwarded.")
@_setting("--out", "BLAMESPAN_OUT", metavar="FILE", help="Append traces as OTLP-JSON lines; `-`: stdout.")
@_setting("--tracer", "BLAMESPAN_TRACER", default=DEFAULT_TRACER, metavar="NAME", help="Who gives the verdicts.")
@_setting("--quiet-s", "BLAMESPAN_QUIET_S", default=_DEFAULT.quiet_s, help="Silence that completes an ended trace.")
@_setting("--idle-s", "BLAMESPAN_IDLE_S", default=_DEFAULT.idle_s, help="Silence after which any trace is let go.")
@_setting("--max-age-s", "BLAMESPAN_MAX_AGE_S", default=_DEFAULT.max_age_s, help="Age at which any trace is let go.")
@_setting("--max-traces", "BLAMESPAN_MAX_TRACES", default=_DEFAULT.max_traces, help="Traces held at most.")
@_setting("--max-bytes", "BLAMESPAN_MAX_BYTES", default=_DEFAULT.max_bytes, help="Bytes of spans held at most.")
@_setting(
    "--max-request-bytes",
    "BLAMESPAN_MAX_REQUEST_BYTES",
    default=DEFAULT_MAX_REQUEST_BYTES,
    help="Largest request taken.",
)
def collect(
    *,
    grpc: str,
    http: str,
    forward: tuple[str, ...],
    header: tuple[str, ...],
    out: str | None,
    tracer: str,
    max_request_bytes: int,
    **limits: Any,  # the options above that are fields of Limits
) -> None:
    """Receive OTLP spans, say who failed, and pass them on.

    Spans are held until their trace is complete, annotated and forwarded once. SIGTERM or Ctrl-C
    annotates and forwards what is held, then exits: 0 if everything was delivered, 1 if not.

    Example:  blamespan collect --forward http://localhost:14318
    """
    settings = CollectorSettings(
        grpc=Address.parse(grpc),
        http=Address.parse(http),
        forward=forward,
        headers=tuple(_header(text) for text in header),
        out=out,
        tracer=tracer,
        limits=Limits(**limits),
        max_request_bytes=max_request_bytes,
    )
    for package in ("grpc", "httpx", "starlette", "uvicorn"):
        require(package, "collector")
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    loaded = load_tracer(settings.tracer)
    lost = asyncio.run(_run(settings, loaded))
    if lost:
        click.echo(f"blamespan: {lost} deliveries of spans failed; the log above says where", err=True)
        sys.exit(1)


async def _run(settings: CollectorSettings, tracer: Tracer) -> int:
    """Collect until a signal comes. Returns how many deliveries of spans failed."""
    from blamespan_collector.collector import Collector

    stop = _stop_signal()
    sinks = _sinks(settings)
    collector = Collector(lambda: tracer, sinks, limits=settings.limits)
    receivers = _receivers(settings, collector)
    await collector.start()
    for receiver in receivers:
        await receiver.start()
    click.echo(_ready(settings, tracer, receivers, sinks), err=True)
    await stop.wait()
    await asyncio.gather(*(receiver.stop() for receiver in receivers))
    return await collector.stop()


def _receivers(settings: CollectorSettings, collector: Any) -> list[GrpcReceiver | HttpReceiver]:
    receivers: list[GrpcReceiver | HttpReceiver] = []
    if settings.grpc:
        from blamespan_collector.receiver_grpc import GrpcReceiver

        receivers.append(GrpcReceiver(collector, settings.grpc, settings.max_request_bytes))
    if settings.http:
        from blamespan_collector.receiver_http import HttpReceiver

        receivers.append(HttpReceiver(collector, settings.http, settings.max_request_bytes))
    return receivers


def _sinks(settings: CollectorSettings) -> list[Sink]:
    from blamespan_collector.file_sink import FileSink
    from blamespan_collector.forwarder import forwarder

    sinks: list[Sink] = [forwarder(url, settings.headers) for url in settings.forward]
    return [*sinks, FileSink(settings.out)] if settings.out else sinks


def _stop_signal() -> asyncio.Event:
    """Turn the first SIGTERM or SIGINT into an event; the next one ends the process as usual."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C ends the loop instead
            loop.add_signal_handler(number, on_signal, number)
    return stop


def _ready(
    settings: CollectorSettings, tracer: Tracer, receivers: list[GrpcReceiver | HttpReceiver], sinks: list[Sink]
) -> str:
    kinds = [kind for kind, address in (("grpc", settings.grpc), ("http", settings.http)) if address]
    listening = " ".join(f"{kind}={receiver.address}" for kind, receiver in zip(kinds, receivers, strict=True))
    identity = tracer.identity
    return (
        f"blamespan: ready {listening} tracer={identity.name}/{identity.version} "
        f"to={','.join(sink.name for sink in sinks)}"
    )


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"expected a header as NAME=VALUE, got {text.partition('=')[0]!r}. Set it like --header a=b")
    return name.strip(), value.strip()
