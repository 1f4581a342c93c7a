"""Traces as Grafana Tempo answers queries for one: JSON of `{"batches": [...]}` or `{"trace": {...}}`.

Its protobuf answers are read by `otlp-proto`. Source: Tempo 2 and 3, `/api/traces/{id}` and `/api/v2/traces/{id}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from blamespan.errors import UnreadableInput
from blamespan_integrations.importers._otlp_documents import read_span_document
from blamespan_integrations.importers._records import json_objects
from blamespan_integrations.importers._span_files import SpanFormat, SpanItem

_START = re.compile(
    rb'\s*+\[?\s*+\{\s*+("batches"\s*+:|"trace"\s*+:\s*+\{\s*+"(batches|resourceSpans|resource_spans)")'
)


class TempoImporter(SpanFormat):
    """Reads Tempo's trace JSON."""

    name = "tempo"
    description = "Tempo's trace JSON (`batches` or `resourceSpans`); values that Tempo cut at 2,048 bytes stay cut"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the first keys."""
        del path
        return bool(_START.match(head))

    def _read_items(self, path: Path) -> Iterable[SpanItem]:
        return _read_items(path)


def _read_items(path: Path) -> Iterator[SpanItem]:
    for item in json_objects(path, "a trace from Tempo"):
        if isinstance(item, UnreadableInput):
            yield item
        else:
            yield from read_tempo_answer(item.value, item.location)


def read_tempo_answer(answer: Mapping[str, Any], location: str) -> Iterator[SpanItem]:
    """Yield the spans of one answer.

    Args:
        answer: As Tempo gives it.
        location: Where it stands, for messages.
    """
    inner = answer.get("trace")
    yield from read_span_document(inner if isinstance(inner, dict) else answer, location)
