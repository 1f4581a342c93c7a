"""AutoGen within another framework: in a node of a LangGraph graph, or in a tool of one."""

from __future__ import annotations

from opentelemetry import context as otel_context

from blamespan_integrations.autogen._frames import Frame, current_frame
from blamespan_integrations.recording import Around, StepRef, around

__all__ = ["frame_around"]


class _Foreign(Frame):
    """A step of another framework, within which AutoGen is at work.

    Args:
        step: What is known of it.
    """

    def __init__(self, step: Around) -> None:
        super().__init__(None, None)
        self._step = step
        self.context = otel_context.get_current()

    def grounds(self) -> list[StepRef]:
        """List what that step builds on, or the call of the tool it is."""
        return self._step.grounds

    def heard(self, step: StepRef) -> None:
        """Let that step build on what was said last."""
        self._step.hear([step])


def frame_around() -> Frame | None:
    """Find what a team's run or an agent's turn takes place in: AutoGen's own frame, or another framework's step."""
    frame, step = current_frame(), around()
    if step.is_nothing or (frame is not None and step.is_that_of(frame.context)):
        return frame
    return _Foreign(step)
