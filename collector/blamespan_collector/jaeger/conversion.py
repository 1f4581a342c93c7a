"""A trace as Jaeger's UI reads it, whole or in a line, made of OTLP; pure.

Source: Jaeger's `model/json` (the shape), its translator of OTLP (references, logs, processes), `TraceID.String`
(ids of 64 bits are written with 16 digits), and for a line `querysvc/summary.go` and `apiv3/summaries.go`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span, Status

from blamespan import conventions as words
from blamespan.otlp.proto import mapping
from blamespan.spans import Attributes
from blamespan_collector.jaeger.tags import service_name, spans_by_service, tags_of, tags_of_span

JsonObject: TypeAlias = dict[str, Any]

_OURS = "blamespan."
_REF_TYPE = "opentracing.ref_type"
_NS_PER_US = 1_000


def groups_of(payload: bytes) -> Sequence[ResourceSpans]:
    """Read a stored trace; a span that was sent twice is still there twice."""
    return ExportTraceServiceRequest.FromString(payload).resource_spans


def without_repeats(groups: Sequence[ResourceSpans]) -> Sequence[ResourceSpans]:
    """Take spans out of a trace that came before under the same id."""
    seen: set[bytes] = set()
    for scoped in (scoped for group in groups for scoped in group.scope_spans):
        kept: dict[bytes, Span] = {}
        for span in scoped.spans:
            if span.span_id not in seen:
                kept.setdefault(span.span_id, span)
        if len(kept) < len(scoped.spans):
            del scoped.spans[:]
            scoped.spans.extend(kept.values())
        seen.update(kept)
    return groups


def ui_trace(groups: Iterable[ResourceSpans]) -> JsonObject:
    """Write one trace, at least one span of it, as Jaeger's UI reads it."""
    processes: dict[str, JsonObject] = {}
    names: dict[str, str] = {}
    spans: list[JsonObject] = []
    for group in groups:
        process = _process(group.resource)
        name = names.setdefault(repr(process), f"p{len(names) + 1}")
        processes[name] = process
        spans += [_span(span, scoped.scope, name) for scoped in group.scope_spans for span in scoped.spans]
    return {"traceID": spans[0]["traceID"], "spans": spans, "processes": processes, "warnings": None}


def trace_id_text(trace_id: str) -> str:
    """Write 32 hex digits as Jaeger does: 16 where the first half is zero."""
    return trace_id.removeprefix("0" * 16)


def _process(resource: Resource) -> JsonObject:
    tags = tags_of(item for item in resource.attributes if item.key != "service.name")
    return {"serviceName": service_name(resource), "tags": tags}


def _span(span: Span, scope: InstrumentationScope, process: str) -> JsonObject:
    start_ns, end_ns = span.start_time_unix_nano, span.end_time_unix_nano
    return {
        "traceID": trace_id_text(span.trace_id.hex()),
        "spanID": span.span_id.hex(),
        "operationName": span.name,
        "references": _references(span),
        "startTime": start_ns // _NS_PER_US,
        "duration": max(0, end_ns - start_ns) // _NS_PER_US,
        "tags": tags_of_span(span, scope),
        "logs": [_log(event) for event in span.events],
        "processID": process,
        "warnings": _warnings(span) or None,
    }


def _references(span: Span) -> list[JsonObject]:
    """List the parent, which Jaeger wants first, and the links."""
    parent = [_reference("CHILD_OF", span.trace_id, span.parent_span_id)] if any(span.parent_span_id) else []
    return parent + [_reference(_ref_type(link), link.trace_id, link.span_id) for link in span.links]


def _reference(ref_type: str, trace_id: bytes, span_id: bytes) -> JsonObject:
    return {"refType": ref_type, "traceID": trace_id_text(trace_id.hex()), "spanID": span_id.hex()}


def _ref_type(link: Span.Link) -> str:
    types = [item.value.string_value for item in link.attributes if item.key == _REF_TYPE]
    return "CHILD_OF" if "child_of" in types else "FOLLOWS_FROM"


def _log(event: Span.Event) -> JsonObject:
    fields = tags_of(event.attributes)
    if event.name and not any(field["key"] == "event" for field in fields):
        fields.insert(0, {"key": "event", "type": "string", "value": event.name})
    return {"timestamp": event.time_unix_nano // _NS_PER_US, "fields": fields}


def _warnings(span: Span) -> list[str]:
    """Warn that a span is the decisive step and of what, or why its run has no verdict; empty for any other span."""
    ours = [item for item in span.attributes if item.key.startswith(_OURS)]
    attributes = mapping(ours)
    warnings = []
    if attributes.get(words.BLAME_DECISIVE) is True:
        warnings.append(_decisive(attributes))
    reason = attributes.get(words.ABSTAINED)
    if isinstance(reason, str):
        warnings.append(f"blamespan: no verdict, {reason}")
    return warnings


def _decisive(attributes: Attributes) -> str:
    """Word it: `blamespan: decisive step 3 with 0.57 of the blame, FM-2.6 Reasoning-action mismatch (mast), 0.81`."""
    step, share = attributes.get(words.STEP_INDEX), attributes.get(words.BLAME_SCORE)
    code, name, taxonomy = (attributes.get(key) for key in (words.ERROR_MODE, words.ERROR_NAME, words.ERROR_TAXONOMY))
    score = attributes.get(words.ERROR_SCORE)
    return "".join(
        (
            "blamespan: decisive step",
            f" {step}" if isinstance(step, int) else "",
            f" with {share:.2f} of the blame" if isinstance(share, int | float) else "",
            f", {code} {name} ({taxonomy})" if all(isinstance(text, str) for text in (code, name, taxonomy)) else "",
            f", {score:.2f}" if isinstance(score, int | float) else "",
        )
    )


def summarize_trace(groups: Sequence[ResourceSpans]) -> JsonObject:
    """Sum up one trace, at least one span of it.

    The root is the earliest span without a parent; of a trace whose root has not come, the earliest span whose parent
    has not come. Times are Unix nanoseconds in decimal digits: JavaScript reads no such number exactly.
    """
    spans = spans_by_service(groups)
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
