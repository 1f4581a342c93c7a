"""Spans of a stored request, as far as they can be read."""

from __future__ import annotations

import logging

from blamespan.errors import MalformedSpan
from blamespan.spans import Span
from blamespan_collector.wire.raw_spans import RawSpan, raw_spans, read

_logger = logging.getLogger("blamespan.collector")


def read_what_can_be(payload: bytes) -> list[tuple[RawSpan, Span]]:
    """Read a serialised `ExportTraceServiceRequest`; a span that cannot be read is left out, and told to the log."""
    try:
        every = list(raw_spans(payload))
    except MalformedSpan as error:
        _logger.warning("spans cannot be shown: %s", error)
        return []
    try:
        return list(zip(every, read(every), strict=True))
    except MalformedSpan:  # one of them is to blame: each alone, then
        return [(raw, span) for raw in every for span in _alone(raw)]


def _alone(raw: RawSpan) -> list[Span]:
    try:
        return read([raw])
    except MalformedSpan as error:
        _logger.warning("a span cannot be shown: %s", error)
        return []
