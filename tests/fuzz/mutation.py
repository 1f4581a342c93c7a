"""Changes inputs: bytes as bytes, and OTLP trace requests as what they mean. The same random state, the same change."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

MAX_INPUT_BYTES = 64 * 1024
_HOSTILE_NUMBERS = (0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))
_HOSTILE_TEXTS = (
    *("", "null", "[]", "{}", "[[]]", "[{}]", "\x00", "\ud7ff", "\x1b[31m", "NaN", "1e999", "-", "a" * 3000),
    '{"messages": 1}',
    '[{"role": 1, "parts": {}}]',
    '[{"role": "assistant", "parts": [{"type": "text", "content": null}, 7]}]',
    '{"generations": [[{"message": {"kwargs": []}}]]}',
    "[" * 2000,
    '{"a":' * 2000,
)
_INTERESTING = (b"\x00", b"\xff", b"\x7f", b"\x80", b"\x0a", b"\x12", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")

Change = Callable[[Random, bytes], bytes]


def mutate(data: bytes, random: Random, max_bytes: int = MAX_INPUT_BYTES) -> bytes:
    """Make an input that differs from *data* in one to four places."""
    for _ in range(random.choice((1, 1, 2, 4))):
        data = random.choice(_CHANGES)(random, data)
    return data[:max_bytes]


def mutate_spans(data: bytes, random: Random, max_bytes: int = MAX_INPUT_BYTES) -> bytes:
    """Change the spans of an OTLP request, and keep it one; bytes that are none are changed as bytes."""
    try:
        request = ExportTraceServiceRequest.FromString(data)
    except DecodeError:
        return mutate(data, random, max_bytes)
    spans = [span for group in request.resource_spans for scope in group.scope_spans for span in scope.spans]
    if not spans or random.random() < 0.05:
        return mutate(data, random, max_bytes)
    for _ in range(random.choice((1, 2, 5))):
        random.choice(_SPAN_CHANGES)(random, random.choice(spans), random.choice(spans))
    changed = request.SerializeToString()
    return changed if len(changed) <= max_bytes else data[:max_bytes]


def _flip(random: Random, data: bytes) -> bytes:
    if not data:
        return random.randbytes(4)
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]


def _cut_out(random: Random, data: bytes) -> bytes:
    at, size = random.randint(0, len(data)), random.randint(1, 1 + len(data) // 4)
    return data[:at] + data[at + size :]


def _put_in(random: Random, data: bytes) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + random.choice((random.choice(_INTERESTING), random.randbytes(random.randint(1, 8)))) + data[at:]


def _repeat(random: Random, data: bytes) -> bytes:
    at, size = random.randint(0, len(data)), random.randint(1, 1 + len(data) // 4)
    return data[:at] + data[at : at + size] * random.randint(2, 5) + data[at:]


def _write_text(random: Random, data: bytes) -> bytes:
    at, text = random.randint(0, len(data)), random.choice(_HOSTILE_TEXTS).encode("utf-8", "replace")
    return data[:at] + text + data[at + len(text) :]


def _cut_off(random: Random, data: bytes) -> bytes:
    return data[: random.randint(0, len(data))]


_CHANGES: tuple[Change, ...] = (_flip, _flip, _cut_out, _put_in, _put_in, _repeat, _write_text, _cut_off)


def _text_elsewhere(random: Random, span: Span, other: Span) -> None:
    for attribute in _some(random, span):
        attribute.value.string_value = random.choice(_HOSTILE_TEXTS).replace("\ud7ff", "?")


def _another_type(random: Random, span: Span, other: Span) -> None:
    for attribute in _some(random, span):
        attribute.value.CopyFrom(_value(random, 0))


def _value(random: Random, depth: int) -> AnyValue:
    kind = random.randrange(8)
    if kind < 2:
        return AnyValue(int_value=random.choice(_HOSTILE_NUMBERS))
    if kind == 2:
        return AnyValue(double_value=random.choice((float("nan"), float("inf"), -0.0, 1e308)))
    if kind == 3:
        return AnyValue(bool_value=random.random() < 0.5)
    if kind == 4:
        return AnyValue(bytes_value=random.randbytes(3))
    if kind == 5 or depth > 3:
        return AnyValue()
    value = AnyValue()
    if kind == 6:
        value.array_value.values.extend(_value(random, depth + 1) for _ in range(random.randrange(3)))
    else:
        value.kvlist_value.values.extend(KeyValue(key=str(i), value=_value(random, depth + 1)) for i in range(2))
    return value


def _break_json(random: Random, span: Span, other: Span) -> None:
    """Change one place inside a JSON attribute, so that it stays JSON: what dialects read is mostly that."""
    for attribute in _some(random, span):
        try:
            read = json.loads(attribute.value.string_value)
            attribute.value.string_value = json.dumps(_changed(random, read, 0))
        except (ValueError, RecursionError):
            continue


def _changed(random: Random, value: object, depth: int) -> object:
    if isinstance(value, dict) and value and depth < 20 and random.random() < 0.9:
        key = random.choice(list(value))
        return {**value, key: _changed(random, value[key], depth + 1)}
    if isinstance(value, list) and value and depth < 20 and random.random() < 0.9:
        at = random.randrange(len(value))
        return [*value[:at], _changed(random, value[at], depth + 1), *value[at + 1 :]]
    return random.choice((None, 1, -1.5, True, "", "x", [], {}, [None], {"": None}, [[1]], 10**30))


def _other_key(random: Random, span: Span, other: Span) -> None:
    keys = [attribute.key for attribute in other.attributes]
    for attribute in _some(random, span):
        attribute.key = random.choice(keys) if keys else "k"


def _take_attributes(random: Random, span: Span, other: Span) -> None:
    span.attributes.extend(KeyValue.FromString(one.SerializeToString()) for one in list(_some(random, other)))


def _drop_attribute(random: Random, span: Span, other: Span) -> None:
    if span.attributes:
        del span.attributes[random.randrange(len(span.attributes))]


def _re_hang(random: Random, span: Span, other: Span) -> None:
    span.parent_span_id = random.choice((other.span_id, span.span_id, b"", random.randbytes(8)))


def _same_id(random: Random, span: Span, other: Span) -> None:
    span.span_id = other.span_id


def _other_time(random: Random, span: Span, other: Span) -> None:
    span.start_time_unix_nano = random.choice((0, 1, 2**64 - 1, 2**63, other.end_time_unix_nano))


def _other_name(random: Random, span: Span, other: Span) -> None:
    span.name = random.choice((other.name, "", "autogen process x", "invoke_agent", "x" * 300, "\x1b[2J"))


def _event(random: Random, span: Span, other: Span) -> None:
    event = span.events.add(name=random.choice(("exception", "gen_ai.user.message", "gen_ai.choice", "")))
    event.attributes.extend(KeyValue.FromString(one.SerializeToString()) for one in list(_some(random, other)))


def _some(random: Random, span: Span) -> list[KeyValue]:
    return [attribute for attribute in span.attributes if random.random() < 0.3]


_SPAN_CHANGES: tuple[Callable[[Random, Span, Span], None], ...] = (
    *(_text_elsewhere, _another_type, _break_json, _break_json, _other_key, _take_attributes),
    *(_drop_attribute, _re_hang, _same_id, _other_time, _other_name, _event),
)
