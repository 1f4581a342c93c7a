"""OTLP's attributes, and what a span says elsewhere, as Jaeger's tags; pure.

Source: Jaeger's `model/json` (types of tags), and its translator of OTLP, `pkg/translator/jaeger` of the OpenTelemetry
collector (which tags stand for a span's kind, status, scope and state).
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span, Status

from blamespan.otlp.proto import mapping

Tag: TypeAlias = dict[str, Any]
"""`{"key", "type", "value"}`; type is one of `string`, `bool`, `int64`, `float64` and `binary` (base64)."""

KINDS = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}
"""OTLP's numbers of kinds, as Jaeger calls them; 0, unspecified, is no tag."""

NO_SERVICE_NAME = "OTLPResourceNoServiceName"
"""What Jaeger calls the service of spans that name none."""

_STATUSES = {Status.STATUS_CODE_OK: "OK", Status.STATUS_CODE_ERROR: "ERROR"}
_TYPES = {
    "string_value": "string",
    "bool_value": "bool",
    "int_value": "int64",
    "double_value": "float64",
    "bytes_value": "binary",
}
_MAX_EXACT = 2**53 - 1
"""Largest whole number that JavaScript reads as it is written; Jaeger writes others as text."""

_BEFORE = ("otel.scope.name", "otel.scope.version")
OWN: Mapping[str, Callable[[Span, InstrumentationScope], str | bool]] = {
    "otel.scope.name": lambda _, scope: scope.name,
    "otel.scope.version": lambda _, scope: scope.version,
    "span.kind": lambda span, _: KINDS.get(span.kind, ""),
    "otel.status_code": lambda span, _: _STATUSES.get(span.status.code, ""),
    "error": lambda span, _: span.status.code == Status.STATUS_CODE_ERROR,
    "otel.status_description": lambda span, _: span.status.message,
    "w3c.tracestate": lambda span, _: span.trace_state,
}
"""Tags that stand for other fields of a span, and what they are read from; where that is empty there is none."""


def tags_of(attributes: Iterable[KeyValue]) -> list[Tag]:
    """Write attributes; lists and maps become their JSON text."""
    return [_tag(item) for item in attributes]


def tags_of_span(span: Span, scope: InstrumentationScope) -> list[Tag]:
    """Write what a span says: its scope, its attributes, its kind and status, in Jaeger's order."""
    own = {key: read(span, scope) for key, read in OWN.items()}
    every = [_own_tag(key, value) for key, value in own.items() if value]
    scopes = sum(bool(own[key]) for key in _BEFORE)
    return [*every[:scopes], *tags_of(span.attributes), *every[scopes:]]


def service_name(resource: Resource) -> str:
    """Name the service as Jaeger does."""
    names = [item.value.string_value for item in resource.attributes if item.key == "service.name"]
    return (names[-1] if names else "") or NO_SERVICE_NAME


def spans_by_service(groups: Iterable[ResourceSpans]) -> list[tuple[Span, str]]:
    """List spans, each with the name of its service."""
    return [
        (span, name)
        for group in groups
        for name in [service_name(group.resource)]
        for scoped in group.scope_spans
        for span in scoped.spans
    ]


def _own_tag(key: str, value: str | bool) -> Tag:
    return {"key": key, "type": "bool" if isinstance(value, bool) else "string", "value": value}


def _tag(item: KeyValue) -> Tag:
    kind = item.value.WhichOneof("value") or ""
    if kind not in _TYPES:
        return {"key": item.key, "type": "string", "value": _as_text(mapping([item])[item.key])}
    return {"key": item.key, "type": _TYPES[kind], "value": _as_json(getattr(item.value, kind))}


def _as_json(value: str | bool | int | float | bytes) -> str | bool | int | float:
    """Write a value so that JSON, as browsers read it, holds it."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if -_MAX_EXACT <= value <= _MAX_EXACT else str(value)
    return value if math.isfinite(value) else "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _as_text(value: object) -> str:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=_base64)


def _base64(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
