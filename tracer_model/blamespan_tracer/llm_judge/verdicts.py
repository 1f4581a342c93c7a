"""From what the judge found to a verdict: quotes are looked up, shares add up, nothing is blamed that cannot be."""

from __future__ import annotations

import re
from dataclasses import replace

from blamespan.attribution import Attribution, Evidence, ModeBlame, TracerIdentity
from blamespan.taxonomy import ErrorMode
from blamespan.trace import MessageActionTrace, Step
from blamespan_tracer.llm_judge.answers import Finding

__all__ = ["attribution_of", "quoted"]

_MOST_QUOTE_CHARS = 200


def attribution_of(trace: MessageActionTrace, finding: Finding, tracer: TracerIdentity) -> Attribution:
    """Turn a finding into a verdict; nobody at fault, or a run more likely sound than not, is an abstention.

    Each suspect's share is how sure the judge is of it, among all of them.
    """
    is_sound = finding.chance_failed < 0.5 and trace.outcome != "failed"
    if is_sound or not finding.suspects:
        failed = min(finding.chance_failed, 1.0)
        reason = f"the judge names no agent at fault (failure score {failed:.2f})"
        return replace(Attribution.abstain(trace, reason, tracer), failure_score=failed)
    shares = [0.0] * len(trace.steps)
    evidence: list[Evidence] = []
    best: dict[tuple[ErrorMode, str], float] = {}
    total = sum(suspect.weight for suspect in finding.suspects)
    for suspect in finding.suspects:
        step = trace.steps[suspect.step]
        shares[step.index] += suspect.weight / total
        words = quoted(step, suspect.quote)
        if words:
            evidence.append(Evidence(step.index, words, suspect.weight / total))
        for mode in suspect.modes:
            key = (mode, step.agent)
            best[key] = max(best.get(key, 0.0), min(suspect.weight, 1.0))
    return Attribution.of(
        trace,
        shares,
        failure_score=min(max(finding.chance_failed, 0.0), 1.0),
        tracer=tracer,
        modes=[ModeBlame(mode, agent, score) for (mode, agent), score in best.items()],
        evidence=evidence,
    )


def quoted(step: Step, quote: str) -> str:
    """Find *quote* in a step and give it as it stands there, or nothing; blanks and line ends may differ."""
    words = quote.split()
    if not words:
        return ""
    if quote in step.content:
        return quote[:_MOST_QUOTE_CHARS]
    found = re.search(r"\s+".join(map(re.escape, words)), step.content)
    return found[0][:_MOST_QUOTE_CHARS] if found else ""
