"""Calls of tools: whether they are well formed, and what is made of their results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from blamespan_tracer.checks.check import ExaminedRun, Finding, Outcome, check, step_check
from blamespan_tracer.checks.reading import ReadStep

_MEETS_AN_ERROR = ("error", "inability", "hedge", "object", "negation", "redo", "check")
"""What a step hints at that does not pass over the error of its tool."""

_SAYS_SO = ("error", "inability")
"""What a later step hints at that says so after all."""

_REFUSED = re.compile(
    r"(?i)unexpected keyword argument|missing \d{1,3} required|validation error|invalid (?:json|arguments?|tool)|"
    r"unknown (?:tool|function)|(?:tool|function) .{0,60}(?:does not exist|not found|is not available)|"
    r"not a valid tool|no such tool|JSONDecodeError"
)

_LONG = 3
"""Characters of a value that is said to be unknown, at least so many and one."""


@check(
    "tool-error-met",
    "After its tool failed an agent tries again or says so.",
    mode="blamespan:X3",
    trust=0.6,
    is_mended_later=True,
)
def agents_meet_tool_errors(run: ExaminedRun) -> Iterator[Finding]:
    """Look at what an agent does after its tool failed: call again, say so, or go on as if nothing happened."""
    for index, results in run.results_of.items():
        call = run.trace.steps[index]
        if not run.trace.can_be_blamed(call) or not run.is_error(results[-1]):
            continue
        step = run.next_own_decision(call)
        if step is None:
            continue
        is_tried_again = step.kind in ("tool_call", "handoff") or "```" in step.content
        is_met = is_tried_again or run.hints(step.index, *_MEETS_AN_ERROR)
        yield Finding(step.index, "pass" if is_met else "fail", step.content, "goes on although its tool failed")
        while not is_met and (step := run.next_own_decision(step)) is not None:
            is_met = run.tool_of(step) == run.tool_of(call) or run.hints(step.index, *_SAYS_SO)
            if is_met:
                yield Finding(step.index, "pass")


@step_check(
    "arguments-well-formed",
    "A call names a tool that exists, with arguments that it takes.",
    mode="blamespan:X2",
    trust=0.5,
    is_mended_later=True,
)
def arguments_fit_their_tool(run: ExaminedRun, read: ReadStep) -> Iterator[Finding]:
    """Look for calls that tools refuse for their name or arguments, and for arguments that are broken JSON."""
    step = read.step
    if step.kind != "tool_call":
        return
    results = run.results_of.get(step.index, [])
    is_refused = any(_REFUSED.search(result.content[:2_000]) for result in results)
    if is_refused or _has_broken_json(step.content):
        yield Finding(step.index, "fail", step.content, "refused by the tool" if is_refused else "broken arguments")
    else:
        yield Finding(step.index, "pass")


def _has_broken_json(content: str) -> bool:
    """Check whether a call's arguments begin like a JSON object and are none."""
    begin = content.find("{")
    if begin < 0 or len(content) > 100_000:
        return False
    text = content[begin:].rstrip()
    text = text[:-1] if content[:begin].endswith("(") and text.endswith(")") else text
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return not text.startswith("{'")  # Python's own spelling, which some frameworks record
    return False


@step_check(
    "arguments-known",
    "Identifiers and long numbers in a call come from somewhere.",
    mode="blamespan:X2",
    trust=0.3,
)
def arguments_come_from_somewhere(run: ExaminedRun, read: ReadStep) -> Iterator[Finding]:
    """Look for identifiers and long numbers in a call that nothing before it mentions."""
    step = read.step
    if step.kind != "tool_call":
        return
    new = [claim.mention.value for claim in read.claims if claim.support is None]
    unknown = [value.text for value in new if len(value.text) > _LONG and any(map(str.isdecimal, value.text))]
    quote = run.sentence_with(step, unknown[0]) if unknown else ""
    outcome: Outcome = "inconclusive" if unknown else "pass"
    yield Finding(step.index, outcome, quote, f"nobody mentioned {unknown[:3]!r} before")
