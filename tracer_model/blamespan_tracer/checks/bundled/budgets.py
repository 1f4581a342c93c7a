"""What the guard of a run said of it: budgets that were used up."""

from __future__ import annotations

from collections.abc import Iterator

from blamespan.conventions import GUARD_ACTION, GUARD_KIND, GUARD_REASON
from blamespan_tracer.checks.check import ExaminedRun, Finding, check


@check("budget-kept", "An agent asks for no more than its budget.", mode="blamespan:X5", trust=0.8)
def agents_keep_their_budget(run: ExaminedRun) -> Iterator[Finding]:
    """Look for steps of which the guard recorded that a budget was used up; without a guard nothing is judged."""
    for step in run.decisions:
        if GUARD_ACTION not in step.attributes:
            continue
        is_over = step.attributes.get(GUARD_KIND) == "budget"
        reason = str(step.attributes.get(GUARD_REASON) or "") if is_over else ""
        yield Finding(step.index, "fail" if is_over else "pass", step.content, reason)
