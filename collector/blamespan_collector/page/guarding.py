"""What every answer of the page goes through: who may ask, and what browsers may do with it.

A web page of somebody else must not read runs: by a name that it lets point to this machine (DNS rebinding: the
`Host` header is checked), by asking from its own origin (nothing allows it), or by markup in a trace (the policy lets
no script or style run that is not ours, and lets nothing be fetched from elsewhere).
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from blamespan_collector.receiving.hosts import KnownHosts
from blamespan_collector.settings import ListenAddress

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guarded:
    """Passes on what is asked by a name of ours, with headers that keep browsers strict.

    Args:
        app: What answers.
        address: Where we listen.
        hosts: Further names we are asked by.
    """

    def __init__(self, app: ASGIApp, address: ListenAddress, hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._hosts = KnownHosts(address, hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        host = Headers(scope=scope).get("host", "")
        if not self._hosts.knows(host):
            refusal = PlainTextResponse(
                f"expected a Host header that names this machine, got {host[:200]!r}. If it is asked for by that name, "
                "set page-host or BLAMESPAN_PAGE_HOST to it\n",
                421,
            )
            await refusal(scope, receive, send)
            return

        async def strict(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, strict)
