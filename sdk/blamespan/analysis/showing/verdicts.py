"""A verdict in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from blamespan.analysis.showing.legible import printable
from blamespan.attribution import NO_EVIDENCE, Attribution, Cause, Opinion, Verification

MOST_STEPS: Final = 40
"""Steps of one run that are shown without being asked for more."""
SHARE_WORTH_A_LINE: Final = 0.05
"""Of the blame: steps of longer runs with less are left out."""


def verification_text(item: Verification) -> str:
    """Say what came of putting a suspect to the test: `confirmed: put right 3 of 3 succeed, as it was 0 of 3`."""
    text = f"{item.outcome}: put right {item.succeeded} of {item.repeats} succeed"
    if item.unchanged_repeats:
        text += f", as it was {item.unchanged_succeeded} of {item.unchanged_repeats}"
    return text if item.repeats else item.outcome


def opinion_text(item: Opinion) -> str:
    """Say what one of several says: `auto 0.1: step 4, 0.46`."""
    said = f"step {item.step}, {item.score:.2f}" if item.step is not None else item.note or "names nobody"
    return f"{item.tracer}: {said}"


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


def cause_text(cause: Cause) -> str:
    """Say what a run failed by where no agent is to blame, with the words that show it."""
    where = "" if cause.step is None else f"step {cause.step} "
    who, reason = printable(cause.title), printable(cause.reason)
    text = f"no agent is blamed, but {who}: {reason}: {where}“{printable(cause.quote)}”"
    if cause.against is None:
        return text
    where = "the task " if cause.against.index is None else f"step {cause.against.index} "
    return f"{text}, {where}“{printable(cause.against.quote)}”"


def lead_text(verdict: Attribution) -> str:
    """Return the words before the first of the suspects: whether the run shows that it failed by them."""
    return "most to blame" if verdict.has_evidence else f"suspects ({NO_EVIDENCE})"


def mode_text(verdict: Attribution, agent: str | None) -> str:
    """Name the agent's most likely error mode, with its code and taxonomy."""
    blame = verdict.mode_of(agent)
    return f"{blame.mode.name} ({blame.mode})" if blame else ""
