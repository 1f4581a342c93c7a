"""OTLP-JSON to OTLP protobuf and back.

OTLP-JSON is protobuf's JSON mapping but for the ids, which are hex instead of base64. Protobuf's own
mapping does the rest: it takes enums as names or numbers, 64-bit integers as strings or numbers, and
ignores unknown fields, as the specification asks of receivers.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.errors import MalformedSpan

__all__ = ["request_from_json", "request_to_json"]

_GROUPS = ("resourceSpans", "resource_spans")
_SCOPED = ("scopeSpans", "scope_spans")
_IDS = ("traceId", "trace_id", "spanId", "span_id", "parentSpanId", "parent_span_id")


def request_from_json(body: bytes | str) -> ExportTraceServiceRequest:
    """Read one OTLP-JSON document.

    Raises:
        MalformedSpan: if it is not JSON, not an object with `resourceSpans`, or a field has the wrong type.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedSpan(f"expected OTLP-JSON, got no JSON: {error}") from error
    if not isinstance(document, dict) or not any(key in document for key in _GROUPS):
        found = sorted(document)[:5] if isinstance(document, dict) else type(document).__name__
        raise MalformedSpan(f"expected an OTLP-JSON object with 'resourceSpans', got {found!r}")
    try:
        _recode_ids(document, _base64_of_hex)
        return json_format.ParseDict(document, ExportTraceServiceRequest(), ignore_unknown_fields=True)
    except (json_format.ParseError, AttributeError, TypeError, ValueError, RecursionError) as error:
        raise MalformedSpan(f"expected OTLP-JSON, got a field that is not: {error}") from error


def request_to_json(request: ExportTraceServiceRequest) -> str:
    """Write one OTLP-JSON document on one line, without a line end."""
    document = json_format.MessageToDict(request, use_integers_for_enums=True)
    _recode_ids(document, _hex_of_base64)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _recode_ids(document: dict[str, Any], recode: Callable[[str], str]) -> None:
    for group in _each(document, _GROUPS):
        for scoped in _each(group, _SCOPED):
            for span in _each(scoped, ("spans",)):
                for owner in (span, *_each(span, ("links",))):
                    for key in _IDS:
                        if key in owner:
                            owner[key] = recode(owner[key])


def _each(owner: dict[str, Any], keys: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yield the objects listed under any of *keys*; null reads as empty, as in protobuf's mapping."""
    for key in keys:
        for item in owner.get(key) or ():
            if not isinstance(item, dict):
                raise TypeError(f"{key!r} must list objects, got {type(item).__name__}")
            yield item


def _base64_of_hex(text: str) -> str:
    try:
        return base64.b64encode(bytes.fromhex(text)).decode()
    except ValueError as error:
        raise ValueError(f"an id must be hex digits, got {text!r}") from error


def _hex_of_base64(text: str) -> str:
    return binascii.a2b_base64(text).hex()
