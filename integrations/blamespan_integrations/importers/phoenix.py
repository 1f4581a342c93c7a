"""Spans from Arize Phoenix: its client's dataframe saved as parquet or JSON, and its REST API's JSON.

Source: arize-phoenix-client 3.5, `spans.get_spans_dataframe()`; `/v1/projects/{id}/spans`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from blamespan.errors import UnreadableInput
from blamespan.spans import Scope, Span, SpanEvent
from blamespan.trace import AttributeValue
from blamespan_integrations.importers._records import Record, columns_of
from blamespan_integrations.importers._span_files import RecordSpanFormat
from blamespan_integrations.importers._span_values import (
    flatten,
    nanoseconds,
    span_id_of,
    span_times,
    status_of,
    trace_id_of,
)

_PREFIX = "attributes."
_WHOLE = ("metadata", "tool.parameters", "llm.invocation_parameters", "participant_names", "participant_descriptions")
"""Attributes that OpenInference writes as one JSON text; Phoenix parses them."""
_MAX_DEPTH = 12
_KIND = "openinference.span.kind"
_OPERATION = "gen_ai.operation.name"
_REST = re.compile(rb'\s*+(\{\s*+"data"\s*+:\s*+)?\[?\s*+\{[^{]*"context"\s*+:\s*+\{')
_ROW = re.compile(rb'"context[.](trace_id|span_id)"')
_IDS = {"context.trace_id", "context.span_id"}


class PhoenixImporter(RecordSpanFormat):
    """Reads spans exported from Phoenix."""

    name = "phoenix"
    expected = "a span from Phoenix"
    description = "Phoenix spans (dataframe as parquet or JSON, REST JSON); loses scopes, links and resources"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the columns, or the keys of the first span."""
        if columns_of(path, head) & _IDS:
            return True
        start = head.lstrip()[:16_384]
        is_json = start[:1] in (b"{", b"[")
        return is_json and bool(_ROW.search(start) or (_REST.match(start) and b'"span_kind"' in start))

    def _records_in(self, location: str, fields: dict[str, Any]) -> Iterator[Record]:
        inner = fields.get("data")
        if not isinstance(inner, list):
            yield location, fields
            return
        for number, span in enumerate(inner):
            yield f"{location} span {number}", span

    def _spans_of(self, fields: dict[str, Any], location: str) -> Iterable[Span]:
        return spans_of_row(fields, location)


def spans_of_row(row: Mapping[str, Any], location: str) -> Iterable[Span]:
    """Read one span, as a row of the dataframe or as the API writes it.

    Args:
        row: The span.
        location: Where it stands, for messages.

    Raises:
        UnreadableInput: if it is none.
        MalformedSpan: likewise.
    """
    if not isinstance(row, Mapping):
        raise UnreadableInput(f"{location}: expected a span as an object, got {str(row)[:60]!r}. Export it again.")
    nested = row.get("context")
    context = nested if isinstance(nested, Mapping) else {}
    parent = row.get("parent_id")
    start_ns, end_ns = span_times(row.get("start_time"), row.get("end_time"), location)
    name, attributes = str(row.get("name", "")), _attributes(row)
    span_kind = row.get("span_kind")
    if isinstance(span_kind, str) and span_kind not in ("", "UNKNOWN"):  # the API takes it out of the attributes
        attributes.setdefault(_KIND, span_kind)
    if _OPERATION in attributes:
        attributes.pop(_KIND, None)  # Phoenix's own reading of a span by the GenAI conventions
    yield Span(
        trace_id=trace_id_of(row.get("context.trace_id", context.get("trace_id")), location),
        span_id=span_id_of(row.get("context.span_id", context.get("span_id")), location),
        parent_id=span_id_of(parent, location) if parent else None,
        name=name,
        start_ns=start_ns,
        end_ns=end_ns,
        attributes=attributes,
        status=status_of(row.get("status_code")),
        status_message=str(row.get("status_message") or ""),
        events=tuple(_events(row.get("events"), location)),
        scope=Scope(_scope(name, attributes)),
    )


def _scope(name: str, attributes: Mapping[str, AttributeValue]) -> str:
    """Return who made a span, which Phoenix does not keep."""
    if attributes.get("gen_ai.system") == "autogen":
        return "autogen-core"
    if name.startswith("autogen "):
        return "autogen "
    return "openinference.instrumentation" if _KIND in attributes else ""


def _attributes(row: Mapping[str, Any]) -> dict[str, AttributeValue]:
    attributes_field = row.get("attributes")
    if isinstance(attributes_field, Mapping):
        return flatten(_unflatten(attributes_field), whole=_WHOLE)
    columns = {key.removeprefix(_PREFIX): value for key, value in row.items() if key.startswith(_PREFIX)}
    flat = flatten(columns, whole=_WHOLE)
    return {key: value for key, value in flat.items() if value == value}  # NaN is a dataframe's word for nothing


def _unflatten(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Put together what the API flattened of attributes that were one JSON text."""
    flat: dict[str, Any] = {}
    for key, value in attributes.items():
        whole = next((name for name in _WHOLE if key.startswith(f"{name}.")), None)
        if whole is None:
            flat[key] = value
            continue
        owner = flat.setdefault(whole, {})
        *path, last = key[len(whole) + 1 :].split(".")[:_MAX_DEPTH]
        for name in path:
            inner = owner.get(name) if isinstance(owner, dict) else None
            owner = inner if isinstance(inner, dict) else owner.setdefault(name, {}) if isinstance(owner, dict) else {}
        if isinstance(owner, dict):
            owner[last] = value
    return flat


def _events(rows: object, location: str) -> Iterator[SpanEvent]:
    for event in rows if isinstance(rows, list) else ():
        if isinstance(event, Mapping):
            attributes_field = event.get("attributes")
            attributes = flatten(attributes_field) if isinstance(attributes_field, Mapping) else {}
            time_ns = nanoseconds(event.get("timestamp", 0), location)
            yield SpanEvent(str(event.get("name", "")), time_ns, attributes)
