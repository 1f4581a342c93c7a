"""Abstention reasons that hold for every model."""

from __future__ import annotations

from blamespan.trace import MessageActionTrace, Step

NO_TEXT = "no agent's step has any text to read"
"""The reason where there is somebody to blame, but nothing to judge by."""


def abstention_reason(trace: MessageActionTrace) -> str | None:
    """Return why nobody can be blamed for what happened in *trace*; None where somebody may be.

    - An agent ended the run with an error: the trace says itself who failed, and how; that is no silent failure.
    - No step is a decision of an agent, or none of them has any text.
    """
    last = ended_in_error(trace)
    if last is not None:
        return f"not a silent failure: {last.agent} ended the run at step {last.index} with {last.error}"
    decisions = [step for step in trace.steps if trace.can_be_blamed(step)]
    if not decisions:
        return "no step is an agent's decision: there is nobody to blame"
    if not any(step.content.strip() for step in decisions):
        return NO_TEXT
    return None


def ended_in_error(trace: MessageActionTrace) -> Step | None:
    """Return the step by which an agent ended the run with an error; None where it ended otherwise."""
    messages = [step for step in trace.steps if step.kind not in ("tool_call", "tool_result")]
    return messages[-1] if messages and messages[-1].status == "error" else None
