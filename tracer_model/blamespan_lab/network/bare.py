"""A run as a bare log tells it: who said what, in order, and what tools answered to whom.

A program that emits spans also records who was told what, what was a plan, and what failed; many logs hold nothing of
it. The second judge learns from each transcript both ways, or what a log leaves out would mislead it (decision 037).
"""

from __future__ import annotations

from dataclasses import replace

from blamespan.importing.recorded import RecordedRun
from blamespan.trace import Step

__all__ = ["bare_run"]


def bare_run(run: RecordedRun) -> RecordedRun:
    """Leave out recipients, status, errors, what is a plan, and inputs but for those of tools' answers."""
    return replace(run, trace=replace(run.trace, steps=tuple(_bare(step) for step in run.trace.steps)))


def _bare(step: Step) -> Step:
    is_tool = step.kind in ("tool_call", "tool_result")
    return replace(
        step,
        kind=step.kind if is_tool else "message",
        recipients=(),
        inputs=step.inputs if step.kind == "tool_result" else (),
        status="unset",
        error=None,
    )
