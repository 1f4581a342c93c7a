"""Reads OTLP-JSON requests of every signal into protobuf.

OTLP-JSON is protobuf's JSON mapping but for the ids of traces and spans, which are hex instead of base64.
"""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf import json_format

from blamespan.errors import MalformedSpan
from blamespan.json_text import parse_deep_json
from blamespan.otlp.json import request_from_document
from blamespan_collector.receiving.signals import OtlpService

MAX_JSON_BYTES = 16 * 1024 * 1024
"""Largest JSON body: as objects it takes some 20 times its size, for the time of one request."""
_MAX_VALUES = 2_000_000
_MAX_DEPTH = 100
"""As protobuf's own limit for its binary form."""
_IDS = frozenset(("traceId", "trace_id", "spanId", "span_id"))
_HOLDS_NO_IDS = frozenset(("attributes", "filteredAttributes", "filtered_attributes", "body", "resource", "scope"))
"""What is in there was said by the program: a key that reads like an id's is none."""


def protobuf_of_json(body: bytes, service: OtlpService) -> bytes:
    """Read an OTLP-JSON request and write it as protobuf: a request without data as no bytes.

    Raises:
        MalformedSpan: if it is not one, or holds more than we are willing to read.
    """
    values = body.count(b",") + body.count(b"[") + body.count(b"{")
    if len(body) > MAX_JSON_BYTES or values > _MAX_VALUES:
        raise MalformedSpan(
            f"expected OTLP-JSON of at most {MAX_JSON_BYTES} bytes and {_MAX_VALUES} values, got {len(body)} bytes and "
            f"up to {values} values. Send smaller batches, or protobuf"
        )
    try:
        document = parse_deep_json(body)
    except ValueError as error:
        raise MalformedSpan(f"expected OTLP-JSON, got no JSON: {error}") from error
    if document == {}:
        return b""  # as protobuf's mapping writes a request without data
    if service.signal == "traces":
        return request_from_document(document).SerializeToString()
    if not isinstance(document, dict) or not any(key in document for key in service.groups):
        content = sorted(document)[:5] if isinstance(document, dict) else type(document).__name__
        raise MalformedSpan(f"expected an OTLP-JSON object with {service.groups[0]!r}, got {content!r}")
    try:
        _recode_ids(document, 0)
        return json_format.ParseDict(document, service.request(), ignore_unknown_fields=True).SerializeToString()
    except (json_format.ParseError, AttributeError, TypeError, ValueError, RecursionError) as error:
        raise MalformedSpan(f"expected OTLP-JSON, got a field that is not: {error}") from error


def _recode_ids(value: Any, depth: int) -> None:  # whatever JSON holds
    if depth > _MAX_DEPTH:
        raise ValueError(f"nested more than {_MAX_DEPTH} deep")
    if isinstance(value, list):
        for item in value:
            _recode_ids(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in _IDS and isinstance(item, str):
                value[key] = base64.b64encode(bytes.fromhex(item)).decode()
            elif key not in _HOLDS_NO_IDS:
                _recode_ids(item, depth + 1)
