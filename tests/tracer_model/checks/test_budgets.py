"""Budgets that a guard recorded as used up are broken checks, with the agent and the step."""

from __future__ import annotations

from dataclasses import replace

from blamespan.conventions import GUARD_ACTION, GUARD_KIND, GUARD_REASON
from blamespan.trace import MessageActionTrace
from blamespan_tracer.checks import CHECKS, ChecksTracer, apply_checks
from tests.tracer_model.teams import team

RUN = team(("a", "We need 12 boxes."), ("b", "[No model was asked.]"), ("a", "Then we stop."))


def guarded(kind: str) -> MessageActionTrace:
    attributes = {GUARD_ACTION: "block", GUARD_KIND: kind, GUARD_REASON: "the budget is used up"}
    steps = [replace(step, attributes=attributes) if step.index == 1 else step for step in RUN.steps]
    return replace(RUN, steps=tuple(steps))


def test_overrun_of_a_budget_is_an_error_with_an_agent_and_a_step() -> None:
    """The step that asked for more is blamed, and called X5; another decision of the guard is no overrun."""
    (check,) = [check for check in CHECKS if check.name == "budget-kept"]

    (broken,) = apply_checks([check], guarded("budget"))
    (kept,) = apply_checks([check], guarded("tool"))
    (nothing,) = apply_checks([check], RUN)
    (verdict,) = ChecksTracer([check]).attribute([guarded("budget")])

    assert (broken.outcome, broken.step, broken.reason) == ("fail", 1, "the budget is used up")
    assert kept.outcome == "pass"
    assert nothing.outcome == "inconclusive"
    assert (verdict.decisive_step, verdict.agents[0].agent, str(verdict.modes[0].mode)) == (1, "b", "blamespan:X5")
