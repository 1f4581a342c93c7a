"""OTLP protobuf: requests or traces as they are sent, and the length-prefixed files of the Collector's file exporter.

With `format: proto` the exporter writes each message behind its length in four bytes; with `compression: zstd`, older
releases write each message, JSON too, as a Zstandard frame behind its length, and newer ones compress the whole file.
Source: opentelemetry-collector-contrib, `exporter/fileexporter`.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from google.protobuf.message import DecodeError
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, TracesData

from blamespan.errors import BlamespanError, UnreadableInput
from blamespan.importing.files import MAX_LINE_BYTES, ZSTD_MAGIC, open_bytes, read_errors, unzstd
from blamespan.json_text import parse_json
from blamespan_integrations.importers._otlp_documents import read_otlp_document, read_span_groups
from blamespan_integrations.importers._span_files import SpanFormat, SpanItem

_PREFIX_BYTES = 4
_GROUP_TAG = 0x0A
"""Begins each `ResourceSpans` of a request or of traces: field 1, of known length."""
_GROUP_FIELDS = (0x0A, 0x12, 0x1A)
"""What a `ResourceSpans` may begin with: its resource, its scopes or its schema."""


class OtlpProtoImporter(SpanFormat):
    """Reads `ExportTraceServiceRequest`, `TracesData` and Tempo's `Trace`, alone, in a row, or behind their lengths."""

    name = "otlp-proto"
    description = (
        "OTLP protobuf: requests, traces, Tempo's answers, or the Collector's length-prefixed files; loses nothing"
    )

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the first bytes: a group of spans, or a length and a message behind it."""
        del path
        return _begins_group(head) or _begins_frame(head)

    def _read_items(self, path: Path) -> Iterable[SpanItem]:
        return _read_items(path)


def _read_items(path: Path) -> Iterator[SpanItem]:
    with open_bytes(path) as file, read_errors(path):
        start = file.read(_PREFIX_BYTES)
        is_plain = start[:1] == bytes([_GROUP_TAG])
        yield from _read_fields(path, file, start) if is_plain else _read_frames(path, file, start)


def _read_frames(path: Path, file: io.BufferedIOBase, prefix: bytes) -> Iterator[SpanItem]:
    at = 0
    while prefix:
        location = f"{path}@{at}"
        size = int.from_bytes(prefix, "big")
        if len(prefix) < _PREFIX_BYTES or not 0 < size <= MAX_LINE_BYTES:
            raise UnreadableInput(
                f"{location}: expected the length of a message, at most {MAX_LINE_BYTES}, in four bytes, "
                f"got {prefix!r}. "
                "What follows cannot be read."
            )
        message = file.read(size)
        if len(message) < size:
            raise UnreadableInput(
                f"{location}: expected a message of {size} bytes, got {len(message)}: the file is cut off"
            )
        yield from _read_message(message, location)
        at += _PREFIX_BYTES + size
        prefix = file.read(_PREFIX_BYTES)


def _read_message(message: bytes, location: str) -> Iterator[SpanItem]:
    try:
        plain = unzstd(message) if message.startswith(ZSTD_MAGIC) else message
        if plain.lstrip()[:1] == b"{":
            yield from read_otlp_document(parse_json(plain), location)
        else:
            yield from read_span_groups(_traces(plain).resource_spans, location)
    except (BlamespanError, DecodeError, ValueError) as error:
        yield UnreadableInput(f"{location}: expected an OTLP message, got {message[:20]!r} ({error})")


def _read_fields(path: Path, file: io.BufferedIOBase, start: bytes) -> Iterator[SpanItem]:
    """Read one group of spans after the other: the file as a whole may be larger than memory."""
    source = _Fields(path, file, start)
    while (field := source.next()) is not None:
        location, number, content = field
        if number != 1:
            continue
        try:
            group = ResourceSpans.FromString(content)
            groups = [group] if group.scope_spans else list(TracesData.FromString(content).resource_spans)
            yield from read_span_groups(groups, location)
        except DecodeError as error:
            yield UnreadableInput(f"{location}: expected a group of spans, got {content[:20]!r} ({error})")


def _traces(message: bytes) -> TracesData:
    """Read a request or traces; Tempo's answer holds its trace in a field of the same number, a level deeper."""
    traces = TracesData.FromString(message)
    if any(group.scope_spans for group in traces.resource_spans):
        return traces
    inner = TracesData()
    for group in traces.resource_spans:
        inner.MergeFromString(group.SerializeToString())
    return inner


class _Fields:
    """The outermost fields of a protobuf message, read one after the other."""

    def __init__(self, path: Path, file: io.BufferedIOBase, start: bytes) -> None:
        self._path = path
        self._file = file
        self._start = start
        self._at = 0

    def next(self) -> tuple[str, int, bytes] | None:
        """Read the next field's place, number and content; None at the file's end.

        Raises:
            UnreadableInput: if there is none, or it is too long.
        """
        location = f"{self._path}@{self._at}"
        tag = self._varint(location, may_end=True)
        if tag is None:
            return None
        size = {0: 0, 1: 8, 5: 4}.get(tag & 7)
        if tag & 7 == 0:
            self._varint(location)
        elif tag & 7 == 2:
            size = self._varint(location)
        if size is None or size > MAX_LINE_BYTES:
            raise UnreadableInput(
                f"{location}: expected a protobuf field of at most {MAX_LINE_BYTES} bytes, "
                f"got tag {tag} of size {size}. "
                "What follows cannot be read."
            )
        content = self._take(size)
        if len(content) < size:
            raise UnreadableInput(
                f"{location}: expected a field of {size} bytes, got {len(content)}: the file is cut off"
            )
        return location, tag >> 3, content

    def _varint(self, location: str, *, may_end: bool = False) -> int | None:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._take(1)
            if not byte and may_end and not shift:
                return None
            if not byte:
                break
            value |= (byte[0] & 0x7F) << shift
            if byte[0] < 0x80:
                return value
        raise UnreadableInput(f"{location}: expected a protobuf field, got none. What follows cannot be read.")

    def _take(self, size: int) -> bytes:
        buffered, self._start = self._start[:size], self._start[size:]
        taken = buffered + self._file.read(size - len(buffered)) if size > len(buffered) else buffered
        self._at += len(taken)
        return taken


def _begins_group(head: bytes) -> bool:
    """Return whether *head* begins with a group of spans, or with Tempo's trace, whose lengths agree."""
    outer = _length(head, 0)
    inner = _length(head, outer[1]) if outer else None
    if outer is None or head[outer[1] : outer[1] + 1] not in [bytes([tag]) for tag in _GROUP_FIELDS]:
        return False
    return head[0] == _GROUP_TAG and inner is not None and inner[0] + (inner[1] - outer[1]) <= outer[0]


def _begins_frame(head: bytes) -> bool:
    size, message = int.from_bytes(head[:_PREFIX_BYTES], "big"), head[_PREFIX_BYTES:]
    if len(head) <= _PREFIX_BYTES or not 0 < size <= MAX_LINE_BYTES:
        return False
    is_json = message[:1] == b"{" and b"resource" in message[:200]
    return is_json or message.startswith(ZSTD_MAGIC) or _begins_group(message)


def _length(data: bytes, at: int) -> tuple[int, int] | None:
    """Read the length behind a tag: the length, and where its content begins."""
    value = 0
    for location in range(at + 1, min(at + 6, len(data))):
        value |= (data[location] & 0x7F) << 7 * (location - at - 1)
        if data[location] < 0x80:
            return value, location + 1
    return None
