"""Sums that are written out, and what becomes of wrong ones."""

from __future__ import annotations

from collections.abc import Iterator

from blamespan_tracer.checks.check import Finding, check
from blamespan_tracer.checks.examined_run import ExaminedRun
from blamespan_tracer.representation.equations import equations


@check("sum-holds", "A written sum holds.", mode="mast:FM-2.6", trust=0.9)
def sums_hold(run: ExaminedRun) -> Iterator[Finding]:
    """Work out written sums again."""
    for step in run.decisions:
        if step.kind == "tool_call":
            continue
        text = run.read_text(step)
        sums = equations(text)
        wrong = next((equation for equation in sums if not equation.holds), None)
        if wrong is not None:
            yield Finding(step.index, "fail", text[wrong.start : wrong.end], f"comes to {wrong.left:.12g}")
        elif sums:
            yield Finding(step.index, "pass")
