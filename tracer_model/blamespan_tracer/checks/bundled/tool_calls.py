"""Calls of tools: whether they are well formed, what they ask for, and what is made of their results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from blamespan_tracer.checks.check import Finding, check
from blamespan_tracer.checks.examined_run import ExaminedRun

_MEETS_AN_ERROR = ("error", "inability", "hedge", "object", "negation", "redo", "check")
"""What a step hints at that does not pass over the error of its tool."""

_REFUSED = re.compile(
    r"(?i)unexpected keyword argument|missing \d{1,3} required|validation error|invalid (?:json|arguments?|tool)|"
    r"unknown (?:tool|function)|(?:tool|function) .{0,60}(?:does not exist|not found|is not available)|"
    r"not a valid tool|no such tool|JSONDecodeError"
)


@check("tool-error-met", "After its tool failed an agent tries again or says so.", mode="blamespan:X3", trust=0.6)
def tool_errors_are_met(run: ExaminedRun) -> Iterator[Finding]:
    """Look at what an agent does after its tool failed: call again, say so, or go on as if nothing happened."""
    for index, results in run.results_of.items():
        call = run.trace.steps[index]
        if not run.trace.can_be_blamed(call) or not run.is_error(results[-1]):
            continue
        step = run.next_own_decision(call)
        if step is None:
            continue
        is_met = step.kind in ("tool_call", "handoff") or run.hints(step.index, *_MEETS_AN_ERROR)
        yield Finding(step.index, "pass" if is_met else "fail", step.content, "goes on although its tool failed")


@check(
    "arguments-well-formed",
    "A call names a tool that exists, with arguments that it takes.",
    mode="blamespan:X2",
    trust=0.5,
)
def arguments_are_well_formed(run: ExaminedRun) -> Iterator[Finding]:
    """Look for calls that tools refuse for their name or arguments, and for arguments that are broken JSON."""
    for step in run.decisions:
        if step.kind != "tool_call":
            continue
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


@check(
    "arguments-known",
    "Identifiers and long numbers in a call come from somewhere.",
    mode="blamespan:X2",
    trust=0.3,
)
def arguments_are_known(run: ExaminedRun) -> Iterator[Finding]:
    """Look for identifiers and long numbers in a call that nothing before it mentions."""
    claims, segments = run.analysis.claims, run.analysis.segments
    is_in_call = segments.is_call[claims.segment]
    is_fresh = is_in_call & (claims.source == claims.segment)
    call_segments: set[int] = set(claims.segment[is_in_call].tolist())
    for segment in sorted(call_segments):
        step = run.trace.steps[segment - 1]
        if not run.trace.can_be_blamed(step):
            continue
        fresh = run.spell_claims(claims.claim[is_fresh & (claims.segment == segment)]) if is_fresh.any() else []
        unknown = [token for token in fresh if len(token) > 3 and any(char.isdecimal() for char in token)]
        quote = run.sentence_with(step, unknown[0]) if unknown else ""
        yield Finding(
            step.index, "inconclusive" if unknown else "pass", quote, f"nobody mentioned {unknown[:3]!r} before"
        )
