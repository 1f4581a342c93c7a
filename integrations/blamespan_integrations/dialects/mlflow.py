"""MLflow's tracing: LangChain and LangGraph, and what programs trace themselves.

Every value is JSON. Source: mlflow 3.17, `tracing/constant.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blamespan.dialects import SpanReading
from blamespan.spans import Span
from blamespan.trace import Usage
from blamespan_integrations.dialects import _langgraph
from blamespan_integrations.dialects._messages import messages_in, rest_of_state
from blamespan_integrations.dialects._values import number, parse_structure


class MLflowDialect:
    """Reads MLflow's spans."""

    name = "mlflow"
    scopes = ("mlflow",)
    marks = ("mlflow.spanType",)

    def read(self, span: Span) -> SpanReading | None:
        """Read one span by its type."""
        kind = _plain(span, "mlflow.spanType")
        inputs, outputs = span.attributes.get("mlflow.spanInputs"), span.attributes.get("mlflow.spanOutputs")
        metadata = _metadata(span)
        if kind in ("CHAT_MODEL", "LLM"):
            usage = _usage(span)
            return SpanReading(
                role="model", name=span.name, inputs=messages_in(inputs), outputs=messages_in(outputs), usage=usage
            )
        if kind == "TOOL":
            return _langgraph.tool(span.name, metadata, inputs, outputs, _plain(span, "tool_call_id"))
        if kind == "AGENT" and "langgraph_node" not in metadata:
            messages = messages_in(outputs)
            text = None if messages else rest_of_state(outputs)
            return SpanReading(
                role="agent", name=span.name.partition(".")[0], inputs=messages_in(inputs), outputs=messages, text=text
            )
        if kind in ("CHAIN", "AGENT"):
            return _langgraph.chain(span.name, metadata, inputs, outputs)
        return None


def _plain(span: Span, key: str) -> str | None:
    value = span.attributes.get(key)
    read = parse_structure(value)
    plain = value if read is None else read
    return plain if isinstance(plain, str) else None


def _metadata(span: Span) -> Mapping[str, Any]:
    read = parse_structure(span.attributes.get("metadata"))
    return read if isinstance(read, Mapping) else {}


def _usage(span: Span) -> Usage | None:
    counted = parse_structure(span.attributes.get("mlflow.chat.tokenUsage"))
    if not isinstance(counted, Mapping):
        return None
    return Usage(number(counted.get("input_tokens")) or 0, number(counted.get("output_tokens")) or 0)
