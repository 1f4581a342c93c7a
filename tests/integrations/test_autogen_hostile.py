"""Whatever an AutoGen program hands around or does to its process, it gets what it would get without us."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseChatMessage, StructuredMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken, SingleThreadedAgentRuntime
from autogen_core.tools import FunctionTool
from opentelemetry import trace as otel
from pydantic import BaseModel, ConfigDict

from blamespan import conventions as words
from blamespan.genai_messages import load_messages
from blamespan.rebuilding.rebuild import rebuild
from blamespan.testing import SpanRecorder
from blamespan_integrations.autogen._frames import Frame
from blamespan_integrations.autogen._runtime import SentMessages, arrival
from blamespan_integrations.recording.spans import RunState
from tests.integrations.autogen_runs import Echo, assistant, calls, drawn, named, only, tree
from tests.integrations.drawing import literal


class Unserialisable:
    pass


class Unreadable(Unserialisable):
    def __repr__(self) -> str:
        raise RuntimeError("nobody may look")

    __str__ = __repr__


class Payload(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    thing: Unserialisable


class Says(Echo):
    """Says what it was given."""

    def __init__(self, name: str, message: BaseChatMessage) -> None:
        super().__init__(name)
        self.message = message

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (type(self.message),)

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        return Response(chat_message=self.message)


CONTENTS: dict[str, BaseChatMessage] = {
    "10 MB": TextMessage(content="x" * 10_000_000, source="says"),
    "lone surrogate": TextMessage.model_construct(
        content="a\ud800b", source="says", id="1", metadata={}, models_usage=None, type="TextMessage"
    ),
    "binary": TextMessage(content=bytes(range(256)).decode("latin-1"), source="says"),
    "empty": TextMessage(content="", source="says"),
    "cannot be serialised": StructuredMessage[Payload](content=Payload(thing=Unserialisable()), source="says"),
    "no text": TextMessage.model_construct(
        content=7, source="says", id="1", metadata={}, models_usage=None, type="TextMessage"
    ),
}


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")  # AutoGen's own attempts at them
@pytest.mark.parametrize("message", CONTENTS.values(), ids=CONTENTS)
async def test_message_of_any_kind_passes_unchanged(recorder: SpanRecorder, message: BaseChatMessage) -> None:
    """The program's message arrives as the same object; the spans of agent and run end, with well-formed content."""
    kinds: Any = [type(message)] if isinstance(message, StructuredMessage) else None
    team = RoundRobinGroupChat([Says("says", message)], max_turns=1, custom_message_types=kinds)
    result = await team.run(task="go")

    agent, run = only(recorder, "invoke_agent says"), only(recorder, "invoke_workflow")
    assert result.messages[-1] is message
    assert (agent.status, run.status, run.attributes[words.RUN_COMPLETE]) == ("unset", "unset", True)
    assert load_messages(agent.attributes[words.OUTPUT_MESSAGES]) is not None
    assert len(str(agent.attributes[words.OUTPUT_MESSAGES]).encode()) <= 32_768


async def test_message_that_cannot_be_read_says_so(recorder: SpanRecorder) -> None:
    """What of a message cannot be read is named on its span, and the program gets the message."""
    message = StructuredMessage[Payload](content=Payload(thing=Unreadable()), source="says")
    result = await Says("says", message).run(task="go")

    span = only(recorder, "invoke_agent says")
    assert result.messages[-1] is message
    assert span.attributes[words.LOST] == (f"{words.OUTPUT_MESSAGES}: Unreadable: RuntimeError",)
    assert json.loads(span.text(words.OUTPUT_MESSAGES) or "")[0]["parts"] == [
        {"type": "object", "content": {"thing": "<Unreadable>"}}
    ]


async def test_tool_that_returns_an_exception_has_failed(recorder: SpanRecorder) -> None:
    """An exception given back instead of raised is the tool's error; the agent goes on with its text, as ever."""

    def careful() -> Any:
        """Be careful."""
        return KeyError("nothing there")

    agent = assistant("writer", calls(("careful", {})), "I see", tools=[careful], max_tool_iterations=2)
    result = await agent.run(task="go")

    assert [message.to_text() for message in result.messages[-2:]] == [
        "[FunctionExecutionResult(content=\"'nothing there'\", name='careful', call_id='call-0', is_error=False)]",
        "I see",
    ]
    assert drawn(recorder) == literal("""
        invoke_workflow writer, complete
        task: go
        agents: writer
        0 writer: tool_call 'careful({})', error KeyError
        1 writer: tool_result "'nothing there'" after 0, error KeyError
        2 writer: message 'I see' after 1, 5+9 tokens
        """)


async def test_tool_in_a_thread_sees_its_own_span(recorder: SpanRecorder) -> None:
    """What a plain function records from AutoGen's thread stands below its tool's span; so do calls at once."""

    def look(page: str) -> str:
        """Look."""
        with otel.get_tracer("app", tracer_provider=recorder.provider).start_as_current_span(f"inside {page}"):
            time.sleep(0.01)
        return page

    tools = [FunctionTool(look, "Look", name=name) for name in ("left", "right")]
    agent = assistant("writer", calls(("left", {"page": "1"}), ("right", {"page": "2"})), tools=tools)
    await agent.run(task="go")

    assert tree(recorder)["execute_tool left"] == ["inside 1"]
    assert tree(recorder)["execute_tool right"] == ["inside 2"]


async def test_agents_of_one_name_and_of_none(recorder: SpanRecorder) -> None:
    """AutoGen refuses two agents of one name in a team; in teams within teams they are told apart by team."""
    inner = RoundRobinGroupChat([Echo("a")], max_turns=1, name="inner")
    await RoundRobinGroupChat([Echo("a"), inner], max_turns=2).run(task="go")
    with pytest.raises(ValueError, match="must be unique"):
        RoundRobinGroupChat([Echo("a"), Echo("a")])
    with pytest.raises(ValueError, match="valid Python identifier"):
        Echo("")

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 2 reached.
        task: go
        agents: a, inner/a
        0 a: message 'a: go' to inner/a
        1 inner/a: message 'a: a: go' to a after 0
        """)


async def test_agent_that_lost_its_name_is_recorded(recorder: SpanRecorder) -> None:
    """An agent without a name goes by its class."""

    class Nameless(Echo):
        @property
        def name(self) -> str:
            return ""

    await Nameless("x").run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow Nameless, complete
        task: go
        agents: Nameless
        0 Nameless: message ': go'
        """)


async def test_used_again_and_again_a_team_leaves_nothing_behind(
    recorder: SpanRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often teams run, on runtimes of their own or on a shared one, what we remember stays the same."""
    monkeypatch.setattr("blamespan_integrations.autogen._runtime._MOST_SENT", 64)
    runtime = SingleThreadedAgentRuntime()
    runtime.start()
    teams = [RoundRobinGroupChat([Echo("a"), Echo("b")], max_turns=2, runtime=given) for given in (None, runtime)]

    async def kept(rounds: int) -> dict[type, int]:
        for _ in range(rounds):
            for team in teams:
                await team.run(task="go")
            recorder.clear()
        gc.collect()
        found = [type(thing) for thing in gc.get_objects()]
        return {kind: sum(issubclass(one, kind) for one in found) for kind in (Frame, RunState)}

    first, second = await kept(20), await kept(20)  # more messages than are ever on their way at one time
    await runtime.stop_when_idle()

    assert second == pytest.approx(first, abs=40)


async def test_model_is_not_recorded_to_be_told_the_past_again(recorder: SpanRecorder) -> None:
    """An agent used in many runs sends its whole past each time; what was recorded before is not recorded again."""
    team = RoundRobinGroupChat([assistant("writer", *["x" * 500] * 20)], max_turns=1)
    for _ in range(20):
        await team.run(task="y" * 500)

    sizes = [len(span.text(words.INPUT_MESSAGES) or "") for span in named(recorder, "chat")]
    assert max(sizes[1:]) < 800


def test_threads_that_run_at_once_are_told_apart(recorder: SpanRecorder) -> None:
    """Teams in event loops of several threads are whole traces, each with its own messages."""

    def run(number: int) -> None:
        asyncio.run(RoundRobinGroupChat([Echo("a"), Echo("b")], max_turns=6).run(task=str(number)))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    runs: dict[str, list[Any]] = {}
    for span in recorder.spans():
        runs.setdefault(span.trace_id, []).append(span)
    assert sorted(rebuild(spans).task for spans in runs.values()) == [str(number) for number in range(6)]
    assert {len(rebuild(spans).steps) for spans in runs.values()} == {6}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_process_records_its_own_runs_only(recorder: SpanRecorder) -> None:
    """A child forked in the middle of a run is not stuck, and records its own run in a trace of its own."""
    found: list[int] = []

    def in_the_child() -> int:
        parents = {span.trace_id for span in recorder.spans()}
        recorder.clear()
        thread = threading.Thread(
            target=lambda: asyncio.run(RoundRobinGroupChat([Echo("c")], max_turns=1).run(task="c"))
        )
        thread.start()  # the parent's loop runs on in this one
        thread.join(30)
        spans = recorder.spans()
        return len(spans) if not parents & {span.trace_id for span in spans} else 99

    class Forks(Echo):
        async def on_messages(self, messages: Any, cancellation_token: CancellationToken) -> Response:
            child = os.fork()
            if child == 0:
                os._exit(in_the_child())
            found.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))  # noqa: ASYNC222 - nothing else is to run
            return await super().on_messages(messages, cancellation_token)

    asyncio.run(RoundRobinGroupChat([Echo("a"), Forks("b")], max_turns=2).run(task="go"))

    assert found == [2]
    assert [step.agent for step in rebuild(recorder.spans()).steps] == ["a", "b"]


TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("state", "message_key", "steps"),
    [
        ("blamespan=abc.00f067aa0ba902b7-3,other=1", "abc", [3]),
        ("other=1", "", []),
        ("blamespan=", "", []),
        ("blamespan=..-.zz-1.00f067aa0ba902b7-99999999999.00f067aa0ba902b7--1", "", []),
        ("\x00,,==", "", []),
    ],
)
def test_context_of_another_process_is_read_as_far_as_it_goes(state: str, message_key: str, steps: list[int]) -> None:
    """Whatever stands in a message's `tracestate`, the trace goes on; our entry is not passed to the spans below."""
    context = SentMessages().read_context({"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": state})

    remote, span = arrival(context), otel.get_current_span(context).get_span_context()
    assert remote is not None
    assert (remote.message_key, [step.index for step in remote.predecessors]) == (message_key, steps)
    assert (f"{span.trace_id:032x}", f"{span.span_id:016x}") == (TRACE, PARENT)
    assert "blamespan" not in span.trace_state


@pytest.mark.parametrize("parent", ["", "x", f"00-{'0' * 32}-{PARENT}-01"])
def test_message_without_a_trace_carries_no_context(parent: str) -> None:
    """A message that names no trace leaves its receiver's context alone."""
    assert SentMessages().read_context({"traceparent": parent}) is None


async def test_global_provider_has_no_span_twice(monkeypatch: pytest.MonkeyPatch, recorder: SpanRecorder) -> None:
    """With AutoGen's own tracing on, the provider global and the runtime's too, each message is recorded once."""
    monkeypatch.delenv("AUTOGEN_DISABLE_RUNTIME_TRACING", raising=False)
    monkeypatch.setattr(otel, "_TRACER_PROVIDER", recorder.provider)
    runtime = SingleThreadedAgentRuntime(tracer_provider=recorder.provider)
    runtime.start()
    await RoundRobinGroupChat([Echo("a"), Echo("b")], max_turns=30, runtime=runtime).run(task="go")
    await runtime.stop_when_idle()

    assert len(named(recorder, "invoke_agent")) == 30
    assert len(recorder.spans()) == 31
