"""Which names this machine is asked by: a web page of somebody else must not reach us by a name that it owns.

Such a page can let its own name point to this machine (DNS rebinding). Its requests then count as its own for the
browser, and only the `Host` header tells.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable
from typing import TypeAlias

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from blamespan_collector.settings import ListenAddress

Refuse: TypeAlias = Callable[[Request, str], Response]
"""Makes an answer with status 421 of a request and the reason."""

_RESERVED = (".localhost", ".internal")
"""Nobody can register a name that ends like these. Containers ask their host as `host.docker.internal`."""
_OF_BROWSERS = ("accept-language", "origin", "sec-fetch-mode", "sec-fetch-site", "sec-fetch-dest")
"""Headers of which a browser sends one at least with every request, whatever its script says; exporters send none."""


class KnownHosts:
    """The names and addresses that this machine is asked by.

    Args:
        address: Where we listen.
        names: Further names.
    """

    def __init__(self, address: ListenAddress, names: Iterable[str] = ()) -> None:
        self._names = {_plain(name) for name in ("localhost", address.host, socket.gethostname(), *names)}

    def knows(self, host: str) -> bool:
        """Check whether a `Host` header names us or an address: only a name can be made to point elsewhere."""
        name, colon, port = host.rpartition(":")
        name = _plain((name if colon and port.isdigit() else host).removeprefix("[").removesuffix("]"))
        if name in self._names or name.endswith(_RESERVED):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


class HostChecked:
    """Passes on what programs ask, and what browsers ask by a name of ours.

    On loopback nobody has reason to ask by another name than ours. Elsewhere a service has names that we do not know,
    as in Kubernetes: until one is told, only what comes from a browser must ask by a name that we do.

    Args:
        app: What answers.
        address: Where we listen.
        names: Further names that we are asked by.
        refuse: Makes the answer to everything else.
    """

    def __init__(self, app: ASGIApp, *, address: ListenAddress, names: Iterable[str], refuse: Refuse) -> None:
        names = tuple(names)
        self._app, self._refuse = app, refuse
        self._hosts = KnownHosts(address, names)
        self._takes_programs = not address.is_loopback and not names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host = headers.get("host")
        if host is None or self._hosts.knows(host) or (self._takes_programs and not _is_of_browser(headers)):
            await self._app(scope, receive, send)
            return
        reason = (
            f"expected a Host header that names this machine, got {host[:200]!r}. If it is asked for by that name, "
            "set http-host or BLAMESPAN_HTTP_HOST to it"
        )
        await self._refuse(Request(scope), reason)(scope, receive, send)


def plain_refusal(_: Request, reason: str) -> Response:
    """Answer in plain text."""
    return PlainTextResponse(f"{reason}\n", 421)


def _is_of_browser(headers: Headers) -> bool:
    return any(name in headers for name in _OF_BROWSERS)


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")
