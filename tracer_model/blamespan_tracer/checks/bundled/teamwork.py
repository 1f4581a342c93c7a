"""How agents work together: whose part they play, whom they hand over to, what they pass on, heed and approve."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from blamespan_tracer.checks.check import ExaminedRun, Finding, Outcome, check, step_check
from blamespan_tracer.checks.reading import ReadStep
from blamespan_tracer.cues import STOP_WORDS
from blamespan_tracer.ledger import find_values
from blamespan_tracer.ledger.equations import equations
from blamespan_tracer.tokens import MAX_TEXT_CHARS, find_words

_LEAST_WORDS, _RESTATES = 8, 0.8
"""Words of a task that can be said again, and share of them that a step has if it says the task again."""

_FAILS = re.compile(
    r"(?i)\b(?:[1-9]\d{0,4} (?:tests? )?fail(?:ed|ures?)?|tests? fail(?:ed|s)?|assertionerror|FAILED)\b"
)


@check("speaks-for-itself", "An agent plays nobody else's part.", mode="mast:FM-1.2", trust=0.4)
def speaks_for_itself(run: ExaminedRun) -> Iterator[Finding]:
    """Look for an agent that writes another's part: a line that begins with the other's name and a colon."""
    names = {agent.name for agent in run.trace.agents if len(agent.name) > 2}
    for step in run.decisions:
        if step.kind not in ("message", "plan"):
            continue
        lines = [line.strip(" *#_") for line in run.read_text(step).split("\n")]
        part = next((line for line in lines if _speaker_of(line) in names - {step.agent}), None)
        yield Finding(step.index, "inconclusive" if part else "pass", part or "", "speaks in another's name")


def _speaker_of(line: str) -> str:
    name, colon, _ = line[:80].partition(":")
    return name.strip(" *_") if colon else ""


@check(
    "hand-off-arrives", "Who is handed the work exists, and acts.", mode="blamespan:X6", trust=0.6, is_mended_later=True
)
def hand_offs_arrive(run: ExaminedRun) -> Iterator[Finding]:
    """Look for hand-offs to somebody the run does not know, and to somebody who then never acts."""
    names = {agent.name for agent in run.trace.agents}
    last_of = {step.agent: step.index for step in run.trace.steps}
    for step in run.decisions:
        if step.kind != "handoff" or not step.recipients:
            continue
        recipients = [name for name in step.recipients if name in names]
        if not recipients:
            yield Finding(step.index, "fail", step.content, f"nobody is called {step.recipients[0][:60]!r}")
        elif all(last_of.get(name, -1) < step.index for name in recipients):
            yield Finding(step.index, "fail", step.content, f"{recipients[0][:60]!r} never acts on it")
        else:
            yield Finding(step.index, "pass")


@step_check(
    "objection-heard",
    "Who is objected to does not say the same again.",
    mode="mast:FM-2.5",
    trust=0.5,
    is_symptom=True,
    is_mended_later=True,
)
def agents_heed_objections(run: ExaminedRun, read: ReadStep) -> Iterator[Finding]:
    """Look for an agent that, after an objection to it, says the same again."""
    if read.is_objected_to and read.step.kind == "message":
        outcome: Outcome = "fail" if read.is_repeated else "pass"
        yield Finding(read.step.index, outcome, read.step.content, "says again what was objected to")


@check("task-restated-whole", "Who states the task to others leaves no number out.", mode="mast:FM-2.4", trust=0.4)
def task_is_restated_whole(run: ExaminedRun) -> Iterator[Finding]:
    """Look at who says the task again to others: every number of it must be there."""
    of_task, task_words = _list_numbers(run.trace.task), _list_words(run.trace.task)
    if not of_task or len(task_words) < _LEAST_WORDS:
        return
    for step in run.decisions:
        if step.kind not in ("message", "plan", "handoff") or not run.hints(step.index, "request", "plan"):
            continue
        if len(task_words & _list_words(step.content)) < _RESTATES * len(task_words):
            continue
        missing = sorted(of_task - _list_numbers(step.content))
        yield Finding(
            step.index, "inconclusive" if missing else "pass", run.sentence_with(step), f"leaves out {missing[:3]!r}"
        )
        return


def _list_numbers(text: str) -> set[str]:
    return {value.key for value in find_values(text[:MAX_TEXT_CHARS]) if value.form == "number"}


def _list_words(text: str) -> set[str]:
    return {word for word in map(str.lower, find_words(text[:MAX_TEXT_CHARS])) if word[0].isalpha()} - STOP_WORDS


@check(
    "approval-sees-errors",
    "What one's own tool found failing is not approved.",
    mode="mast:FM-3.3",
    trust=0.7,
    is_symptom=True,
    is_mended_later=True,
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
    is_mended_later=True,
)
def approvals_see_wrong_sums(run: ExaminedRun) -> Iterator[Finding]:
    """Look for an approval of a step that holds a sum which does not hold."""
    for before, step in pairwise(run.decisions):
        sums = () if before.kind == "tool_call" else equations(run.read_text(before))
        if before.agent == step.agent or not sums:
            continue
        if step.kind != "message" or not run.hints(step.index, "agree", "check"):
            continue
        is_wrong = not all(equation.holds for equation in sums)
        is_blind = is_wrong and not run.hints(step.index, "object", "negation", "contrast")
        yield Finding(step.index, "fail" if is_blind else "pass", step.content, "approves a sum that does not hold")
