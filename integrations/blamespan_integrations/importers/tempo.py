"""Traces as Grafana Tempo answers queries for one: JSON of `{"batches": [...]}` or `{"trace": {...}}`.

Its protobuf answers are read by `otlp-proto`. Source: Tempo 2 and 3, `/api/traces/{id}` and `/api/v2/traces/{id}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from blamespan.errors import UnreadableInput
from blamespan_integrations.importers._grouping import Told
from blamespan_integrations.importers._json_values import json_objects
from blamespan_integrations.importers._otlp_documents import told_by_document
from blamespan_integrations.importers._span_format import SpanFormat

__all__ = ["TempoImporter", "told_by_tempo"]

_START = re.compile(
    rb'\s*+\[?\s*+\{\s*+("batches"\s*+:|"trace"\s*+:\s*+\{\s*+"(batches|resourceSpans|resource_spans)")'
)


class TempoImporter(SpanFormat):
    """Reads Tempo's trace JSON."""

    name = "tempo"
    description = "Tempo's trace JSON (`batches` or `resourceSpans`); values that Tempo cut at 2,048 bytes stay cut"

    def matches(self, path: Path, head: bytes) -> bool:
        """Tell from the first keys."""
        del path
        return bool(_START.match(head))

    def _told(self, path: Path) -> Iterable[Told]:
        return _told(path)


def _told(path: Path) -> Iterator[Told]:
    for found in json_objects(path, "a trace from Tempo"):
        if isinstance(found, UnreadableInput):
            yield found
        else:
            yield from told_by_tempo(found.value, found.place)


def told_by_tempo(answer: Mapping[str, Any], place: str) -> Iterator[Told]:
    """Yield the spans of one answer.

    Args:
        answer: As Tempo gives it.
        place: Where it stands, for messages.
    """
    inner = answer.get("trace")
    yield from told_by_document(inner if isinstance(inner, dict) else answer, place)
