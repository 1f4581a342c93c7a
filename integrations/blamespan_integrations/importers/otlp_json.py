"""OTLP-JSON lines, as the OpenTelemetry Collector's file exporter and `blamespan collect --out` write them.

Each line is one `{"resourceSpans": [...]}`; the spans of a trace may be spread over many lines. A file
that is one such document over several lines, or a list of them, is read too. The format keeps everything a span
has. Lines of `{"resourceLogs": [...]}` among them are read where they hold messages; metrics are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from blamespan.errors import UnreadableInput
from blamespan_integrations.importers._otlp_documents import read_otlp_document
from blamespan_integrations.importers._records import json_objects
from blamespan_integrations.importers._span_files import SpanFormat, SpanItem

_OTHERS = re.compile(rb'\s*+\{\s*+"(trace|result|batches|data)"')
"""Begins what others wrap OTLP-JSON in."""
_SIGNALS = re.compile(rb'"resource(Spans|Logs|Metrics)"')


class OtlpJsonImporter(SpanFormat):
    """Reads OTLP-JSON lines into runs."""

    name = "otlp-json"
    description = "OTLP-JSON, one document per line; loses nothing. Traces without an agent's step give no run."

    def matches(self, path: Path, head: bytes) -> bool:
        """Return whether the file begins with an object that holds spans, log records or metrics."""
        del path
        start = head[:4_096].lstrip(b"\xef\xbb\xbf \t\r\n[")
        return start.startswith(b"{") and not _OTHERS.match(start) and bool(_SIGNALS.search(start))

    def _read_items(self, path: Path) -> Iterable[SpanItem]:
        return _read_items(path)


def _read_items(path: Path) -> Iterator[SpanItem]:
    for item in json_objects(path, "OTLP-JSON"):
        if isinstance(item, UnreadableInput):
            yield item
        else:
            yield from read_otlp_document(item.value, item.location)
