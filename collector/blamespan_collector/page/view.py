"""A run as people look at it: its steps with blame, evidence and rules, its agents, its suspects. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from blamespan.analysis.showing.claims import ShownAnswer
from blamespan.analysis.showing.judges import BrokenRule
from blamespan.analysis.showing.known_failures import KnownFailure
from blamespan.analysis.showing.legible import Passage, clean, passages
from blamespan.analysis.showing.verdicts import (
    contradicted_of,
    order_text,
    verification_text,
    without_idle_suspects,
)
from blamespan.annotate import read_verifications
from blamespan.attribution import Attribution, ModeBlame
from blamespan.guarding.recorded import GuardMark, read_guard_mark
from blamespan.trace import MessageActionTrace, Step

__all__ = ["AgentView", "RunView", "StepView", "view_of"]

MAX_HEAT = 10
"""Heat of the step with the largest share; others in proportion."""
_NEXT_SUSPECTS = 3
_SHOWN_CHARS = 1_500
_AROUND_CHARS = 500
"""Seen before evidence that is far down."""
_FOLDED_CHARS = 60_000
"""Of one step: more is for the raw spans."""
_RUN_CHARS = 3_000_000
"""Of one run, after which steps show their beginning only."""


@dataclass(frozen=True, slots=True)
class StepView:
    """One step.

    Attributes:
        step: It.
        anchor: Its id on the page.
        agent: Who acted, cleaned.
        score: Its share of the blame, 0..1.
        heat: 0..10.
        is_decisive: Whether it decided the failure, or is the first suspect where no step is called decisive.
        is_in_set: Whether it belongs to the steps that hold most of the blame.
        shown: What is seen of its text at once.
        folded: What is seen when asked for: the rest, or all of it where *is_excerpt*.
        is_excerpt: Whether *shown* is the place of the evidence rather than the beginning.
        left_out: How many characters are not on the page at all.
        given: What of its input no step before it says; folded away.
        given_left_out: How many characters of that are not on the page.
        evidence: Words that speak for its blame, as the tracer quotes them.
        contradicted: Words elsewhere that it contradicts, and
        contradicted_step: the step that says them; None for the task.
        rules: Those it breaks or leaves open.
        guard: What a guard decided on it while the run went on.
        verified: What came of putting it to the test: the outcome and the counts in words; None where nobody did.
    """

    step: Step
    anchor: str
    agent: str
    score: float
    heat: int
    is_decisive: bool
    is_in_set: bool
    shown: tuple[Passage, ...]
    folded: tuple[Passage, ...]
    is_excerpt: bool
    left_out: int
    given: str
    given_left_out: int
    evidence: tuple[str, ...]
    contradicted: str
    contradicted_step: int | None
    rules: tuple[BrokenRule, ...]
    guard: GuardMark | None
    verified: tuple[str, str] | None = None

    @property
    def duration_ns(self) -> int:
        """How long it took."""
        return self.step.end_ns - self.step.start_ns


@dataclass(frozen=True, slots=True)
class AgentView:
    """One participant.

    Attributes:
        name: Cleaned.
        role: As in the trace.
        score: Its share of the blame, 0..1.
        modes: What it is blamed for, most likely first.
        steps: How many it made.
        input_tokens: What its steps read.
        output_tokens: What its steps wrote.
    """

    name: str
    role: str
    score: float
    modes: tuple[ModeBlame, ...]
    steps: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class RunView:
    """One run.

    Attributes:
        trace: It.
        verdict: On it; None where there is none to read. Of a run without a sign of failure it blames nobody.
        prefix: What ids on the page begin with, so that several runs can share one.
        task: What it was asked, cleaned.
        agents: Most blamed first.
        steps: In order.
        decisive: The step that decided the failure, or the first suspect where no step is called decisive.
        suspects: The next ones to look at.
        order: Why the decisive step is listed above one with a larger share; empty where there is none.
        possible: Who would be to blame if a run without a sign of failure had failed, most blamed first.
        step_set: The fewest steps that hold most of the blame.
        held: How much these hold, 0..1.
        broken: Rules that it breaks or leaves open and that name no step of it.
        is_checked: Whether rules were checked at all.
        answer: Where the claims of its answer come from; None where they were not followed.
        known: Known failures that it shows.
        start_ns: When the first step began; 0 where the source has no clock.
        end_ns: When the last step ended.
    """

    trace: MessageActionTrace
    verdict: Attribution | None
    prefix: str
    task: str
    agents: tuple[AgentView, ...]
    steps: tuple[StepView, ...]
    decisive: StepView | None
    suspects: tuple[StepView, ...]
    order: str
    possible: tuple[StepView, ...]
    step_set: tuple[StepView, ...]
    held: float
    broken: tuple[BrokenRule, ...]
    is_checked: bool
    answer: ShownAnswer | None
    known: tuple[KnownFailure, ...]
    start_ns: int
    end_ns: int

    @property
    def rules(self) -> list[tuple[StepView | None, BrokenRule]]:
        """List every rule that is broken or open, with its step; broken ones first."""
        rules: list[tuple[StepView | None, BrokenRule]] = [(None, rule) for rule in self.broken]
        rules += [(step, rule) for step in self.steps for rule in step.rules]
        return sorted(rules, key=lambda item: item[1].outcome != "fail")

    def first_shown(self, most: int) -> int:
        """Return the index from which on *most* steps are shown: where the part with the decisive one begins."""
        return 0 if self.decisive is None else self.decisive.step.index // most * most

    @property
    def mode(self) -> ModeBlame | None:
        """What the agent of the decisive step is blamed for."""
        if self.verdict is None or self.decisive is None:
            return None
        return self.verdict.mode_of(self.decisive.step.agent)


def view_of(
    trace: MessageActionTrace,
    verdict: Attribution | None,
    rules: Sequence[BrokenRule] | None = None,
    answer: ShownAnswer | None = None,
    known: Sequence[KnownFailure] = (),
    *,
    prefix: str = "",
) -> RunView:
    """Lay out a run.

    Args:
        trace: It.
        verdict: On it, if there is one.
        rules: What rules say of it; None where none were checked.
        answer: Where its answer comes from; None where nobody looked.
        known: Known failures that it shows.
        prefix: For ids on the page.
    """
    by_step: dict[int | None, list[BrokenRule]] = defaultdict(list)
    for rule in rules or ():
        by_step[rule.step].append(rule)
    possible: tuple[StepView, ...] = ()
    ranked = [] if verdict is None else verdict.ranked_steps()[: 1 + _NEXT_SUSPECTS]
    order = "" if verdict is None else order_text(verdict)
    if verdict is not None and not verdict.names_suspects:
        blamed = _steps(trace, verdict, by_step, prefix)
        possible = tuple([blamed[step.index] for step in ranked[:_NEXT_SUSPECTS]])
        verdict, ranked = without_idle_suspects(verdict), []
    steps = _steps(trace, verdict, by_step, prefix)
    return RunView(
        trace=trace,
        verdict=verdict,
        prefix=prefix,
        task=clean(trace.task),
        agents=_agents(trace, verdict),
        steps=steps,
        decisive=next((step for step in steps if step.is_decisive), None),
        suspects=tuple([steps[step.index] for step in ranked if not steps[step.index].is_decisive]),
        order=order,
        possible=possible,
        step_set=tuple(step for step in steps if step.is_in_set),
        held=sum(step.score for step in steps if step.is_in_set),
        broken=tuple(by_step[None]),
        is_checked=rules is not None,
        answer=answer,
        known=tuple(known),
        start_ns=min((step.start_ns for step in trace.steps), default=0),
        end_ns=max((step.end_ns for step in trace.steps), default=0),
    )


def _steps(
    trace: MessageActionTrace,
    verdict: Attribution | None,
    rules: Mapping[int | None, Sequence[BrokenRule]],
    prefix: str,
) -> tuple[StepView, ...]:
    has_blame = verdict is not None and verdict.abstained is None
    scores = [blame.score for blame in verdict.steps] if verdict and has_blame else [0.0] * len(trace.steps)
    quotes: dict[int, list[str]] = defaultdict(list)
    for item in verdict.evidence if verdict else ():
        quotes[item.index].append(item.quote)
    contradicted = contradicted_of(verdict) if verdict else {}
    tests = (verdict.verified if verdict else ()) or read_verifications(trace)
    verified = {item.index: (item.outcome, verification_text(item)) for item in tests}
    highest, room = max(scores, default=0.0), _RUN_CHARS
    views: list[StepView] = []
    for step, score in zip(trace.steps, scores, strict=True):
        text = _FoldedText.of(step.content, quotes[step.index], room)
        given = step.input_text[: max(_SHOWN_CHARS, min(_FOLDED_CHARS, room - text.chars))]
        room -= text.chars + len(given)
        views.append(
            StepView(
                step=step,
                anchor=f"{prefix}step-{step.index}",
                agent=clean(step.agent),
                score=score,
                heat=math.ceil(MAX_HEAT * score / highest) if score > 0 else 0,
                is_decisive=verdict is not None and step.index == verdict.decisive_step,
                is_in_set=verdict is not None and step.index in verdict.step_set,
                shown=text.shown,
                folded=text.folded,
                is_excerpt=text.is_excerpt,
                left_out=text.left_out,
                given=clean(given),
                given_left_out=len(step.input_text) - len(given),
                evidence=tuple(map(clean, quotes[step.index])),
                contradicted=clean(contradicted[step.index].quote) if step.index in contradicted else "",
                contradicted_step=contradicted[step.index].index if step.index in contradicted else None,
                rules=tuple(rules.get(step.index, ())),
                guard=read_guard_mark(step),
                verified=verified.get(step.index),
            )
        )
    return tuple(views)


@dataclass(frozen=True, slots=True)
class _FoldedText:
    """A step's text, parted into what is seen at once, what is folded away, and what is left out."""

    shown: tuple[Passage, ...]
    folded: tuple[Passage, ...]
    is_excerpt: bool
    left_out: int
    chars: int

    @classmethod
    def of(cls, content: str, quotes: Sequence[str], room: int) -> _FoldedText:
        """Part *content*; where evidence is far down, its place is seen rather than the beginning."""
        most = max(_SHOWN_CHARS, min(_FOLDED_CHARS, room))
        text = clean(content[:most])
        left_out = max(0, len(content) - most)
        every = passages(text, quotes)
        evidence = next((number for number, passage in enumerate(every) if passage.is_evidence), None)
        start = sum(len(passage.text) for passage in every[:evidence]) if evidence is not None else 0
        if evidence is not None and start > _SHOWN_CHARS - _AROUND_CHARS:
            around = text[start - _AROUND_CHARS : start + _SHOWN_CHARS - _AROUND_CHARS]
            return cls((Passage("… "), *passages(around, quotes), Passage(" …")), every, True, left_out, len(text))
        shown, folded = _split_at(every, _SHOWN_CHARS)
        return cls(shown, folded, False, left_out, len(text))


def _split_at(every: Sequence[Passage], at: int) -> tuple[tuple[Passage, ...], tuple[Passage, ...]]:
    """Part text after *at* characters."""
    before: list[Passage] = []
    after: list[Passage] = []
    for passage in every:
        fits = max(0, at)
        at -= len(passage.text)
        before += [Passage(passage.text[:fits], passage.is_evidence)] if fits else []
        after += [Passage(passage.text[fits:], passage.is_evidence)] if len(passage.text) > fits else []
    return tuple(before), tuple(after)


def _agents(trace: MessageActionTrace, verdict: Attribution | None) -> tuple[AgentView, ...]:
    shares = {blame.agent: blame.score for blame in verdict.agents} if verdict else {}
    modes = verdict.modes if verdict else ()
    by_agent: dict[str, list[Step]] = defaultdict(list)
    for step in trace.steps:
        by_agent[step.agent].append(step)
    views = [
        AgentView(
            name=clean(agent.name),
            role=agent.role,
            score=shares.get(agent.name, 0.0),
            modes=tuple(mode for mode in modes if mode.agent == agent.name),
            steps=len(by_agent[agent.name]),
            input_tokens=_tokens(by_agent[agent.name])[0],
            output_tokens=_tokens(by_agent[agent.name])[1],
        )
        for agent in trace.agents
    ]
    return tuple(sorted(views, key=lambda agent: -agent.score))


def _tokens(steps: Iterable[Step]) -> tuple[int, int]:
    counted = [step.usage for step in steps if step.usage]
    return sum(usage.input_tokens for usage in counted), sum(usage.output_tokens for usage in counted)
