"""OTLP-JSON lines, as the OpenTelemetry Collector's file exporter and `blamespan collect --out` write them.

Each line is one `{"resourceSpans": [...]}`; the spans of a trace may be spread over many lines. A file
that is one such document over several lines, as people save them, is read too. The format keeps
everything a span has. Lines of `{"resourceLogs": [...]}` among them are read where they hold messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from blamespan.errors import BlamespanError, UnreadableInput
from blamespan.files import read_bytes, read_lines
from blamespan.otlp import request_from_json, spans_from_proto
from blamespan.otlp.logs import are_logs, logs_from_json, message_events, with_events
from blamespan.rebuild import rebuild_run
from blamespan.recorded import RecordedRun
from blamespan.runs import split_runs
from blamespan.spans import Span, SpanEvent

__all__ = ["OtlpJsonImporter"]


class OtlpJsonImporter:
    """Reads OTLP-JSON lines into runs."""

    name = "otlp-json"
    description = "OTLP-JSON, one document per line; loses nothing. Traces without an agent's step give no run."

    def matches(self, path: Path, head: bytes) -> bool:
        """Tell whether the first line is, or begins like, an object with `resourceSpans` or log records."""
        del path
        is_object = head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
        return is_object and (b'"resourceSpans"' in head[:4_096] or are_logs(head))

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield every run, in the order in which the traces begin; bad lines first, as errors in their place.

        The whole file is held in memory: a trace may be spread over all of it.

        Raises:
            UnreadableInput: if the file cannot be opened or is cut off.
        """
        traces: dict[str, list[Span]] = defaultdict(list)
        events: dict[tuple[str, str], list[SpanEvent]] = defaultdict(list)
        for source, document in _documents(path):
            try:
                if are_logs(document):
                    for key, told in message_events(logs_from_json(document).resource_logs).items():
                        events[key] += told
                    continue
                for span in spans_from_proto(request_from_json(document).resource_spans):
                    traces[span.trace_id].append(span)
            except BlamespanError as error:
                yield UnreadableInput(f"{source}: {error}")
        for trace_id, spans in traces.items():
            yield from self._runs(f"{path}:{trace_id}", with_events(spans, events))

    def _runs(self, source: str, spans: list[Span]) -> Iterator[RecordedRun | UnreadableInput]:
        try:
            for run in split_runs(spans):
                yield RecordedRun(source, rebuild_run(run))
        except BlamespanError as error:
            yield UnreadableInput(f"{source}: {error}")


def _documents(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield every document with its place: each line, or the whole file where its first line is not one."""
    for number, line in read_lines(path):
        if number == 1 and line.strip() in (b"{", b"["):
            yield str(path), read_bytes(path)
            return
        yield f"{path}:{number}", line
