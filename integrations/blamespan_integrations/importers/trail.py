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
from blamespan_integrations.importers._grouping import Told, told_by_records
from blamespan_integrations.importers._records_in import Record, records_in
from blamespan_integrations.importers._span_format import SpanFormat
from blamespan_integrations.importers._span_values import flattened, nanoseconds, span_id_of, status_of, trace_id_of

__all__ = ["TrailImporter"]

_START = re.compile(rb'\s*+\[?\s*+\{\s*+"trace_id"\s*+:\s*+"[^"]*"\s*+,\s*+"spans"\s*+:\s*+\[')
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_KIND = "openinference.span.kind"
_AGENT = "graph.node.id"
_RUN = ".run"


class TrailImporter(SpanFormat):
    """Reads TRAIL's traces."""

    name = "trail"
    description = "TRAIL JSON, nested OpenInference spans; its labels, which lie in other files, are not read"

    def matches(self, path: Path, head: bytes) -> bool:
        """Tell from the first keys."""
        del path
        return bool(_START.match(head)) and b'"span_attributes"' in head

    def _told(self, path: Path) -> Iterable[Told]:
        return told_by_records(_records(path), _spans)


def _records(path: Path) -> Iterator[Record | UnreadableInput]:
    """Yield every span, its children after it."""
    for record in records_in(path, "a trace of TRAIL"):
        if isinstance(record, UnreadableInput):
            yield record
            continue
        place, trace = record
        waiting = [(None, span) for span in reversed(_listed(trace.get("spans")))]
        if not waiting:
            yield UnreadableInput(f"{place}: expected a trace with 'spans', got {str(trace)[:60]!r}.")
        while waiting:
            parent, span = waiting.pop()
            waiting += [(span.get("span_id"), child) for child in reversed(_listed(span.get("child_spans")))]
            above = span.get("parent_span_id") or parent
            fields = {"trace_id": trace.get("trace_id"), **span, "parent_span_id": above}
            yield f"{place} span {span.get('span_id')!r}", fields


def _spans(span: dict[str, Any], place: str) -> Iterable[Span]:
    start_ns = nanoseconds(span.get("timestamp"), place)
    parent, name = span["parent_span_id"], str(span.get("span_name") or "")
    resource = span.get("resource_attributes")
    yield Span(
        trace_id=trace_id_of(span.get("trace_id"), place),
        span_id=span_id_of(span.get("span_id"), place),
        parent_id=span_id_of(parent, place) if parent else None,
        name=name,
        start_ns=start_ns,
        end_ns=start_ns + _duration_ns(span.get("duration"), place),
        attributes=_attributes(span.get("span_attributes"), name),
        status=status_of(span.get("status_code")),
        status_message=str(span.get("status_message") or ""),
        events=tuple(_events(span.get("events"), place)),
        resource=flattened(resource) if isinstance(resource, Mapping) else {},
        scope=Scope(str(span.get("scope_name") or ""), str(span.get("scope_version") or "")),
    )


def _attributes(given: object, name: str) -> dict[str, AttributeValue]:
    """Read the attributes; smolagents names an agent only in its span's name, `CodeAgent.run`."""
    found = flattened(given) if isinstance(given, Mapping) else {}
    if found.get(_KIND) == "AGENT" and name.endswith(_RUN) and "agent.name" not in found:
        found.setdefault(_AGENT, name.removesuffix(_RUN))
    return found


def _duration_ns(value: object, place: str) -> int:
    written = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if written is None:
        raise UnreadableInput(f"{place}: expected a duration like PT1.5S, got {str(value)[:60]!r}.")
    days, hours, minutes, seconds = (float(part or 0) for part in written.groups())
    return min(round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000_000_000), 2**62)


def _events(listed: object, place: str) -> Iterator[SpanEvent]:
    for event in _listed(listed):
        given = event.get("Attributes", event.get("attributes"))
        time_ns = nanoseconds(event.get("Timestamp", event.get("timestamp", 0)), place)
        name = str(event.get("Name", event.get("name", "")))
        yield SpanEvent(name, time_ns, flattened(given) if isinstance(given, Mapping) else {})


def _listed(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
