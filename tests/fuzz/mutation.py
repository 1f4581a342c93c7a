"""Changes inputs: bytes as bytes, and OTLP trace requests as what they mean. The same random state, the same change."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from google.protobuf.message import DecodeError, EncodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

from blamespan_collector.wire.protobuf import FieldBudget, delimit, split, tag_of

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
    *(
        '"\\ud800"',
        '{"role":"assistant","content":"\\udc00"}',
        "\u2028\u202e</script>",
        "a\x00b",
        "\uffff",
        "%00",
        "1" * 400,
    ),
)
_INTERESTING = (b"\x00", b"\xff", b"\x7f", b"\x80", b"\x0a", b"\x12", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")

_UNKNOWN = (
    b"\xfa\x3e\x03new",
    b"\xa3\x06\x08\x01\xa4\x06",
    b"\xa3\x06" * 60 + b"\xa4\x06" * 60,
    b"\xa5\x06\0\0\0\0",
    b"\xf8\x3e\x01",
)
"""Fields that no version of OTLP has: text, groups, numbers."""
_VERDICT_WORDS = (
    *("blamespan.blame.score", "blamespan.blame.rank", "blamespan.error.mode", "blamespan.failure.score"),
    *(
        "blamespan.tracer.name",
        "blamespan.revision",
        "blamespan.abstained",
        "blamespan.evidence",
        "blamespan.step.index",
    ),
    *("blamespan.run.complete", "blamespan.run.outcome", "blamespan.step.kind", "gen_ai.operation.name"),
)

Change = Callable[[Random, bytes], bytes]


def mutate(data: bytes, random: Random, max_bytes: int = MAX_INPUT_BYTES) -> bytes:
    """Make an input that differs from *data* in one to four places."""
    for _ in range(random.choice((1, 1, 2, 4))):
        data = random.choice(_CHANGES)(random, data)
    return data[:max_bytes]


def mutate_json(data: bytes, random: Random, max_bytes: int = MAX_INPUT_BYTES) -> bytes:
    """Change places inside a JSON document, so that it stays one; bytes that are none are changed as bytes."""
    try:
        document = json.loads(data)
        for _ in range(random.choice((1, 2, 5))):
            document = _changed(random, document, 0)
        changed = json.dumps(document).encode()
    except (ValueError, RecursionError):
        return mutate(data, random, max_bytes)
    return changed if len(changed) <= max_bytes and random.random() > 0.1 else mutate(data, random, max_bytes)


def mutate_any(data: bytes, random: Random, max_bytes: int = MAX_INPUT_BYTES) -> bytes:
    """Change JSON as JSON, and everything else as spans."""
    return (mutate_json if data[:1] == b"{" else mutate_spans)(data, random, max_bytes)


def mutate_spans(data: bytes, random: Random, max_bytes: int = MAX_INPUT_BYTES) -> bytes:
    """Change the spans of an OTLP request, and keep it one; bytes that are none are changed as bytes."""
    try:
        request = ExportTraceServiceRequest.FromString(data)
    except DecodeError:
        return mutate(data, random, max_bytes)
    spans = [span for group in request.resource_spans for scope in group.scope_spans for span in scope.spans]
    if not spans or random.random() < 0.05:
        return mutate(data, random, max_bytes)
    try:
        for _ in range(random.choice((1, 2, 5))):
            random.choice(_SPAN_CHANGES)(random, random.choice(spans), random.choice(spans))
        if random.random() < 0.1:
            _change_group(random, random.choice(request.resource_spans))
        changed = request.SerializeToString()
    except (DecodeError, EncodeError):  # nested more than protobuf's hundred deep
        return mutate(data, random, max_bytes)
    if random.random() < 0.2:
        changed = _rewired(random, changed, 0)
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


def _nest(random: Random, span: Span, other: Span) -> None:
    """Put values in each other, about as deep as one of the limits."""
    value = _value(random, 0)
    for _ in range(random.choice((5, 18, 19, 20, 28, 29, 30, 32, 46, 48, 49))):
        if value.ByteSize() > 2000:
            break
        if random.random() < 0.7:
            value = AnyValue(array_value=ArrayValue(values=[value]))
        else:
            value = AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key="k", value=value)]))
    for owner in _owners(random, span):
        owner.attributes.add(key=random.choice(("k", *(one.key for one in span.attributes)))).value.CopyFrom(value)


def _owners(random: Random, span: Span) -> list[Span | Span.Event | Span.Link]:
    return [random.choice((span, *list(span.events)[:3], *list(span.links)[:3]))]


def _odd_attribute(random: Random, span: Span, other: Span) -> None:
    """Add an attribute without a key or a value, under a key that stands there already, or one of a verdict."""
    keys = ("", "\x00", "k", *_VERDICT_WORDS, *(one.key for one in span.attributes))
    for owner in _owners(random, span):
        attribute = owner.attributes.add(key=random.choice(keys))
        if random.random() < 0.9:
            attribute.value.CopyFrom(_value(random, 0))


def _link(random: Random, span: Span, other: Span) -> None:
    to = random.choice((span, other))
    link = span.links.add(
        trace_id=random.choice((to.trace_id, b"", bytes(16), b"short")),
        span_id=random.choice((to.span_id, b"", bytes(8), random.randbytes(9))),
    )
    link.attributes.add(key="blamespan.link.step").value.CopyFrom(_value(random, 0))


def _unknown_number(random: Random, span: Span, other: Span) -> None:
    """Set what newer or broken senders may set."""
    number = random.choice((-1, 6, 99, 2**31 - 1, -(2**31)))
    if random.random() < 0.5:
        span.MergeFromString(b"\x30" + _varint(number))  # kind
    else:
        span.MergeFromString(delimit(0x7A, b"\x18" + _varint(number)))  # status' code
    span.flags = random.choice((0, 0x100, 0x300, 2**32 - 1))
    span.dropped_attributes_count = random.choice((0, 2**32 - 1))


def _unknown_field(random: Random, span: Span, other: Span) -> None:
    span.MergeFromString(random.choice(_UNKNOWN))


def _cycle(random: Random, span: Span, other: Span) -> None:
    span.parent_span_id, other.parent_span_id = other.span_id, span.span_id


def _other_trace(random: Random, span: Span, other: Span) -> None:
    span.trace_id = random.choice((other.trace_id, b"\xff" * 16, b"\x00" * 15 + b"\x01", random.randbytes(16)))


def _change_group(random: Random, group: ResourceSpans) -> None:
    """Change the resource or the scope, for all spans below."""
    owner = random.choice((group.resource, *(scoped.scope for scoped in group.scope_spans)))
    if random.random() < 0.3:
        del owner.attributes[:]
    for attribute in list(owner.attributes) or [owner.attributes.add(key="service.name")]:
        attribute.value.CopyFrom(_value(random, 0))
        if random.random() < 0.5:
            attribute.value.string_value = random.choice(_HOSTILE_TEXTS).replace("\ud7ff", "?")
    for scoped in group.scope_spans:
        if random.random() < 0.5:
            scoped.scope.name = random.choice(("blamespan.verdict", "", "\x00", "x" * 300))


def _rewired(random: Random, message: bytes, depth: int) -> bytes:
    """Write one field of a message otherwise, at any depth: twice, under a longer tag or length, beside a group."""
    number = random.choice((1, 2, 2, 2, 5, 9, 11))
    try:
        fields, _ = split(message, 0, len(message), tag_of(number), FieldBudget(10_000))
    except ValueError:
        return message
    if not fields:
        return random.choice(_UNKNOWN) + message if random.random() < 0.5 else message
    at = random.choice(fields)
    content = message[at.content : at.end]
    if depth < 8 and random.random() < 0.75:
        inner = delimit(tag_of(number), _rewired(random, content, depth + 1))
    else:
        whole = message[at.start : at.end]
        zeros = b"\x80" * random.randrange(9)
        tag, size = bytes((tag_of(number) | 0x80,)), _varint(len(content))
        inner = random.choice(
            (
                whole + whole,
                tag + zeros + b"\x00" + size + content,
                bytes((tag_of(number),)) + size[:-1] + bytes((size[-1] | 0x80,)) + zeros + b"\x00" + content,
                random.choice(_UNKNOWN) + whole,
                bytes((number << 3,)) + b"\x05" + whole,
                bytes((number << 3 | 3,)) + content + bytes((number << 3 | 4,)) + whole,
            )
        )
    return message[: at.start] + inner + message[at.end :]


def _varint(number: int) -> bytes:
    number &= 2**64 - 1
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


def _same_id(random: Random, span: Span, other: Span) -> None:
    span.span_id = other.span_id


def _other_time(random: Random, span: Span, other: Span) -> None:
    times = (0, 1, 2**64 - 1, 2**63, 2**63 - 1, other.start_time_unix_nano, other.end_time_unix_nano)
    span.start_time_unix_nano = random.choice(times)
    if random.random() < 0.5:
        span.end_time_unix_nano = random.choice(times)
    for event in span.events:
        event.time_unix_nano = random.choice(times)


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
    *(_nest, _odd_attribute, _link, _unknown_number, _unknown_field, _cycle, _other_trace),
)
