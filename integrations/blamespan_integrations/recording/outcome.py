"""What the program says of how a run ended: on the run's span, and once that has ended on one of its own below it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from opentelemetry import trace
from opentelemetry.context import Context

from blamespan import conventions as words
from blamespan.outcomes.record_outcome import run_ends
from blamespan.trace import AttributeValue
from blamespan_integrations.recording.content import ContentPolicy, Contents

__all__ = ["RunOutcome"]


@dataclass(slots=True, eq=False)
class RunOutcome:
    """Takes the outcome of one run; of a run that has ended it keeps nothing but the ids."""

    _span: trace.Span
    _contents: Contents
    _tracer: trace.Tracer
    _policy: ContentPolicy
    _has_reason: bool = False

    def take(self, outcome: Literal["succeeded", "failed"], reason: str) -> None:
        """Write it on the run's trace; what was said last counts."""
        if self._span.is_recording():
            self._span.set_attributes(self._written(self._contents, outcome, reason))
            return
        run = self._span.get_span_context()
        if run.is_valid:
            contents, self._has_reason = Contents(self._policy), False
            found = self._written(contents, outcome, reason)
            parent = trace.set_span_in_context(trace.NonRecordingSpan(run), Context())
            self._tracer.start_span(words.RUN_OUTCOME_SPAN, parent, attributes={**found, **contents.notes()}).end()

    def let_go(self, context: Context, *, agents: Iterable[str] = (), result: object = None) -> None:
        """Note that the run has ended.

        Args:
            context: What it was in.
            agents: Names of who took part.
            result: What it returns to the program.
        """
        self._span = trace.NonRecordingSpan(self._span.get_span_context())
        run_ends(self, context, agents=agents, result=result)

    def _written(self, contents: Contents, outcome: str, reason: str) -> dict[str, AttributeValue]:
        found: dict[str, AttributeValue] = {words.RUN_OUTCOME: outcome}
        written = contents.text(words.RUN_OUTCOME_REASON, reason) if reason or self._has_reason else None
        if written is not None:  # an empty one stands in place of the reason of what was said before
            found[words.RUN_OUTCOME_REASON] = written
            self._has_reason = True
        return found
