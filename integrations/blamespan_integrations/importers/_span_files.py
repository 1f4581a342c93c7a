"""From the spans of a file, in any order, to the runs they tell of, in memory that does not grow with the file.

The spans of a trace may be spread over all of a file. What does not fit into memory waits in a temporary database on
disk, which SQLite deletes when it is closed.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from blamespan.errors import BlamespanError, MalformedSpan, UnreadableInput
from blamespan.importing.parts import Continuations, runs_of_trace
from blamespan.importing.reading import held_share
from blamespan.importing.recorded import RecordedRun
from blamespan.otlp import spans_from_proto, spans_to_proto
from blamespan.otlp.logs import EventsOfSpans, with_events
from blamespan.spans import Scope, Span, SpanEvent
from blamespan_integrations.importers._records import Record, iter_records, json_objects, read_each

SpanItem: TypeAlias = Span | EventsOfSpans | UnreadableInput
"""What a file tells: a span, events of spans told of elsewhere, or that something cannot be read."""

_MAX_TRACE_BYTES = 128 * 1024 * 1024
"""A larger trace is refused: a run is rebuilt in memory."""
_SPAN_CHARACTERS = 500
"""What a span takes beside its texts."""
_SPANS, _EVENTS = 0, 1


class SpanFormat(ABC):
    """Rebuilds the runs of a file from what it tells, spans in any order; a subclass says what that is."""

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield what cannot be read, then every run, in the order in which the traces begin.

        Raises:
            UnreadableInput: if the file cannot be opened.
        """
        return rebuild_runs(path, self._read_items(path))

    def read_with_spans(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Read as `read` does, each run with its spans.

        Raises:
            UnreadableInput: if the file cannot be opened.
        """
        return rebuild_runs(path, self._read_items(path), keeps_spans=True)

    @abstractmethod
    def _read_items(self, path: Path) -> Iterable[SpanItem]:
        """Yield what the file tells; whatever cannot be read is an error in its place, or raised and the end."""


class JsonSpanFormat(SpanFormat):
    """A span format of JSON objects; a subclass says what one tells.

    Attributes:
        expected: What each object should be, for messages: `a trace from Tempo`.
    """

    expected: ClassVar[str]

    def _read_items(self, path: Path) -> Iterable[SpanItem]:
        return read_each(json_objects(path, self.expected), lambda item: self._read_object(item.value, item.location))

    @abstractmethod
    def _read_object(self, value: dict[str, Any], location: str) -> Iterable[SpanItem]:
        """Yield what one object tells."""


class RecordSpanFormat(SpanFormat):
    """A span format of records, JSON or rows of a table; a subclass finds the spans' records in one and reads them.

    Attributes:
        expected: What each record should be, for messages: `a run from LangSmith`.
    """

    expected: ClassVar[str]

    def _read_items(self, path: Path) -> Iterable[SpanItem]:
        records = iter_records(path, self.expected)
        return read_records(read_each(records, lambda record: self._records_in(*record)), self._spans_of)

    def _records_in(self, location: str, fields: dict[str, Any]) -> Iterable[Record | UnreadableInput]:
        """Yield the records of spans that a record of the file holds: itself, or those within it."""
        yield location, fields

    @abstractmethod
    def _spans_of(self, fields: dict[str, Any], location: str) -> Iterable[Span]:
        """Make the spans of a record; raise `UnreadableInput` or `MalformedSpan` where it is none."""


def rebuild_runs(
    path: Path | str, items: Iterable[SpanItem], *, held_characters: int | None = None, keeps_spans: bool = False
) -> Iterator[RecordedRun | UnreadableInput]:
    """Yield what cannot be read, in its place, and then every run, in the order in which their traces begin.

    A trace that holds no run is passed over: other programs' traces may stand in the same file.

    Args:
        path: The file, or what else is read, for messages.
        items: What it tells. An `UnreadableInput` raised on the way ends it, as where a file breaks off; what was
            told before is still rebuilt.
        held_characters: How much text is held in memory before spans go to disk; else this process's share.
        keeps_spans: Whether each run comes with its spans; what belongs to no run of a trace comes with its first.
    """
    with closing(_Spool(held_share() if held_characters is None else held_characters)) as spool:
        try:
            for item in items:
                if isinstance(item, UnreadableInput):
                    yield item
                else:
                    spool.add(item)
        except UnreadableInput as error:
            yield error
        except sqlite3.Error as error:
            yield _no_room(path, error)
        yield from _rebuild(path, spool, keeps_spans=keeps_spans)


def _rebuild(path: Path | str, spool: _Spool, *, keeps_spans: bool) -> Iterator[RecordedRun | UnreadableInput]:
    try:
        for trace_id in spool.trace_ids():
            source = f"{path}:{trace_id}"
            spans = spool.spans_of(trace_id)
            if spans is None:
                yield UnreadableInput(
                    f"{source}: expected a trace of at most {_MAX_TRACE_BYTES} bytes, got more. Leave it out, or split"
                )
                continue
            yield from _contradictions(source, spans)
            try:
                yield from runs_of_trace(
                    source, spans, lambda key: spool.spans_of(key) or (), spool.answers, keeps_spans=keeps_spans
                )
            except (BlamespanError, RecursionError) as error:
                yield UnreadableInput(f"{source}: {error}")
    except sqlite3.Error as error:
        yield _no_room(path, error)


def _no_room(path: Path | str, error: sqlite3.Error) -> UnreadableInput:
    return UnreadableInput(
        f"{path}: expected room on disk for its spans, got {error}. Set SQLITE_TMPDIR to a folder that has some."
    )


def _contradictions(source: str, spans: Sequence[Span]) -> Iterator[UnreadableInput]:
    """Name the spans that stand there twice and differ; the first is the one that counts."""
    first_spans: dict[str, Span] = {}
    differing = {span.span_id for span in spans if first_spans.setdefault(span.span_id, span) != span}
    if differing:
        yield UnreadableInput(
            f"{source}: expected one span for each id, got different ones for {', '.join(sorted(differing)[:3])}"
            f"{' and others' if len(differing) > 3 else ''}. The first of each is taken; were two exports put together?"
        )


class _Spool:
    """Spans and events by trace: in memory, and on disk what is too much for it."""

    def __init__(self, held_characters: int) -> None:
        self._limit = held_characters
        self._held = 0
        self._spans: dict[str, list[Span]] = defaultdict(list)
        self._events: dict[str, dict[str, Span]] = defaultdict(dict)
        self._order: dict[str, None] = {}
        self._disk: sqlite3.Connection | None = None
        self.answers = Continuations()

    def add(self, item: Span | EventsOfSpans) -> None:
        """Keep a span, or events of spans."""
        if isinstance(item, Span):
            self._order.setdefault(item.trace_id)
            self._spans[item.trace_id].append(item)
            self.answers.add(item)
            self._held += _size(item)
        else:
            for (trace_id, span_id), events in item.items():
                holder = self._events[trace_id].get(span_id)
                if len(trace_id) == 32 and len(span_id) == 16 and int(trace_id, 16) and int(span_id, 16):
                    holder = Span(trace_id, span_id, None, "", events=(*(holder.events if holder else ()), *events))
                    self._events[trace_id][span_id] = holder
                    self._held += _SPAN_CHARACTERS + sum(_text_size(event.attributes) for event in events)
        if self._held > self._limit:
            self._to_disk()

    def trace_ids(self) -> Iterator[str]:
        """Yield the id of every trace, in the order in which they came; nothing is added from then on."""
        if self._disk is None:
            yield from self._order
            return
        self._to_disk()
        self._disk.execute("CREATE INDEX of_trace ON parts (trace)")
        for (trace_id,) in self._disk.execute("SELECT trace FROM traces ORDER BY rowid"):
            yield trace_id

    def spans_of(self, trace_id: str) -> list[Span] | None:
        """Return the spans of a trace, also after it was asked for before; None for one that is too large."""
        if self._disk is not None:
            return self._read(self._disk, trace_id)
        return _join_events(self._spans.get(trace_id, []), self._events.get(trace_id, {}).values())

    def close(self) -> None:
        """Free memory and disk."""
        if self._disk is not None:
            self._disk.close()

    def _read(self, disk: sqlite3.Connection, trace_id: str) -> list[Span] | None:
        (size,) = disk.execute("SELECT total(length(data)) FROM parts WHERE trace = ?", (trace_id,)).fetchone()
        if size > _MAX_TRACE_BYTES:
            return None
        parts_by_kind: tuple[list[Span], list[Span]] = ([], [])
        parts = disk.execute("SELECT kind, data FROM parts WHERE trace = ? ORDER BY rowid", (trace_id,))
        for kind, data in parts:
            parts_by_kind[kind].extend(spans_from_proto(TracesData.FromString(data).resource_spans))
        return _join_events(*parts_by_kind)

    def _to_disk(self) -> None:
        if self._disk is None:
            self._disk = sqlite3.connect("", isolation_level=None)  # an unnamed database is a temporary file
            self._disk.execute("PRAGMA journal_mode = OFF")
            self._disk.execute("PRAGMA cache_size = -32768")  # KiB
            self._disk.execute("CREATE TABLE traces (trace TEXT PRIMARY KEY)")
            self._disk.execute("CREATE TABLE parts (trace TEXT, kind INTEGER, data BLOB)")
        self._disk.execute("BEGIN")
        self._disk.executemany("INSERT OR IGNORE INTO traces VALUES (?)", ((trace_id,) for trace_id in self._order))
        self._disk.executemany(
            "INSERT INTO parts VALUES (?, ?, ?)",
            [
                *((trace_id, _SPANS, _pack(spans)) for trace_id, spans in self._spans.items()),
                *((trace_id, _EVENTS, _pack(holders.values())) for trace_id, holders in self._events.items()),
            ],
        )
        self._disk.execute("COMMIT")
        self._spans.clear()
        self._events.clear()
        self._order.clear()
        self._held = 0


def _pack(spans: Iterable[Span]) -> bytes:
    span_list = list(spans)
    try:
        return TracesData(resource_spans=spans_to_proto(span_list)).SerializeToString()
    except ValueError:  # a name with half a surrogate pair, which JSON can hold and protobuf cannot
        return TracesData(resource_spans=spans_to_proto(map(_encodable, span_list))).SerializeToString()


def _encodable(span: Span) -> Span:
    return replace(
        span,
        name=_text(span.name),
        status_message=_text(span.status_message),
        attributes={_text(key): value for key, value in span.attributes.items()},
        resource={_text(key): value for key, value in span.resource.items()},
        scope=Scope(_text(span.scope.name), _text(span.scope.version)),
        events=tuple(
            SpanEvent(_text(event.name), event.time_ns, {_text(key): value for key, value in event.attributes.items()})
            for event in span.events
        ),
    )


def _text(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _join_events(spans: list[Span], holders: Iterable[Span]) -> list[Span]:
    """Add the events that stood elsewhere to their *spans*."""
    events: EventsOfSpans = {(holder.trace_id, holder.span_id): holder.events for holder in holders}
    return with_events(spans, events) if events else spans


def _size(span: Span) -> int:
    return _SPAN_CHARACTERS + _text_size(span.attributes) + sum(_text_size(event.attributes) for event in span.events)


def _text_size(attributes: Mapping[str, object]) -> int:
    return sum(len(value) if isinstance(value, str | bytes) else 50 for value in attributes.values())


def read_records(
    records: Iterable[Record | UnreadableInput], spans_of: Callable[[dict[str, Any], str], Iterable[Span]]
) -> Iterator[SpanItem]:
    """Make spans of records; for a record that gives none, an error in its place.

    Args:
        records: With their places.
        spans_of: Makes the spans of a record at a place; raises `UnreadableInput` or `MalformedSpan`.
    """

    def read(record: Record) -> Iterator[Span]:
        location, fields = record
        try:
            yield from spans_of(fields, location)
        except MalformedSpan as error:
            raise UnreadableInput(f"{location}: {error}") from error

    return read_each(records, read)
