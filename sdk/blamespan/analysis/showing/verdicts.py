"""A verdict in words: what it says of the run, and a row per step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from blamespan.analysis.showing.legible import printable
from blamespan.attribution import NO_EVIDENCE, Attribution, Contradicted, Verification
from blamespan.trace import MessageActionTrace

__all__ = [
    "MOST_STEPS",
    "SHARE_WORTH_A_LINE",
    "StepRow",
    "contradicted_of",
    "lead_text",
    "mode_text",
    "order_text",
    "step_rows",
    "verification_text",
    "without_idle_suspects",
]

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


def verification_text(item: Verification) -> str:
    """Say what came of putting a suspect to the test: `confirmed: put right 3 of 3 succeed, as it was 0 of 3`."""
    text = f"{item.outcome}: put right {item.succeeded} of {item.repeats} succeed"
    if item.unchanged_repeats:
        text += f", as it was {item.unchanged_succeeded} of {item.unchanged_repeats}"
    return text if item.repeats else item.outcome


def order_text(verdict: Attribution) -> str:
    """Say why the decisive step is listed above one with a larger share; return an empty text where there is none."""
    ranked = verdict.ranked_steps()
    if len(ranked) < 2 or ranked[0].score >= ranked[1].score:
        return ""
    agent = next((blame for blame in verdict.agents if blame.agent == ranked[0].agent), None)
    held = f", {agent.score:.2f} over all its steps" if agent else ""
    return (
        f"step {ranked[0].index} comes first as the highest of {printable(ranked[0].agent)}{held}; the others by share"
    )


def without_idle_suspects(verdict: Attribution) -> Attribution:
    """Return the verdict as people see it: without suspects where nobody is to be named, else as it is.

    Who would be to blame if the run had failed is for those who ask.
    """
    if verdict.abstained is not None or verdict.names_suspects:
        return verdict
    steps = tuple(replace(step, score=0.0, by_evidence=None) for step in verdict.steps)
    return replace(verdict, steps=steps, decisive_step=None, agents=(), modes=(), step_set=(), evidence=())


def contradicted_of(verdict: Attribution) -> dict[int, Contradicted]:
    """Return what steps contradict, by step: of several the one with the strongest evidence."""
    return {item.index: item.contradicts for item in reversed(verdict.evidence) if item.contradicts is not None}


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


def lead_text(verdict: Attribution) -> str:
    """Return the words before the first of the suspects: whether the run shows that it failed by them."""
    return "most to blame" if verdict.has_evidence else f"suspects ({NO_EVIDENCE})"


def mode_text(verdict: Attribution, agent: str | None) -> str:
    """Name the agent's most likely error mode, with its code and taxonomy."""
    blame = verdict.mode_of(agent)
    return f"{blame.mode.name} ({blame.mode})" if blame else ""
