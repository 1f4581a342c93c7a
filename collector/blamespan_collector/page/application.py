"""The page's routes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, get_args
from urllib.parse import quote

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from blamespan import conventions as words
from blamespan.analysis.showing.findings import has_rules
from blamespan.analysis.showing.legible import clean
from blamespan.errors import ConfigError
from blamespan.labels.people import MAX_NAME_CHARS
from blamespan.otlp.json import request_to_document
from blamespan.rebuilding.continuing import WAITS
from blamespan.trace import Outcome
from blamespan_collector.page.comparison import MOST_COMPARED, compare
from blamespan_collector.page.guarding import Guarded
from blamespan_collector.page.incidents import Incidents
from blamespan_collector.page.labelling import Labelling
from blamespan_collector.page.rendering import ASSETS, asset, render
from blamespan_collector.page.trace_view import TraceView, trace_view
from blamespan_collector.settings import ListenAddress
from blamespan_collector.store import RunQuery, RunStore, RunSummary, StoredRun, StoreError

_PAGE_RUNS = 50
_PAGE_STEPS = 500
_LONG_STEPS = 10_000
"""A run of so many steps takes seconds to lay out: its verdict is shown at once, its steps when that is done."""
_FIRST_VIEW_S = 0.2
_MAX_FIELD_CHARS = 500
_FIRST_INCIDENTS = 8
_MOST_INCIDENTS = 1_000
_MOST_CHOICES = 500
_MOST_PARTS = 10
_FIELDS = ("text", "outcome", "agent", "mode", "service")
"""What runs are chosen by."""


def page_application(
    store: RunStore,
    address: ListenAddress,
    hosts: Iterable[str] = (),
    routes: Sequence[BaseRoute] = (),
    jaeger_ui: str | None = None,
) -> Starlette:
    """Build what answers on the page's address.

    Args:
        store: What is shown.
        address: Where it is served.
        hosts: Further names that it is asked for by.
        routes: What else is answered there, under the same checks.
        jaeger_ui: URL of Jaeger's UI, where people reach it; None for no links to it.
    """
    labelling = Labelling(store, address)
    incidents = Incidents(store, address)
    page = _Page(store, labelling, incidents, jaeger_ui)
    own = [
        Route("/", page.runs, methods=["GET"]),
        Route("/compare", page.comparison, methods=["GET"]),
        Route("/run/{trace_id}.json", page.document, methods=["GET"]),
        Route("/run/{trace_id}", page.run, methods=["GET"]),
        Route("/static/{name}", _static, methods=["GET"]),
    ]
    return Starlette(
        routes=[*own, *labelling.routes, *incidents.routes, *routes],
        middleware=[Middleware(Guarded, address=address, hosts=tuple(hosts))],
        exception_handlers={HTTPException: _answer_http_error, ConfigError: _answer_misuse, StoreError: _unavailable},
    )


class _Page:
    """Answers from the store; plain functions, so that Starlette runs them in threads."""

    def __init__(self, store: RunStore, labelling: Labelling, incidents: Incidents, jaeger_ui: str | None) -> None:
        self._store, self._incidents = store, incidents
        self._jaeger_ui = jaeger_ui.rstrip("/") if jaeger_ui else None
        self._labelling = labelling
        self._last_view: tuple[tuple[RunSummary, bool], TraceView] | None = None
        """What was looked at last: to leaf through a long run it need not be read again."""
        self._lock = Lock()
        self._executor = ThreadPoolExecutor(1, "lay-out")
        self._work: tuple[tuple[RunSummary, bool], Future[tuple[RunSummary, TraceView]]] | None = None
        """Which long run is being laid out."""

    def runs(self, request: Request) -> Response:
        """List incidents, and runs; or one incident with its runs."""
        wanted = _FormRequest(request)
        is_filtered = any(wanted.fields.values())
        incidents = self._incidents.rows(
            _MOST_INCIDENTS if wanted.wants_incidents else _FIRST_INCIDENTS, wanted.incident
        )
        if wanted.incident and not incidents:
            raise HTTPException(404, f"No incident {wanted.incident[:64]!r} is known. The latest 10,000 are kept.")
        summaries = self._store.search(wanted.query(_PAGE_RUNS + 1))
        older = summaries[_PAGE_RUNS - 1].place if len(summaries) > _PAGE_RUNS else None
        return _html(
            "runs.html",
            runs=summaries[:_PAGE_RUNS],
            wanted=wanted.fields,
            is_filtered=is_filtered,
            incidents=[] if not wanted.incident and (is_filtered or wanted.is_older) else incidents,
            counts=self._store.count_incidents(),
            incident=wanted.incident,
            older=None if older is None else str(request.url.include_query_params(after=older).query),
            agents=_choices(self._store.agents()),
            modes=[mode for mode in self._store.modes() if _choices(mode[:1])][:_MOST_CHOICES],
            services=_choices(self._store.services()),
            outcomes=get_args(Outcome),
            waits=WAITS,
        )

    def run(self, request: Request) -> Response:
        """Show one trace."""
        summary, view = self._view_of(request.path_params["trace_id"], checks_all="checks" in request.query_params)
        if view is None:
            answer = _html("laying_out.html", summary=summary)
            answer.headers["Refresh"] = "1"
            return answer
        given = request.query_params.get("from")
        first = None if given is None else _step(given)
        by = clean(request.query_params.get("by", "")[:MAX_NAME_CHARS])
        return _html(
            "run.html",
            trace=view,
            forms=[self._labelling.form(run, by) for run in view.runs],
            summary=summary,
            jaeger=None if self._jaeger_ui is None else _in_jaeger(self._jaeger_ui, view),
            first=first,
            most=_PAGE_STEPS,
            can_check=has_rules(),
            goes_on_in=self._goes_on_in(view.trace_id) if view.waits else [],
            earlier=[(trace_id, self._store.run(trace_id) is not None) for trace_id in view.earlier],
        )

    def _view_of(self, trace_id: str, *, checks_all: bool) -> tuple[RunSummary, TraceView | None]:
        """Return a trace, laid out; the one that was asked for last only once, unless more of it came meanwhile.

        A long run is laid out in a thread of its own; None where that takes longer than people wait for a first view.
        """
        summary = self._store.summary(trace_id)
        last = self._last_view  # another thread may replace it
        if summary is not None and last is not None and last[0] == (summary, checks_all):
            return summary, last[1]
        if summary is None or summary.steps < _LONG_STEPS:
            return self._lay_out(trace_id, checks_all=checks_all)
        with self._lock:
            if self._work is None or self._work[0] != (summary, checks_all) or self._work[1].done():
                self._work = (
                    (summary, checks_all),
                    self._executor.submit(self._lay_out, trace_id, checks_all=checks_all),
                )
            future = self._work[1]
        try:
            return future.result(timeout=_FIRST_VIEW_S)
        except TimeoutError:
            return summary, None

    def _lay_out(self, trace_id: str, *, checks_all: bool) -> tuple[RunSummary, TraceView]:
        stored = self._load_run(trace_id)
        view = trace_view(stored.spans, checks_all=checks_all)
        self._last_view = (stored.summary, checks_all), view
        return stored.summary, view

    def document(self, request: Request) -> Response:
        """Return a trace as OTLP-JSON."""
        stored = self._load_run(request.path_params["trace_id"])
        document = request_to_document(ExportTraceServiceRequest.FromString(b"".join(stored.payloads)))
        return Response(json.dumps(document, ensure_ascii=True), media_type="application/json")

    def comparison(self, request: Request) -> Response:
        """Show two runs side by side."""
        chosen = request.query_params.getlist("run")
        if len(chosen) != 2:
            raise HTTPException(
                400, f"Expected two runs to compare, got {len(chosen)}. Choose two in the list of runs."
            )
        views = [self._first_run(trace_view(self._load_run(trace_id).spans)) for trace_id in chosen]
        left, right = views
        return _html("compare.html", comparison=compare(left, right), most=_PAGE_STEPS, most_compared=MOST_COMPARED)

    def _goes_on_in(self, trace_id: str) -> list[str]:
        """List the stored traces with a run that goes on from one of this trace, the first to start first."""
        named = self._store.search(RunQuery(text=trace_id, limit=_MOST_PARTS, is_run=False))
        views = [trace_view(self._store.spans_of(other.trace_id)) for other in named if other.trace_id != trace_id]
        return [view.trace_id for view in reversed(views) if trace_id in view.earlier]

    def _load_run(self, trace_id: str) -> StoredRun:
        run = self._store.run(trace_id)
        if run is None or not run.spans:
            raise HTTPException(
                404,
                f"No run {trace_id[:64]!r} is stored. It may have been let go: store-max-age-s and "
                "store-max-bytes say how long runs are kept. Or it is still under way: it comes when it has ended.",
            )
        return run

    @staticmethod
    def _first_run(view: TraceView) -> Any:
        if not view.runs:
            raise HTTPException(404, f"Trace {view.trace_id} holds no run of agents that could be compared.")
        return view.runs[0]


class _FormRequest:
    """What the form asks for.

    Raises:
        HTTPException: if something is asked for that is not understood: all runs would look like those that fit.
    """

    def __init__(self, request: Request) -> None:
        given = request.query_params
        others = ("after", "incident", "incidents")
        unknown = next((name for name in given if name not in (*_FIELDS, *others)), None)
        if unknown is not None:
            known = ", ".join((*_FIELDS, *others))
            raise HTTPException(400, f"Expected one of {known} to choose runs by, got {unknown[:64]!r}. Leave it out.")
        self.fields = {name: clean(given.get(name, "")[:_MAX_FIELD_CHARS]) for name in _FIELDS}
        outcome = self.fields["outcome"]
        if outcome and outcome not in get_args(Outcome):
            known = ", ".join(get_args(Outcome))
            raise HTTPException(400, f"Expected the outcome to be one of {known}, got {outcome[:64]!r}. Choose one.")
        self._after = given.get("after") or None
        self.is_older = self._after is not None
        self.incident = given.get("incident") or None
        self.wants_incidents = "incidents" in given

    def query(self, limit: int) -> RunQuery:
        """Make the store's question of it."""
        fields = self.fields
        outcome: Outcome | None = next(
            (known_outcome for known_outcome in get_args(Outcome) if known_outcome == fields["outcome"]), None
        )
        return RunQuery(
            text=fields["text"],
            outcome=outcome,
            agent=fields["agent"] or None,
            mode=fields["mode"] or None,
            service=fields["service"] or None,
            incident=self.incident,
            limit=limit,
            after=self._after,
        )


def _in_jaeger(ui: str, view: TraceView) -> str:
    """Make the URL of a trace in Jaeger's UI, with the decisive span as what it looks for, and so marks.

    It finds spans by their id and by any text in their name or in the key, the value or `key=value` of a tag. The id of
    a span stands in tags of others, too. Source: Jaeger UI's `filter-spans.ts`.
    """
    has_decisive = any(run.verdict is not None and run.verdict.has_evidence for run in view.runs)
    sought = f"?uiFind={quote(f'{words.BLAME_DECISIVE}=true')}" if has_decisive else ""
    return f"{ui}/trace/{view.trace_id}{sought}"


def _choices(names: Iterable[str]) -> list[str]:
    """Leave out names that a form would not give back as they are, like those with control characters."""
    return [name for name in names if clean(name) == name][:_MOST_CHOICES]


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ASSETS:
        raise HTTPException(404, "There is no such file.")
    return Response(asset(name), media_type=ASSETS[name], headers={"Cache-Control": "no-cache"})


def _answer_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    title = "Not here" if error.status_code == 404 else "Not understood"
    return _html("message.html", error.status_code, title=title, message=error.detail)


def _answer_misuse(_: Request, error: Exception) -> Response:
    return _html("message.html", 400, title="Not understood", message=str(error))


def _unavailable(_: Request, error: Exception) -> Response:
    return _html("message.html", 503, title="The store cannot be read", message=str(error))


def _html(template: str, status_code: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(render(template, **values), status_code)


def _step(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise HTTPException(400, f"Expected the index of a step to show from, got {text[:64]!r}. Leave it out.")
    return int(text)
