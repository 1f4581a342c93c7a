"""OTLP-JSON documents as exporters write them, read straight into protobuf: several times as fast as by reflection.

Only what is exactly as the specification writes it is read here: known names, values of the expected types. At anything
else (older names, `null`, enums by name, bytes, deep nesting, what is wrong) the whole document is left to protobuf's
own mapping, which is the reference; so both give the same message or the same error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
    KeyValueList,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

_WHOLE = re.compile(r"-?[0-9]{1,19}")
_MAX_DEPTH = 16
"""Of values in values: protobuf's mapping refuses what is nested a hundred deep."""


class _Unusual(Exception):
    """Not an error: it is read another way."""


def plain_request(document: Any) -> ExportTraceServiceRequest | None:
    """Read a parsed document; None where it has anything unusual. The document stays as it is."""
    try:
        return _REQUEST(document)  # type: ignore[no-any-return]
    except (_Unusual, ValueError, TypeError, OverflowError):
        return None


def _text(value: Any) -> str:
    return value if type(value) is str else _unusual()


def _whole(value: Any) -> int:
    """Read an integer; what does not fit its field is refused when it is set."""
    if type(value) is int:
        return value
    return int(value) if type(value) is str and _WHOLE.fullmatch(value) else _unusual()


def _count(value: Any) -> int:
    return value if type(value) is int else _unusual()


def _bytes_of_hex(value: Any) -> bytes:
    return bytes.fromhex(value) if type(value) is str else _unusual()


def _unusual() -> NoReturn:
    raise _Unusual


def _list_of(read: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def read_list(value: Any) -> list[Any]:
        if type(value) is not list:
            _unusual()
        return [read(item) for item in value]

    return read_list


def _message(message_type: Callable[..., Any], /, **fields: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make a reader of objects whose members are *fields*, by their names in protobuf; in JSON they are camelCase."""
    readers = {_camel(name): (name, read) for name, read in fields.items()}

    def read_message(value: Any) -> Any:
        if type(value) is not dict:
            _unusual()
        values = {}
        for key, item in value.items():
            reader = readers.get(key)
            if reader is None:
                _unusual()
            values[reader[0]] = reader[1](item)
        return message_type(**values)

    return read_message


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(map(str.capitalize, rest))


def _attributes(value: Any, depth: int = 0) -> list[KeyValue]:
    if type(value) is not list or depth > _MAX_DEPTH:
        _unusual()
    attributes = []
    for item in value:
        if type(item) is not dict or len(item) != 2 or "key" not in item or "value" not in item:
            _unusual()
        attributes.append(KeyValue(key=_text(item["key"]), value=_value(item["value"], depth)))
    return attributes


def _value(value: Any, depth: int) -> AnyValue:
    if type(value) is not dict or len(value) > 1:
        _unusual()
    for kind, plain in value.items():
        if kind == "stringValue":
            return AnyValue(string_value=_text(plain))
        if kind == "intValue":
            return AnyValue(int_value=_whole(plain))
        if kind == "boolValue":
            return AnyValue(bool_value=plain if type(plain) is bool else _unusual())
        if kind == "doubleValue":
            return AnyValue(double_value=plain if type(plain) is float and math.isfinite(plain) else _unusual())
        if kind == "arrayValue":
            return AnyValue(array_value=ArrayValue(values=[_value(item, depth + 1) for item in _values(plain, depth)]))
        if kind == "kvlistValue":
            return AnyValue(kvlist_value=KeyValueList(values=_attributes(_values(plain, depth), depth + 1)))
        _unusual()
    return AnyValue()


def _values(value: Any, depth: int) -> list[Any]:
    """Get the members of a list or an object, which an empty one need not have."""
    if type(value) is not dict or depth > _MAX_DEPTH:
        _unusual()
    if not value:
        return []
    values = value.get("values")
    return values if type(values) is list and len(value) == 1 else _unusual()


_EVENT = _message(
    Span.Event, time_unix_nano=_whole, name=_text, attributes=_attributes, dropped_attributes_count=_count
)
_LINK = _message(
    Span.Link,
    trace_id=_bytes_of_hex,
    span_id=_bytes_of_hex,
    trace_state=_text,
    attributes=_attributes,
    dropped_attributes_count=_count,
    flags=_count,
)
_SPAN = _message(
    Span,
    trace_id=_bytes_of_hex,
    span_id=_bytes_of_hex,
    trace_state=_text,
    parent_span_id=_bytes_of_hex,
    flags=_count,
    name=_text,
    kind=_count,
    start_time_unix_nano=_whole,
    end_time_unix_nano=_whole,
    attributes=_attributes,
    dropped_attributes_count=_count,
    events=_list_of(_EVENT),
    dropped_events_count=_count,
    links=_list_of(_LINK),
    dropped_links_count=_count,
    status=_message(Status, message=_text, code=_count),
)
_SCOPE = _message(
    InstrumentationScope, name=_text, version=_text, attributes=_attributes, dropped_attributes_count=_count
)
_RESOURCE = _message(Resource, attributes=_attributes, dropped_attributes_count=_count)
_REQUEST = _message(
    ExportTraceServiceRequest,
    resource_spans=_list_of(
        _message(
            ResourceSpans,
            resource=_RESOURCE,
            scope_spans=_list_of(_message(ScopeSpans, scope=_SCOPE, spans=_list_of(_SPAN), schema_url=_text)),
            schema_url=_text,
        )
    ),
)
