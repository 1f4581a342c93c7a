"""What LangGraph tells every callback, whoever writes it down: the node, its step and its namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blamespan.dialects import SpanReading
from blamespan_integrations.dialects._messages import messages_in, state_of, task_of
from blamespan_integrations.dialects._values import as_text, number, parse_structure


def chain(name: str, metadata: Mapping[str, Any], inputs: object, outputs: object) -> SpanReading:
    """Read a chain: a graph, a node, or something within one.

    Args:
        name: The chain's run name; of a node, the node's.
        metadata: LangChain's, with `langgraph_*` where it is part of a graph.
        inputs: What it was given, as value or JSON.
        outputs: What it gave back, likewise.
    """
    node = _text_or_none(metadata.get("langgraph_node"))
    asked, output_messages = messages_in(inputs), messages_in(outputs)
    return SpanReading(
        role="chain",
        name=name,
        agent=_text_or_none(metadata.get("lc_agent_name")),
        node=node,
        place=_place(metadata, node),
        superstep=number(metadata.get("langgraph_step")),
        inputs=asked or task_of(inputs),
        outputs=output_messages,
        text=None if output_messages else state_of(outputs),
    )


def tool(
    name: str, metadata: Mapping[str, Any], arguments: object, result: object, call_id: object = None
) -> SpanReading:
    """Read a tool's call; its answer may be a tool message, which then tells the call's id."""
    answers = [part for message in messages_in(result) for part in message.parts]
    answer = next((part for part in answers if part.get("type") == "tool_call_response"), None)
    known_id = call_id if isinstance(call_id, str) else answer.get("id") if answer else None
    shown = answer["response"] if answer else None if result is None else _unwrapped_result(result)
    return SpanReading(
        role="tool",
        name=name,
        node=_text_or_none(metadata.get("langgraph_node")),
        arguments=None if arguments is None else as_text(arguments),
        result=None if shown is None else as_text(shown),
        call_id=known_id if isinstance(known_id, str) else None,
    )


def _unwrapped_result(result: object) -> object:
    read = parse_structure(result)
    if isinstance(read, Mapping) and read.keys() & {"output"} and len(read) <= 2:
        return read["output"]
    return read if isinstance(read, str) else result


def _place(metadata: Mapping[str, Any], node: str | None) -> str | None:
    namespace = _text_or_none(metadata.get("langgraph_checkpoint_ns"))
    if namespace or node is None:
        return namespace
    return f"{node}:{as_text(metadata.get('langgraph_step'))}"


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
