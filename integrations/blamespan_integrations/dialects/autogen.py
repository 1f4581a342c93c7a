"""AutoGen's own spans: `invoke_agent` and `execute_tool` by the GenAI conventions, and its runtime's.

What an agent said is on no span of its own: it stands, as JSON, on the `autogen process` spans of those who
received it, which link to where it was sent from. Source: autogen-core 0.7.5, `_telemetry`.

Only within one trace: AutoGen starts a new trace for each message unless a span was current when the run began.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from blamespan import conventions as words
from blamespan.dialects import SpanReading
from blamespan.genai_messages import Message
from blamespan.spans import Span
from blamespan.trace import Usage
from blamespan_integrations.dialects import genai
from blamespan_integrations.dialects._messages import messages_in
from blamespan_integrations.dialects._values import number, parse_structure

_TEAM_ID = re.compile(r"_[0-9a-f]{8}-[0-9a-f-]{27}$")


class AutoGenDialect:
    """Reads AutoGen's spans."""

    name = "autogen"
    scopes = ("autogen-core", "autogen ")
    marks = ("recipient_agent_type",)

    def read(self, span: Span) -> SpanReading | None:
        """Read an agent, a tool, or a message on its way."""
        operation = span.text(words.OPERATION)
        if operation == words.OPERATION_AGENT:
            return genai.agent(span)
        if operation == words.OPERATION_TOOL:
            return genai.tool(span)
        if span.text("messaging.operation") == "process":
            return _delivery(span)
        return None


def _delivery(span: Span) -> SpanReading | None:
    message = parse_structure(span.attributes.get("message"))
    if not isinstance(message, Mapping):
        return None
    response = message.get("response")
    if isinstance(response, Mapping):
        message_json = response.get("chat_message")
        return _read_delivery(span, message_json, [span.text("recipient_agent_type") or ""])
    if "message" in message:
        return _read_delivery(span, message["message"], [])
    inputs = messages_in(message.get("messages"))
    return SpanReading(role="delivery", inputs=inputs) if inputs else None


def _read_delivery(span: Span, message: Any, recipients: list[str]) -> SpanReading:
    outputs: list[Message] = messages_in([message])
    target = message.get("target") if isinstance(message, Mapping) and message.get("type") == "HandoffMessage" else None
    addressees = [target] if isinstance(target, str) else [_TEAM_ID.sub("", name) for name in recipients if name]
    return SpanReading(
        role="delivery",
        kind="handoff" if isinstance(target, str) else None,
        outputs=outputs,
        recipients=tuple(addressees),
        causes=tuple(link.span_id for link in span.links),
        usage=_usage(message),
    )


def _usage(message: Any) -> Usage | None:
    usage = message.get("models_usage") if isinstance(message, Mapping) else None
    if not isinstance(usage, Mapping):
        return None
    return Usage(number(usage.get("prompt_tokens")) or 0, number(usage.get("completion_tokens")) or 0)
