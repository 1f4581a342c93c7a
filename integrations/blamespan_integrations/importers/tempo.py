"""Traces as Grafana Tempo answers queries for one: JSON of `{"batches": [...]}` or `{"trace": {...}}`.

Its protobuf answers are read by `otlp-proto`. Source: Tempo 2 and 3, `/api/traces/{id}` and `/api/v2/traces/{id}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from blamespan_integrations.importers._otlp_documents import read_span_document
from blamespan_integrations.importers._span_files import JsonSpanFormat, SpanItem

_START = re.compile(
    rb'\s*+\[?\s*+\{\s*+("batches"\s*+:|"trace"\s*+:\s*+\{\s*+"(batches|resourceSpans|resource_spans)")'
)


class TempoImporter(JsonSpanFormat):
    """Reads Tempo's trace JSON."""

    name = "tempo"
    expected = "a trace from Tempo"
    description = "Tempo's trace JSON (`batches` or `resourceSpans`); values that Tempo cut at 2,048 bytes stay cut"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the first keys."""
        del path
        return bool(_START.match(head))

    def _read_object(self, value: dict[str, Any], location: str) -> Iterable[SpanItem]:
        return read_tempo_answer(value, location)


def read_tempo_answer(answer: Mapping[str, Any], location: str) -> Iterator[SpanItem]:
    """Yield the spans of one answer.

    Args:
        answer: As Tempo gives it.
        location: Where it stands, for messages.
    """
    inner = answer.get("trace")
    yield from read_span_document(inner if isinstance(inner, dict) else answer, location)
