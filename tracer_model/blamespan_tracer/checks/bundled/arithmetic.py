"""Sums that are written out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blamespan_tracer.checks.check import ExaminedRun, Finding, step_check
from blamespan_tracer.checks.reading import ReadStep
from blamespan_tracer.ledger.equations import Equation, equations, spell_number


@step_check("sum-holds", "A written sum holds.", mode="mast:FM-2.6", trust=0.9)
def sums_hold(run: ExaminedRun, read: ReadStep) -> Iterator[Finding]:
    """Work out written sums again."""
    step = read.step
    if step.kind == "tool_call":
        return
    text = run.read_text(step)
    sums = equations(text)
    wrong = [equation for equation in sums if not equation.holds and not _is_corrected(equation, sums)]
    for equation in wrong:
        yield Finding(
            step.index,
            "fail",
            text[equation.start : equation.end],
            f"comes to {equation.left:.12g}",
            wrong=spell_number(equation.right),
            right=spell_number(equation.left),
        )
    if sums and not wrong:
        yield Finding(step.index, "pass")


def _is_corrected(wrong: Equation, sums: Sequence[Equation]) -> bool:
    """Check whether the same text works out the same again later, and rightly."""
    return any(later.start > wrong.start and later.holds and later.comes_to(wrong.left) for later in sums)
