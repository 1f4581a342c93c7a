"""HTTP/1.1 on one address: sockets, TLS, time limits; what is answered is somebody else's."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from blamespan_collector.receiving.tls import ServerTls
from blamespan_collector.settings import Address, CannotListen

__all__ = ["HttpServer"]

_HEADERS_TIMEOUT_S = 10.0
"""How long a sender may take for its request's headers, also for the first."""
_KEEP_ALIVE_S = 75
"""Longer than the 5 s between the batches of OpenTelemetry's exporters: uvicorn's own 5 s would race them."""
_CONNECTIONS = 512
"""At once, before further ones are answered with 503."""
_MOST_CONNECTIONS = 2 * _CONNECTIONS
_UNREAD_TIMEOUT_S = 30.0
"""How long a sender may leave its answers unread."""
_MAX_HEADER_BYTES = 32 * 1024


class HttpServer:
    """Serves an application on one address.

    Args:
        app: What answers.
        address: Where to listen; port 0 for any free one.
        flag: The option that sets the address.
        what: What is served, for the error.
        tls: Certificate and key; None: without TLS.

    Raises:
        CannotListen: if the address cannot be listened on.
    """

    def __init__(self, app: Starlette, address: Address, *, flag: str, what: str, tls: ServerTls | None = None) -> None:
        self._socket = _listening(address, flag, what)
        self.address = Address(address.host, self._socket.getsockname()[1])
        config = uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=2,
            limit_concurrency=_CONNECTIONS,
            h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
            ssl_certfile=tls.cert if tls else None,
            ssl_keyfile=tls.key if tls else None,
        )
        if tls is not None:
            config.load()
            config.ssl = tls.http_context()  # ours can be renewed
        self._server = _Server(config)
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to answer."""
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))

    async def stop(self) -> None:
        """Finish the requests that are being read and stop listening."""
        self._server.should_exit = True
        if self._serving:
            await self._serving
        self._socket.close()


class _Protocol(H11Protocol):
    """HTTP/1.1 that does not wait forever for headers, as uvicorn's own would."""

    _impatience: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        if len(self.connections) > _MOST_CONNECTIONS:
            transport.abort()  # not even an answer: the journal needs file handles, too
        else:
            self._expect_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._calm()
        elif self.timeout_keep_alive_task is None and self._impatience is None:
            self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._calm()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Answers pile up as nobody reads them: they must not for ever."""
        super().pause_writing()
        self._unread = self._unread or self.loop.call_later(_UNREAD_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _expect_headers(self) -> None:
        self._impatience = self.loop.call_later(_HEADERS_TIMEOUT_S, self.transport.abort)

    def _calm(self) -> None:
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone: they belong to the program we run in."""
        yield


def _listening(address: Address, flag: str, what: str) -> socket.socket:
    try:
        family, *_ = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        return socket.create_server((address.host, address.port), family=family, backlog=1024)
    except OSError as error:
        raise CannotListen(
            f"cannot listen for {what} on {address}: {error.strerror or error}. "
            f"Stop what listens on port {address.port}, or choose another with {flag} {address.host}:PORT"
        ) from error
