"""OpenTelemetry's GenAI conventions, of every age, whoever writes them.

Now: `gen_ai.input.messages` and `gen_ai.output.messages`, on the span or on its
`gen_ai.client.inference.operation.details` event. Before: `gen_ai.prompt.0.content` and the like, one span event
per message (`gen_ai.user.message`, `gen_ai.choice`), or two (`gen_ai.content.prompt`, `gen_ai.content.completion`).
Strands writes those events on tools, too, with Bedrock's content blocks as JSON text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from blamespan import conventions as words
from blamespan.dialects import SpanReading
from blamespan.genai_messages import Message, texts_of
from blamespan.spans import Span, SpanEvent
from blamespan_integrations.dialects import _google_adk
from blamespan_integrations.dialects._messages import indexed_messages, messages_in
from blamespan_integrations.dialects._values import as_text, hands_over, parse_structure, text_of_blocks, tokens

_RUN_OPERATIONS = (words.OPERATION_WORKFLOW, "invoke_swarm", "invoke_graph")
_MODEL_OPERATIONS = ("chat", "text_completion", "generate_content", "completion")
_USAGE = (words.INPUT_TOKENS, words.OUTPUT_TOKENS)
_OLD_USAGE = ("gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens")
_ROLE_EVENTS = {
    "gen_ai.assistant.message": "assistant",
    "gen_ai.system.message": "system",
    "gen_ai.tool.message": "tool",
    "gen_ai.user.message": "user",
}


class GenAiDialect:
    """Reads spans by the GenAI conventions."""

    name = "genai"
    scopes = (
        "opentelemetry.instrumentation.genai",
        "opentelemetry.instrumentation.openai_v2",
        "opentelemetry.util.genai",
        _google_adk.SCOPE,
        "pydantic-ai",
    )
    marks = (words.OPERATION, "gen_ai.system", words.REQUEST_MODEL, words.INPUT_TOKENS)

    def read(self, span: Span) -> SpanReading | None:
        """Read one span by its operation."""
        if span.scope.name == _google_adk.SCOPE and (reading := _google_adk.read(span)) is not None:
            return reading
        operation = span.text(words.OPERATION) or _implied_operation(span)
        if operation in _RUN_OPERATIONS:
            return SpanReading(
                role="run",
                name=span.text(words.AGENT_NAME) or span.text(words.WORKFLOW_NAME) or "",
                inputs=inputs_of(span),
                outputs=outputs_of(span),
            )
        if operation == words.OPERATION_AGENT:
            return agent(span)
        if operation == words.OPERATION_TOOL:
            reading = tool(span)
            is_told = hands_over(reading.name, reading.arguments) and span.status != "error"
            return reading.as_other() if is_told else reading
        if operation in _MODEL_OPERATIONS:
            return model(span)
        is_model = words.REQUEST_MODEL in span.attributes or words.INPUT_TOKENS in span.attributes
        return model(span) if operation is None and is_model else None


def _implied_operation(span: Span) -> str | None:
    """Return what a span of pydantic-ai before 2.0 stands for: there, only the model calls say so."""
    if span.scope.name != "pydantic-ai" or words.REQUEST_MODEL in span.attributes:
        return None
    if words.TOOL_NAME in span.attributes:
        return words.OPERATION_TOOL
    return words.OPERATION_AGENT if words.AGENT_NAME in span.attributes else None


def agent(span: Span) -> SpanReading:
    """Read an agent's span."""
    return SpanReading(
        role="agent",
        name=span.text(words.AGENT_NAME) or span.name.removeprefix("invoke_agent "),
        agent_id=span.text(words.HOSTED_AGENT_ID) or span.text(words.AGENT_ID),
        description=span.text(words.AGENT_DESCRIPTION),
        instructions=_instructions(span),
        inputs=inputs_of(span),
        outputs=outputs_of(span),
        usage=tokens(span, _USAGE, _OLD_USAGE),
        causes=tuple(link.span_id for link in span.links),
    )


def tool(span: Span) -> SpanReading:
    """Read a tool's span."""
    attributes = span.attributes
    arguments = attributes.get(words.TOOL_ARGUMENTS, attributes.get(_google_adk.TOOL_ARGUMENTS))
    result = attributes.get(words.TOOL_RESULT, attributes.get(_google_adk.TOOL_RESULT))
    for event in span.events:
        if event.name == "gen_ai.tool.message" and arguments is None:
            arguments = event.attributes.get("content")
        elif event.name == "gen_ai.choice" and result is None:
            result = text_of_blocks(event.attributes.get("message"))
    return SpanReading(
        role="tool",
        name=span.text(words.TOOL_NAME) or span.name.removeprefix("execute_tool "),
        agent=span.text(words.AGENT_NAME),
        arguments=None if arguments is None else as_text(arguments),
        result=None if result is None else as_text(result),
        call_id=span.text(words.TOOL_CALL_ID),
        causes=tuple(link.span_id for link in span.links),
    )


def model(span: Span) -> SpanReading:
    """Read a model call's span."""
    return SpanReading(
        role="model",
        name=span.text(words.REQUEST_MODEL) or "",
        instructions=_instructions(span),
        inputs=inputs_of(span),
        outputs=outputs_of(span),
        usage=tokens(span, _USAGE, _OLD_USAGE),
    )


def _instructions(span: Span) -> list[Message]:
    for attributes in (span.attributes, *(event.attributes for event in span.events)):
        texts = [text for message in texts_of(attributes.get(words.SYSTEM_INSTRUCTIONS)) for text in message]
        if texts:
            return [Message("system", tuple([{"type": "text", "content": text} for text in texts]))]
    return []


def inputs_of(span: Span) -> list[Message]:
    """Find what was given, in whichever form it stands."""
    return (
        _by_key(span, words.INPUT_MESSAGES)
        or indexed_messages(span.attributes, "gen_ai.prompt")
        or messages_in(span.attributes.get("gen_ai.prompt"))
        or [message for event in span.events for message in _read_prompt_event(event)]
    )


def outputs_of(span: Span) -> list[Message]:
    """Find what was said, in whichever form it stands."""
    return (
        _by_key(span, words.OUTPUT_MESSAGES)
        or indexed_messages(span.attributes, "gen_ai.completion")
        or messages_in(span.attributes.get("gen_ai.completion"))
        or [message for event in span.events for message in _read_choice_event(event)]
    )


def _by_key(span: Span, key: str) -> list[Message]:
    for attributes in (span.attributes, *(event.attributes for event in span.events)):
        if key in attributes:
            value = attributes[key]
            messages = messages_in(value)
            if not messages and isinstance(value, str) and value.strip("[] \n"):
                role = "user" if key == words.INPUT_MESSAGES else "assistant"
                return [Message(role, ({"type": "text", "content": value},))]  # cut off or foreign: nothing is lost
            return messages
    return []


def _read_prompt_event(event: SpanEvent) -> Iterator[Message]:
    if event.name in _ROLE_EVENTS:
        yield from _of_event({"role": _ROLE_EVENTS[event.name], **_body(event)})
    elif event.name == "gen_ai.content.prompt":
        yield from _of_content(event.attributes.get("gen_ai.prompt"), "user")


def _read_choice_event(event: SpanEvent) -> Iterator[Message]:
    if event.name == "gen_ai.choice":
        body = _body(event)
        message = parse_or_keep(body.get("message"))
        fields = message if isinstance(message, Mapping) else {**body, "content": body.get("content", message)}
        yield from _of_event({"role": "assistant", **fields})
    elif event.name == "gen_ai.content.completion":
        yield from _of_content(event.attributes.get("gen_ai.completion"), "assistant")


def _body(event: SpanEvent) -> dict[str, Any]:
    """Read the fields of an event: its attributes, or JSON in one of them."""
    for key in ("gen_ai.event.content", "event_body", "body"):
        body = parse_structure(event.attributes.get(key))
        if isinstance(body, Mapping):
            return dict(body)
    return {key.removeprefix("gen_ai."): parse_or_keep(value) for key, value in event.attributes.items()}


def parse_or_keep(value: object) -> Any:
    """Read JSON where a value is some, else give the value."""
    read = parse_structure(value)
    return value if read is None else read


def _of_event(fields: Mapping[str, Any]) -> list[Message]:
    fields = {**fields, "tool_call_id": fields.get("tool_call_id", fields.get("id"))}
    return messages_in([fields])


def _of_content(value: object, role: str) -> list[Message]:
    messages = messages_in(value)
    return messages or ([Message(role, ({"type": "text", "content": as_text(value)},))] if value else [])
