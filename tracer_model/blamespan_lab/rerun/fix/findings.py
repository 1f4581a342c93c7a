"""What is found wrong in a run, so that another run can be asked whether it shows the same."""

from __future__ import annotations

from dataclasses import dataclass, replace

from blamespan.analysis.showing.findings import rules_of
from blamespan.attribution import Attribution
from blamespan.testing import Finding
from blamespan.trace import MessageActionTrace
from blamespan.tracers import Tracer, ask_tracer, load_tracer
from blamespan_lab.rerun.feedback.writing import source_of

CONTRADICTION = "contradiction"
"""Name of the check behind words that contradict a source."""
EVIDENCE = "evidence"
"""Name of the check behind other words that a tracer quotes."""


@dataclass(frozen=True, slots=True)
class FindingCheck:
    """Tells whether a run is free of a finding.

    Attributes:
        finding: It.
        tracer: Name of the tracer that is asked.
    """

    finding: Finding
    tracer: str

    def is_gone_from(self, trace: MessageActionTrace | None) -> bool:
        """Return whether the agent shows no such finding in *trace*, and the tracer does not call that run failed."""
        if trace is None:
            return False
        verdict, findings = judge_unaided(trace, load_tracer(self.tracer))
        same = (self.finding.agent, self.finding.check)
        return not verdict.calls_failed and same not in [(found.agent, found.check) for found in findings]


def judge_unaided(trace: MessageActionTrace, tracer: Tracer) -> tuple[Attribution, tuple[Finding, ...]]:
    """Return a tracer's verdict on a run of which it is not told how it ended, and what is found in the run.

    Findings are the broken checks, and the words that the verdict quotes where it calls the run failed.
    """
    trace = replace(trace, outcome="unknown")
    [verdict] = ask_tracer(tracer, [trace])
    findings = [
        Finding(trace.steps[rule.step].agent, rule.step, rule.name, rule.quote, rule.reason)
        for rule in rules_of(trace, may_take_long=True).broken
        if rule.step is not None and trace.can_be_blamed(trace.steps[rule.step])
    ]
    quoted = {(found.step, found.quote) for found in findings}
    for item in verdict.evidence if verdict.calls_failed else ():
        source = source_of(trace, item)
        if source is not None or (item.index, item.quote) not in quoted:
            check, reason = (EVIDENCE, "") if source is None else (CONTRADICTION, str(source))
            findings.append(Finding(trace.steps[item.index].agent, item.index, check, item.quote, reason))
    return verdict, tuple(findings)


def finding_at(trace: MessageActionTrace, findings: tuple[Finding, ...], step: int) -> Finding | None:
    """Return what is found at a step, words that contradict a source first; else at another of its agent's, if any."""
    own = [found for found in findings if found.agent == trace.steps[step].agent]
    return min(own, key=lambda found: (found.step != step, found.check != CONTRADICTION), default=None)
