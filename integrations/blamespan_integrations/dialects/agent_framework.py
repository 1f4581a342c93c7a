"""Microsoft Agent Framework's own spans: agents, chats and tools by the GenAI conventions; workflows by its own.

A workflow's executors are siblings; which message each took up stands on its links, which lead to the
`message.send` span of the executor that sent it. Source: agent-framework-core 1.23.0, `observability.py`.
"""

from __future__ import annotations

from blamespan.dialects import SpanReading
from blamespan.spans import Span
from blamespan_integrations.dialects.genai import GenAiDialect


class AgentFrameworkDialect:
    """Reads Agent Framework's spans."""

    name = "agent-framework"
    scopes = ("agent_framework",)
    marks = ("executor.id", "workflow.id")

    def __init__(self) -> None:
        self._genai = GenAiDialect()

    def read(self, span: Span) -> SpanReading | None:
        """Read one span: a workflow's own, or one by the conventions."""
        if span.name.startswith("workflow.run"):
            return SpanReading(role="run", name=span.text("workflow.name") or "")
        if span.name.startswith("executor.process"):
            return SpanReading(
                role="other", name=span.text("executor.id") or "", causes=tuple(link.span_id for link in span.links)
            )
        return self._genai.read(span)
