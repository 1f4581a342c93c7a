"""Arize Phoenix: `phoenix://host:6006/project`. Source: arize-phoenix 20.26, `/v1/projects/{project}/...`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from blamespan.errors import NotWritten, UnreadableInput
from blamespan.evaluations import as_phoenix_annotation
from blamespan.http_client import Params
from blamespan.importing.backends import Address, Reader, Writer
from blamespan.importing.selection import Selection
from blamespan_integrations.backends._api import BackendApi, objects_in, read_headers, text_in
from blamespan_integrations.backends._traces import TraceReader
from blamespan_integrations.backends._writing import BatchWriter, Result, list_evaluations
from blamespan_integrations.importers._span_files import SpanItem, read_records
from blamespan_integrations.importers.phoenix import spans_of_row

_KEY, _HEADERS = "PHOENIX_API_KEY", "BLAMESPAN_PHOENIX_HEADERS"
_DEFAULT_PROJECT = "default"
_TRACES_A_PAGE = 100
_SPANS_A_PAGE = 500
_ANNOTATIONS = "/v1/span_annotations"
_TRACE_ANNOTATIONS = "/v1/trace_annotations"


class PhoenixBackend:
    """Reads a project of Phoenix, and annotates its spans."""

    name = "phoenix"
    description = f"Phoenix; loses scopes, links and resources, so who was addressed. Key: {_KEY}, headers: {_HEADERS}"

    def reader(self, address: Address, selection: Selection) -> Reader:
        """Read the project that the URL names, or `default`."""
        base, project = address.base_and_last()
        api = _api(base)
        at = f"/v1/projects/{quote(project or _DEFAULT_PROJECT, safe='')}"
        return TraceReader(
            address.name,
            api,
            selection,
            find=lambda: _find_traces(api, at, selection),
            fetch=lambda trace_id: _fetch_trace(api, at, trace_id),
        )

    def writer(self, address: Address, on_failure: Callable[[NotWritten], None]) -> Writer:
        """Annotate spans, whatever their project; one annotation for each span, name and tracer."""
        api = _api(address.base_and_last()[0])
        return BatchWriter(lambda results: _annotate(api, results), api.close, on_failure)


def _api(base: str) -> BackendApi:
    key = os.environ.get(_KEY, "")
    headers = {**({"authorization": f"Bearer {key}"} if key else {}), **read_headers(_HEADERS)}
    return BackendApi("Phoenix", base, headers=headers, keys=_KEY)


def _find_traces(api: BackendApi, project: str, selection: Selection) -> Iterator[str | UnreadableInput]:
    options: list[tuple[str, str | int]] = [("limit", _TRACES_A_PAGE), ("sort", "start_time"), ("order", "asc")]
    if selection.since:
        options.append(("start_time", selection.since.isoformat()))
    if selection.until:
        options.append(("end_time", selection.until.isoformat()))
    for trace in _pages(api, f"{project}/traces", options):
        trace_id = text_in(trace, "trace_id")
        yield trace_id or UnreadableInput(f"{project}/traces: expected a trace with its id, got {str(trace)[:60]!r}.")


def _fetch_trace(api: BackendApi, project: str, trace_id: str) -> Iterator[SpanItem]:
    path = f"{project}/spans"
    rows = _pages(api, path, [("limit", _SPANS_A_PAGE), ("trace_id", trace_id)])
    return read_records(((f"{path} span {number}", dict(row)) for number, row in enumerate(rows)), spans_of_row)


def _pages(api: BackendApi, path: str, options: Params) -> Iterator[Mapping[str, Any]]:
    """Read page after page; each names the next.

    Raises:
        UnreadableInput: where a page cannot be had, or comes again.
    """
    cursor: str | None = None
    cursors: set[str] = set()
    while True:
        page = api.get_object(path, [*options, *([("cursor", cursor)] if cursor else [])])
        yield from objects_in(page, "data", path)
        cursor = text_in(page, "next_cursor")
        if cursor is None:
            return
        if cursor in cursors:
            raise UnreadableInput(f"{path}: expected another page, got the same again.")
        cursors.add(cursor)


def _annotate(api: BackendApi, results: Sequence[Result]) -> None:
    """Annotate spans, and traces where a run has no span of its own; Phoenix takes all of a request or nothing."""
    annotations = [as_phoenix_annotation(evaluation) for result in results for evaluation in list_evaluations(result)]
    for path, kind in ((_ANNOTATIONS, "span_id"), (_TRACE_ANNOTATIONS, "trace_id")):
        data = [annotation for annotation in annotations if kind in annotation]
        if data:  # without `sync` Phoenix answers before it looks whether the spans are there
            body = json.dumps({"data": data}).encode("utf-8", "replace")
            api.post(path, body, "application/json", [("sync", "true")])
