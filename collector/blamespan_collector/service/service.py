"""The running collector: receivers, journal, the worker's supervisor and the monitor, from start to drain."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from starlette.applications import Starlette

from blamespan.errors import BlamespanError, ConfigError
from blamespan_collector.jaeger import jaeger_routes
from blamespan_collector.journal import FolderLock, JournalFull, JournalWriter
from blamespan_collector.page import page_application
from blamespan_collector.receiving.hosts import HostChecked, plain_refusal
from blamespan_collector.receiving.http_server import HttpServer
from blamespan_collector.receiving.intake import Intake
from blamespan_collector.receiving.otlp_grpc import GrpcReceiver
from blamespan_collector.receiving.otlp_http import HttpReceiver
from blamespan_collector.receiving.renewal import Renewal
from blamespan_collector.receiving.request_reader import RequestLimits, RequestReader
from blamespan_collector.receiving.tls import ServerTls
from blamespan_collector.receiving.tokens import BearerTokens
from blamespan_collector.service.metrics import Metrics, monitor_routes
from blamespan_collector.service.supervisor import Supervisor
from blamespan_collector.settings import DEFAULT_PAGE, CannotListen, CollectorSettings, ListenAddress
from blamespan_collector.store import RunStore
from blamespan_collector.worker.messages import WorkerMessage

_logger = logging.getLogger("blamespan.collector")

_WORKER_START_S = 60.0
_PREDECESSOR_S = 5.0
"""How long the collector before us may take to let go of the journal."""

_Server: TypeAlias = GrpcReceiver | HttpServer


class WorkerFailed(BlamespanError):
    """The worker cannot do its work, and another start would not help."""


@dataclass(frozen=True, slots=True)
class ServiceEnd:
    """How a collector ended.

    Attributes:
        spans_received: Spans acknowledged since the start.
        spans_waiting: Spans that are ready for a sink and did not reach it; each sink that lacks one counts.
        is_all_delivered: Whether nothing waits in the journal for the next start.
        spans_set_aside: Spans that sinks refused for good, as far as they are kept.
        records_set_aside: Likewise log records, metrics and verdicts.
    """

    spans_received: int
    spans_waiting: int
    is_all_delivered: bool
    spans_set_aside: int = 0
    records_set_aside: int = 0


class Service:
    """Everything `blamespan collect` runs. Make and use it inside one event loop.

    Args:
        settings: What to do.

    Raises:
        ConfigError: if a file of TLS is wrong.
        JournalError: if another collector uses the journal's folder, or it cannot be used.
        CannotListen: if an address cannot be listened on.
    """

    def __init__(self, settings: CollectorSettings) -> None:
        self._settings = settings
        tls, tokens = ServerTls.of(settings), BearerTokens(settings.tokens)
        self._renewal = Renewal(settings, tokens, tls)
        self._renewing: asyncio.Task[None] | None = None
        self._lock = FolderLock(settings.journal, "intake", wait_s=_PREDECESSOR_S)
        self._writer = JournalWriter(settings.journal, sync=settings.journal_sync, max_bytes=settings.max_journal_bytes)
        self._supervisor = Supervisor(settings, self._hear)
        self._intake = Intake(
            self._writer,
            RequestReader(RequestLimits(settings.max_request_spans, settings.max_span_attributes)),
            settings.journal / "refused",
            on_written=self._supervisor.wake,
        )
        self._metrics = Metrics(self._intake.counts, self._gauges)
        self._servers = self._listen(tls, tokens)

    @property
    def addresses(self) -> dict[str, ListenAddress]:
        """Where it listens: `grpc`, `http`, `monitor`, `page`, as far as they are."""
        return {kind: server.address for kind, server in self._servers.items()}

    @property
    def about_worker(self) -> WorkerMessage:
        """What the worker says of itself."""
        return self._supervisor.last

    async def start(self) -> None:
        """Begin to take requests, and wait until the worker is at work.

        Raises:
            ConfigError: if it was told something wrong.
            WorkerFailed: if it never will be for another reason.
        """
        await self._supervisor.start()
        self._renewing = asyncio.create_task(self._renewal.run())
        for server in self._servers.values():
            await server.start()
        if not await self._supervisor.until_ready(_WORKER_START_S):
            if self._supervisor.failed is not None:
                raise (ConfigError if self._supervisor.was_misused else WorkerFailed)(self._supervisor.failed)
            if not self._supervisor.waits_for_room:
                _logger.error("the worker is not at work after %g s; requests are taken nevertheless", _WORKER_START_S)

    @property
    def can_renew(self) -> bool:
        """Check whether there are files of tokens or certificates."""
        return self._renewal.has_files

    def renew(self) -> None:
        """Read tokens and certificates again."""
        self._renewal.look(is_asked=True)

    async def stop(self) -> ServiceEnd:
        """Take nothing more, write what is being read, deliver for `drain_s`; the rest stays in the journal."""
        self._intake.stop()
        if self._renewing is not None:
            self._renewing.cancel()
        await asyncio.gather(*(server.stop() for server in self._servers.values()))
        await asyncio.to_thread(self._writer.close)
        await self._supervisor.stop(self._settings.drain_s)
        self._lock.release()
        return self._sum_up()

    def _sum_up(self) -> ServiceEnd:
        gauges = self._supervisor.last_words.get("gauges", {})
        set_aside = [int(gauges.get(name, 0)) for name in ("set_aside_spans", "set_aside_records")]
        waiting = [gauges.get(name, 1) for name in ("spans_waiting", "open_traces", "traces_waiting")]
        is_all_delivered = self._supervisor.ended_in_order and not any(waiting)
        return ServiceEnd(
            self._intake.counts.spans_received, int(gauges.get("spans_waiting", 0)), is_all_delivered, *set_aside
        )

    def _listen(self, tls: ServerTls | None, tokens: BearerTokens) -> dict[str, _Server]:
        settings = self._settings
        servers: dict[str, _Server] = {}
        if settings.grpc:
            servers["grpc"] = GrpcReceiver(
                self._intake, settings.grpc, settings.max_request_bytes, tls=tls, tokens=tokens
            )
        if settings.monitor:
            app = Starlette(routes=monitor_routes(self._metrics, self._not_ready, BearerTokens()))
            app.add_middleware(HostChecked, address=settings.monitor, names=settings.http_hosts, refuse=plain_refusal)
            servers["monitor"] = HttpServer(app, settings.monitor, flag="the setting monitor", what="monitoring")
        if settings.http:
            routes = [] if settings.monitor else monitor_routes(self._metrics, self._not_ready, tokens)
            servers["http"] = HttpReceiver(
                self._intake,
                settings.http,
                settings.max_request_bytes,
                tls=tls,
                tokens=tokens,
                routes=routes,
                hosts=settings.http_hosts,
            )
        page = _page(settings)
        if page is not None:
            servers["page"] = page
        _warn_of_open_doors(settings)
        return servers

    def _hear(self, message: WorkerMessage) -> None:
        try:
            self._metrics.hear(message, self._supervisor.restarts)
        except (TypeError, ValueError, KeyError) as error:
            _logger.error("a message of the worker could not be read: %r", error)

    def _gauges(self) -> dict[str, float]:
        used_bytes = 0
        with contextlib.suppress(JournalFull):
            used_bytes = self._writer.used_bytes
        return {
            "journal_bytes": used_bytes,
            "journal_waiting_bytes": self._writer.waiting_bytes,
            "worker_ready": float(self._supervisor.is_ready),
        }

    def _not_ready(self) -> str | None:
        busy = self._intake.busy()
        return self._writer.trouble or self._supervisor.trouble if busy is None else str(busy)


async def serve(settings: CollectorSettings, on_ready: Callable[[Service], None]) -> ServiceEnd:
    """Collect until SIGTERM or SIGINT comes, then drain; a second signal ends the process at once.

    Args:
        settings: What to do.
        on_ready: Called once requests are taken and the worker is at work.

    Raises:
        As `Service` and `Service.start`.
    """
    stop = _stop_signal()
    service = Service(settings)
    _renew_on_signal(service)
    starting = asyncio.create_task(service.start())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if starting.done() and starting.exception() is None:
        on_ready(service)
        await stopping
    else:
        stopping.cancel()
    ended = await service.stop()
    await starting if starting.done() else starting.cancel()
    return ended


def _stop_signal() -> asyncio.Event:
    """Turn the first SIGTERM or SIGINT into an event; the next one ends the process at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        stop.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C ends the loop instead
            loop.add_signal_handler(number, on_signal)
    return stop


def _renew_on_signal(service: Service) -> None:
    """Read tokens and certificates again on SIGHUP; without any it ends us, as where a terminal is closed."""
    if service.can_renew and hasattr(signal, "SIGHUP"):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, service.renew)


def _page(settings: CollectorSettings) -> HttpServer | None:
    """Serve stored runs. Where nobody chose the address and it is taken, spans are received nevertheless."""
    if settings.page is None or settings.store is None:
        return None
    store = RunStore(settings.store)
    app = page_application(store, settings.page, settings.page_hosts, jaeger_routes(store), settings.jaeger_ui)
    try:
        return HttpServer(app, settings.page, flag="--page", what="the page")
    except CannotListen as error:
        if settings.page != DEFAULT_PAGE:
            raise
        _logger.warning("there is no page to look at runs: %s", error)
        return None


def _warn_of_open_doors(settings: CollectorSettings) -> None:
    for flag, address in (("--grpc", settings.grpc), ("--http", settings.http)):
        if address is None or address.is_loopback:
            continue
        if settings.tls_cert is None:
            _logger.warning("%s %s is reachable from elsewhere without TLS: set tls-cert and tls-key", flag, address)
        if not settings.tokens and settings.tls_client_ca is None:
            _logger.warning(
                "%s %s takes spans from anybody who reaches it: set token-file or tls-client-ca", flag, address
            )
    if settings.page and not settings.page.is_loopback:
        _logger.warning("--page %s shows runs to anybody who reaches it: put a proxy before it", settings.page)
