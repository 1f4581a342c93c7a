"""Traces of TRAIL (arXiv 2505.08638): OpenInference spans of smolagents, each with its children within it.

Its labels lie in files of their own, by span, and are not read. Source: the data set's own files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from blamespan.errors import UnreadableInput
from blamespan.spans import Scope, Span, SpanEvent
from blamespan.trace import AttributeValue
from blamespan_integrations.importers._records import Record, objects_in
from blamespan_integrations.importers._span_files import RecordSpanFormat
from blamespan_integrations.importers._span_values import flatten, nanoseconds, span_id_of, status_of, trace_id_of

_START = re.compile(rb'\s*+\[?\s*+\{\s*+"trace_id"\s*+:\s*+"[^"]*"\s*+,\s*+"spans"\s*+:\s*+\[')
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_KIND = "openinference.span.kind"
_AGENT = "graph.node.id"
_RUN = ".run"


class TrailImporter(RecordSpanFormat):
    """Reads TRAIL's traces."""

    name = "trail"
    expected = "a trace of TRAIL"
    description = "TRAIL JSON, nested OpenInference spans; its labels, which lie in other files, are not read"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the first keys."""
        del path
        return bool(_START.match(head)) and b'"span_attributes"' in head

    def _records_in(self, location: str, fields: dict[str, Any]) -> Iterator[Record]:
        """Yield every span, its children after it."""
        waiting = [(None, span) for span in reversed(objects_in(fields.get("spans")))]
        if not waiting:
            raise UnreadableInput(f"{location}: expected a trace with 'spans', got {str(fields)[:60]!r}.")
        while waiting:
            parent, span = waiting.pop()
            waiting += [(span.get("span_id"), child) for child in reversed(objects_in(span.get("child_spans")))]
            above = span.get("parent_span_id") or parent
            yield (
                f"{location} span {span.get('span_id')!r}",
                {"trace_id": fields.get("trace_id"), **span, "parent_span_id": above},
            )

    def _spans_of(self, fields: dict[str, Any], location: str) -> Iterable[Span]:
        start_ns = nanoseconds(fields.get("timestamp"), location)
        parent, name = fields["parent_span_id"], str(fields.get("span_name") or "")
        resource = fields.get("resource_attributes")
        yield Span(
            trace_id=trace_id_of(fields.get("trace_id"), location),
            span_id=span_id_of(fields.get("span_id"), location),
            parent_id=span_id_of(parent, location) if parent else None,
            name=name,
            start_ns=start_ns,
            end_ns=start_ns + _duration_ns(fields.get("duration"), location),
            attributes=_attributes(fields.get("span_attributes"), name),
            status=status_of(fields.get("status_code")),
            status_message=str(fields.get("status_message") or ""),
            events=tuple(_events(fields.get("events"), location)),
            resource=flatten(resource) if isinstance(resource, Mapping) else {},
            scope=Scope(str(fields.get("scope_name") or ""), str(fields.get("scope_version") or "")),
        )


def _attributes(fields: object, name: str) -> dict[str, AttributeValue]:
    """Read the attributes; smolagents names an agent only in its span's name, `CodeAgent.run`."""
    attributes = flatten(fields) if isinstance(fields, Mapping) else {}
    if attributes.get(_KIND) == "AGENT" and name.endswith(_RUN) and "agent.name" not in attributes:
        attributes.setdefault(_AGENT, name.removesuffix(_RUN))
    return attributes


def _duration_ns(value: object, location: str) -> int:
    written = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if written is None:
        raise UnreadableInput(f"{location}: expected a duration like PT1.5S, got {str(value)[:60]!r}.")
    days, hours, minutes, seconds = (float(part or 0) for part in written.groups())
    return min(round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000_000_000), 2**62)


def _events(rows: object, location: str) -> Iterator[SpanEvent]:
    for event in objects_in(rows):
        fields = event.get("Attributes", event.get("attributes"))
        time_ns = nanoseconds(event.get("Timestamp", event.get("timestamp", 0)), location)
        name = str(event.get("Name", event.get("name", "")))
        yield SpanEvent(name, time_ns, flatten(fields) if isinstance(fields, Mapping) else {})
