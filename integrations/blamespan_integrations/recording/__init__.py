"""The spans of a run, as every integration makes them: the run, agent messages, tools and model calls.

An integration says *what happened*; this package says *how that looks on the wire*. State travels in the
OpenTelemetry context: whoever starts a tool span inside an agent's context gets that agent's name, its
place in the run and a link from the agent's message to the tool's answer.

Nothing here makes a span current. The integration does, around the framework's own calls, and never
across a `yield`.
"""

from blamespan_integrations.recording.recorder import Recorder
from blamespan_integrations.recording.spans import AgentSpan, Around, ChatSpan, RunSpan, StepRef, ToolSpan, around

__all__ = ["AgentSpan", "Around", "ChatSpan", "Recorder", "RunSpan", "StepRef", "ToolSpan", "around"]
