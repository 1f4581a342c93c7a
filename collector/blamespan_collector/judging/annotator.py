"""Asks the tracer for verdicts on traces, for the collector and the embedded mode: loads it once, counts, logs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from blamespan import conventions as words
from blamespan.attribution import TracerIdentity
from blamespan.pipeline import AttributedTrace, SpansOf, attribute_traces, format_error
from blamespan.rebuilding.runs import is_step
from blamespan.spans import Span
from blamespan.tracers import Tracer

_logger = logging.getLogger("blamespan.collector")


class Annotator:
    """Gives verdicts on traces in batches. Blocking, for one thread at a time.

    Args:
        load: Returns the tracer; called once, when the first trace with a step in it comes.
        spans_of: Where the earlier parts are looked up of runs that went on after they had waited.

    Attributes:
        traces: How many traces got a verdict or an abstention from the tracer.
        failures: How many traces went on without one, on all or some of their runs, because something broke.
    """

    def __init__(self, load: Callable[[], Tracer], spans_of: SpansOf | None = None) -> None:
        self._load = load
        self._spans_of = spans_of
        self._tracer: Tracer | None = None
        self._identity: TracerIdentity | None = None
        self._unavailable: str | None = None
        self.traces = 0
        self.failures = 0

    def warm_up(self) -> None:
        """Load the tracer now rather than with the first trace that needs it."""
        if self._tracer is None and self._unavailable is None:
            try:
                tracer = self._load()
                self._identity = tracer.identity  # who cannot say who it is cannot be asked
                self._tracer = tracer
            except Exception as error:  # an installed tracer is third-party code
                self._unavailable = f"no tracer: {format_error(error)}"
                _logger.error("spans go on without verdicts, as there is no tracer: %s", format_error(error))

    def attribute(self, traces: Sequence[Sequence[Span]], *, revision: int = 0) -> list[AttributedTrace]:
        """Attribute each trace that holds a step; same order, the others with no run. Nothing is raised."""
        # Verdicts that other collectors sent as spans are not ours any more, and nothing that is to be judged, either
        own = [[span for span in spans if span.scope.name != words.VERDICT_SCOPE] for spans in traces]
        chosen = [index for index, spans in enumerate(own) if any(is_step(span) for span in spans)]
        answers = [AttributedTrace()] * len(traces)
        if not chosen:
            return answers
        self.warm_up()
        if self._tracer is None:
            for index in chosen:
                answers[index] = self.refuse(self._unavailable or "no tracer")
            return answers
        attributed = attribute_traces(
            [own[index] for index in chosen], self._tracer, revision=revision, spans_of=self._spans_of
        )
        for index, answer in zip(chosen, attributed, strict=True):
            answers[index] = answer
            self._count(answer)
        return answers

    def refuse(self, reason: str) -> AttributedTrace:
        """Make an answer without a verdict, with the reason."""
        self.failures += 1
        return AttributedTrace(reason=reason, tracer=self._identity)

    def _count(self, answer: AttributedTrace) -> None:
        self.failures += answer.has_failed
        self.traces += not answer.has_failed
        for failure in answer.failures:
            _logger.error(
                "trace %s goes on without a verdict: %s",
                failure.run.spans[0].trace_id,
                format_error(failure.error),
                exc_info=failure.error,
            )
