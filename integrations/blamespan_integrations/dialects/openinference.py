"""OpenInference: AutoGen AgentChat, LangChain and LangGraph, OpenAI Agents, CrewAI, LlamaIndex, smolagents,
the Claude Agent SDK, and its model clients.

Source: openinference-semantic-conventions 0.1.42 and the instrumentations' own keys (`graph.node.id`,
`participant_names`, `crew_*`, `smolagents.*`) and span names (LlamaIndex's methods).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from blamespan.dialects import SpanReading
from blamespan.genai_messages import Message
from blamespan.spans import Span
from blamespan.trace import Usage
from blamespan_integrations.dialects import _langgraph
from blamespan_integrations.dialects._messages import indexed_messages, messages_in, rest_of_state
from blamespan_integrations.dialects._values import as_text, hands_over, names, parse_structure, text_of_blocks, tokens

_KIND = "openinference.span.kind"
_USAGE = ("llm.token_count.prompt", "llm.token_count.completion")


class OpenInferenceDialect:
    """Reads OpenInference's spans."""

    name = "openinference"
    scopes = ("openinference.instrumentation",)
    marks = (_KIND,)

    def read(self, span: Span) -> SpanReading | None:
        """Read one span by its kind."""
        kind = span.text(_KIND)
        if span.scope.name.endswith(".claude_agent_sdk"):
            return _claude(span, kind)
        if kind == "LLM":
            return _model(span)
        if kind == "TOOL":
            return _tool(span)
        metadata = parse_structure(span.attributes.get("metadata"))
        if isinstance(metadata, Mapping) and kind in ("CHAIN", "AGENT"):
            return _chain(span, metadata)
        if kind == "AGENT":
            return _agent(span)
        if kind == "CHAIN":
            return _run(span)
        return None


def _claude(span: Span, kind: str | None) -> SpanReading | None:
    """Read a session of the Claude Agent SDK: a subagent is told by the tool that calls it, its own span says less."""
    arguments = parse_structure(span.attributes.get("input.value"))
    if kind == "TOOL" and isinstance(arguments, Mapping) and isinstance(arguments.get("subagent_type"), str):
        return SpanReading(
            role="agent",
            name=arguments["subagent_type"],
            inputs=[Message.of_text("user", as_text(arguments.get("prompt")))],
            text=text_of_blocks(span.attributes.get("output.value")),
        )
    if kind == "TOOL":
        return _tool(span)
    if kind != "AGENT" or "agent.name" in span.attributes:
        return None
    asked = span.text("input.value")
    return SpanReading(
        role="agent",
        name="claude",
        inputs=[Message.of_text("user", asked)] if asked else (),
        text=span.text("output.value"),
        usage=_usage(span),
    )


def _model(span: Span) -> SpanReading:
    attributes = span.attributes
    return SpanReading(
        role="model",
        name=span.text("llm.model_name") or "",
        inputs=messages_in(attributes.get("input.value")) or indexed_messages(attributes, "llm.input_messages"),
        outputs=messages_in(attributes.get("output.value")) or indexed_messages(attributes, "llm.output_messages"),
        usage=_usage(span),
    )


def _usage(span: Span) -> Usage | None:
    return tokens(span, _USAGE)


def _chain(span: Span, metadata: Mapping[str, Any]) -> SpanReading:
    return _langgraph.chain(
        span.name, metadata, span.attributes.get("input.value"), span.attributes.get("output.value")
    )


def _tool(span: Span) -> SpanReading | None:
    if "tool.name" not in span.attributes and span.name.startswith("handoff to "):
        return None  # OpenAI Agents: the call of the tool that hands over says the same
    if span.scope.name.endswith(".smolagents") and span.text("tool.name") == "final_answer":
        return None  # the span of the agent that answers says the same
    raw_input = span.attributes.get("input.value")
    result = span.attributes.get("output.value")
    read = parse_structure(raw_input)
    if isinstance(read, Mapping) and isinstance(read.get("kwargs"), Mapping) and read.keys() <= _CALL_KEYS:
        arguments: str | None = as_text({key: value for key, value in read["kwargs"].items() if not _is_object(value)})
    elif isinstance(read, Mapping) and "kwargs" not in read and "input_str" not in read:
        arguments = as_text(raw_input)
    else:
        arguments = _written_arguments(span, raw_input)
    if hands_over(span.text("tool.name"), arguments) and span.status != "error":
        return None
    output = parse_structure(result)
    if isinstance(output, Mapping) and "raw_output" in output:  # LlamaIndex
        result = as_text(output["raw_output"])
    result = text_of_blocks(result)
    metadata = parse_structure(span.attributes.get("metadata"))
    name = span.text("tool.name") or span.name
    return _langgraph.tool(
        name, metadata if isinstance(metadata, Mapping) else {}, arguments, result, span.attributes.get("tool_call.id")
    )


_CALL_KEYS = {"args", "kwargs", "sanitize_inputs_outputs"}
"""What LlamaIndex and smolagents call their tools with."""


def _is_object(value: object) -> bool:
    """Check whether an argument is an object of the framework's, written down as Python writes it."""
    return isinstance(value, str) and value.startswith("<") and " object at 0x" in value


def _written_arguments(span: Span, raw_input: object) -> str | None:
    """Read arguments from elsewhere: of AutoGen they are the tool's `tool.parameters`."""
    parameters = parse_structure(span.attributes.get("tool.parameters"))
    if isinstance(parameters, Mapping) and "properties" not in parameters:
        return as_text(span.attributes["tool.parameters"])
    return None if raw_input is None else as_text(raw_input)


def _agent(span: Span) -> SpanReading:
    output = span.attributes.get("output.value")
    messages = _crew_output(output) or messages_in(output)
    name = span.text("agent.name") or span.text("graph.node.id") or span.name
    if "smolagents.max_steps" in span.attributes:
        name = span.name.removesuffix(".run")
    elif "agent.name" not in span.attributes and "graph.node.id" not in span.attributes:
        return SpanReading(role="run", name=name)  # OpenAI Agents: the whole workflow
    return SpanReading(
        role="agent",
        name=name,
        inputs=_read_input(span.attributes.get("input.value")),
        outputs=messages,
        text=None if messages else rest_of_state(output),
        usage=_usage(span),
    )


def _run(span: Span) -> SpanReading | None:
    attributes = span.attributes
    if span.scope.name.endswith(".smolagents"):
        return None  # a step within an agent
    if span.name.endswith(".run_agent_step"):  # LlamaIndex: one call of an agent's model
        agent = _CURRENT_AGENT.search(as_text(attributes.get("input.value")))
        return SpanReading(role="agent", name=agent[1] if agent else span.name.partition(".")[0])
    participants = names(attributes.get("participant_names")) or _crew_agents(attributes.get("crew_agents"))
    return SpanReading(
        role="run" if participants else "chain",
        name=span.name.partition(".")[0].partition("_")[0] if participants else span.name,
        inputs=_read_input(attributes.get("input.value")) or _crew_task(attributes.get("crew_tasks")),
        outputs=messages_in(attributes.get("output.value")) if participants else (),
        participants=participants,
    )


_CURRENT_AGENT = re.compile(r"current_agent_name='([^']+)'\)\"}$")
"""At the end of what a step of a LlamaIndex workflow was given, as Python writes it down."""


def _read_input(value: object) -> list[Message]:
    """Read what an agent or team was given: messages, a task, or the text of message objects."""
    read = parse_structure(value)
    if isinstance(read, Mapping) and isinstance(read.get("task"), str):
        return [Message.of_text("user", read["task"])]
    if isinstance(read, Mapping) and isinstance(read.get("messages"), list):
        texts = [match for item in read["messages"] if isinstance(item, str) for match in _REPR.findall(item[:100_000])]
        if texts:
            return [
                Message.of_text("user" if source == "user" else "assistant", _unquote(text), name=source)
                for source, text in texts
            ]
    return messages_in(read)


_REPR = re.compile(r"source='([^']*)' .{0,400}?content=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\") type=")
"""An AutoGen message as Python writes it down."""


def _unquote(text: str) -> str:
    body = text[1:-1]
    if "\\" not in body:
        return body
    try:
        return str(json.loads('"' + body.replace("\\'", "'").replace('"', '\\"').replace('\\\\"', '\\"') + '"'))
    except ValueError:
        return body


def _crew_output(value: object) -> list[Message]:
    """Read what CrewAI's agent gave back: a task's output, whose text stands under `raw`."""
    read = parse_structure(value)
    if isinstance(read, Mapping) and isinstance(read.get("raw"), str) and "expected_output" in read:
        return [Message.of_text("assistant", read["raw"])]
    return []


def _crew_agents(value: object) -> tuple[str, ...]:
    read = parse_structure(value)
    roles = [item.get("role") for item in read if isinstance(item, Mapping)] if isinstance(read, list) else []
    return tuple(role.strip() for role in roles if isinstance(role, str))


def _crew_task(value: object) -> list[Message]:
    read = parse_structure(value)
    first = read[0] if isinstance(read, list) and read and isinstance(read[0], Mapping) else {}
    task = first.get("description")
    return [Message.of_text("user", task)] if isinstance(task, str) else []
