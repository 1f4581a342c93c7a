"""Who says what in AutoGen, and under which name: every message a step, whoever calls the agent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from autogen_agentchat.agents import SocietyOfMindAgent
from autogen_agentchat.base import ChatAgent, Response, Team
from autogen_agentchat.conditions import TextMentionTermination
from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat
from autogen_agentchat.tools import AgentTool
from autogen_core import CancellationToken

from blamespan.testing import SpanRecorder
from tests.integrations.autogen_runs import Echo, Raises, assistant, calls, drawn, outline, replay
from tests.integrations.drawing import literal


class CountDown(Echo):
    """Says what it is at before it answers, as AutoGen's documentation has it."""

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        *_, last = [item async for item in self.on_messages_stream(messages, cancellation_token)]
        assert isinstance(last, Response)
        return last

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[BaseAgentEvent | BaseChatMessage | Response, None]:
        inner: list[BaseAgentEvent | BaseChatMessage] = []
        for number in (2, 1):
            inner.append(TextMessage(content=f"{number}...", source=self.name))
            yield inner[-1]
        yield Response(chat_message=TextMessage(content="Done!", source=self.name), inner_messages=inner)


class GivesUp(Echo):
    """Raises after it has said something."""

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[BaseAgentEvent | BaseChatMessage | Response, None]:
        yield TextMessage(content="so far so good", source=self.name)
        raise LookupError("no such page")


class Relays(Echo):
    """Passes on what another agent says, and answers itself."""

    def __init__(self, name: str, inner: ChatAgent) -> None:
        super().__init__(name)
        self.inner = inner

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[BaseAgentEvent | BaseChatMessage | Response, None]:
        async for item in self.inner.run_stream(task=list(messages), cancellation_token=cancellation_token):
            if isinstance(item, BaseChatMessage):
                yield item
        yield Response(chat_message=TextMessage(content="that was it", source=self.name))


@pytest.mark.construct("AutoGen", "messages that an agent says before its answer")
async def test_messages_on_the_way(recorder: SpanRecorder) -> None:
    """Each message is a step with a span of its own, on the grounds of the one before; only the answer is addressed."""
    team = RoundRobinGroupChat([CountDown("counter"), Echo("b")], termination_condition=TextMentionTermination("b:"))
    result = await team.run(task="go")

    assert [message.to_text() for message in result.messages] == ["go", "2...", "1...", "Done!", "b: Done!"]
    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Text 'b:' mentioned
        task: go
        agents: counter, b
        0 counter: message '2...'
        1 counter: message '1...' after 0
        2 counter: message 'Done!' to b after 1
        3 b: message 'b: Done!' to counter after 2
        """)
    assert outline(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat
          invoke_agent counter
          invoke_agent counter
          invoke_agent counter
          invoke_agent b
        """)


@pytest.mark.construct("AutoGen", "agent that raises after it has said something")
async def test_raising_after_a_message(recorder: SpanRecorder) -> None:
    """What was said is a step, and the failure is the next one."""
    with pytest.raises(RuntimeError, match="no such page"):
        await RoundRobinGroupChat([GivesUp("searcher")]).run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, error RuntimeError
        task: go
        agents: searcher
        outcome: failed
        0 searcher: message 'so far so good'
        1 searcher: message '' after 0, error LookupError
        """)


@pytest.mark.construct("AutoGen", "agent that passes on another's messages")
async def test_passed_on_messages(recorder: SpanRecorder) -> None:
    """A message that an agent only passes on is the step of whoever said it, once."""
    await RoundRobinGroupChat([Relays("relay", CountDown("counter"))], max_turns=1).run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 1 reached.
        task: go
        agents: relay, counter
        0 counter: message '2...' to relay
        1 counter: message '1...' to relay after 0
        2 counter: message 'Done!' to relay after 1
        3 relay: message 'that was it' after 0 1 2
        """)


async def run(runner: Any) -> None:
    await runner.run(task="go")


async def stream(runner: Any) -> None:
    async for _ in runner.run_stream(task="go"):
        pass


async def ask(runner: Any) -> None:
    await runner.on_messages([TextMessage(content="go", source="user")], CancellationToken())


async def ask_in_a_stream(runner: Any) -> None:
    async for _ in runner.on_messages_stream([TextMessage(content="go", source="user")], CancellationToken()):
        pass


@pytest.mark.construct("AutoGen", "agent alone, called in any way")
@pytest.mark.parametrize("call", [run, stream, ask, ask_in_a_stream])
async def test_agent_alone(recorder: SpanRecorder, call: Any) -> None:
    """However it is called, an agent without a team is one run: one trace with its task and all its messages."""
    await call(CountDown("counter"))

    assert drawn(recorder) == literal("""
        invoke_workflow counter, complete
        task: go
        agents: counter
        0 counter: message '2...'
        1 counter: message '1...' after 0
        2 counter: message 'Done!' after 1
        """)
    assert outline(recorder) == literal("""
        invoke_workflow counter
          invoke_agent counter
          invoke_agent counter
          invoke_agent counter
        """)


@pytest.mark.construct("AutoGen", "agent alone that raises")
async def test_agent_alone_that_raises(recorder: SpanRecorder) -> None:
    """Its run has failed with the agent's own exception."""
    with pytest.raises(LookupError):
        await Raises("searcher").run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow searcher, complete, error LookupError
        task: go
        agents: searcher
        outcome: failed
        0 searcher: message '', error LookupError
        """)


@pytest.mark.construct("AutoGen", "early break out of an agent's stream")
async def test_agent_alone_left_early(recorder: SpanRecorder) -> None:
    """Its run is incomplete and no failure; the message it was at is cancelled, what it had said stays."""
    stream = CountDown("counter").run_stream(task="go")
    async for item in stream:
        if getattr(item, "content", "") == "2...":
            break
    await stream.aclose()

    assert drawn(recorder) == literal("""
        invoke_workflow counter, incomplete
        task: go
        agents: counter
        0 counter: message '2...'
        1 counter: message '' after 0, blamespan.step.cancelled=True
        """)


@pytest.mark.construct("AutoGen", "agents called by hand within the program's own span")
async def test_agents_called_by_hand(recorder: SpanRecorder) -> None:
    """Calls in one trace are counted together and linked by the messages that the program passes on."""
    writer, critic = assistant("writer", "a draft", "a better draft"), Echo("critic")
    with recorder.provider.get_tracer("app").start_as_current_span("request"):
        asked = TextMessage(content="write", source="user")
        draft = (await writer.on_messages([asked], CancellationToken())).chat_message
        with recorder.provider.get_tracer("app").start_as_current_span("review"):
            review = (await critic.on_messages([draft], CancellationToken())).chat_message
        await writer.on_messages([review], CancellationToken())
        await critic.on_messages([TextMessage(content="again", source="user")], CancellationToken())

    assert drawn(recorder) == literal("""
        request
        task: ''
        agents: writer, critic
        0 writer: message 'a draft', 5+2 tokens
        1 critic: message 'critic: a draft' after 0
        2 writer: message 'a better draft' after 1, 10+3 tokens
        3 critic: message 'critic: again' after 1
        """)
    assert outline(recorder) == literal("""
        request
          invoke_agent writer
            chat replay
          review
            invoke_agent critic
          invoke_agent writer
            chat replay
          invoke_agent critic
        """)


def pair(name: str) -> RoundRobinGroupChat:
    return RoundRobinGroupChat([Echo("writer"), Echo("critic")], max_turns=2, name=name)


@pytest.mark.construct("AutoGen", "agents of one name in teams within a team")
async def test_agents_of_one_name(recorder: SpanRecorder) -> None:
    """Agents that share a name go by team and name, whoever speaks first; a name that one alone has stays."""
    parts: list[ChatAgent | Team] = [pair("final"), pair("draft"), Echo("editor")]
    await SelectorGroupChat(parts, replay("draft", "final"), max_turns=2, name="press").run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow press, complete, stopped: Maximum number of turns 2 reached.
        task: go
        agents: final/writer, final/critic, draft/writer, draft/critic, editor
        0 draft/writer: message 'writer: go' to draft/critic, final/writer, final/critic, editor
        1 draft/critic: message 'critic: writer: go' to draft/writer, final/writer, final/critic, editor after 0
        2 final/writer: message 'writer: critic: writer: go' to final/critic, draft/writer, draft/critic, editor after 0 1
        3 final/critic: message 'critic: writer: critic: writer: go' to final/writer, draft/writer, draft/critic, editor after 0 1 2
        """)  # noqa: E501


@pytest.mark.construct("AutoGen", "agents of one name in societies and tools")
async def test_agents_of_one_name_inside_agents(recorder: SpanRecorder) -> None:
    """In a society, or as another's tool, an agent whose name is taken goes by that agent's and its own."""
    inner = RoundRobinGroupChat([Echo("expert")], max_turns=1)
    tool = AgentTool(assistant("expert", "42"), return_value_as_last_message=True)
    asker = assistant("asker", calls(("expert", {"task": "what?"})), "it is 42", tools=[tool], max_tool_iterations=2)
    society = SocietyOfMindAgent("society", inner, replay("we agree"))
    await RoundRobinGroupChat([society, asker], max_turns=2).run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 2 reached.
        task: go
        agents: society, society/expert, asker, asker/expert
        0 society/expert: message 'expert: go' to society
        1 society: message 'we agree' to asker after 0, 42+2 tokens
        2 asker: tool_call 'expert({"task": "what?"})' after 1
        3 asker/expert: message '42' to asker after 2, 5+1 tokens
        4 asker: tool_result '42' after 2
        5 asker: message 'it is 42' to society after 1 4, 7+10 tokens
        """)


class Retries(Relays):
    """Asks another agent until it answers, and gives its answer as it is."""

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[BaseAgentEvent | BaseChatMessage | Response, None]:
        for _ in range(2):
            with suppress(LookupError):
                yield await self.inner.on_messages(messages, cancellation_token)


class RaisesFirst(Echo):
    has_raised = False

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        if not self.has_raised:
            self.has_raised = True
            raise LookupError("no such page")
        return await super().on_messages(messages, cancellation_token)


@pytest.mark.construct("AutoGen", "agent that answers with another's message")
async def test_answer_of_another(recorder: SpanRecorder) -> None:
    """An agent whose answer is another's message is around that agent's steps, as a team is, and no step itself."""
    await RoundRobinGroupChat([Retries("retries", RaisesFirst("searcher")), Echo("b")], max_turns=2).run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 2 reached.
        task: go
        agents: retries, b, searcher
        0 searcher: message '', error LookupError
        1 searcher: message 'searcher: go' to retries
        2 b: message 'b: searcher: go' to retries after 1
        """)
    assert outline(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat
          invoke_workflow retries
            invoke_agent searcher
            invoke_agent searcher
          invoke_agent b
        """)


@pytest.mark.construct("AutoGen", "team made anew in each call of a tool")
async def test_team_made_in_a_tool(recorder: SpanRecorder) -> None:
    """A team that only the program's code knows of builds on the call, and its agents are the same in every call."""

    async def consult(page: int) -> str:
        """Consult."""
        result = await RoundRobinGroupChat([Echo("writer")], max_turns=1, name="press").run(task=str(page))
        return result.messages[-1].to_model_text()

    answers = [calls(("consult", {"page": 1})), calls(("consult", {"page": 2})), "done"]
    await assistant("writer", *answers, tools=[consult], max_tool_iterations=3).run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow writer, complete
        task: go
        agents: writer, writer/press/writer
        0 writer: tool_call 'consult({"page": 1})'
        1 writer/press/writer: message 'writer: 1' after 0
        2 writer: tool_result 'writer: 1' after 0
        3 writer: tool_call 'consult({"page": 2})' after 2
        4 writer/press/writer: message 'writer: 2' after 3
        5 writer: tool_result 'writer: 2' after 3
        6 writer: message 'done' after 2 5, 5+15 tokens
        """)
