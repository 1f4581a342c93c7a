"""A run as people look at it: its steps with blame, evidence and checks, its agents, its suspects. Pure.

Terminal, page, report and MCP draw the same view.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from blamespan.analysis.showing.claims import ShownAnswer
from blamespan.analysis.showing.findings import BrokenRule, KnownFailure
from blamespan.analysis.showing.legible import clean
from blamespan.analysis.showing.verdicts import order_text, without_idle_suspects
from blamespan.analysis.spending import Spending, spending_of
from blamespan.annotate import read_verifications
from blamespan.attribution import Attribution, Contradicted, ModeBlame, Verification
from blamespan.guarding.recorded import GuardMark, read_guard_mark
from blamespan.trace import MessageActionTrace, Step

MAX_HEAT = 10
"""Heat of the step with the largest share; others in proportion."""
_NEXT_SUSPECTS = 3


@dataclass(frozen=True, slots=True)
class StepView:
    """One step.

    Attributes:
        step: The step as it was recorded.
        anchor: Its id on a page.
        agent: Who acted, cleaned.
        score: Its share of the blame, 0..1.
        heat: 0..10.
        is_decisive: Whether it decided the failure, or is the first suspect where no step is called decisive.
        is_in_set: Whether it belongs to the steps that hold most of the blame.
        quotes: Words that speak for its blame, as the tracer quotes them, cleaned; the strongest first.
        contradicts: Words elsewhere that it contradicts, cleaned; None where there are none.
        rules: Checks that it breaks or leaves open.
        guard: What a guard decided on it while the run went on.
        verification: What came of putting it to the test; None where nobody did.
    """

    step: Step
    anchor: str
    agent: str
    score: float
    heat: int
    is_decisive: bool
    is_in_set: bool
    quotes: tuple[str, ...]
    contradicts: Contradicted | None
    rules: tuple[BrokenRule, ...]
    guard: GuardMark | None
    verification: Verification | None

    @property
    def is_suspect(self) -> bool:
        """Whether it is the decisive step or one of those that hold most of the blame."""
        return self.is_decisive or self.is_in_set

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
        spent: The tokens and the money of its steps; None where no step counts any.
    """

    name: str
    role: str
    score: float
    modes: tuple[ModeBlame, ...]
    steps: int
    spent: Spending | None


@dataclass(frozen=True, slots=True)
class RunView:
    """One run.

    Attributes:
        trace: The run as it was recorded.
        verdict: On it; None where there is none to read. Of a run without a sign of failure it blames nobody.
        prefix: What ids on the page begin with, so that several runs can share one.
        task: What it was asked, cleaned.
        agents: Most blamed first.
        steps: In order.
        decisive: The step that decided the failure, or the first suspect where no step is called decisive.
        suspects: The next ones to look at.
        order: Why the decisive step is listed above one with a larger share; empty where there is none.
        possible: Who would be to blame if a run without a sign of failure had failed, most blamed first.
        broken: Checks that the run breaks or leaves open and that name no step of it.
        is_checked: Whether checks were made, or tried, at all.
        check_failure: Why checks could not be run, as a sentence; empty where they could.
        answer: Where the claims of its answer come from; None where they were not followed.
        known: Known failures that it shows.
        start_ns: When the first step began; 0 where the source has no clock.
        end_ns: When the last step ended.
        spent: The tokens and the money of all steps; None where no step counts any.
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
    broken: tuple[BrokenRule, ...]
    is_checked: bool
    check_failure: str
    answer: ShownAnswer | None
    known: tuple[KnownFailure, ...]
    start_ns: int
    end_ns: int
    spent: Spending | None

    @property
    def step_set(self) -> tuple[StepView, ...]:
        """The fewest steps that hold most of the blame."""
        return tuple(step for step in self.steps if step.is_in_set)

    @property
    def held(self) -> float:
        """How much of the blame the step set holds, 0..1."""
        return sum(step.score for step in self.step_set)

    @property
    def rules(self) -> list[tuple[StepView | None, BrokenRule]]:
        """Every check that is broken or open, with its step; broken ones first."""
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
    check_failure: str = "",
    prefix: str = "",
    with_idle_suspects: bool = False,
) -> RunView:
    """Lay out a run.

    Args:
        trace: The run.
        verdict: On it, if there is one.
        rules: What checks say of it; None where none were made.
        answer: Where its answer comes from; None where nobody looked.
        known: Known failures that it shows.
        check_failure: Why checks could not be run, as `RuleFindings` has it.
        prefix: For ids on the page.
        with_idle_suspects: Whether a run without a sign of failure shows who would be to blame if it had failed.
    """
    by_step: dict[int | None, list[BrokenRule]] = defaultdict(list)
    for rule in rules or ():
        by_step[rule.step].append(rule)
    possible: tuple[StepView, ...] = ()
    ranked = [] if verdict is None else verdict.ranked_steps()[: 1 + _NEXT_SUSPECTS]
    order = "" if verdict is None else order_text(verdict)
    if verdict is not None and not verdict.names_suspects and not with_idle_suspects:
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
        broken=tuple(by_step[None]),
        is_checked=rules is not None,
        check_failure=check_failure,
        answer=answer,
        known=tuple(known),
        start_ns=trace.start_ns,
        end_ns=max((step.end_ns for step in trace.steps), default=0),
        spent=spending_of(trace.steps),
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
    contradicts: dict[int, Contradicted] = {}
    for item in verdict.evidence if verdict else ():
        quotes[item.index].append(clean(item.quote))
        if item.contradicts is not None:
            contradicts.setdefault(item.index, Contradicted(item.contradicts.index, clean(item.contradicts.quote)))
    tests = (verdict.verified if verdict else ()) or read_verifications(trace)
    verified = {item.index: item for item in tests}
    highest = max(scores, default=0.0)
    return tuple(
        StepView(
            step=step,
            anchor=f"{prefix}step-{step.index}",
            agent=clean(step.agent),
            score=score,
            heat=math.ceil(MAX_HEAT * score / highest) if score > 0 else 0,
            is_decisive=verdict is not None and step.index == verdict.decisive_step,
            is_in_set=verdict is not None and step.index in verdict.step_set,
            quotes=tuple(quotes[step.index]),
            contradicts=contradicts.get(step.index),
            rules=tuple(rules.get(step.index, ())),
            guard=read_guard_mark(step),
            verification=verified.get(step.index),
        )
        for step, score in zip(trace.steps, scores, strict=True)
    )


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
            spent=spending_of(by_agent[agent.name]),
        )
        for agent in trace.agents
    ]
    return tuple(sorted(views, key=lambda agent: -agent.score))
