"""Approvals of what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from blamespan_tracer.checks.check import ExaminedRun, Finding, check

_FAILS = re.compile(
    r"(?i)\b(?:[1-9]\d{0,4} (?:tests? )?fail(?:ed|ures?)?|tests? fail(?:ed|s)?|assertionerror|FAILED)\b"
)


@check(
    "approval-sees-errors",
    "What one's own tool found failing is not approved.",
    mode="mast:FM-3.3",
    trust=0.7,
    is_symptom=True,
)
def approvals_see_errors(run: ExaminedRun) -> Iterator[Finding]:
    """Look for an approval right after the approver's own tool said that something fails."""
    for index, results in run.results_of.items():
        call = run.trace.steps[index]
        step = run.next_own_decision(call) if run.trace.can_be_blamed(call) else None
        if step is None or step.kind == "tool_call" or not run.hints(step.index, "agree"):
            continue
        fails = bool(_FAILS.search(results[-1].content[:4_000]))
        is_blind = fails and not run.hints(step.index, "object", "error", "negation", "inability")
        yield Finding(
            step.index, "fail" if is_blind else "pass", step.content, "approves what its own tool found failing"
        )


@check(
    "approval-sees-sums",
    "A sum that does not hold is not approved.",
    mode="mast:FM-3.3",
    trust=0.7,
    is_symptom=True,
)
def approvals_see_wrong_sums(run: ExaminedRun) -> Iterator[Finding]:
    """Look for an approval of a step that holds a sum which does not hold."""
    analysis = run.analysis
    for before, after in pairwise(np.flatnonzero(analysis.decides).tolist()):
        step = analysis.steps[after].said[0]
        if analysis.agent[before] == analysis.agent[after] or not analysis.sums[before]:
            continue
        if step.kind != "message" or not run.hints(step.index, "agree", "check"):
            continue
        is_blind = bool(analysis.wrong_sums[before]) and not run.hints(step.index, "object", "negation", "contrast")
        yield Finding(step.index, "fail" if is_blind else "pass", step.content, "approves a sum that does not hold")
