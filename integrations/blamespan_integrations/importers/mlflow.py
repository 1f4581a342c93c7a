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
from blamespan_integrations.importers._records import Record
from blamespan_integrations.importers._span_files import RecordSpanFormat
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


class MLflowImporter(RecordSpanFormat):
    """Reads traces written down by MLflow."""

    name = "mlflow"
    expected = "a trace from MLflow"
    description = "MLflow trace JSON; loses resources, scopes and links"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the keys."""
        del path
        return bool(_START.match(head)) and bool(_MARKS.search(head))

    def _records_in(self, location: str, fields: dict[str, Any]) -> Iterator[Record | UnreadableInput]:
        data = fields.get("data", fields)
        spans = data.get("spans") if isinstance(data, Mapping) else None
        if not isinstance(spans, list):
            raise UnreadableInput(f"{location}: expected a trace with 'data' and its 'spans', got {str(data)[:60]!r}.")
        for number, span in enumerate(spans):
            inner = f"{location} span {number}"
            is_span = isinstance(span, dict)
            yield (inner, span) if is_span else UnreadableInput(f"{inner}: expected an object, got {str(span)[:60]!r}.")

    def _spans_of(self, fields: dict[str, Any], location: str) -> Iterable[Span]:
        nested = fields.get("context")
        context = nested if isinstance(nested, Mapping) else fields
        raw = fields.get("status")
        status = (
            raw
            if isinstance(raw, Mapping)
            else {"code": fields.get("status_code"), "message": fields.get("status_message")}
        )
        parent = fields.get("parent_span_id") or fields.get("parent_id")
        start = fields.get("start_time_unix_nano", fields.get("start_time"))
        start_ns, end_ns = span_times(
            start, fields.get("end_time_unix_nano", fields.get("end_time")), location, per_unit=1
        )
        yield Span(
            trace_id=trace_id_of(context.get("trace_id"), location),
            span_id=span_id_of(context.get("span_id"), location),
            parent_id=span_id_of(parent, location) if parent else None,
            name=str(fields.get("name") or ""),
            start_ns=start_ns,
            end_ns=end_ns,
            attributes=_attributes(fields.get("attributes")),
            status=status_of(status.get("code")),
            status_message=str(status.get("message") or ""),
            events=tuple(_events(fields.get("events"), location)),
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
