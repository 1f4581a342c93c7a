"""Traces as Grafana Tempo answers queries for one: JSON of `{"batches": [...]}` or `{"trace": {...}}`.

Its protobuf answers are read by `otlp-proto`. Source: Tempo 2 and 3, `/api/traces/{id}` and `/api/v2/traces/{id}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from blamespan.errors import UnreadableInput
from blamespan.recorded import RecordedRun
from blamespan_integrations.importers._grouping import Told, rebuilt_runs
from blamespan_integrations.importers._json_values import json_objects
from blamespan_integrations.importers._otlp_documents import told_by_document

__all__ = ["TempoImporter"]

_START = re.compile(rb'\s*\[?\s*\{\s*("batches"\s*:|"trace"\s*:\s*\{\s*"(batches|resourceSpans|resource_spans)")')


class TempoImporter:
    """Reads Tempo's trace JSON."""

    name = "tempo"
    description = "Tempo's trace JSON (`batches` or `resourceSpans`); values that Tempo cut at 2,048 bytes stay cut"

    def matches(self, path: Path, head: bytes) -> bool:
        """Tell from the first keys."""
        del path
        return bool(_START.match(head))

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield what cannot be read, then every run, in the order in which the traces begin.

        Raises:
            UnreadableInput: if the file cannot be opened.
        """
        return rebuilt_runs(path, _told(path))


def _told(path: Path) -> Iterator[Told]:
    for found in json_objects(path, "a trace from Tempo"):
        if isinstance(found, UnreadableInput):
            yield found
            continue
        inner = found.value.get("trace")
        yield from told_by_document(inner if isinstance(inner, dict) else found.value, found.place)
