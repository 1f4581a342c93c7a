"""The routes of Jaeger's query API: `/api/...`, which its UI and Grafana ask, and `/api/v3/...`.

Answers are shaped as Jaeger's: `{"data", "total", "limit", "offset", "errors"}`, and in v3 the message itself, spans in
the envelope `{"result": ...}` of its gateway. Errors likewise: `errors` with `code` and `msg`; `{"error": {"httpCode",
"message"}}`. Source: Jaeger's `http_handler.go` and `apiv3/http_gateway.go`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route

from blamespan.otlp.json import request_to_document
from blamespan_collector.jaeger.conversion import JsonObject, trace_id_text, ui_trace
from blamespan_collector.jaeger.query import (
    MAX_TRACES,
    Parameters,
    QueryRefused,
    dependencies_query,
    find_query,
    read_trace_id,
    search_query,
)
from blamespan_collector.jaeger.searching import Calls, Found, Searcher
from blamespan_collector.jaeger.tags import KINDS, NO_SERVICE_NAME
from blamespan_collector.store import RunStore, StoreError

_NS_PER_MS = 10**6
_DAY_MS = 86_400_000
_NOT_FOUND = "trace not found"
_NOT_ANSWERED = ("/analytics", "/quality-metrics")
"""What Jaeger's UI asks beside `/api`, and gets an error in JSON for: it cannot read a page."""


def jaeger_routes(store: RunStore, now_ns: Callable[[], int] = time.time_ns) -> list[BaseRoute]:
    """Build what answers Jaeger's query API.

    Args:
        store: What is answered from.
        now_ns: Gives Unix time, for questions that name none.
    """
    searcher = Searcher(store)
    old, new = _Api(store, searcher, now_ns), _ApiV3(store, searcher)
    v3 = [
        _route("/services", new.services),
        _route("/operations", new.operations),
        _route("/traces", new.traces),
        _route("/traces/{trace_id}", new.trace),
        _route("/trace-summaries", new.summaries),
        _route("/dependencies", new.dependencies),
    ]
    v1 = [
        _route("/services", old.services),
        _route("/services/{service:path}/operations", old.operation_names),
        _route("/operations", old.operations),
        _route("/traces", old.traces),
        _route("/traces/{trace_id}", old.trace),
        _route("/dependencies", old.dependencies),
    ]
    return [
        Mount("/api/v3", app=_application(v3, _error_v3)),
        Mount("/api", app=_application(v1, _error)),
        *(_route(f"{path}{{rest:path}}", _answer_not_found) for path in _NOT_ANSWERED),
    ]


class _Api:
    """Answers `/api`; plain functions, so that Starlette runs them in threads."""

    def __init__(self, store: RunStore, searcher: Searcher, now_ns: Callable[[], int]) -> None:
        self._store = store
        self._searcher = searcher
        self._now_ns = now_ns

    def services(self, _: Request) -> Response:
        """List services."""
        return _list_response(_services(self._store))

    def operation_names(self, request: Request) -> Response:
        """List the names of a service's operations."""
        operations = _operations(self._store, request.path_params["service"])
        return _list_response(list(dict.fromkeys(operation["name"] for operation in operations)))

    def operations(self, request: Request) -> Response:
        """List a service's operations with their kinds."""
        given = request.query_params
        return _list_response(_operations(self._store, given.get("service", ""), given.get("spanKind", "")))

    def traces(self, request: Request) -> Response:
        """Search, or give traces by their ids."""
        given = _parameters(request)
        ids = [read_trace_id(text) for text in given.get("traceID", ())]
        if len(ids) > MAX_TRACES:
            raise QueryRefused(f"expected {MAX_TRACES} 'traceID' at most, got {len(ids)}")
        query = None if ids else search_query(given, self._now_ns())
        with self._searcher.place():
            answer = self._searcher.by_ids(ids) if query is None else self._searcher.find(query)
            errors: list[JsonObject] = [
                {"msg": _NOT_FOUND, "traceID": trace_id_text(missing_id)} for missing_id in answer.missing
            ]
            errors += [{"msg": answer.cut}] if answer.cut else []
            return _answer(_to_document(_ui_traces(answer), errors=errors))

    def trace(self, request: Request) -> Response:
        """Return one trace."""
        trace_id = read_trace_id(request.path_params["trace_id"])
        with self._searcher.place():
            answer = self._searcher.by_ids([trace_id])
            if not answer.traces:
                raise HTTPException(404, _NOT_FOUND)
            return _answer(_to_document(_ui_traces(answer)))

    def dependencies(self, request: Request) -> Response:
        """Count which service called which."""
        until_ms = _milliseconds(request, "endTs", self._now_ns() // _NS_PER_MS)
        since_ms = until_ms - _milliseconds(request, "lookback", _DAY_MS)
        with self._searcher.place():
            calls = self._searcher.calls(since_ms * _NS_PER_MS, until_ms * _NS_PER_MS)
        return _answer(_to_document(_links(calls), errors=[{"msg": calls.cut}] if calls.cut else []))


class _ApiV3:
    """Answers `/api/v3`."""

    def __init__(self, store: RunStore, searcher: Searcher) -> None:
        self._store = store
        self._searcher = searcher

    def services(self, _: Request) -> Response:
        """List services."""
        return _answer({"services": _services(self._store)})

    def operations(self, request: Request) -> Response:
        """List a service's operations with their kinds."""
        given = request.query_params
        kind = given.get("span_kind") or given.get("spanKind") or ""
        return _answer({"operations": _operations(self._store, given.get("service", ""), kind)})

    def traces(self, request: Request) -> Response:
        """Search."""
        query = find_query(_parameters(request))
        with self._searcher.place():
            return _result(self._searcher.find(query), "No traces found")

    def trace(self, request: Request) -> Response:
        """Return one trace."""
        trace_id = read_trace_id(request.path_params["trace_id"])
        with self._searcher.place():
            return _result(self._searcher.by_ids([trace_id]), _NOT_FOUND)

    def summaries(self, request: Request) -> Response:
        """Search, and sum up what is found; that nothing is found is an empty list."""
        query = find_query(_parameters(request))
        with self._searcher.place():
            summaries = self._searcher.summarize(query)
        return _warning_of(summaries.cut, _answer({"summaries": summaries.rows}))

    def dependencies(self, request: Request) -> Response:
        """Count which service called which."""
        since_ns, until_ns = dependencies_query(_parameters(request))
        with self._searcher.place():
            calls = self._searcher.calls(since_ns, until_ns)
        return _warning_of(calls.cut, _answer({"dependencies": _links(calls)}))


def _links(calls: Calls) -> list[JsonObject]:
    return [{"parent": parent, "child": child, "callCount": count} for (parent, child), count in calls.counts.items()]


def _services(store: RunStore) -> list[str]:
    nameless = [NO_SERVICE_NAME] if store.operations("") else []
    return sorted([*store.services(), *nameless])


def _operations(store: RunStore, service: str, kind: str = "") -> list[dict[str, str]]:
    if not service:
        raise QueryRefused("parameter 'service' is required: /api/services lists them")
    every = store.operations(service if service != NO_SERVICE_NAME else "")
    named = [{"name": name, "spanKind": KINDS.get(number, "")} for name, number in every]
    return [operation for operation in named if not kind or operation["spanKind"] == kind]


def _ui_traces(answer: Found) -> list[JsonObject]:
    return [ui_trace(groups) for groups in answer.traces]


def _parameters(request: Request) -> Parameters:
    return {name: request.query_params.getlist(name) for name in request.query_params}


def _milliseconds(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise QueryRefused(f"unable to parse param '{name}': expected milliseconds, got {text[:64]!r}")
    return int(text)


def _to_document(
    data: Sequence[object] | None, *, total: int = 0, errors: Sequence[JsonObject] | None = None
) -> JsonObject:
    return {"data": data, "total": total, "limit": 0, "offset": 0, "errors": errors or None}


def _list_response(data: Sequence[object]) -> Response:
    return _answer(_to_document(data, total=len(data)))


def _result(answer: Found, if_none: str) -> Response:
    """Answer spans as v3 does."""
    if not answer.traces:
        raise HTTPException(404, f"{if_none}: {answer.cut}" if answer.cut else if_none)
    request = ExportTraceServiceRequest(resource_spans=[group for groups in answer.traces for group in groups])
    return _warning_of(answer.cut, _answer({"result": request_to_document(request)}))


def _warning_of(cut: str, answer: Response) -> Response:
    """Write into a header why there may be more, where there may be."""
    if cut:
        answer.headers["Warning"] = f'299 - "{cut}"'
    return answer


def _answer(document: object, status_code: int = 200) -> Response:
    return Response(orjson.dumps(document), status_code, media_type="application/json")


def _error(status_code: int, message: str) -> Response:
    return _answer(_to_document(None, errors=[{"code": status_code, "msg": message}]), status_code)


def _answer_not_found(_: Request) -> Response:
    return _error(404, "Not Found")


def _error_v3(status_code: int, message: str) -> Response:
    return _answer({"error": {"httpCode": status_code, "message": message}}, status_code)


def _application(routes: Sequence[BaseRoute], tell: Callable[[int, str], Response]) -> Starlette:
    """Build an application whose errors are told as its callers expect."""

    def refused(_: Request, error: Exception) -> Response:
        return tell(400, str(error))

    def unavailable(_: Request, error: Exception) -> Response:
        return tell(503, str(error))

    def not_here(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return tell(error.status_code, error.detail)

    def broken(_: Request, error: Exception) -> Response:
        return tell(500, f"internal error: {type(error).__name__}")

    handlers: dict[Any, Any] = {  # as Starlette types them
        QueryRefused: refused,
        StoreError: unavailable,
        HTTPException: not_here,
        Exception: broken,
    }
    return Starlette(routes=routes, exception_handlers=handlers)


def _route(path: str, endpoint: Callable[[Request], Response]) -> Route:
    return Route(path, endpoint, methods=["GET"])
