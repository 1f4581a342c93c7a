"""What an embedded program has exported of late, so that an outcome that comes later can be judged with it."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from blamespan.annotate import is_verdict, without_verdict
from blamespan.spans import Span
from blamespan_collector.wire.raw_spans import raw_spans, read

_MAX_BYTES: Final = 16 * 1024**2
_MOST_TRACES: Final = 1_000


@dataclass(frozen=True, slots=True)
class ExportedTrace:
    """A trace that went out.

    Attributes:
        payloads: Its spans as serialised `ExportTraceServiceRequest`s, compressed.
        digests: Of the verdicts on its runs.
        revision: Of the last verdict.
        is_complete: Whether it had ended when it was judged.
    """

    payloads: tuple[bytes, ...]
    digests: frozenset[bytes]
    revision: int
    is_complete: bool

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes in memory, about."""
        return 500 + sum(map(len, self.payloads))

    def spans(self) -> list[Span]:
        """Read its spans, without the verdict on them."""
        return [
            without_verdict(span)
            for payload in self.payloads
            for span in read(list(raw_spans(zlib.decompress(payload))))
            if not is_verdict(span)
        ]


class ExportedRuns:
    """Keeps the latest traces, 16 MiB of them at most, compressed. For one thread."""

    def __init__(self, max_bytes: int = _MAX_BYTES, most: int = _MOST_TRACES) -> None:
        self._max_bytes = max_bytes
        self._most = most
        self._traces: OrderedDict[bytes, ExportedTrace] = OrderedDict()
        self.held_bytes = 0

    def get(self, trace_id: bytes) -> ExportedTrace | None:
        """Return a trace that is still kept."""
        return self._traces.get(trace_id)

    def put(
        self, trace_id: bytes, payloads: Sequence[bytes], *, digests: frozenset[bytes], revision: int, is_complete: bool
    ) -> None:
        """Keep what went out of a trace, beside what is kept of it; the verdict is the one that counts from now on."""
        before = self._traces.pop(trace_id, None)
        self.held_bytes -= before.size_bytes if before is not None else 0
        packed = tuple(zlib.compress(payload, 1) for payload in payloads)
        trace = ExportedTrace((*(before.payloads if before else ()), *packed), digests, revision, is_complete)
        self._traces[trace_id] = trace
        self.held_bytes += trace.size_bytes
        while self.held_bytes > self._max_bytes or len(self._traces) > self._most:
            _, forgotten = self._traces.popitem(last=False)
            self.held_bytes -= forgotten.size_bytes
