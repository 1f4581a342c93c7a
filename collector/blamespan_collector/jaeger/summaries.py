"""A trace in a line, as the search of Jaeger's UI lists it from 2.19 on; pure.

Source: Jaeger's `querysvc/summary.go` (what is counted) and `apiv3/summaries.go` (the shape).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span, Status

from blamespan_collector.jaeger.conversion import JsonObject
from blamespan_collector.jaeger.tags import service_name


def summarize_trace(groups: Sequence[ResourceSpans]) -> JsonObject:
    """Sum up one trace, at least one span of it.

    The root is the earliest span without a parent; of a trace whose root has not come, the earliest span whose parent
    has not come. Times are Unix nanoseconds in decimal digits: JavaScript reads no such number exactly.
    """
    spans = [
        (span, name)
        for group in groups
        for name in [service_name(group.resource)]
        for scoped in group.scope_spans
        for span in scoped.spans
    ]
    ids = {span.span_id for span, _ in spans}
    orphans = [(span, name) for span, name in spans if any(span.parent_span_id) and span.parent_span_id not in ids]
    roots = [(span, name) for span, name in spans if not any(span.parent_span_id)]
    root, root_service = min(roots or orphans or spans, key=lambda item: item[0].start_time_unix_nano)
    counts = Counter(name for _, name in spans)
    errors = Counter(name for span, name in spans if span.status.code == Status.STATUS_CODE_ERROR)
    return {
        "traceId": root.trace_id.hex(),
        "rootServiceName": root_service,
        "rootOperationName": root.name,
        "minStartTimeUnixNano": str(min(span.start_time_unix_nano for span, _ in spans)),
        "maxEndTimeUnixNano": str(max(_end_ns(span) for span, _ in spans)),
        "spanCount": len(spans),
        "errorSpanCount": errors.total(),
        "orphanSpanCount": len(orphans),
        "services": [
            {"name": name, "spanCount": counts[name], "errorSpanCount": errors[name]} for name in sorted(counts)
        ],
    }


def _end_ns(span: Span) -> int:
    """Return when a span ended; one that has not, or ended before it began, counts as ended when it began."""
    return max(span.start_time_unix_nano, span.end_time_unix_nano)
