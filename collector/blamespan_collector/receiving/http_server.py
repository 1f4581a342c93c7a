"""HTTP/1.1 on one address: sockets, TLS, time limits; what is answered is somebody else's."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
from collections.abc import Iterable, Iterator

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from blamespan_collector.receiving.tls import ServerTls
from blamespan_collector.settings import CannotListen, ListenAddress

_HEADERS_TIMEOUT_S = 10.0
"""How long a sender may take for its request's headers, also for the first."""
_HANDSHAKE_TIMEOUT_S = 5.0
"""How long a client may take for its TLS handshake; until then its connection does not count among the client's."""
_KEEP_ALIVE_S = 75
"""Longer than the 5 s between the batches of OpenTelemetry's exporters: uvicorn's own 5 s would race them."""
_CONNECTIONS = 512
"""At once, before further ones are answered with 503."""
_MOST_CONNECTIONS = 2 * _CONNECTIONS
_CONNECTIONS_PER_CLIENT = 384
"""Of one client, so that others find room; where a proxy stands before us, all senders are one client."""
_PATIENCE_S = 1.0
"""A connection that has waited that long for its headers goes where there is no room for another."""
_UNREAD_TIMEOUT_S = 30.0
"""How long a sender may leave its answers unread."""
_MAX_HEADER_BYTES = 32 * 1024
"""Of a request's first line and headers together, with all line ends."""
_AMBIGUOUS = re.compile(rb"(?<!\r)\n|\r(?!\n)|\n[ \t]")
"""Line ends and continued lines that another server may read in another way than we."""
_LENGTH = re.compile(rb"(?im)^content-length:([^\r\n]*)")


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

    def __init__(
        self, app: Starlette, address: ListenAddress, *, flag: str, what: str, tls: ServerTls | None = None
    ) -> None:
        self._socket = listening_socket(address, flag, what)
        self.address = ListenAddress(address.host, self._socket.getsockname()[1])
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

    def close_socket(self) -> None:
        """Close the socket alone: in a forked child, where nothing is served."""
        self._socket.close()


class _StrictConnection(h11.Connection):
    """Refuses requests that two servers could read as two different ones, and headers past their limit.

    Attributes:
        refused_with: Status of the answer to what was refused.
    """

    refused_with = 400

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        head = self.trailing_data[0] if self.their_state is h11.IDLE else b""
        try:
            event = super().next_event()
            if isinstance(event, h11.Request):
                _check_head(head[: len(head) - len(self.trailing_data[0])], event)
        except h11.RemoteProtocolError as error:
            # h11 says 501 of chunked twice, too
            self.refused_with = 400 if "multiple" in str(error) else error.error_status_hint
            raise
        return event


def _check_head(head: bytes, request: h11.Request) -> None:
    """Check a request's head as it came.

    Raises:
        RemoteProtocolError: if it is too large or ambiguous.
    """
    if len(head) > _MAX_HEADER_BYTES:
        raise h11.RemoteProtocolError(f"expected at most {_MAX_HEADER_BYTES} bytes of headers", 431)
    lengths = _LENGTH.findall(head)
    is_chunked = any(name == b"transfer-encoding" for name, _ in request.headers)
    if is_chunked and (lengths or request.http_version != b"1.1"):
        raise h11.RemoteProtocolError("expected Content-Length or Transfer-Encoding, got both or HTTP/1.0")
    if len(lengths) > 1 or any(b"," in length for length in lengths):
        raise h11.RemoteProtocolError("expected one Content-Length")
    if _AMBIGUOUS.search(head):
        raise h11.RemoteProtocolError("expected headers of one line each, each ended by CR LF")


class _Protocol(H11Protocol):
    """HTTP/1.1 that does not wait forever for headers, nor for one client, as uvicorn's own would."""

    _impatience: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _waits_since_s = 0.0
    _client = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self.conn = _StrictConnection(h11.SERVER, _MAX_HEADER_BYTES)
        self._client = _client_of(self.client[0]) if self.client else ""
        if self._has_room():
            self._expect_headers()
        else:
            self._drop()  # not even an answer: the journal needs file handles, too

    def send_400_response(self, msg: str) -> None:
        """Answer what was refused with the status that says why, and close."""
        status = getattr(self.conn, "refused_with", 400)
        headers = [("content-type", "text/plain; charset=utf-8"), ("connection", "close")]
        for event in (
            h11.Response(status_code=status, headers=headers, reason=STATUS_PHRASES[status]),
            h11.Data(data=msg.encode("ascii")),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _has_room(self) -> bool:
        """Check whether one more connection may stay; one that has waited long for its headers makes room for it."""
        of_client = [
            other for other in self.connections if isinstance(other, _Protocol) and other._client == self._client
        ]
        if len(of_client) > _CONNECTIONS_PER_CLIENT and not self._displaces(of_client):
            return False
        while len(self.connections) >= _CONNECTIONS and self._displaces(self.connections):
            pass
        return len(self.connections) <= _MOST_CONNECTIONS

    def _displaces(self, connections: Iterable[object]) -> bool:
        """Drop the one that has waited longest, if one has waited too long."""
        waiting = [
            connection
            for connection in connections
            if isinstance(connection, _Protocol) and connection._impatience is not None
        ]
        longest = min(waiting, key=lambda connection: connection._waits_since_s, default=None)
        if longest is None or longest._waits_since_s > self.loop.time() - _PATIENCE_S:
            return False
        longest._drop()
        return True

    def _drop(self) -> None:
        self._calm()
        self.connections.discard(self)  # now: what tells us that it is gone comes later
        self.transport.abort()

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
        self._waits_since_s = self.loop.time()
        self._impatience = self.loop.call_later(_HEADERS_TIMEOUT_S, self.transport.abort)

    def _calm(self) -> None:
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None


def _client_of(host: str) -> str:
    """Name who an address belongs to: of IPv6, everybody has 2 to the power of 64."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    mapped = address.ipv4_mapped
    return str(mapped) if mapped else str(ipaddress.ip_network((address, 64), strict=False))


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone: they belong to the program we run in."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, as uvicorn does, but without a minute's patience for TLS: it cannot be told of another."""
        await super().startup(sockets=[])
        config, loop = self.config, asyncio.get_running_loop()

        def connected() -> asyncio.Protocol:
            return _Protocol(config=config, server_state=self.server_state, app_state=self.lifespan.state)

        timeout_s = _HANDSHAKE_TIMEOUT_S if config.ssl else None
        for listening in sockets or ():
            self.servers.append(
                await loop.create_server(
                    connected,
                    sock=listening,
                    ssl=config.ssl,
                    ssl_handshake_timeout=timeout_s,
                    backlog=config.backlog,
                )
            )


def listening_socket(address: ListenAddress, flag: str, what: str) -> socket.socket:
    """Open a socket that listens on an address.

    Raises:
        CannotListen: if it cannot be listened on; the message names *flag*, which sets the address of *what*.
    """
    try:
        family, *_ = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server((address.host, address.port), family=family, backlog=1024)
        # Connections inherit it; asyncio does not set it, as `create_server` names no protocol. Without it an answer's
        # body waits 40 ms for the client to acknowledge its headers
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        raise CannotListen(
            f"cannot listen for {what} on {address}: {error.strerror or error}. "
            f"Stop what listens on port {address.port}, or choose another with {flag} {address.host}:PORT"
        ) from error
