"""A tracer that blames by a rule one can see: the longer a step, the more."""

from __future__ import annotations

from collections.abc import Sequence

from blamespan.attribution import Attribution, Evidence, ModeBlame, TracerIdentity
from blamespan.taxonomy import AEGIS
from blamespan.trace import MessageActionTrace


class LongestStepTracer:
    """Shares blame by the length of what was said."""

    identity = TracerIdentity("longest", "1")

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run."""
        return [self._verdict(trace) for trace in traces]

    def _verdict(self, trace: MessageActionTrace) -> Attribution:
        shares = [len(step.content) * trace.can_be_blamed(step) for step in trace.steps]
        if not any(shares):
            return Attribution.abstain(trace, "nobody said anything", self.identity)
        longest = trace.steps[shares.index(max(shares))]
        return Attribution.of(
            trace,
            shares,
            failure_score=0.5,
            tracer=self.identity,
            modes=[ModeBlame(AEGIS["FM-2.3"], longest.agent, 0.25)],
            evidence=[Evidence(longest.index, longest.content[:60], 1.0)],
        )
