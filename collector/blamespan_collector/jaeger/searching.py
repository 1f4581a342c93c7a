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
from blamespan_collector.jaeger.conversion import JsonObject, groups_of, summarize_trace, without_repeats
from blamespan_collector.jaeger.matching import MAX_NAME_BYTES, Matcher
from blamespan_collector.jaeger.query import TraceQuery
from blamespan_collector.jaeger.tags import NO_SERVICE_NAME, spans_by_service
from blamespan_collector.store import RunQuery, RunStore, StoreUnavailable

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
class Summaries:
    """What a search found, in lines.

    Attributes:
        rows: One per trace, as `summarize_trace` writes it; the last to start first.
        cut: Why there may be more, or empty.
    """

    rows: tuple[JsonObject, ...]
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
        limits = _SearchLimits(self._clock)
        traces = tuple(self._matches(query, limits, keeps=True))
        return Found(traces, cut=limits.passed)

    def summarize(self, query: TraceQuery) -> Summaries:
        """Sum up what fits *query*, trace by trace: nothing of them is held, so that their size is no limit.

        Raises:
            StoreError: if the store cannot be read.
        """
        limits = _SearchLimits(self._clock)
        rows = tuple(summarize_trace(groups) for groups in self._matches(query, limits, keeps=False))
        return Summaries(rows, limits.passed)

    def _matches(self, query: TraceQuery, limits: _SearchLimits, *, keeps: bool) -> Iterator[Trace]:
        """Yield the traces that fit *query*, until there are enough or a limit is passed.

        Args:
            query: What is wanted.
            limits: What the question may cost.
            keeps: Whether whoever asks keeps what is yielded, so that its size counts.
        """
        matcher = Matcher(query)
        matches = 0
        with closing(self._store.payloads(_rough(query))) as payloads:
            for payload in payloads:
                groups = groups_of(payload) if matcher.may_fit(payload) else ()
                if matcher.fits(payload, groups):
                    matches += 1
                    limits.answered_bytes += len(payload) if keeps else 0
                    yield without_repeats(groups)
                if matches >= query.limit or limits.check():
                    return

    def by_ids(self, trace_ids: Iterable[str]) -> Found:
        """Find traces by their ids.

        Raises:
            StoreError: if the store cannot be read.
        """
        traces: list[Trace] = []
        missing: list[str] = []
        limits = _SearchLimits(self._clock)
        for trace_id in dict.fromkeys(trace_ids):
            if limits.check():
                break
            stored = self._store.run(trace_id)
            if stored is None or not stored.spans:
                missing.append(trace_id)
                continue
            payload = b"".join(stored.payloads)
            limits.answered_bytes += len(payload)
            traces.append(without_repeats(groups_of(payload)))
        return Found(tuple(traces), tuple(missing), limits.passed)

    def calls(self, since_ns: int, until_ns: int) -> Calls:
        """Count the calls between services of the traces that were under way in between.

        Raises:
            StoreError: if the store cannot be read.
        """
        counts: Counter[tuple[str, str]] = Counter()
        limits = _SearchLimits(self._clock)
        asked = RunQuery(until_ns=until_ns, ended_since_ns=since_ns, is_run=False)
        with closing(self._store.payloads(asked)) as payloads:
            for payload in payloads:
                if payload.count(b"service.name") > 1:  # else there is one service in it
                    counts.update(_calls(without_repeats(groups_of(payload))))
                if limits.check():
                    break
        return Calls(counts, limits.passed)

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


class _SearchLimits:
    """What one question may cost.

    Attributes:
        answered_bytes: Size of the spans that the answer holds so far.
        passed: Which limit was passed, in words; empty while none is.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._end_s = clock() + _MAX_SEARCH_S
        self.answered_bytes = 0
        self.passed = ""

    def check(self) -> bool:
        """Note whether a limit is passed, and return it."""
        if self.answered_bytes >= _MAX_ANSWERED_BYTES:
            mib = _MAX_ANSWERED_BYTES >> 20
            self.passed = f"more than {mib} MiB were found: ask for a shorter time or fewer traces"
        elif self._clock() > self._end_s:
            self.passed = (
                f"not all of the store was searched in {_MAX_SEARCH_S:g} s: ask for a shorter time, or for a tag"
            )
        return bool(self.passed)


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
    """Return caller and called of each span whose parent is another service's."""
    spans = spans_by_service(groups)
    services = {span.span_id: name for span, name in spans}
    for span, name in spans:
        parent = services.get(span.parent_span_id)
        if parent is not None and parent != name:
            yield parent, name
