"""Agent Framework programs that run offline: chat clients that answer by what they read, real agents and tools."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    UsageDetails,
    tool,
)
from agent_framework._middleware import ChatMiddlewareLayer
from agent_framework.observability import ChatTelemetryLayer

from blamespan.spans import Span
from blamespan.testing import SpanRecorder
from tests.integrations.drawing import TOLD_ELSEWHERE, draw_runs

Answer = str | list[Content]
Rule = Callable[[Sequence[Message]], Answer]


def call(name: str, /, **arguments: Any) -> list[Content]:
    """Make a model's answer that calls one tool."""
    return [Content.from_function_call(call_id=f"call-{name}", name=name, arguments=json.dumps(arguments))]


def in_turn(*answers: Answer) -> Rule:
    """Answer with *answers*, one after the other."""
    remaining = iter(answers)
    return lambda _: next(remaining)


class RuleClient(FunctionInvocationLayer, ChatMiddlewareLayer, ChatTelemetryLayer, BaseChatClient):  # type: ignore[misc, type-arg]
    """Answers by what it reads: *rule* is given the messages."""

    OTEL_PROVIDER_NAME = "rules"

    def __init__(self, rule: Rule, *, delay: Callable[[], Awaitable[object]] | None = None) -> None:
        super().__init__()
        self.model = "rule"
        self.rule, self.delay = rule, delay
        self.calls = 0

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **_: Any
    ) -> Any:
        async def contents() -> list[Content]:
            self.calls += 1
            if self.delay is not None:
                await self.delay()
            answer = self.rule(messages)
            return [Content.from_text(answer)] if isinstance(answer, str) else answer

        usage = UsageDetails(input_token_count=len(messages), output_token_count=2)
        if stream:

            async def updates() -> AsyncIterator[ChatResponseUpdate]:
                for content in await contents():
                    pieces = content.text.split(" ") if content.type == "text" and content.text else [content]
                    for place, piece in enumerate(pieces):
                        part = (
                            Content.from_text(piece if place == 0 else f" {piece}") if isinstance(piece, str) else piece
                        )
                        yield ChatResponseUpdate(role="assistant", contents=[part], model="rule-1")
                yield ChatResponseUpdate(role="assistant", contents=[Content.from_usage(usage)], finish_reason="stop")

            return ResponseStream(updates(), finalizer=ChatResponse.from_updates)

        async def response() -> ChatResponse:
            message = Message(role="assistant", contents=await contents())
            return ChatResponse(messages=[message], usage_details=usage, model="rule-1", finish_reason="stop")

        return response()


def agent(name: str, *answers: Answer, rule: Rule | None = None, tools: Sequence[Any] = (), **options: Any) -> Agent:
    """Make an agent whose model answers as told."""
    client = RuleClient(rule or in_turn(*answers))
    return Agent(client, f"You are the {name}.", name=name, tools=list(tools), **options)


@tool(approval_mode="never_require")
def look_up(city: str) -> str:
    """Look up the weather of a city."""
    return f"sunny in {city}"


@tool(approval_mode="never_require")
def fails(city: str) -> str:
    """Fail."""
    raise LookupError(f"no such city: {city}")


def headline(span: Span) -> str:
    """Say how a run ended."""
    state = "complete" if span.attributes.get("blamespan.run.complete") else "incomplete"
    waits = ", waits" if span.attributes.get("blamespan.run.interrupted") else ""
    failed = f", {span.text('error.type')}" if span.text("error.type") else ""
    return f"{span.name}, {state}{waits}{failed}"


def named(recorder: SpanRecorder, start: str) -> list[Span]:
    """List the spans whose name begins with *start*, in the order they ended."""
    return [span for span in recorder.spans() if span.name.startswith(start)]


def drawn(recorder: SpanRecorder) -> str:
    """Draw every run recorded."""
    return draw_runs(recorder.spans(), headline, hide=TOLD_ELSEWHERE)
