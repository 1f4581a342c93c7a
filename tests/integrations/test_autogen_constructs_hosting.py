"""However an AutoGen program starts, stops, shares or spreads its runs: the whole traces that come of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import Response, TaskResult
from autogen_agentchat.conditions import (
    ExternalTermination,
    MaxMessageTermination,
    SourceMatchTermination,
    TextMentionTermination,
)
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import (
    AgentId,
    CancellationToken,
    DefaultTopicId,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    TypeSubscription,
    message_handler,
)

from blamespan.rebuilding.rebuild import rebuild
from blamespan.testing import SpanRecorder
from blamespan_integrations.recording.spans import STEP_CANCELLED
from tests.integrations.autogen_runs import Echo, Raises, assistant, drawn, named, only, outline
from tests.integrations.drawing import literal
from tests.integrations.drawing import read_messages as read


def pair(**options: Any) -> RoundRobinGroupChat:
    """Make two agents who speak in turn, three messages in all."""
    options.setdefault("max_turns", 3)
    return RoundRobinGroupChat([Echo("a"), Echo("b")], **options)


class Waits(Echo):
    """Speaks once it is told to; until then it can be cancelled."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.called, self.told = asyncio.Event(), asyncio.Event()

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        self.called.set()
        waiting = asyncio.ensure_future(self.told.wait())
        cancellation_token.link_future(waiting)
        await waiting
        return await super().on_messages(messages, cancellation_token)


@pytest.mark.construct("AutoGen", "run and run_stream")
async def test_run_and_run_stream(recorder: SpanRecorder) -> None:
    """The same run gives the same trace, streamed or not."""
    await pair().run(task="go")
    async for _ in pair().run_stream(task="go"):
        pass

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 3 reached.
        task: go
        agents: a, b
        0 a: message 'a: go' to b
        1 b: message 'b: a: go' to a after 0
        2 a: message 'a: b: a: go' to b after 1
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 3 reached.
        task: go
        agents: a, b
        0 a: message 'a: go' to b
        1 b: message 'b: a: go' to a after 0
        2 a: message 'a: b: a: go' to b after 1
        """)


@pytest.mark.construct("AutoGen", "early break out of a stream")
async def test_early_break(recorder: SpanRecorder) -> None:
    """A stream left early ends its run as incomplete and no error; what the team still says is in the same trace."""
    stream = pair().run_stream(task="go")
    async for item in stream:
        if getattr(item, "source", "") == "a":
            break
    await stream.aclose()

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, incomplete
        task: go
        agents: a, b
        0 a: message 'a: go' to b
        1 b: message 'b: a: go' to a after 0
        2 a: message 'a: b: a: go' to b after 1
        """)


class Slow(Echo):
    """Takes its time, and fails once it has."""

    def __init__(self, name: str, wait_s: float) -> None:
        super().__init__(name)
        self.called, self.wait_s = asyncio.Event(), wait_s

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        self.called.set()
        await asyncio.sleep(self.wait_s)
        raise ValueError("nothing came of it")


@pytest.mark.parametrize("has_timeout", [True, False])
async def test_timeout_of_the_program_is_no_error_of_an_agent(recorder: SpanRecorder, has_timeout: bool) -> None:
    """Once the program has given up on a run, what an agent then raises did not end it; without a timeout it did."""
    slow = Slow("slow", 0.2 if has_timeout else 0)
    running = asyncio.ensure_future(RoundRobinGroupChat([Echo("a"), slow], max_turns=3).run(task="go"))
    await slow.called.wait()
    with pytest.raises(TimeoutError if has_timeout else RuntimeError):
        await asyncio.wait_for(running, 0 if has_timeout else 60)
    last = rebuild(recorder.spans()).steps[-1]

    assert (last.agent, last.error) == ("slow", None if has_timeout else "ValueError")
    assert (last.attributes.get(STEP_CANCELLED), last.status) == ((True, "unset") if has_timeout else (None, "error"))


@pytest.mark.construct("AutoGen", "cancellation")
async def test_cancellation(recorder: SpanRecorder) -> None:
    """A cancelled run is incomplete and no error; the agent that was cut short says so."""
    token, waits = CancellationToken(), Waits("waits")
    running = asyncio.ensure_future(
        RoundRobinGroupChat([Echo("a"), waits], max_turns=3).run(task="go", cancellation_token=token)
    )
    await waits.called.wait()
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, incomplete
        task: go
        agents: a, waits
        0 a: message 'a: go' to waits
        1 waits: message '' after 0, blamespan.step.cancelled=True
        """)


@pytest.mark.construct("AutoGen", "agent that raises")
async def test_raising_agent(recorder: SpanRecorder) -> None:
    """An agent that raises fails its own step with its own exception, and the run with AutoGen's."""
    with pytest.raises(RuntimeError, match="no such page"):
        await RoundRobinGroupChat([Echo("a"), Raises("searcher")]).run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, error RuntimeError
        task: go
        agents: a, searcher
        outcome: failed
        0 a: message 'a: go' to searcher
        1 searcher: message '' after 0, error LookupError
        """)


@pytest.mark.construct("AutoGen", "termination conditions")
async def test_termination(recorder: SpanRecorder) -> None:
    """The run's span says why the team stopped, in the words of the condition that was met."""
    outside = ExternalTermination()
    outside.set()
    for condition in (
        MaxMessageTermination(2),
        TextMentionTermination("b: a"),
        SourceMatchTermination(["b"]) & MaxMessageTermination(2),
        outside,
    ):
        await pair(termination_condition=condition).run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of messages 2 reached, current message count: 2
        task: go
        agents: a, b
        0 a: message 'a: go' to b
        invoke_workflow RoundRobinGroupChat, complete, stopped: Text 'b: a' mentioned
        task: go
        agents: a, b
        0 a: message 'a: go' to b
        1 b: message 'b: a: go' to a after 0
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of messages 2 reached, current message count: 2, 'b' answered
        task: go
        agents: a, b
        0 a: message 'a: go' to b
        1 b: message 'b: a: go' to a after 0
        invoke_workflow RoundRobinGroupChat, complete, stopped: External termination requested
        task: go
        agents: a, b
        """)  # noqa: E501


@pytest.mark.construct("AutoGen", "pause and resume")
async def test_pause_and_resume(recorder: SpanRecorder) -> None:
    """A pause is no step and no error: the run goes on in its trace, and its span says how often it was paused."""
    waits = Waits("waits")
    team = RoundRobinGroupChat([waits, Echo("b")], max_turns=2)
    running = asyncio.ensure_future(team.run(task="go"))
    await waits.called.wait()
    await team.pause()
    await team.resume()
    waits.told.set()
    await running

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 2 reached.
        task: go
        agents: waits, b
        0 waits: message 'waits: go' to b
        1 b: message 'b: waits: go' to waits after 0
        """)
    assert outline(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat
          invoke_agent waits
          invoke_agent b
        """)
    attributes = only(recorder, "invoke_workflow").attributes
    assert [attributes[f"blamespan.autogen.{what}"] for what in ("pauses", "resumes")] == [1, 1]


@pytest.mark.construct("AutoGen", "save_state and load_state")
async def test_saved_and_loaded_state(recorder: SpanRecorder) -> None:
    """A team that goes on from another's state has a run of its own, whose agents and models are told what is new."""
    first = RoundRobinGroupChat([assistant("writer", "a draft")], max_turns=1)
    await first.run(task="write")
    second = RoundRobinGroupChat([assistant("writer", "a better draft")], max_turns=1)
    await second.load_state(await first.save_state())
    await second.run(task="again")

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 1 reached.
        task: write
        agents: writer
        0 writer: message 'a draft', 5+2 tokens
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 1 reached.
        task: again
        agents: writer
        0 writer: message 'a better draft', 8+3 tokens
        """)
    assert [[text for _, _, text in read(span)] for span in named(recorder, "chat")] == [
        ["You are the writer.", "write"],
        ["You are the writer.", "again"],
    ]


@pytest.mark.construct("AutoGen", "team used again")
async def test_team_used_again(recorder: SpanRecorder) -> None:
    """Each run of a team is a trace of its own, with what is new in it, also one without a task and after a reset."""
    team = pair(max_turns=1)
    await team.run(task="one")
    await team.run()
    await team.reset()
    await team.run(task="two")

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 1 reached.
        task: one
        agents: a, b
        0 a: message 'a: one' to b
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 1 reached.
        task: ''
        agents: a, b
        0 b: message 'b: a: one' to a
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 1 reached.
        task: two
        agents: a, b
        0 a: message 'a: two' to b
        """)


@pytest.mark.construct("AutoGen", "two teams at once")
async def test_two_teams_at_once(recorder: SpanRecorder) -> None:
    """Runs side by side in one process are whole traces, each with its own messages."""
    await asyncio.gather(pair().run(task="one"), pair().run(task="two"))

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 3 reached.
        task: one
        agents: a, b
        0 a: message 'a: one' to b
        1 b: message 'b: a: one' to a after 0
        2 a: message 'a: b: a: one' to b after 1
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 3 reached.
        task: two
        agents: a, b
        0 a: message 'a: two' to b
        1 b: message 'b: a: two' to a after 0
        2 a: message 'a: b: a: two' to b after 1
        """)


@pytest.mark.construct("AutoGen", "one SingleThreadedAgentRuntime for several runs")
async def test_shared_runtime(recorder: SpanRecorder) -> None:
    """Runs on a runtime that was started elsewhere, inside a span of the program's, are whole traces all the same."""
    with recorder.provider.get_tracer("app").start_as_current_span("startup"):
        runtime = SingleThreadedAgentRuntime()
        runtime.start()
    recorder.clear()
    one, two = pair(runtime=runtime), pair(runtime=runtime)
    await one.run(task="one")
    await asyncio.gather(one.run(task="again"), two.run(task="two"))
    await runtime.stop_when_idle()

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 3 reached.
        task: one
        agents: a, b
        0 a: message 'a: one' to b
        1 b: message 'b: a: one' to a after 0
        2 a: message 'a: b: a: one' to b after 1
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 3 reached.
        task: again
        agents: a, b
        0 b: message 'b: again' to a
        1 a: message 'a: b: again' to b after 0
        2 b: message 'b: a: b: again' to a after 1
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 3 reached.
        task: two
        agents: a, b
        0 a: message 'a: two' to b
        1 b: message 'b: a: two' to a after 0
        2 a: message 'a: b: a: two' to b after 1
        """)


@pytest.mark.construct("AutoGen", "stream left early on a shared runtime")
async def test_early_break_on_a_shared_runtime(recorder: SpanRecorder) -> None:
    """On a runtime that goes on a team works on when nobody listens: in the same trace."""
    runtime = SingleThreadedAgentRuntime()
    runtime.start()
    stream = pair(runtime=runtime).run_stream(task="go")
    async for item in stream:
        assert not isinstance(item, TaskResult)
        break
    await stream.aclose()
    await runtime.stop_when_idle()

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, incomplete
        task: go
        agents: a, b
        0 a: message 'a: go' to b
        1 b: message 'b: a: go' to a after 0
        2 a: message 'a: b: a: go' to b after 1
        """)


class Asks(RoutedAgent):
    """An agent of AutoGen's core with one of AgentChat inside, which may ask another of its kind first."""

    def __init__(self, agent: BaseChatAgent, asks: str | None = None, next_topic: str | None = None) -> None:
        super().__init__("asks")
        self.agent, self.asks, self.next_topic = agent, asks, next_topic

    @message_handler
    async def on_text(self, message: TextMessage, ctx: MessageContext) -> TextMessage:
        if self.asks is not None:
            message = await self.send_message(message, AgentId(self.asks, "default"))
        response = await self.agent.on_messages([message], ctx.cancellation_token)
        assert isinstance(response.chat_message, TextMessage)
        if self.next_topic is not None:
            await self.publish_message(response.chat_message, DefaultTopicId(self.next_topic))
        return response.chat_message


@pytest.mark.construct("AutoGen", "AgentChat agents inside agents of AutoGen's core")
async def test_agents_inside_core_agents(recorder: SpanRecorder) -> None:
    """Messages of AutoGen's core lead from one AgentChat agent to the next: one trace, the first message on top."""
    runtime = SingleThreadedAgentRuntime()
    for name, asks, topic in (("first", None, None), ("second", "first", "third"), ("third", None, None)):
        made = Asks(Echo(name), asks, topic)
        await made.register_instance(runtime, AgentId(name, "default"))
        await runtime.add_subscription(TypeSubscription(name, name))
    runtime.start()
    await runtime.send_message(TextMessage(content="go", source="user"), AgentId("second", "default"))
    await runtime.stop_when_idle()

    assert drawn(recorder) == literal("""
        invoke_agent first
        task: ''
        agents: first, second, third
        0 first: message 'first: go'
        1 second: message 'second: first: go' after 0
        2 third: message 'third: second: first: go' after 1
        """)
    assert outline(recorder) == literal("""
        invoke_agent first
          invoke_agent second
          invoke_agent third
        """)
