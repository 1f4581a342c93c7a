"""What people and machines look at: `/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from blamespan_collector.metrics import Metrics
from blamespan_collector.receiving.tokens import Tokens

__all__ = ["monitor_routes"]


def monitor_routes(metrics: Metrics, not_ready: Callable[[], str | None], tokens: Tokens) -> list[Route]:
    """Build the routes.

    `/healthz` answers while the process lives, and tells counts. `/readyz` answers 503 where requests would
    be refused, or where they are taken but nothing can be delivered. Neither asks for a token, as probes have
    none; `/metrics` does, as it names agents.

    Args:
        metrics: What is told.
        not_ready: Why requests would be refused now, or nothing is delivered; None where all is well.
        tokens: Who may read the metrics.
    """

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok", **metrics.counts()})

    async def ready(_: Request) -> Response:
        reason = not_ready()
        if reason is None:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "not ready", "reason": reason}, 503)

    async def text(request: Request) -> Response:
        if not tokens.admits(request.headers.get("authorization")):
            return Response("expected a bearer token that is known here", 401, {"WWW-Authenticate": "Bearer"})
        return Response(metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return [
        Route("/healthz", health, methods=["GET"]),
        Route("/readyz", ready, methods=["GET"]),
        Route("/metrics", text, methods=["GET"]),
    ]
