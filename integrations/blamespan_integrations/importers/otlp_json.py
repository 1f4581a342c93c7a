"""OTLP-JSON lines, as the OpenTelemetry Collector's file exporter and `blamespan collect --out` write them.

Each line is one `{"resourceSpans": [...]}`; the spans of a trace may be spread over many lines. A file
that is one such document over several lines, or a list of them, is read too. The format keeps everything a span
has. Lines of `{"resourceLogs": [...]}` among them are read where they hold messages; metrics are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from blamespan_integrations.importers._otlp_documents import read_otlp_document
from blamespan_integrations.importers._span_files import JsonSpanFormat, SpanItem

_OTHERS = re.compile(rb'\s*+\{\s*+"(trace|result|batches|data)"')
"""Begins what others wrap OTLP-JSON in."""
_SIGNALS = re.compile(rb'"resource(Spans|Logs|Metrics)"')


class OtlpJsonImporter(JsonSpanFormat):
    """Reads OTLP-JSON lines into runs."""

    name = "otlp-json"
    expected = "OTLP-JSON"
    description = "OTLP-JSON, one document per line; loses nothing. Traces without an agent's step give no run."

    def matches(self, path: Path, head: bytes) -> bool:
        """Return whether the file begins with an object that holds spans, log records or metrics."""
        del path
        start = head[:4_096].lstrip(b"\xef\xbb\xbf \t\r\n[")
        return start.startswith(b"{") and not _OTHERS.match(start) and bool(_SIGNALS.search(start))

    def _read_object(self, value: dict[str, Any], location: str) -> Iterable[SpanItem]:
        return read_otlp_document(value, location)
