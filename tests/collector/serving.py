"""An ASGI application behind a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving_app(app: Starlette) -> AsyncIterator[str]:
    """Serve on a free port of this machine; gives the URL."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = _Server(uvicorn.Config(app, lifespan="off", log_config=None, ws="none"))
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listening.close()
