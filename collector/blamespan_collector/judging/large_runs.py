"""Verdicts on large runs, in a process of their own that is there only while there are some.

What takes seconds must not hold up what takes milliseconds: a large run is attributed beside the others, in a process
that yields to them. If it ends, or does not come back, that run alone goes on without a verdict.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from blamespan.attribution import Attribution, TracerIdentity
from blamespan.errors import TracerUnavailable
from blamespan.trace import MessageActionTrace
from blamespan_collector.assembling.parts import TracePart
from blamespan_collector.judging.processes import TracerProcesses

_LARGE_SPANS = 512
_LARGE_BYTES = 1024 * 1024
"""About what takes the network a third of a second."""
_REST_AFTER_S = 60.0
"""The process ends when it had nothing to do for so long: it holds the tracer's weights a second time."""
_NICENESS = 5
MAX_S_PER_SPAN = 0.05
"""A hundred times what the network takes for a step."""


def is_large(part: TracePart[int]) -> bool:
    """Check whether a verdict on *part* takes so long that others should not wait for it."""
    return len(part.span_ids) > _LARGE_SPANS or part.size_bytes > _LARGE_BYTES


class LargeRunsTracer:
    """A tracer by name, in one process that starts when it is asked and ends when it is not. For one thread at a time.

    Args:
        name: The tracer's.
        identity: The tracer's, known before it is loaded.
        max_s: How long a verdict may take, beside `MAX_S_PER_SPAN` for each step.
    """

    def __init__(self, name: str, identity: TracerIdentity, max_s: float) -> None:
        self.identity = identity
        self._start: Callable[[], TracerProcesses] = lambda: TracerProcesses(name, 1, niceness=_NICENESS)
        self._max_s = max_s
        self._lock = threading.Lock()
        self._process: TracerProcesses | None = None
        self._rest: threading.Timer | None = None
        self._is_closed = False

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run; one verdict per trace, in order.

        Raises:
            TracerUnavailable: if the tracer breaks on one of them, ends with it, or takes too long.
            ConfigError: if the tracer's settings are wrong.
        """
        max_s = self._max_s + MAX_S_PER_SPAN * sum(len(trace.steps) for trace in traces)
        with self._lock:
            if self._is_closed:
                raise TracerUnavailable("the collector ends: the run is attributed after the next start")
            if self._rest is not None:
                self._rest.cancel()
            self._process = self._process or self._start()
            limit = _timer(max_s, self._process.kill)
            try:
                return self._process.attribute(traces)
            except SystemExit as error:
                self._end()
                raise TracerUnavailable(
                    f"expected tracer {self.identity.name!r} to answer within {max_s:.0f} s, "
                    "got a process that ended with the run"
                ) from error
            finally:
                limit.cancel()
                self._rest = _timer(_REST_AFTER_S, self._end_if_idle)

    def close(self) -> None:
        """End the process, also in the middle of a run, for good."""
        self._is_closed = True
        if (process := self._process) is not None:
            process.kill()
        with self._lock:
            if self._rest is not None:
                self._rest.cancel()
            self._end()

    def _end_if_idle(self) -> None:
        if self._lock.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._lock.release()

    def _end(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


def _timer(after_s: float, act: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(after_s, act)
    timer.daemon = True  # the worker does not wait for it
    timer.start()
    return timer
