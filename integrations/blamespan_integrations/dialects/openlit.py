"""OpenLIT: LangGraph and LangChain by the GenAI conventions; every node is an agent to it.

Source: openlit 1.36 and later, `instrumentation/langgraph`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from blamespan.dialects import SpanReading
from blamespan.spans import Span
from blamespan_integrations.dialects.genai import GenAiDialect


class OpenLITDialect:
    """Reads OpenLIT's spans."""

    name = "openlit"
    scopes = ("openlit",)
    marks = ("gen_ai.graph.nodes",)

    def __init__(self) -> None:
        self._genai = GenAiDialect()

    def read(self, span: Span) -> SpanReading | None:
        """Read one span by the conventions; a tool's answer is written as Python writes the message."""
        reading = self._genai.read(span)
        if reading is None or reading.role != "tool" or reading.result is None:
            return reading
        written = _TOOL_MESSAGE.match(reading.result)
        return replace(reading, result=written["text"] or "", call_id=written["id"]) if written else reading


_TOOL_MESSAGE = re.compile(
    r"content=(?P<quote>['\"])(?P<text>.{0,100000}?)(?P=quote) name=.{0,1000}?tool_call_id='(?P<id>[^']*)'", re.DOTALL
)
