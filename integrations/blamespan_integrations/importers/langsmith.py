"""Runs from LangSmith: JSON or JSON lines of what its client lists, and its bulk exports as parquet.

Source: langsmith 0.14, `schemas.Run`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from blamespan.json_text import text_or_json
from blamespan.spans import Scope, Span
from blamespan.trace import AttributeValue
from blamespan_integrations.dialects._values import parse_structure
from blamespan_integrations.importers._records import Record, columns_of, objects_in
from blamespan_integrations.importers._span_files import RecordSpanFormat
from blamespan_integrations.importers._span_values import as_attribute, span_id_of, span_times, trace_id_of

_RUN = re.compile(rb'"run_type"\s*:\s*"')
_ERROR_TYPE = re.compile(r"[A-Za-z_][\w.]*(?=[(:])")
_MAX_DEPTH = 8


class LangSmithImporter(RecordSpanFormat):
    """Reads runs exported from LangSmith."""

    name = "langsmith"
    expected = "a run from LangSmith"
    description = "LangSmith runs (JSON, JSON lines, parquet); loses resources and times below a microsecond"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check a run's type."""
        return bool(head.lstrip()[:1] in (b"{", b"[") and _RUN.search(head)) or "run_type" in columns_of(path, head)

    def _records_in(self, location: str, fields: dict[str, Any]) -> Iterator[Record]:
        """Yield the runs, those within a list under `runs` and those under a run's `child_runs` too."""
        waiting = [(location, fields)]
        while waiting:
            location, fields = waiting.pop()
            children = objects_in(fields.get("runs") or fields.get("child_runs"))
            if "runs" not in fields:
                yield location, fields
                for child in children:
                    child.setdefault("parent_run_id", fields.get("id"))
                    child.setdefault("trace_id", fields.get("trace_id") or fields.get("id"))
            waiting += [(f"{location} run {child.get('id')!r}", child) for child in reversed(children)]

    def _spans_of(self, fields: dict[str, Any], location: str) -> Iterable[Span]:
        order = [part.rpartition("Z")[2] for part in str(fields.get("dotted_order") or "").split(".")]
        parent = fields.get("parent_run_id") or (order[-2] if len(order) > 1 else None)
        start_ns, end_ns = span_times(fields.get("start_time"), fields.get("end_time"), location)
        error = fields.get("error")
        yield Span(
            trace_id=trace_id_of(fields.get("trace_id") or order[0] or fields.get("id"), location),
            span_id=span_id_of(fields.get("id"), location),
            parent_id=span_id_of(parent, location) if parent else None,
            name=str(fields.get("name") or ""),
            start_ns=start_ns,
            end_ns=end_ns,
            attributes=_attributes(fields),
            status="error" if error else "unset",
            status_message=str(error)[:2_000] if error else "",
            scope=Scope("langsmith"),
        )


def _attributes(run: Mapping[str, Any]) -> dict[str, AttributeValue]:
    """Write the fields as LangSmith's exporter writes them on spans."""
    kind = str(run.get("run_type") or "chain")
    attributes: dict[str, AttributeValue] = {"langsmith.span.kind": kind}
    if kind == "tool":
        attributes["gen_ai.tool.name"] = str(run.get("name") or "")
    for key, field in (("gen_ai.prompt", "inputs"), ("gen_ai.completion", "outputs")):
        if run.get(field):
            attributes[key] = text_or_json(run[field])
    extra = parse_structure(run.get("extra"))
    metadata = parse_structure(extra.get("metadata")) if isinstance(extra, Mapping) else None
    for key, value in metadata.items() if isinstance(metadata, Mapping) else ():
        attributes[f"langsmith.metadata.{key}"] = as_attribute(value)
    named = _ERROR_TYPE.match(str(run.get("error") or ""))
    if named:
        attributes["error.type"] = named[0]
    return attributes | (_usage(run) if kind == "llm" else {})


def _usage(run: Mapping[str, Any]) -> dict[str, AttributeValue]:
    """Read the tokens: of a listed run they are fields of its own, else they stand in the model's message."""
    counts = {"input_tokens": run.get("prompt_tokens"), "output_tokens": run.get("completion_tokens")}
    usage = counts if counts["input_tokens"] is not None else _usage_within(parse_structure(run.get("outputs")), 0)
    return {f"gen_ai.usage.{key}": usage[key] for key in counts if isinstance(usage.get(key), int)}


def _usage_within(value: Any, depth: int) -> Mapping[str, Any]:
    if depth > _MAX_DEPTH or not isinstance(value, Mapping | list):
        return {}
    if isinstance(value, Mapping) and isinstance(value.get("usage_metadata"), Mapping):
        attributes: Mapping[str, Any] = value["usage_metadata"]
        return attributes
    inner = value.values() if isinstance(value, Mapping) else value
    return next((usage for item in inner if (usage := _usage_within(item, depth + 1))), {})
