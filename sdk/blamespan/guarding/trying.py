"""What a guard would have done on a recorded run, step by step: the same rules as live, on what was recorded.

The recording goes on as it went: what an agent would have said instead is not known. Times and tokens are the
recording's, so the same run is judged alike however often it is tried.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from blamespan.conventions import TOOL_ARGUMENTS, TOOL_NAME
from blamespan.guarding.budgets import Books, Overrun
from blamespan.guarding.decisions import ACTIONS, Action, Decision, OwnRule, ProposedStep, strictest
from blamespan.guarding.guard import Guard
from blamespan.guarding.policy import Policy
from blamespan.guarding.rules import means_agent, read_arguments
from blamespan.intercepting.boundaries import Opportunity, RunScope
from blamespan.trace import MessageActionTrace, Step


@dataclass(frozen=True, slots=True)
class TriedStep:
    """A step on which a guard would have decided.

    Attributes:
        step: Its index.
        agent: Whose.
        action: The strictest action, where it is first taken.
        decisions: Every decision.
    """

    step: int
    agent: str
    action: Action
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class TriedRun:
    """A recorded run under a guard.

    Attributes:
        trace: The run.
        steps: The steps on which it would have decided, in order.
    """

    trace: MessageActionTrace
    steps: tuple[TriedStep, ...]

    @property
    def is_disturbed(self) -> bool:
        """Whether it would have done anything but observe."""
        return any(step.action != "observe" for step in self.steps)


def try_run(policies: Sequence[Policy], trace: MessageActionTrace, rules: Sequence[OwnRule] = ()) -> TriedRun:
    """Try policies on a recorded run.

    Args:
        policies: The policies.
        trace: The run.
        rules: Rules in Python.

    Raises:
        ConfigError: if a policy names a check that there is not.
        MissingExtra: if it needs what is not installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        clock = _RecordedClock()
        local = [replace(policy, day_file=str(Path(folder) / "days.sqlite")) for policy in policies]
        guard = Guard(local, rules, books=lambda policy: Books(policy, clock=clock, wall_clock=clock))
        return TriedRun(trace, tuple(_try_steps(guard, trace, clock)))


class _RecordedClock:
    """Tells the time of the step that is tried; it never goes back, whatever the recording says."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def advance(self, ns: int) -> None:
        self.now_s = max(self.now_s, ns / 1e9)


def _try_steps(guard: Guard, trace: MessageActionTrace, clock: _RecordedClock) -> Iterable[TriedStep]:
    run = RunScope()
    before: Step | None = None
    for step in trace.steps:
        clock.advance(step.start_ns)
        proposed = _propose(trace, step)
        if proposed is None:
            continue
        at = Opportunity("response", run, step.agent, step.index, task=trace.task)
        decisions = guard.judge(at, proposed) if proposed.kind != "tool_result" else []
        if step.recipients and step.kind == "handoff":
            way = replace(proposed, kind="delivery", recipients=step.recipients)
            decisions = [*decisions, *guard.judge(at, way)]
        if proposed.kind != "tool_result":
            decisions = [*decisions, *_spend(guard, at, proposed, step, before)]
        guard.take_note(at, proposed)
        before = step
        worst = strictest(decisions)
        if worst is not None:
            yield TriedStep(step.index, step.agent, worst.action, tuple(sorted(decisions, key=_severity, reverse=True)))


def _severity(decision: Decision) -> int:
    return ACTIONS.index(decision.action)


def _propose(trace: MessageActionTrace, step: Step) -> ProposedStep | None:
    """Read a recorded step as the guard would have seen it; None where nobody can be held to it."""
    if step.kind == "tool_result":
        return ProposedStep("tool_result", step.agent, step.content)
    if not trace.can_be_blamed(step):
        return None
    if step.kind != "tool_call":
        return ProposedStep("message", step.agent, step.content)
    name = step.attributes.get(TOOL_NAME)
    tool, _, rest = step.content.partition("(")
    tool = name if isinstance(name, str) else tool.strip()[:200]
    recorded = step.attributes.get(TOOL_ARGUMENTS)
    text = recorded if isinstance(recorded, str) else rest.rstrip().removesuffix(")")
    return ProposedStep("tool_call", step.agent, text, tool, arguments=read_arguments(text))


def _spend(guard: Guard, at: Opportunity, proposed: ProposedStep, step: Step, before: Step | None) -> list[Decision]:
    """Count what a step cost: a model call for each answer of an agent, and a tool call for each call in it."""
    is_same_answer = before is not None and before.kind == "tool_call" and step.kind == "tool_call"
    is_same_answer = is_same_answer and before is not None and before.agent == step.agent
    overruns: list[Overrun] = []
    for _, books in guard.books:
        for kind in ("model", "tool"):
            if (kind == "tool" and step.kind != "tool_call") or (kind == "model" and is_same_answer):
                continue
            outcome = books.reserve(
                "tool" if kind == "tool" else "model",
                (step.agent,),
                at.run,
                0,
                lambda name: means_agent(name, proposed),
            )
            if isinstance(outcome, Overrun):
                overruns.append(outcome)
            elif step.usage is not None and kind == "model":
                books.settle(outcome, step.usage, 0, "")
                books.release(outcome)
            else:
                books.release(outcome)
    return [
        Decision(one.budget.action, one.reason, one.budget.name, "budget", step.agent, proposed.tool)
        for one in overruns
    ]
