"""OpenLLMetry (Traceloop): LangChain and LangGraph, and model clients by the GenAI conventions.

Source: opentelemetry-instrumentation-langchain 0.62 and opentelemetry-semantic-conventions-ai 0.5.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from blamespan import conventions as words
from blamespan.dialects import SpanReading
from blamespan.spans import Span
from blamespan_integrations.dialects import _langgraph, genai
from blamespan_integrations.dialects._values import as_text, parse_structure

_METADATA = "traceloop.association.properties."
_PACKAGES = (
    "anthropic", "bedrock", "cohere", "crewai", "google_generativeai", "groq", "haystack", "langchain", "llamaindex",
    "mcp", "mistralai", "ollama", "openai", "openai_agents", "together", "transformers", "vertexai", "watsonx",
)  # fmt: skip


class OpenLLMetryDialect:
    """Reads OpenLLMetry's spans."""

    name = "openllmetry"
    scopes = ("traceloop", *(f"opentelemetry.instrumentation.{package}" for package in _PACKAGES))
    marks = ("traceloop.span.kind", "traceloop.entity.name")

    def read(self, span: Span) -> SpanReading | None:
        """Read one span by the kind Traceloop gives it, else by the conventions."""
        kind = span.text("traceloop.span.kind")
        if "gen_ai.workflow.nodes" in span.attributes:  # around a graph's own span, which says the same and more
            return SpanReading(role="other", name=span.text(words.AGENT_NAME) or "")
        if kind == "tool" or span.text(words.OPERATION) == words.OPERATION_TOOL:
            return _tool(span)
        if kind in ("workflow", "task"):
            return _chain(span)
        if kind == "agent" and not any(key.startswith(_METADATA + "langgraph") for key in span.attributes):
            return _agent(span)
        return _chain(span) if kind == "agent" else genai.GenAiDialect().read(span)


def _metadata(span: Span) -> Mapping[str, Any]:
    """Read LangChain's metadata: of older releases it stands within what the span was given."""
    metadata = {key[len(_METADATA) :]: value for key, value in span.attributes.items() if key.startswith(_METADATA)}
    entity_input = None if metadata else parse_structure(span.attributes.get("traceloop.entity.input"))
    within = entity_input.get("metadata") if isinstance(entity_input, Mapping) else None
    return within if isinstance(within, Mapping) else metadata


def _chain(span: Span) -> SpanReading:
    name = span.text("traceloop.entity.name") or span.name
    return _langgraph.chain(
        name, _metadata(span), _read_value(span, "input", "inputs"), _read_value(span, "output", "outputs")
    )


def _agent(span: Span) -> SpanReading:
    reading = genai.agent(span)
    chain = _chain(span)
    name = span.text(words.AGENT_NAME) or chain.name
    if reading.outputs:
        return reading
    return SpanReading(role="agent", name=name, inputs=chain.inputs, outputs=chain.outputs, text=chain.text)


def _tool(span: Span) -> SpanReading:
    entity_input = _read_value(span, "input", "inputs")
    if isinstance(entity_input, Mapping) and "input_str" in entity_input:
        entity_input = _python(entity_input["input_str"])
    name = span.text("traceloop.entity.name") or span.text(words.TOOL_NAME) or span.name
    result = _read_value(span, "output", "output")
    call_id = span.text(words.TOOL_CALL_ID)
    return _langgraph.tool(name, _metadata(span), entity_input, result, call_id)


def _read_value(span: Span, which: str, key: str) -> Any:
    """Read what a span was given or gave; `Any`, as it may be whatever a program passes around."""
    value = span.attributes.get(f"traceloop.entity.{which}", span.attributes.get(f"gen_ai.task.{which}"))
    if value is None:
        value = span.attributes.get(words.TOOL_ARGUMENTS if which == "input" else words.TOOL_RESULT)
    read = parse_structure(value)
    if isinstance(read, Mapping) and key in read:
        return read[key]
    return value if read is None else read


def _python(text: object) -> str:
    """Write arguments as JSON that were written as Python."""
    try:
        return as_text(ast.literal_eval(text)) if isinstance(text, str) and len(text) < 100_000 else as_text(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return as_text(text)
