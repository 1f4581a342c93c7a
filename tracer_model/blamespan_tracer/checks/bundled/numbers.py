"""Numbers that a step brings in and nothing explains."""

from __future__ import annotations

import re
from collections.abc import Iterator

from blamespan_tracer.checks.check import ExaminedRun, Finding, Outcome, step_check
from blamespan_tracer.checks.reading import ReadStep
from blamespan_tracer.ledger import Claim, Value
from blamespan_tracer.ledger.equations import calculations, equations, is_common
from blamespan_tracer.ledger.ledger import TASK
from blamespan_tracer.tokens import MAX_TEXT_CHARS

_LIST_MARK = re.compile(r"(?:\A|\n)[ \t]*\Z")
"""What stands before the number of a list's item."""
_FENCE = "```"


@step_check(
    "number-has-source", "A number stands in what is known, or follows from it.", mode="blamespan:X1", trust=0.4
)
def numbers_have_a_source(run: ExaminedRun, read: ReadStep) -> Iterator[Finding]:
    """Look for numbers that nothing before them has, and that no known numbers give.

    Who reads pages, or knows the world, brings in numbers that no step records: they are left open where the run tells
    nothing of what its agents were given.
    """
    step = read.step
    if step.kind == "tool_call" or not any(claim.mention.value.form == "number" for claim in read.claims):
        return
    broken: Outcome = "fail" if run.tells_inputs else "inconclusive"
    new = [one for one in list_new_numbers(read) if one.mention.value.text not in step.input_text]
    odd = next((one for one in new if one.calculated.operands == "" or _slips_from_given(one)), None)
    value = odd.mention.value if odd is not None else None
    quote = run.sentence_with(step, value.text) if value is not None else ""
    reason = f"nothing before it gives {value.text!r}" if value is not None else ""
    yield Finding(step.index, "pass" if value is None else broken, quote, reason, wrong=value.key if value else "")


def list_new_numbers(read: ReadStep) -> list[Claim]:
    """List the numbers of a step that no source has and no written calculation gives; not those in code or of lists."""
    new = [
        claim
        for claim in read.claims
        if claim.mention.value.form == "number" and claim.support is None and not is_common(claim.mention.value.amount)
    ]
    if not new:
        return []
    text = read.step.content[:MAX_TEXT_CHARS]
    written = {round(side, 6) for one in equations(text) for side in (one.left, one.right)} | calculations(text)
    return [
        claim
        for claim in new
        if round(float(claim.mention.value.key), 6) not in written and is_spoken(claim.mention.value, read.step.content)
    ]


def is_spoken(value: Value, text: str) -> bool:
    """Check whether a value of a text stands neither in code nor before an item of a list."""
    if text.count(_FENCE, 0, value.start) % 2:
        return False
    is_mark = text[value.stop : value.stop + 1] in (".", ")") and text[value.stop + 1 : value.stop + 2].isspace()
    return not (is_mark and _LIST_MARK.search(text, max(0, value.start - 20), value.start))


def _slips_from_given(claim: Claim) -> bool:
    """Check whether a number is one that was given but for a digit, their order or the sign."""
    return any(one.kind == "near" and (one.source.step == TASK or one.source.is_input) for one in claim.contradictions)
