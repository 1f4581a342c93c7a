"""Observations from Langfuse: JSON, JSONL, CSV or parquet, from its API, its tables or its blob storage export.

Names are `traceId` in the API and `trace_id` in the blob storage; an answer about one trace holds its observations.
Source: Langfuse's field reference of blob storage exports, and its public API.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from blamespan.errors import UnreadableInput
from blamespan.json_text import text_or_json
from blamespan.spans import Scope, Span
from blamespan.trace import AttributeValue, StepStatus
from blamespan_integrations.dialects._values import parse_structure
from blamespan_integrations.importers._records import Record, columns_of
from blamespan_integrations.importers._span_files import RecordSpanFormat
from blamespan_integrations.importers._span_values import span_id_of, span_times, trace_id_of

OBSERVATION_ID = "langfuse.observation.id"
"""An observation's own id, on the span made of it, where that is none of OpenTelemetry's."""
TRACE_ID = "langfuse.trace.id"
"""Its trace's own id, likewise."""

_OBSERVATION = re.compile(rb'"(parentObservationId|parent_observation_id)"\s*:')
_PARENT_COLUMNS = {"parentObservationId", "parent_observation_id"}
_PREFIX = "langfuse.observation."
_STATUSES: Mapping[str, StepStatus] = {"ERROR": "error"}


class LangfuseImporter(RecordSpanFormat):
    """Reads observations exported from Langfuse."""

    name = "langfuse"
    expected = "an observation from Langfuse"
    description = (
        "Langfuse observations (JSON, JSONL, CSV, parquet); loses resources, events and times below a microsecond"
    )

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the columns, or the keys of the first observation; traces and scores alone hold no run."""
        if columns_of(path, head) & _PARENT_COLUMNS:
            return True
        is_json = head.lstrip()[:1] in (b"{", b"[")
        return is_json and bool(_OBSERVATION.search(head))

    def _records_in(self, location: str, fields: dict[str, Any]) -> Iterable[Record | UnreadableInput]:
        return observations_in(location, fields)

    def _spans_of(self, fields: dict[str, Any], location: str) -> Iterable[Span]:
        return spans_of_observation(fields, location)


def observations_in(location: str, fields: dict[str, Any]) -> Iterator[Record | UnreadableInput]:
    """Yield the observations of an answer: a trace with its own, a page of them, or one.

    Args:
        location: Where it stands, for messages.
        fields: The answer.
    """
    within = next((fields[key] for key in ("observations", "data") if isinstance(fields.get(key), list)), None)
    if within is None:
        yield location, fields
    for number, inner in enumerate(within or ()):
        if isinstance(inner, dict):
            yield f"{location} observation {number}", {"traceId": fields.get("id"), **inner}
        else:
            yield UnreadableInput(f"{location}: expected an observation as an object, got {str(inner)[:60]!r}")


def spans_of_observation(row: Mapping[str, Any], location: str) -> Iterable[Span]:
    """Read one observation as a span.

    Args:
        row: The observation, by the names of the API or of the blob storage.
        location: Where it stands, for messages.

    Raises:
        UnreadableInput: if it is none.
        MalformedSpan: likewise.
    """
    parent = _field(row, "parentObservationId")
    start_ns, end_ns = span_times(_field(row, "startTime"), _field(row, "endTime"), location)
    message = str(_field(row, "statusMessage") or "")
    trace_id, span_id = trace_id_of(_field(row, "traceId"), location), span_id_of(row.get("id"), location)
    own_ids = {TRACE_ID: (trace_id, _field(row, "traceId")), OBSERVATION_ID: (span_id, row.get("id"))}
    yield Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=span_id_of(parent, location) if parent else None,
        name=str(row.get("name") or ""),
        start_ns=start_ns,
        end_ns=end_ns,
        attributes={**_attributes(row), **{key: own for key, (read, own) in own_ids.items() if own != read}},
        status=_STATUSES.get(str(row.get("level")), "unset"),
        status_message=message,
        scope=Scope("langfuse-sdk"),
    )


def _attributes(row: Mapping[str, Any]) -> dict[str, AttributeValue]:
    """Write the fields as Langfuse's SDK writes them on spans."""
    read = {
        "type": str(row.get("type") or "span").lower(),
        "input": row.get("input"),
        "output": row.get("output"),
        "model.name": _field(row, "providedModelName") or row.get("model"),
        "usage_details": _field(row, "usageDetails") or row.get("usage"),
    }
    metadata = parse_structure(row.get("metadata"))
    for key, value in metadata.items() if isinstance(metadata, Mapping) else ():
        read[f"metadata.{key}"] = value
    return {f"{_PREFIX}{key}": text_or_json(value) for key, value in read.items() if value is not None}


def _field(row: Mapping[str, Any], name: str) -> Any:
    """Read a field under its name in the API, or in the blob storage; `Any`, as whoever asks checks it."""
    value = row.get(name)
    return row.get(re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()) if value is None else value
