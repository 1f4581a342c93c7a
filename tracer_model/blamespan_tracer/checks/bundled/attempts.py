"""Actions that failed, and are made again as they were."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from blamespan.trace import Step
from blamespan_tracer.checks.check import ExaminedRun, Finding, Source, check

_PASSES_BY_ITSELF: Final = re.compile(
    r"(?i)time[- ]?d? ?out|temporar|unavailable|try again|retry|rate.?limit|too many|\b(?:429|500|502|503|504)\b|busy|"
    r"connection|network|overload|still (?:running|building|pending)|not (?:yet )?ready|in progress|locked|flak"
)
"""Failures that may be gone the next time."""

_BLOCK: Final = re.compile(r"```[^\n]*\n(.*?)```", re.DOTALL)
_TESTS_FAIL: Final = re.compile(r"\bFAILED\b|\b[1-9]\d{0,5} failed\b")
_LEAST_CODE: Final = 40
_MAX_CHARS: Final = 2_000


@check("failed-action-changed", "What failed is not done again as it was.", mode="mast:FM-1.3", trust=0.7)
def failed_actions_change(run: ExaminedRun) -> Iterator[Finding]:
    """Look for a call, or code, that is given again unchanged and fails again alike, for a reason that lasts."""
    failures: dict[str, Step] = {}
    for step in run.decisions:
        action = _read_action(step)
        failure = _find_failure(run, step) if action else None
        if failure is None:
            if action and run.results_of.get(step.index):
                failures.clear()  # something went through: what failed before it may go through, too
            continue
        before = failures.get(action)
        if before is not None and before.content == failure.content:
            source = Source(before.index, before.content[:_MAX_CHARS])
            yield Finding(step.index, "fail", action, "this failed before, and nothing was changed", source=source)
        else:
            yield Finding(step.index, "pass")
        if not _PASSES_BY_ITSELF.search(failure.content[:_MAX_CHARS]):
            failures.setdefault(action, failure)


def _read_action(step: Step) -> str:
    """Return what a step does: its call, or the code that it gives; empty for neither."""
    if step.kind == "tool_call":
        return step.content.strip()
    code = "\n".join(_BLOCK.findall(step.content)).strip() if step.kind == "message" else ""
    return code if len(code) >= _LEAST_CODE else ""


def _find_failure(run: ExaminedRun, step: Step) -> Step | None:
    """Return what says that an action failed: the tool's answer, or the word of who ran the code right after it."""
    answers = run.results_of.get(step.index, [])
    if step.kind != "tool_call":
        after = run.trace.steps[step.index + 1 : step.index + 2]
        answers = [one for one in after if not run.trace.can_be_blamed(one)]
    return next((one for one in answers if run.is_error(one) or _TESTS_FAIL.search(one.content[-_MAX_CHARS:])), None)
