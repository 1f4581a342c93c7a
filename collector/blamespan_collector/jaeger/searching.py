"""Looking through the store, as far as one question may go."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from blamespan.annotate import cut
from blamespan_collector.jaeger.conversion import groups_of, without_repeats
from blamespan_collector.jaeger.matching import MAX_NAME_BYTES, Matcher
from blamespan_collector.jaeger.query import TraceQuery
from blamespan_collector.jaeger.tags import NO_SERVICE_NAME, service_name
from blamespan_collector.store import RunQuery, RunStore, StoreUnavailable

__all__ = ["Calls", "Found", "Searcher", "Trace"]

Trace: TypeAlias = Sequence[ResourceSpans]
"""The spans of one trace, under their resources."""

_MAX_SEARCH_S = 5.0
_MAX_ANSWERED_BYTES = 16 * 1024 * 1024
"""Of spans as they are stored; as JSON, and in memory, they take many times that."""
_AT_ONCE = 2
"""Questions under way: the process that answers also receives spans."""
_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found.

    Attributes:
        traces: The last to start first; by id, in the order of the ids.
        missing: Ids of traces that are not stored.
        cut: Why there may be more, or empty.
    """

    traces: tuple[Trace, ...]
    missing: tuple[str, ...] = ()
    cut: str = ""


@dataclass(frozen=True, slots=True)
class Calls:
    """How often one service called another.

    Attributes:
        counts: By caller and called.
        cut: Why there may be more, or empty.
    """

    counts: Counter[tuple[str, str]]
    cut: str = ""


class Searcher:
    """Finds stored traces; any thread may ask.

    Args:
        store: Where they are.
        clock: Gives seconds.
    """

    def __init__(self, store: RunStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._places = threading.BoundedSemaphore(_AT_ONCE)

    def find(self, query: TraceQuery) -> Found:
        """Find what fits *query*, as much as one answer may hold.

        Raises:
            StoreError: if the store cannot be read.
        """
        matcher = Matcher(query)
        found: list[Trace] = []
        room = _MAX_ANSWERED_BYTES
        limits = _Limits(self._clock)
        with closing(self._store.payloads(_rough(query))) as payloads:
            for payload in payloads:
                groups = groups_of(payload) if matcher.may_fit(payload) else ()
                if matcher.fits(payload, groups):
                    found.append(without_repeats(groups))
                    room -= len(payload)
                if len(found) >= query.limit:
                    break
                if why := limits.passed(room):
                    return Found(tuple(found), cut=why)
        return Found(tuple(found))

    def by_ids(self, trace_ids: Iterable[str]) -> Found:
        """Find traces by their ids.

        Raises:
            StoreError: if the store cannot be read.
        """
        found: list[Trace] = []
        missing: list[str] = []
        room = _MAX_ANSWERED_BYTES
        limits = _Limits(self._clock)
        for trace_id in dict.fromkeys(trace_ids):
            if why := limits.passed(room):
                return Found(tuple(found), tuple(missing), why)
            stored = self._store.run(trace_id)
            if stored is None or not stored.spans:
                missing.append(trace_id)
                continue
            payload = b"".join(stored.payloads)
            room -= len(payload)
            found.append(without_repeats(groups_of(payload)))
        return Found(tuple(found), tuple(missing))

    def calls(self, since_ns: int, until_ns: int) -> Calls:
        """Count the calls between services of the traces that were under way in between.

        Raises:
            StoreError: if the store cannot be read.
        """
        counts: Counter[tuple[str, str]] = Counter()
        limits = _Limits(self._clock)
        asked = RunQuery(until_ns=until_ns, ended_since_ns=since_ns, is_run=False)
        with closing(self._store.payloads(asked)) as payloads:
            for payload in payloads:
                if payload.count(b"service.name") > 1:  # else there is one service in it
                    counts.update(_calls(without_repeats(groups_of(payload))))
                if why := limits.passed(_MAX_ANSWERED_BYTES):
                    return Calls(counts, why)
        return Calls(counts)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take one of the places there are for questions, to find and to answer.

        Raises:
            StoreUnavailable: if none is free for a while.
        """
        if not self._places.acquire(timeout=_WAIT_S):
            raise StoreUnavailable(f"{_AT_ONCE} questions are under way since {_WAIT_S:g} s. Ask again later")
        try:
            yield
        finally:
            self._places.release()


class _Limits:
    """What one question may cost."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._end_s = clock() + _MAX_SEARCH_S

    def passed(self, room: int) -> str:
        """Say which limit is passed; nothing if none is."""
        if room <= 0:
            return f"more than {_MAX_ANSWERED_BYTES >> 20} MiB were found: ask for a shorter time or fewer traces"
        if self._clock() > self._end_s:
            return f"not all of the store was searched in {_MAX_SEARCH_S:g} s: ask for a shorter time, or for a tag"
        return ""


def _rough(query: TraceQuery) -> RunQuery:
    """Ask for the traces of which a span may fit: a span is no longer than its trace, and lies within it."""
    return RunQuery(
        service=cut(query.service, MAX_NAME_BYTES) if query.service != NO_SERVICE_NAME else None,
        until_ns=query.until_ns,
        ended_since_ns=query.since_ns,
        min_duration_ns=query.min_duration_ns,
        is_run=False,
    )


def _calls(groups: Trace) -> Iterator[tuple[str, str]]:
    """Give caller and called of each span whose parent is another service's."""
    spans = [
        (span, name)
        for group in groups
        for name in [service_name(group.resource)]
        for scoped in group.scope_spans
        for span in scoped.spans
    ]
    services = {span.span_id: name for span, name in spans}
    for span, name in spans:
        parent = services.get(span.parent_span_id)
        if parent is not None and parent != name:
            yield parent, name
