"""Stores of real spans, and the page: asked in this process, and behind a real socket."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from blamespan.attribution import Attribution, Evidence, ModeBlame, TracerIdentity
from blamespan.pipeline import annotate_traces
from blamespan.rebuilding.emit import emit
from blamespan.spans import Span
from blamespan.taxonomy import mode
from blamespan.trace import MessageActionTrace
from blamespan_collector.jaeger import jaeger_routes
from blamespan_collector.page import page_application
from blamespan_collector.receiving.http_server import HttpServer
from blamespan_collector.settings import ListenAddress
from blamespan_collector.store import Retention, RunStore, RunWriter
from tests.collector.fakes import request

HERE = ListenAddress("127.0.0.1", 4320)
RUN = f"/run/{1:032x}"


class LastStepsTracer:
    """Blames the last step an agent decided most, each one before half of that, and quotes its first words."""

    identity = TracerIdentity("last-steps", "1")

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        return [self._one(trace) for trace in traces]

    def _one(self, trace: MessageActionTrace) -> Attribution:
        blamable = [step for step in trace.steps if trace.can_be_blamed(step)]
        share = {step.index: 0.5**place for place, step in enumerate(reversed(blamable))}
        last = blamable[-1]
        return Attribution.of(
            trace,
            [share.get(step.index, 0.0) for step in trace.steps],
            failure_score=0.9,
            tracer=self.identity,
            modes=[ModeBlame(mode("mast:FM-3.3"), last.agent, 0.7)],
            evidence=[Evidence(last.index, last.content[:40], 1.0)] if last.content else [],
        )


def annotated(*traces: MessageActionTrace) -> list[list[Span]]:
    """Emit runs with their verdicts on them."""
    return annotate_traces([emit(one) for one in traces], LastStepsTracer())


def stored(path: Path, *traces: Sequence[Span], retention: Retention | None = None) -> RunStore:
    """Put traces into a store."""
    writer = RunWriter(path, retention, sync="normal")
    writer.put([request(spans).SerializeToString() for spans in traces])
    writer.close()
    return RunStore(path)


def asking(store: RunStore, address: ListenAddress = HERE, **options: Any) -> httpx.AsyncClient:
    """Make a client of the page at *address*."""
    app = page_application(store, address, **options)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:4320")


async def got(store: RunStore, path: str, **options: Any) -> httpx.Response:
    """Ask the page for one thing."""
    async with asking(store, **options) as client:
        return await client.get(path)


@contextmanager
def serving_page(store: RunStore) -> Iterator[str]:
    """Serve the page and Jaeger's API on a free port of this machine, from a thread of its own; gives the URL."""
    loop = asyncio.new_event_loop()
    address = ListenAddress("127.0.0.1", 0)
    server = HttpServer(
        page_application(store, address, routes=jaeger_routes(store)), address, flag="--page", what="the page"
    )
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
    try:
        yield f"http://{server.address}"
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def make_newer(path: Path) -> None:
    """Make a store of a release that is to come."""
    stored(path)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
