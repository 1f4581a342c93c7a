"""Actions that failed and are made again as they were."""

from __future__ import annotations

import re
from collections.abc import Iterator

from blamespan.trace import Step
from blamespan_tracer.checks.check import ExaminedRun, Finding, Source, check

_PASSES_BY_ITSELF = re.compile(
    r"(?i)time[- ]?d? ?out|temporar|unavailable|try again|retry|rate.?limit|too many|\b(?:429|500|502|503|504)\b|busy|"
    r"connection|network|overload|still (?:running|building|pending)|not (?:yet )?ready|in progress|locked|flak"
)
"""Failures that may be gone the next time."""

_BLOCK = re.compile(r"```[^\n]*\n(.*?)```", re.DOTALL)
_LEAST_CODE = 40


@check("failed-action-changed", "What failed is not done again as it was.", mode="mast:FM-1.3", trust=0.7)
def failed_actions_change(run: ExaminedRun) -> Iterator[Finding]:
    """Look for a call, or code, that is given again unchanged after it failed for a reason that lasts."""
    failed: dict[str, Step] = {}
    for step in run.trace.steps:
        if not run.trace.can_be_blamed(step):
            continue
        action = _read_action(step)
        if not action:
            continue
        before = failed.get(action)
        failure = _find_failure(run, step)
        if before is not None and failure is not None and failure.content == before.content:
            quote = step.content if step.kind == "tool_call" else action
            yield Finding(step.index, "fail", quote, "this failed before, and nothing was changed",
                          source=Source(before.index, before.content[:200]))  # fmt: skip
        elif failure is not None:
            yield Finding(step.index, "pass")
        if failure is not None and not _PASSES_BY_ITSELF.search(failure.content[:2_000]):
            failed.setdefault(action, failure)
        elif run.results_of.get(step.index) and failure is None:
            failed.clear()  # something went through: what failed before it may go through, too


def _read_action(step: Step) -> str:
    """Return what a step does: its call, or the code that it gives; empty for neither."""
    if step.kind == "tool_call":
        return step.content.strip()
    code = "\n".join(_BLOCK.findall(step.content)).strip() if step.kind == "message" else ""
    return code if len(code) >= _LEAST_CODE else ""


def _find_failure(run: ExaminedRun, step: Step) -> Step | None:
    """Return what says that a step's action failed: the tool's answer, or of code the next step, if a tool's."""
    if step.kind == "tool_call":
        answers = run.results_of.get(step.index, [])
        return next((answer for answer in answers if run.is_error(answer)), None)
    after = run.trace.steps[step.index + 1] if step.index + 1 < len(run.trace.steps) else None
    if after is None or run.trace.can_be_blamed(after):
        return None
    return after if run.is_error(after) or re.search(r"\bFAILED\b|\b[1-9]\d* failed\b", after.content) else None
