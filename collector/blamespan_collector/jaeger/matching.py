"""Which stored traces a query means: a quick look at their bytes, then a span that all of it is true of; pure.

Source: Jaeger's in-memory storage, `validSpan`: one span must fit everything, tags are compared as text.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

from blamespan.annotate import cut
from blamespan_collector.jaeger.query import TraceQuery
from blamespan_collector.jaeger.tags import OWN, service_name, tags_of

MAX_NAME_BYTES = 500
"""Longer names of services and operations are listed cut, as the store does; they are found by that."""

_EVENT = "event"
"""Name of an event, as a log's field."""
_MAY_BE_OTHER = re.compile(r"[\[{+\-0-9.]|(?:true|false|NaN)\Z")
"""How texts begin that a number, a truth value, a list or a map reads as."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A span where it stands.

    Attributes:
        span: It.
        scope: That made it.
        group: With its resource.
        told: Keys of wanted tags that stand anywhere in its trace.
    """

    span: Span
    scope: InstrumentationScope
    group: ResourceSpans
    told: Container[str]


class Matcher:
    """Tells whether traces fit.

    Args:
        query: What is wanted.
    """

    def __init__(self, query: TraceQuery) -> None:
        self._query = query
        self._operation = cut(query.operation, MAX_NAME_BYTES)
        self._service = cut(query.service, MAX_NAME_BYTES)
        self._needles = tuple(needle.encode("utf-8", "replace") for needle in _needles(query))

    def may_fit(self, payload: bytes) -> bool:
        """Check whether a trace may fit, from its bytes: protobuf holds every text as it is."""
        return all(needle in payload for needle in self._needles)

    def fits(self, payload: bytes, groups: Iterable[ResourceSpans]) -> bool:
        """Check whether one span of a trace, *payload* read as *groups*, fits."""
        mentioned = frozenset(key for key in self._query.tags if key.encode("utf-8", "replace") in payload)
        return any(
            self._span_fits(_Place(span, scoped.scope, group, mentioned))
            for group in groups
            if not self._service or cut(service_name(group.resource), MAX_NAME_BYTES) == self._service
            for scoped in group.scope_spans
            for span in scoped.spans
        )

    def _span_fits(self, holder: _Place) -> bool:
        query, span = self._query, holder.span
        start_ns = span.start_time_unix_nano
        duration_ns = max(0, span.end_time_unix_nano - start_ns)
        return (
            query.since_ns <= start_ns <= query.until_ns
            and duration_ns >= query.min_duration_ns
            and (query.max_duration_ns is None or duration_ns <= query.max_duration_ns)
            and (not self._operation or cut(span.name, MAX_NAME_BYTES) == self._operation)
            and all(any(_reads(value, wanted) for value in _values(key, holder)) for key, wanted in query.tags.items())
        )


def _needles(query: TraceQuery) -> Iterator[str]:
    """List texts that stand in every trace that fits."""
    if not query.operation.endswith("…"):  # which may stand for what was cut
        yield cut(query.operation, MAX_NAME_BYTES).removesuffix("…")
    for key, wanted in query.tags.items():
        if key in OWN or key == _EVENT:
            continue
        yield key
        if not _MAY_BE_OTHER.match(wanted):
            yield wanted


def _values(key: str, holder: _Place) -> Iterator[object]:
    """Return what a tag is in a span, its process and its logs."""
    if key in OWN and (own := OWN[key](holder.span, holder.scope)):
        yield own
    if key in holder.told:
        yield from _find_values(key, holder.span.attributes)
        if key != "service.name":  # Jaeger keeps it apart
            yield from _find_values(key, holder.group.resource.attributes)
        for event in holder.span.events:
            yield from _find_values(key, event.attributes)
    if key == _EVENT:
        yield from (event.name for event in holder.span.events)


def _find_values(key: str, attributes: Iterable[KeyValue]) -> Iterator[object]:
    return (tag["value"] for tag in tags_of([item for item in attributes if item.key == key]))


def _reads(value: object, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == ("true" if value else "false")
    if isinstance(value, float):
        return wanted == f"{value:.10g}" or _number(wanted) == value
    return wanted == str(value)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
