"""Second opinions on runs that an embedded program has exported: asked for in a thread that nothing waits for."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from blamespan.pipeline import AttributedTrace
from blamespan.spans import Span
from blamespan.tracers import AskingTracer
from blamespan_collector.judging.annotator import Annotator

_logger = logging.getLogger("blamespan")

_MOST_WAITING: Final = 64
"""Runs that wait for an opinion: what more there are keeps the first verdict."""


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """An answer.

    Attributes:
        trace_id: Of the trace.
        verdict: On it.
        revision: Of the verdict that was out when it was asked about.
    """

    trace_id: bytes
    verdict: AttributedTrace
    revision: int


class SecondOpinions:
    """Asks about one trace after the other.

    Args:
        tracer: Asks.
        wake: Called, from its thread, when there is an answer.
    """

    def __init__(self, tracer: AskingTracer, wake: Callable[[], None]) -> None:
        self._tracer, self._wake = tracer, wake
        self._annotator = Annotator(lambda: tracer)
        self._inbox: queue.SimpleQueue[tuple[bytes, Sequence[Span], int]] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[SecondOpinion] = queue.SimpleQueue()
        self._idle = threading.Condition()
        self._n_waiting = 0
        threading.Thread(target=self._run, name="blamespan-asking", daemon=True).start()

    def ask(self, trace_id: bytes, spans: Sequence[Span], verdict: AttributedTrace, revision: int) -> None:
        """Ask about a trace, if another opinion on one of its runs is wanted."""
        if not any(self._tracer.wants(run.trace, run.attribution) for run in verdict.runs):
            return
        with self._idle:
            if self._n_waiting >= _MOST_WAITING:
                _logger.warning("a run gets no second opinion: %d wait for one", _MOST_WAITING)
                return
            self._n_waiting += 1
        self._inbox.put((trace_id, list(spans), revision))

    def take(self) -> list[SecondOpinion]:
        """Take the answers that have come."""
        answers = []
        while not self._answers.empty():
            answers.append(self._answers.get())
        return answers

    def wait(self, within_s: float) -> None:
        """Wait until nothing is asked any more, or the time is over."""
        until_s = time.monotonic() + within_s
        with self._idle:
            while self._n_waiting and (left_s := until_s - time.monotonic()) > 0:
                self._idle.wait(left_s)
            if self._n_waiting:
                _logger.warning("%d runs get no second opinion: the program ends", self._n_waiting)

    def _run(self) -> None:
        while True:
            trace_id, spans, revision = self._inbox.get()
            [verdict] = self._annotator.attribute([spans])
            self._answers.put(SecondOpinion(trace_id, verdict, revision))
            with self._idle:
                self._n_waiting -= 1
                self._idle.notify_all()
            self._wake()
