"""Runs of AutoGen teams as spans: what is recorded, in one trace, once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from autogen_agentchat.agents import UserProxyAgent
from autogen_agentchat.base import Response, TaskResult
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage, MultiModalMessage, StopMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken, Image
from opentelemetry import trace as otel
from PIL import Image as Pictures

from blamespan import conventions as words
from blamespan.host_safety import shield_host
from blamespan.rebuilding.runs import split_runs
from blamespan.testing import SpanRecorder
from blamespan.trace import Agent
from tests.integrations.autogen_runs import Echo, assistant, named, only, said, trace_of, tree
from tests.integrations.drawing import read_messages as read


def pair(**options: Any) -> RoundRobinGroupChat:
    """Make a writer and a critic who speak in turn, three messages in all."""
    options.setdefault("termination_condition", MaxMessageTermination(4))
    return RoundRobinGroupChat(
        [assistant("writer", "a draft", "a better draft"), assistant("critic", "too short")], **options
    )


async def test_agent_span_holds_only_messages_new_to_the_agent(recorder: SpanRecorder) -> None:
    """An agent's input is what it received since it last spoke: the user's task once, agents by name."""
    await pair().run(task="write")

    assert [read(span) for span in named(recorder, "invoke_agent")] == [
        [("user", "user", "write")],
        [("user", "user", "write"), ("assistant", "writer", "a draft")],
        [("assistant", "critic", "too short")],
    ]


async def test_run_span_tells_task_participants_result_and_reason(recorder: SpanRecorder) -> None:
    """The run's span has the task, everybody who takes part, the last message and why the team stopped."""
    team = RoundRobinGroupChat(
        [assistant("writer", "done"), Echo("silent"), UserProxyAgent("human")],
        termination_condition=TextMentionTermination("done"),
        name="press",
    )
    result = await team.run(task="write")

    run = only(recorder, "invoke_workflow press")
    assert result.stop_reason == "Text 'done' mentioned"
    assert read(run) == [("user", "user", "write")]
    assert read(run, words.OUTPUT_MESSAGES) == [("assistant", "writer", "done")]
    assert run.attributes["blamespan.autogen.stop_reason"] == "Text 'done' mentioned"
    assert run.attributes[words.RUN_COMPLETE] is True
    assert run.attributes[words.CONVERSATION_ID] == team._team_id
    assert [(agent.name, agent.role, agent.description) for agent in trace_of(recorder).agents] == [
        ("writer", "agent", "the writer"),
        ("silent", "agent", "the silent"),
        ("human", "user", "A human user"),
    ]


async def test_team_used_again_gives_a_second_run_of_one_conversation(recorder: SpanRecorder) -> None:
    """Each call of a team is a run of its own; the conversation id is the same."""
    team = pair(termination_condition=MaxMessageTermination(2))
    await team.run(task="write")
    await team.run(task="again")

    first, second = named(recorder, "invoke_workflow")
    assert first.trace_id != second.trace_id
    assert first.attributes[words.CONVERSATION_ID] == second.attributes[words.CONVERSATION_ID]
    assert [read(span) for span in named(recorder, "invoke_agent")] == [
        [("user", "user", "write")],
        [("user", "user", "write"), ("assistant", "writer", "a draft"), ("user", "user", "again")],
    ]


async def test_run_is_a_child_of_the_programs_span(recorder: SpanRecorder) -> None:
    """Inside a span of the program, the run is a part of that span's trace."""
    with recorder.provider.get_tracer("app").start_as_current_span("request"):
        await pair().run(task="write")

    assert tree(recorder)[""] == ["request"]
    assert tree(recorder)["request"] == ["invoke_workflow RoundRobinGroupChat"]


async def test_run_that_cannot_start_is_an_error(recorder: SpanRecorder) -> None:
    """An exception before the first message reaches the caller as it was, and ends the run's span."""
    with pytest.raises(ValueError, match="Task list cannot be empty"):
        await pair().run(task=[])

    assert only(recorder, "invoke_workflow").attributes[words.ERROR_TYPE] == "ValueError"


async def test_consumer_of_a_stream_keeps_its_own_context(recorder: SpanRecorder) -> None:
    """Between the items of a stream, and after leaving it, the consumer's current span is its own."""
    seen = set()
    async for _ in pair().run_stream(task="write"):
        seen.add(otel.get_current_span())
    with recorder.provider.get_tracer("app").start_as_current_span("request") as request:
        async for _ in pair().run_stream(task="write"):
            seen.add(otel.get_current_span())
            break
        seen.add(otel.get_current_span())

    assert seen == {otel.INVALID_SPAN, request}


async def test_forgotten_stream_ends_its_run(recorder: SpanRecorder, caplog: pytest.LogCaptureFixture) -> None:
    """A stream that is only dropped ends its run too, from the loop's finalizer, without a word in the log."""
    async for _ in pair().run_stream(task="write"):
        break
    for _ in range(1000):  # the loop closes it in a task of its own, which nobody can wait for
        await asyncio.sleep(0)

    assert only(recorder, "invoke_workflow").attributes[words.RUN_COMPLETE] is False
    assert "detach" not in caplog.text


class Shouts(Echo):
    """Overrides one method and calls the one above."""

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        response = await super().on_messages(messages, cancellation_token)
        return Response(chat_message=StopMessage(content="LOUD", source=response.chat_message.source))


async def test_agent_classes_of_any_kind_have_one_span_per_message(recorder: SpanRecorder) -> None:
    """Subclasses count once per message: overriding either method, calling super(), defined late or early."""

    class Streams(Shouts):
        async def on_messages_stream(
            self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
        ) -> AsyncGenerator[BaseAgentEvent | BaseChatMessage | Response, None]:
            async for item in super().on_messages_stream(messages, cancellation_token):
                yield item

    team = RoundRobinGroupChat([Echo(), Shouts("shouts"), Streams("streams")], max_turns=3)
    await team.run(task="write")

    assert said(trace_of(recorder)) == [
        ("echo", "message", "echo: write"),
        ("shouts", "termination", "LOUD"),
        ("streams", "termination", "LOUD"),
    ]
    assert [span.text("blamespan.autogen.message_type") for span in named(recorder, "invoke_agent")] == [
        "TextMessage",
        "StopMessage",
        "StopMessage",
    ]
    assert len(recorder.spans()) == 4


async def test_agent_that_calls_agents_is_above_them(recorder: SpanRecorder) -> None:
    """Agents called by an agent's own code are recorded below it, and speak to it."""
    inner = Echo("inner")

    class Asks(Echo):
        async def on_messages(self, messages: Any, cancellation_token: CancellationToken) -> Response:
            await inner.run(task="ask")
            return await super().on_messages(messages, cancellation_token)

    await RoundRobinGroupChat([Asks("asks")], max_turns=1).run(task="write")

    assert tree(recorder)["invoke_agent asks"] == ["invoke_agent inner"]
    assert [(step.agent, step.recipients) for step in trace_of(recorder).steps] == [("inner", ("asks",)), ("asks", ())]


async def test_agent_that_speaks_again_builds_on_its_own_words(recorder: SpanRecorder) -> None:
    """With nothing new received, a message builds on the agent's last one."""
    await RoundRobinGroupChat([assistant("writer", "one", "two")], max_turns=2).run(task="write")

    assert [step.inputs for step in trace_of(recorder).steps] == [(), (0,)]


async def test_pictures_stay_out_of_the_trace(recorder: SpanRecorder) -> None:
    """A picture in a message is named, its bytes are not recorded."""
    picture = Image(Pictures.new("RGB", (64, 64)))
    await Echo().run(task=MultiModalMessage(content=["look", picture], source="user"))

    assert read(only(recorder, "invoke_agent")) == [("user", "user", "look[image]")]


async def test_message_type_of_the_program_that_raises_is_still_recorded(recorder: SpanRecorder) -> None:
    """A message whose own methods fail while we read it neither breaks the run nor its record."""

    class Odd(TextMessage):
        def to_model_text(self) -> str:
            raise ZeroDivisionError

    class Says(Echo):
        async def on_messages(self, messages: Any, cancellation_token: CancellationToken) -> Response:
            return Response(chat_message=Odd(content="odd", source=self.name))

    result = await Says().run(task="write")

    assert result.messages[-1].to_text() == "odd"
    assert said(trace_of(recorder)) == [("echo", "message", "odd")]


async def test_long_run_has_payload_in_proportion_to_what_was_said(recorder: SpanRecorder) -> None:
    """Each message of a long run is recorded a bounded number of times."""
    turns, text = 60, "x" * 1000
    agents = [assistant(name, *[text] * turns) for name in ("one", "two")]
    await RoundRobinGroupChat(list(agents), max_turns=turns).run(task="write")

    recorded = sum(len(str(value)) for span in recorder.spans() for value in span.attributes.values())
    assert recorded < 6 * turns * len(text)


async def test_result_seen_by_a_consumer_that_stops_there_is_complete(recorder: SpanRecorder) -> None:
    """A stream left at its result has ended in order."""
    stream = pair().run_stream(task="write")
    async for item in stream:
        if isinstance(item, TaskResult):
            break

    assert only(recorder, "invoke_workflow").attributes[words.RUN_COMPLETE] is True
    await stream.aclose()


async def test_runs_in_one_request_are_two_runs_of_one_trace(recorder: SpanRecorder) -> None:
    """Two teams inside one span of the program are told apart."""
    with recorder.provider.get_tracer("app").start_as_current_span("request"):
        await pair().run(task="one")
        await pair().run(task="two")

    assert [
        len([s for s in run.spans if s.name.startswith("invoke_agent")]) for run in split_runs(recorder.spans())
    ] == [3, 3]


async def test_agent_ids_are_autogens_own(recorder: SpanRecorder) -> None:
    """Agents carry the id they have in AutoGen's runtime."""
    team = pair()
    await team.run(task="write")

    expected = f"writer_{team._team_id}/{team._team_id}"
    assert trace_of(recorder).agents[0] == Agent("writer", "agent", expected, "the writer")
    assert named(recorder, "invoke_agent writer")[0].attributes[words.AGENT_ID] == expected


class SaysNoMessage(Echo):
    """Answers with what is no message, as a beginner may."""

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        return Response(chat_message="not a message")  # type: ignore[arg-type]  # on purpose


async def test_agent_that_answers_with_no_message_is_a_step(
    recorder: SpanRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AutoGen refuses such an answer; the span of the one at fault ends, and as an error."""
    monkeypatch.setattr(shield_host, "strict", False)  # what it answers cannot be read: that stays between us
    with pytest.raises(Exception, match="not registered"):
        await RoundRobinGroupChat([SaysNoMessage("a"), Echo("b")], max_turns=2).run(task="go")

    (turn,) = [span for span in recorder.spans() if span.name == "invoke_agent a"]
    assert turn.status == "error"
