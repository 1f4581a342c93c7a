"""MLflow's tracing: LangChain and LangGraph, and what programs trace themselves.

Every value is JSON. Source: mlflow 3.17, `tracing/constant.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blamespan.dialects import Reading
from blamespan.spans import Span
from blamespan.trace import Usage
from blamespan_integrations.dialects import _langgraph
from blamespan_integrations.dialects._messages import messages_in, rest_of_state
from blamespan_integrations.dialects._values import number, parsed

__all__ = ["MLflowDialect"]


class MLflowDialect:
    """Reads MLflow's spans."""

    name = "mlflow"
    scopes = ("mlflow",)
    marks = ("mlflow.spanType",)

    def read(self, span: Span) -> Reading | None:
        """Read one span by its type."""
        kind = _plain(span, "mlflow.spanType")
        given, gave = span.attributes.get("mlflow.spanInputs"), span.attributes.get("mlflow.spanOutputs")
        metadata = _metadata(span)
        if kind in ("CHAT_MODEL", "LLM"):
            usage = _usage(span)
            return Reading(
                role="model", name=span.name, inputs=messages_in(given), outputs=messages_in(gave), usage=usage
            )
        if kind == "TOOL":
            return _langgraph.tool(span.name, metadata, given, gave, _plain(span, "tool_call_id"))
        if kind == "AGENT" and "langgraph_node" not in metadata:
            said = messages_in(gave)
            text = None if said else rest_of_state(gave)
            return Reading(
                role="agent", name=span.name.partition(".")[0], inputs=messages_in(given), outputs=said, text=text
            )
        if kind in ("CHAIN", "AGENT"):
            return _langgraph.chain(span.name, metadata, given, gave)
        return None


def _plain(span: Span, key: str) -> str | None:
    value = span.attributes.get(key)
    read = parsed(value)
    found = value if read is None else read
    return found if isinstance(found, str) else None


def _metadata(span: Span) -> Mapping[str, Any]:
    read = parsed(span.attributes.get("metadata"))
    return read if isinstance(read, Mapping) else {}


def _usage(span: Span) -> Usage | None:
    counted = parsed(span.attributes.get("mlflow.chat.tokenUsage"))
    if not isinstance(counted, Mapping):
        return None
    return Usage(number(counted.get("input_tokens")) or 0, number(counted.get("output_tokens")) or 0)
