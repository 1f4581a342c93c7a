"""Traces from MLflow: `Trace.to_json()`, one or many, and the `traces.json` of its artifact store.

Ids are base64; before MLflow 3 they stand in a `context`, and times under other names. Source: mlflow 2.14 to 3.17,
`entities/span.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from blamespan.errors import UnreadableInput
from blamespan.json_text import text_or_json
from blamespan.spans import Scope, Span, SpanEvent
from blamespan.trace import AttributeValue
from blamespan_integrations.importers._records import Record, iter_records
from blamespan_integrations.importers._span_files import SpanFormat, SpanItem, read_records
from blamespan_integrations.importers._span_values import (
    as_attribute,
    nanoseconds,
    span_id_of,
    span_times,
    status_of,
    trace_id_of,
)

_MARKS = re.compile(rb'"mlflow[.](spanType|traceRequestId|spanInputs)"|"trace_info"|"client_request_id"')
_START = re.compile(rb'\s*+\[?\s*+\{\s*+"(info|spans|data|trace_info)"\s*+:')


class MLflowImporter(SpanFormat):
    """Reads traces written down by MLflow."""

    name = "mlflow"
    description = "MLflow trace JSON; loses resources, scopes and links"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the keys."""
        del path
        return bool(_START.match(head)) and bool(_MARKS.search(head))

    def _read_items(self, path: Path) -> Iterable[SpanItem]:
        return read_records(_records(path), _spans)


def _records(path: Path) -> Iterator[Record | UnreadableInput]:
    for record in iter_records(path, "a trace from MLflow"):
        if isinstance(record, UnreadableInput):
            yield record
            continue
        location, fields = record
        data = fields.get("data", fields)
        spans = data.get("spans") if isinstance(data, Mapping) else None
        if not isinstance(spans, list):
            yield UnreadableInput(f"{location}: expected a trace with 'data' and its 'spans', got {str(data)[:60]!r}.")
        for number, span in enumerate(spans if isinstance(spans, list) else ()):
            inner = f"{location} span {number}"
            is_span = isinstance(span, dict)
            yield (inner, span) if is_span else UnreadableInput(f"{inner}: expected an object, got {str(span)[:60]!r}.")


def _spans(span: dict[str, Any], location: str) -> Iterable[Span]:
    nested = span.get("context")
    context = nested if isinstance(nested, Mapping) else span
    raw = span.get("status")
    status = (
        raw if isinstance(raw, Mapping) else {"code": span.get("status_code"), "message": span.get("status_message")}
    )
    parent = span.get("parent_span_id") or span.get("parent_id")
    start = span.get("start_time_unix_nano", span.get("start_time"))
    start_ns, end_ns = span_times(start, span.get("end_time_unix_nano", span.get("end_time")), location, per_unit=1)
    yield Span(
        trace_id=trace_id_of(context.get("trace_id"), location),
        span_id=span_id_of(context.get("span_id"), location),
        parent_id=span_id_of(parent, location) if parent else None,
        name=str(span.get("name") or ""),
        start_ns=start_ns,
        end_ns=end_ns,
        attributes=_attributes(span.get("attributes")),
        status=status_of(status.get("code")),
        status_message=str(status.get("message") or ""),
        events=tuple(_events(span.get("events"), location)),
        scope=Scope("mlflow"),
    )


def _attributes(raw: object) -> dict[str, AttributeValue]:
    """Keep what is JSON text already; before MLflow 3 a value stands there as it is."""
    raw_attributes = raw if isinstance(raw, Mapping) else {}
    return {str(key): text_or_json(value) for key, value in raw_attributes.items()}


def _events(rows: object, location: str) -> Iterator[SpanEvent]:
    for event in rows if isinstance(rows, list) else ():
        if isinstance(event, Mapping):
            raw = event.get("attributes")
            attributes = {str(k): as_attribute(v) for k, v in raw.items()} if isinstance(raw, Mapping) else {}
            time_ns = nanoseconds(event.get("time_unix_nano", event.get("timestamp", 0)), location, per_unit=1)
            yield SpanEvent(str(event.get("name") or ""), time_ns, attributes)
