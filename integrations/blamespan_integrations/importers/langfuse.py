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
from blamespan.recorded import RecordedRun
from blamespan.spans import Scope, Span
from blamespan.trace import AttributeValue, StepStatus
from blamespan_integrations.dialects._values import parsed
from blamespan_integrations.importers._grouping import rebuilt_runs, told_by_records
from blamespan_integrations.importers._records_in import Record, columns_of, records_in
from blamespan_integrations.importers._span_values import as_json, span_id_of, span_times, trace_id_of

__all__ = ["LangfuseImporter"]

_OBSERVATION = re.compile(rb'"(parentObservationId|parent_observation_id)"\s*:')
_PARENT_COLUMNS = {"parentObservationId", "parent_observation_id"}
_PREFIX = "langfuse.observation."
_STATUSES: Mapping[str, StepStatus] = {"ERROR": "error"}


class LangfuseImporter:
    """Reads observations exported from Langfuse."""

    name = "langfuse"
    description = (
        "Langfuse observations (JSON, JSONL, CSV, parquet); loses resources, events and times below a microsecond"
    )

    def matches(self, path: Path, head: bytes) -> bool:
        """Tell from the columns, or from the keys of the first observation; traces and scores alone hold no run."""
        if columns_of(path, head) & _PARENT_COLUMNS:
            return True
        is_json = head.lstrip()[:1] in (b"{", b"[")
        return is_json and bool(_OBSERVATION.search(head))

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield what cannot be read, then every run, in the order in which the traces begin.

        Raises:
            UnreadableInput: if the file cannot be opened.
        """
        return rebuilt_runs(path, told_by_records(_records(path), _spans))


def _records(path: Path) -> Iterator[Record | UnreadableInput]:
    """Yield the observations, also those that an answer about a trace, or a page of them, holds."""
    for record in records_in(path, "an observation from Langfuse"):
        if isinstance(record, UnreadableInput):
            yield record
            continue
        place, fields = record
        within = next((fields[key] for key in ("observations", "data") if isinstance(fields.get(key), list)), None)
        if within is None:
            yield record
        for number, inner in enumerate(within or ()):
            if isinstance(inner, dict):
                yield f"{place} observation {number}", {"traceId": fields.get("id"), **inner}
            else:
                yield UnreadableInput(f"{place}: expected an observation as an object, got {str(inner)[:60]!r}")


def _spans(row: dict[str, Any], place: str) -> Iterable[Span]:
    parent = _field(row, "parentObservationId")
    start_ns, end_ns = span_times(_field(row, "startTime"), _field(row, "endTime"), place)
    message = str(_field(row, "statusMessage") or "")
    yield Span(
        trace_id=trace_id_of(_field(row, "traceId"), place),
        span_id=span_id_of(row.get("id"), place),
        parent_id=span_id_of(parent, place) if parent else None,
        name=str(row.get("name") or ""),
        start_ns=start_ns,
        end_ns=end_ns,
        attributes=_attributes(row),
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
    metadata = parsed(row.get("metadata"))
    for key, value in metadata.items() if isinstance(metadata, Mapping) else ():
        read[f"metadata.{key}"] = value
    return {f"{_PREFIX}{key}": as_json(value) for key, value in read.items() if value is not None}


def _field(row: Mapping[str, Any], name: str) -> Any:
    """Read a field under its name in the API, or in the blob storage; `Any`, as whoever asks checks it."""
    value = row.get(name)
    return row.get(re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()) if value is None else value
