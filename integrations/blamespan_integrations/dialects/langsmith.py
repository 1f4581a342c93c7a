"""LangSmith's OpenTelemetry export: LangChain and LangGraph.

Source: langsmith 0.14, `_internal/otel/_otel_exporter.py`.
"""

from __future__ import annotations

from typing import Any

from blamespan.dialects import SpanReading
from blamespan.spans import Span
from blamespan_integrations.dialects import _langgraph, genai
from blamespan_integrations.dialects._values import parse_structure

_METADATA = "langsmith.metadata."


class LangSmithDialect:
    """Reads LangSmith's spans."""

    name = "langsmith"
    scopes = ("langsmith",)
    marks = ("langsmith.span.kind",)

    def read(self, span: Span) -> SpanReading | None:
        """Read one span by its kind."""
        kind = span.text("langsmith.span.kind")
        inputs, outputs = span.attributes.get("gen_ai.prompt"), span.attributes.get("gen_ai.completion")
        if kind == "llm":
            return genai.model(span)
        if kind == "tool":
            name = span.text("gen_ai.tool.name") or span.name
            return _langgraph.tool(name, _metadata(span), _arguments(inputs), outputs)
        if kind in ("chain", "prompt", "parser"):
            return _langgraph.chain(span.name, _metadata(span), inputs, outputs)
        return None


def _metadata(span: Span) -> dict[str, Any]:
    return {key[len(_METADATA) :]: value for key, value in span.attributes.items() if key.startswith(_METADATA)}


def _arguments(inputs: object) -> object:
    """Read a tool's arguments: alone, or under `input`. As a value, so that they are written as the program's are."""
    read = parse_structure(inputs)
    return read["input"] if isinstance(read, dict) and set(read) == {"input"} else inputs if read is None else read
