"""Within which step something takes place: how what two integrations record comes together in one trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opentelemetry import context as otel_context
from opentelemetry.context import Context

from blamespan_integrations.recording.spans import AGENT_KEY, CALL_KEY, AgentSpan, StepRef

__all__ = ["Around", "around"]


@dataclass(frozen=True, slots=True)
class Around:
    """The step around a run or an agent, whichever framework it belongs to.

    Attributes:
        agent: The agent whose turn it is; None outside all, and within a tool.
        call: The call of the tool at work.
    """

    agent: AgentSpan | None = None
    call: StepRef | None = None

    @property
    def grounds(self) -> list[StepRef]:
        """List what begins in here builds on: the tool's call, or what the agent builds on so far."""
        if self.call is not None:
            return [self.call]
        return list(self.agent.inputs) if self.agent is not None else []

    @property
    def is_nothing(self) -> bool:
        """Whether there is no such step."""
        return self.agent is None and self.call is None

    def is_that_of(self, context: Context) -> bool:
        """Return whether what begins in *context* takes place within the same step."""
        other = around(context)
        return self.agent is other.agent and self.call is other.call

    def hear(self, steps: Iterable[StepRef]) -> None:
        """Let the agent around build on *steps*; who called a tool builds on the tool's answer instead."""
        if self.agent is not None:
            for step in steps:
                if step not in self.agent.inputs:
                    self.agent.build_on(step)


def around(context: Context | None = None) -> Around:
    """Find the step around what begins in *context*, or in the current one."""
    call = otel_context.get_value(CALL_KEY, context)
    if isinstance(call, StepRef):
        return Around(None, call)
    agent = otel_context.get_value(AGENT_KEY, context)
    return Around(agent if isinstance(agent, AgentSpan) else None, None)
