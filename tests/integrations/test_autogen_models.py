"""Model calls of AutoGen agents as spans, whichever client makes them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken
from autogen_core.model_context import BufferedChatCompletionContext
from autogen_core.models import CreateResult, LLMMessage, RequestUsage, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient
from opentelemetry import trace as otel
from opentelemetry.trace import SpanKind

from blamespan import conventions as words
from blamespan.testing import SpanRecorder
from blamespan.trace import Usage
from tests.integrations.autogen_runs import INFO, Echo, assistant, calls, named, only, replay, trace_of, tree
from tests.integrations.drawing import read_messages as read


def fresh(*answers: str | CreateResult) -> ReplayChatCompletionClient:
    """Make a client whose answers do not say that they come from a cache."""
    client = replay(*answers)
    client.set_cached_bool_value(False)
    return client


async def test_model_call_tells_model_messages_tokens_and_answer(recorder: SpanRecorder) -> None:
    """A model call is a CLIENT span with what was sent, what came back, why it ended and what it cost."""
    await assistant("writer", calls(("add", {}), thought="let me see")).run(task="two words")

    call = only(recorder, "chat")
    assert call.kind is SpanKind.CLIENT
    assert read(call) == [("system", None, "You are the writer."), ("user", "user", "two words")]
    (answer,) = json.loads(call.text(words.OUTPUT_MESSAGES) or "")
    assert answer == {
        "role": "assistant",
        "parts": [
            {"type": "reasoning", "content": "let me see"},
            {"type": "tool_call", "id": "call-0", "name": "add", "arguments": "{}"},
        ],
    }
    assert call.attributes[words.FINISH_REASONS] == ("function_calls",)
    assert (call.integer(words.INPUT_TOKENS), call.integer(words.OUTPUT_TOKENS)) == (0, 7)


async def test_tokens_of_an_agents_calls_add_up(recorder: SpanRecorder) -> None:
    """A message costs what all its model calls cost."""
    idle = calls(("nothing", {}))
    await assistant("writer", idle, idle, "done", max_tool_iterations=3).run(task="go")

    spans = named(recorder, "chat")
    assert len(spans) == 3
    assert trace_of(recorder).steps[-1].usage == Usage(
        sum(span.integer(words.INPUT_TOKENS) or 0 for span in spans),
        sum(span.integer(words.OUTPUT_TOKENS) or 0 for span in spans),
    )


async def test_model_call_holds_only_messages_new_to_the_model(recorder: SpanRecorder) -> None:
    """What an agent has sent before, or got as an answer, is not recorded again."""
    team = RoundRobinGroupChat([assistant("writer", "one", "two", "three"), Echo()], max_turns=5)
    await team.run(task="go")

    assert [read(span) for span in named(recorder, "chat")] == [
        [("system", None, "You are the writer."), ("user", "user", "go")],
        [("user", "echo", "echo: one")],
        [("user", "echo", "echo: two")],
    ]


async def test_equal_messages_are_new_each_time_they_are_said(recorder: SpanRecorder) -> None:
    """A message that repeats an earlier one word for word is a new message."""
    agent = assistant("writer", *["yes"] * 3, model_context=BufferedChatCompletionContext(buffer_size=50))
    parrot = assistant("parrot", *["really?"] * 3)
    await RoundRobinGroupChat([agent, parrot], max_turns=6).run(task="go")

    writers = [span for span in named(recorder, "chat") if span.text(words.AGENT_NAME) == "writer"]
    assert [read(span)[-1:] for span in writers] == [
        [("user", "user", "go")],
        [("user", "parrot", "really?")],
        [("user", "parrot", "really?")],
    ]


async def test_streaming_model_is_one_call(recorder: SpanRecorder) -> None:
    """A streamed answer is one call, recorded whole; the span is current nowhere but in the client."""
    seen: set[Any] = set()
    agent = assistant("writer", "three words long", model_client_stream=True)
    async for _ in agent.run_stream(task="go"):
        seen.add(otel.get_current_span())

    assert read(only(recorder, "chat"), words.OUTPUT_MESSAGES) == [("assistant", None, "three words long")]
    assert tree(recorder) == {
        "": ["invoke_workflow writer"],
        "invoke_workflow writer": ["invoke_agent writer"],
        "invoke_agent writer": ["chat ReplayChatCompletionClient"],
    }
    assert seen == {otel.INVALID_SPAN}


async def test_failing_model_is_an_error_of_its_agent(recorder: SpanRecorder) -> None:
    """A client that raises ends call, agent and run as errors."""
    with pytest.raises(RuntimeError, match="No more mock responses"):
        await RoundRobinGroupChat([assistant("writer")], max_turns=1).run(task="go")

    assert {span.name: (span.status, span.attributes[words.ERROR_TYPE]) for span in recorder.spans()} == {
        "chat ReplayChatCompletionClient": ("error", "ValueError"),
        "invoke_agent writer": ("error", "ValueError"),
        "invoke_workflow RoundRobinGroupChat": ("error", "RuntimeError"),
    }


async def test_client_defined_later_is_recorded_under_its_models_name(recorder: SpanRecorder) -> None:
    """A client class of the program's own, made after instrumentation, is recorded; its super() is not a call."""

    class Tuned(ReplayChatCompletionClient):
        model = "tuned-1"

        async def create(self, messages: Sequence[LLMMessage], **options: Any) -> CreateResult:
            return await super().create(messages, **options)

        async def create_stream(
            self, messages: Sequence[LLMMessage], **options: Any
        ) -> AsyncGenerator[str | CreateResult, None]:
            async for item in super().create_stream(messages, **options):
                yield item

    client = Tuned(["one", "two"], model_info=INFO)
    await AssistantAgent("calls", client).run(task="go")
    await AssistantAgent("streams", client, model_client_stream=True).run(task="go")

    assert [span.name for span in named(recorder, "chat")] == ["chat tuned-1", "chat tuned-1"]


class Careful(ReplayChatCompletionClient):
    """Has another client answer, twice if need be."""

    def __init__(self, inner: ReplayChatCompletionClient) -> None:
        super().__init__([], model_info=INFO)
        self._inner = inner

    async def create(self, messages: Sequence[LLMMessage], **options: Any) -> CreateResult:
        try:
            return await self._inner.create(messages, **options)
        except ValueError:
            return CreateResult(
                finish_reason="stop",
                content="no answer",
                usage=RequestUsage(prompt_tokens=0, completion_tokens=0),
                cached=False,
            )


async def test_client_around_a_client_is_one_call(recorder: SpanRecorder) -> None:
    """A client that delegates is one model call, under its own name; the response model is the one that answered."""

    class Named(ReplayChatCompletionClient):
        model = "inner-1"

    careful = Careful(Named(["an answer"], model_info=INFO))
    agent = AssistantAgent("writer", careful)
    await agent.run(task="one")
    await agent.run(task="two")

    first, second = named(recorder, "chat")
    assert (first.name, first.attributes[words.RESPONSE_MODEL]) == ("chat Careful", "inner-1")
    assert (second.status, read(second, words.OUTPUT_MESSAGES)) == ("unset", [("assistant", None, "no answer")])


async def test_answer_from_a_cache_says_so(recorder: SpanRecorder) -> None:
    """A cached answer is marked: its tokens cost nothing."""
    await assistant("one", "cached").run(task="go")
    await AssistantAgent("two", fresh("not cached")).run(task="go")

    assert [span.attributes.get("blamespan.autogen.cached") for span in named(recorder, "chat")] == [True, None]


async def test_model_call_outside_every_run_is_the_programs_own(recorder: SpanRecorder) -> None:
    """A client that no agent calls is not recorded."""
    await replay("answer").create([UserMessage(content="ask", source="user")])

    assert recorder.spans() == []


async def test_agents_that_share_a_client_are_told_apart(recorder: SpanRecorder) -> None:
    """What one agent has sent says nothing about what another has."""
    client = replay("one", "two")
    agents = [AssistantAgent(name, client, system_message="Be brief.") for name in ("a", "b")]
    await RoundRobinGroupChat(list(agents), max_turns=2).run(task="go")

    assert [read(span) for span in named(recorder, "chat")] == [
        [("system", None, "Be brief."), ("user", "user", "go")],
        [("system", None, "Be brief."), ("user", "user", "go"), ("user", "a", "one")],
    ]


async def test_usage_of_a_message_stands_in_for_unseen_model_calls(recorder: SpanRecorder) -> None:
    """An agent that asks its model some other way still has the tokens AutoGen knows of."""

    class Direct(Echo):
        async def on_messages(self, messages: Any, cancellation_token: CancellationToken) -> Response:
            usage = RequestUsage(prompt_tokens=5, completion_tokens=6)
            return Response(chat_message=TextMessage(content="hi", source=self.name, models_usage=usage))

    await Direct().run(task="go")

    assert trace_of(recorder).steps[0].usage == Usage(5, 6)
