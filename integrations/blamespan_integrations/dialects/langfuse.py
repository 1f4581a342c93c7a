"""Langfuse's SDK: LangChain and LangGraph by its callback handler, and what programs observe themselves.

Source: langfuse 5, `_client/attributes.py`.
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

_OBSERVATION = "langfuse.observation."
_METADATA = f"{_OBSERVATION}metadata."


class LangfuseDialect:
    """Reads Langfuse's spans."""

    name = "langfuse"
    scopes = ("langfuse",)
    marks = (f"{_OBSERVATION}type",)

    def read(self, span: Span) -> SpanReading | None:
        """Read one span by its type."""
        kind = span.text(f"{_OBSERVATION}type")
        inputs, outputs = span.attributes.get(f"{_OBSERVATION}input"), span.attributes.get(f"{_OBSERVATION}output")
        metadata = _metadata(span)
        if kind in ("generation", "embedding"):
            name = span.text(f"{_OBSERVATION}model.name") or ""
            return SpanReading(
                role="model", name=name, inputs=messages_in(inputs), outputs=messages_in(outputs), usage=_usage(span)
            )
        if kind == "tool":
            return _langgraph.tool(span.name, metadata, inputs, outputs, metadata.get("tool_call_id"))
        if kind == "agent" and "langgraph_node" not in metadata and not metadata.get("is_langchain_root"):
            messages = messages_in(outputs)
            text = None if messages else rest_of_state(outputs)
            return SpanReading(role="agent", name=span.name, inputs=messages_in(inputs), outputs=messages, text=text)
        if kind in ("chain", "span", "agent"):
            return _langgraph.chain(span.name, metadata, inputs, outputs)
        return None


def _metadata(span: Span) -> dict[str, Any]:
    """Read the metadata: each value is JSON of its own."""
    metadata: dict[str, Any] = {}
    for key, value in span.attributes.items():
        if key.startswith(_METADATA):
            read = parse_structure(value)
            metadata[key[len(_METADATA) :]] = value if read is None else read
    return metadata


def _usage(span: Span) -> Usage | None:
    details = parse_structure(span.attributes.get(f"{_OBSERVATION}usage_details"))
    if not isinstance(details, Mapping):
        return None
    return Usage(number(details.get("input")) or 0, number(details.get("output")) or 0)
