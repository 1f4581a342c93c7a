"""A verdict in words: a row per step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from blamespan.analysis.showing.legible import printable
from blamespan.attribution import NOBODY_KNOWS, Attribution
from blamespan.trace import MessageActionTrace, Outcome

__all__ = ["MOST_STEPS", "SHARE_WORTH_A_LINE", "StepRow", "doubt_of", "mode_text", "nobody_knows", "step_rows"]

MOST_STEPS: Final = 40
"""Steps of one run that are shown without being asked for more."""
SHARE_WORTH_A_LINE: Final = 0.05
"""Of the blame: steps of longer runs with less are left out."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """One line of a run's table: what a step did and what it is blamed for."""

    index: int
    agent: str
    kind: str
    score: float
    is_decisive: bool
    mode: str
    evidence: str
    content: str


def doubt_of(verdict: Attribution, outcome: Outcome) -> str:
    """Describe what must hold for anybody to be blamed; empty where the run is called failed, or known to have."""
    if nobody_knows(verdict, outcome):
        return "nobody can tell whether it failed; if it did:"
    return "" if outcome == "failed" or verdict.calls_failed else "more likely sound; if it failed:"


def nobody_knows(verdict: Attribution, outcome: Outcome) -> bool:
    """Check whether a run may have failed or not, and neither its outcome nor the verdict says."""
    return outcome != "failed" and verdict.failure_score == NOBODY_KNOWS


def step_rows(trace: MessageActionTrace, verdict: Attribution) -> list[StepRow]:
    """Lay out a run, a row per step; error mode and evidence stand on the suspects."""
    suspects = {*verdict.step_set, verdict.decisive_step}
    quotes = {item.index: item.quote for item in reversed(verdict.evidence)}  # the strongest wins
    return [
        StepRow(
            index=step.index,
            agent=printable(step.agent),
            kind=step.kind,
            score=blame.score,
            is_decisive=step.index == verdict.decisive_step,
            mode=mode_text(verdict, step.agent) if step.index in suspects else "",
            evidence=printable(quotes.get(step.index, "")) if step.index in suspects else "",
            content=printable(step.content),
        )
        for step, blame in zip(trace.steps, verdict.steps, strict=True)
    ]


def mode_text(verdict: Attribution, agent: str | None) -> str:
    """Name the agent's most likely error mode, with its code and taxonomy."""
    blame = verdict.mode_of(agent)
    return f"{blame.mode.name} ({blame.mode})" if blame else ""
