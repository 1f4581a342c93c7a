"""Why a tracer gives no verdict on a run: reasons that hold whatever the model."""

from __future__ import annotations

from blamespan.trace import MessageActionTrace, Step

__all__ = ["NO_TEXT", "ended_in_error", "why_silent"]

NO_TEXT = "no agent's step has any text to read"
"""The reason where there is somebody to blame, but nothing to judge by."""


def why_silent(trace: MessageActionTrace) -> str | None:
    """Say why nobody can be blamed for what happened in *trace*; None where somebody may be.

    - An agent ended the run with an error: the trace says itself who failed, and how; that is no silent failure.
    - No step is a decision of an agent, or none of them has any text.
    """
    ended = ended_in_error(trace)
    if ended is not None:
        return f"not a silent failure: {ended.agent} ended the run at step {ended.index} with {ended.error}"
    decisions = [step for step in trace.steps if trace.can_be_blamed(step)]
    if not decisions:
        return "no step is an agent's decision: there is nobody to blame"
    if not any(step.content.strip() for step in decisions):
        return NO_TEXT
    return None


def ended_in_error(trace: MessageActionTrace) -> Step | None:
    """Find the step by which an agent ended the run with an error; None where it ended otherwise."""
    said = [step for step in trace.steps if step.kind not in ("tool_call", "tool_result")]
    return said[-1] if said and said[-1].status == "error" else None
