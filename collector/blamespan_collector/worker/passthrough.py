"""What goes on as it came: traces without a verdict, logs and metrics, and what is left of those that are damaged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from blamespan.errors import MalformedSpan
from blamespan_collector.assembling.parts import TracePart
from blamespan_collector.journal import Entry
from blamespan_collector.journal.entries import divide_items, pack_position
from blamespan_collector.judging.scorer import outgoing_raw
from blamespan_collector.wire.outgoing import Kind, Outgoing
from blamespan_collector.wire.raw_spans import RawSpan, pieces, raw_spans, without_repeats
from blamespan_collector.worker.counts import WorkerCounts

_logger = logging.getLogger("blamespan.collector")


class Passthrough:
    """Reads payloads from the journal and returns them as bytes for the outbox.

    Args:
        payloads: Reads what stands for spans; raises KeyError where it is gone.
        max_bytes: Largest piece put into the outbox.
        kinds: What some sink takes; the rest is counted and goes nowhere.
        counts: Counts.
    """

    def __init__(
        self,
        payloads: Callable[[Sequence[int]], list[bytes]],
        max_bytes: int,
        kinds: frozenset[Kind],
        counts: WorkerCounts,
    ) -> None:
        self._payloads, self._max_bytes, self._kinds, self._counts = payloads, max_bytes, kinds, counts

    def write_part(self, part: TracePart[int]) -> list[Outgoing]:
        """Return a part's spans; of one that is damaged those that can be read, and count the others as lost."""
        items, _ = divide_items(part.items)  # events went on as the logs they are
        try:
            return outgoing_raw(part, self._payloads(items), self._max_bytes)
        except (KeyError, MalformedSpan) as error:
            spans = self._read_rest(part, items)
            self._count_lost(f"a part of trace {part.trace_id.hex()}", len(part.span_ids) - len(spans), error)
            return [Outgoing("traces", count, payload) for count, payload in pieces(spans, self._max_bytes)]

    def write_request(self, entry: Entry) -> list[Outgoing]:
        """Return a request of logs or metrics, split only where it must be."""
        self._counts.add(f"{entry.signal}_requests_passed")
        if entry.signal not in self._kinds:
            self._counts.add(f"{entry.signal}_without_sink")
            return []
        try:
            (payload,) = self._payloads([pack_position(entry.position)])
            records = list(raw_spans(payload))
        except (KeyError, MalformedSpan) as error:
            self._count_lost(f"a request of {entry.signal}", 1, error)
            return []
        if len(payload) <= self._max_bytes:
            return [Outgoing(entry.signal, len(records), payload)]
        return [Outgoing(entry.signal, *piece) for piece in pieces(records, self._max_bytes)]

    def _read_rest(self, part: TracePart[int], items: Sequence[int]) -> list[RawSpan]:
        """Return the spans of a part that can be read."""
        spans: list[RawSpan] = []
        for item in items:
            with suppress(KeyError, MalformedSpan):
                spans += raw_spans(self._payloads([item])[0])
        return without_repeats(spans, part.span_ids)

    def _count_lost(self, what: str, spans: int, error: Exception) -> None:
        self._counts.add("spans_lost", spans)
        _logger.error("%s (%d) is lost: its journal segment is damaged or gone (%r)", what, spans, error)
