"""AutoGen teams that run offline: replayed models, real agents, tools that truly execute."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import CreateResult, ModelInfo, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

from blamespan import conventions as words
from blamespan.rebuilding.rebuild import rebuild
from blamespan.spans import Span
from blamespan.testing import SpanRecorder
from blamespan.trace import MessageActionTrace
from tests.integrations import drawing
from tests.integrations.drawing import TOLD_ELSEWHERE, draw_runs

INFO = ModelInfo(vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False)


def replay(*answers: str | CreateResult) -> ReplayChatCompletionClient:
    """Make a model client that gives *answers* in turn."""
    return ReplayChatCompletionClient(list(answers), model_info=INFO)


def calls(*tools: tuple[str, Any], thought: str | None = None) -> CreateResult:
    """Make a model's answer that calls tools; arguments that are no text become JSON."""
    wanted = [
        FunctionCall(id=f"call-{place}", name=name, arguments=given if isinstance(given, str) else json.dumps(given))
        for place, (name, given) in enumerate(tools)
    ]
    usage = RequestUsage(prompt_tokens=0, completion_tokens=7)
    return CreateResult(finish_reason="function_calls", content=wanted, usage=usage, cached=False, thought=thought)


def assistant(name: str, *answers: str | CreateResult, **options: Any) -> AssistantAgent:
    """Make an assistant whose model answers as told."""
    options.setdefault("description", f"the {name}")
    options.setdefault("system_message", f"You are the {name}.")
    return AssistantAgent(name, replay(*answers), **options)


class Echo(BaseChatAgent):
    """Answers with the last message it got, in its own words: `writer: ...`."""

    def __init__(self, name: str = "echo") -> None:
        super().__init__(name, f"the {name}")

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        heard = messages[-1].to_model_text() if messages else "nothing"
        return Response(chat_message=TextMessage(content=f"{self.name}: {heard}", source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        return None


class Raises(Echo):
    """Fails when it is its turn."""

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        raise LookupError("no such page")


def named(recorder: SpanRecorder, start: str) -> list[Span]:
    """List the spans whose name begins with *start*, in the order they began."""
    found = [span for span in recorder.spans() if span.name.startswith(start)]
    return sorted(found, key=lambda span: span.start_ns)


def only(recorder: SpanRecorder, start: str) -> Span:
    """Give the one span whose name begins with *start*."""
    (span,) = named(recorder, start)
    return span


def trace_of(recorder: SpanRecorder) -> MessageActionTrace:
    """Rebuild the one run."""
    assert len({span.trace_id for span in recorder.spans()}) == 1
    return rebuild(recorder.spans())


def said(trace: MessageActionTrace) -> list[tuple[str, str, str]]:
    """List who did what: agent, kind, content."""
    return [(step.agent, step.kind, step.content) for step in trace.steps]


def tree(recorder: SpanRecorder) -> dict[str, list[str]]:
    """Map the name of each span to the names of its children, both in the order they began."""
    spans = sorted(recorder.spans(), key=lambda span: span.start_ns)
    names = {span.span_id: span.name for span in spans}
    found: dict[str, list[str]] = {}
    for span in spans:
        found.setdefault(names.get(span.parent_id or "", ""), []).append(span.name)
    return found


def drawn(recorded: SpanRecorder | Sequence[Span]) -> str:
    """Draw every recorded run, first to start first: what its own span says of it, then its rebuilt trace."""
    spans = recorded.spans() if isinstance(recorded, SpanRecorder) else list(recorded)
    return draw_runs(spans, _headline, hide=TOLD_ELSEWHERE | {"blamespan.autogen.message_type"})


def _headline(root: Span) -> str:
    said = [root.name]
    if words.RUN_COMPLETE in root.attributes:
        said += ["complete" if root.attributes[words.RUN_COMPLETE] else "incomplete"]
    said += [f"{root.status} {root.attributes.get(words.ERROR_TYPE)}"] if root.status != "unset" else []
    reason = root.attributes.get("blamespan.autogen.stop_reason")
    return ", ".join([*said, f"stopped: {reason}"] if reason else said)


def outline(recorded: SpanRecorder | Sequence[Span]) -> str:
    """Draw the spans by name, children indented below their parent, in the order they started."""
    return drawing.outline(recorded).replace("ReplayChatCompletionClient", "replay")
