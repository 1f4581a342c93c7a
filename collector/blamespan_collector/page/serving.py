"""The page without a collector: `blamespan open`, and beside a program that judges its own runs."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import webbrowser
from pathlib import Path

import click
from opentelemetry.instrumentation.utils import suppress_instrumentation

from blamespan.analysis.sources import store_in
from blamespan.errors import ConfigError, UnreadableInput
from blamespan_collector.local_runs import embedded_store, local_stores
from blamespan_collector.page.application import page_application
from blamespan_collector.receiving.http_server import HttpServer
from blamespan_collector.settings import ListenAddress
from blamespan_collector.store import RunQuery, RunStore, RunWriter
from blamespan_collector.stored_trace import find_stored

_logger = logging.getLogger("blamespan")
_HOST = "127.0.0.1"

addresses: list[str] = []
"""Where this process serves pages."""


@click.command(
    name="open",
    epilog="""\b
Examples:
  blamespan open
  blamespan open last
  blamespan open 4bf92f3577b34da6
""",
)
@click.argument("trace", metavar="[TRACE]", default="")
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="PORT", help="Port to listen on.  "
              "[default: a free one]")  # fmt: skip
@click.option("--no-browser", is_flag=True, help="Print the address alone; open nothing.")
def open_page(trace: str, port: int, no_browser: bool) -> None:
    """Show the runs that this machine keeps in a browser.

    They are those of programs with instrument(embedded=True), or else of blamespan collect, which shows its own at
    http://127.0.0.1:4320 while it is up. TRACE is a run's id or the first digits, the beginning of its task, or `last`;
    or a store.
    """
    store = store_in(Path(trace)) if trace else None
    path, trace_id = find_stored(trace) if trace and store is None else (store or _first_store(), "")
    runs = RunStore(path)
    runs.search(RunQuery(limit=1))  # what is wrong with it is said here
    path, run = runs.path, f"/run/{trace_id}" if trace_id else ""
    server = HttpServer(page_application(runs, ListenAddress(_HOST, port)), ListenAddress(_HOST, port),
                        flag="--port", what="the page")  # fmt: skip
    address = f"http://{server.address}{run}"
    click.echo(address)
    others = [other for other in local_stores() if other != path]
    if store is None and others:
        click.echo(f"runs of blamespan collect: blamespan open {others[0]}", err=True)
    click.echo(f"shows {path} until Ctrl-C", err=True)
    if not no_browser:
        threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()
    try:
        asyncio.run(_serve(server))
    except KeyboardInterrupt:
        click.echo("", err=True)


def serve_in_background(path: Path | None) -> str:
    """Serve the page of a store on a free port, in a daemon thread of this process; return its address.

    Raises:
        ConfigError: if there is no store.
        StoreError: if it cannot be used.
    """
    if path is None:
        raise ConfigError("expected a store of runs for page=True, got BLAMESPAN_STORE=none. Unset it")
    RunWriter(path, sync="normal").close()  # the page is there before the first run is
    any_port = ListenAddress(_HOST, 0)
    server = HttpServer(page_application(RunStore(path), any_port), any_port, flag="page", what="the page")
    thread = threading.Thread(target=_serve_quietly, args=[server], name="blamespan-page", daemon=True)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=server.close_socket)  # the child does not answer: it must not listen
    thread.start()
    address = f"http://{server.address}"
    addresses.append(address)
    click.echo(f"blamespan: page of runs at {address}", err=True)
    return address


def _serve_quietly(server: HttpServer) -> None:
    try:
        with suppress_instrumentation():
            asyncio.run(_serve(server))
    except Exception:
        _logger.exception("the page is not served any more")


async def _serve(server: HttpServer) -> None:
    await server.start()
    try:
        await asyncio.Event().wait()
    finally:
        await server.stop()


def _first_store() -> Path:
    stores = local_stores()
    if not stores:
        expected = embedded_store()
        where = f" at {str(expected)!r}" if expected is not None else ""
        raise UnreadableInput(
            f"expected a store of runs{where}, got none. Run a program with blamespan.instrument(embedded=True), "
            "or name a store"
        )
    return stores[0]
