"""The program that is watched: nothing of it changes, whatever happens on our side."""

from __future__ import annotations

import gc
import inspect
import logging
import os
import subprocess
import sys
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent, BaseChatAgent, MessageFilterAgent
from autogen_agentchat.base import ChatAgent, Response, Team
from autogen_agentchat.teams import BaseGroupChat, RoundRobinGroupChat, SelectorGroupChat
from autogen_core import BaseAgent, CancellationToken, SingleThreadedAgentRuntime
from autogen_core._telemetry import _genai, _tracing
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import BaseTool, StaticWorkbench, Workbench
from autogen_ext.models.replay import ReplayChatCompletionClient
from opentelemetry import trace as otel
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from blamespan.host_safety import shield_host
from blamespan.testing import SpanRecorder
from blamespan_integrations.autogen import AutoGenInstrumentor, _wrap
from blamespan_integrations.recording import AgentSpan, ChatSpan, Recorder, RunSpan, ToolSpan
from tests.integrations.autogen_runs import (
    Echo,
    assistant,
    calls,
)

PATCHED: list[tuple[Any, str]] = [
    (BaseGroupChat, "run"),
    (BaseGroupChat, "run_stream"),
    (BaseChatAgent, "on_messages_stream"),
    (AssistantAgent, "on_messages"),
    (AssistantAgent, "on_messages_stream"),
    (AssistantAgent, "_execute_tool_call"),
    (BaseTool, "run_json"),
    (StaticWorkbench, "call_tool"),
    (ReplayChatCompletionClient, "create"),
    (ReplayChatCompletionClient, "create_stream"),
    (SingleThreadedAgentRuntime, "send_message"),
    (SingleThreadedAgentRuntime, "publish_message"),
    (BaseAgent, "on_message"),
    (BaseAgent, "publish_message"),
    (BaseInstrumentor, "uninstrument"),
    (_tracing.TraceHelper, "trace_block"),
    (_genai, "trace"),
]

HOOKED = (Team, ChatAgent, BaseTool, Workbench, ChatCompletionClient)


def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other


def team() -> RoundRobinGroupChat:
    """Make a team that uses a tool."""
    writer = assistant("writer", calls(("add", {"one": 1, "other": 2})), "fine", tools=[add])
    return RoundRobinGroupChat([writer, Echo()], max_turns=3)


async def outcome(of: RoundRobinGroupChat) -> list[tuple[str, str]]:
    """Run a team and list what its result holds."""
    result = await of.run(task="go")
    return [(type(message).__name__, message.to_text()) for message in result.messages]


async def test_uninstrument_gives_the_originals_back() -> None:
    """After uninstrument() every function is the very object it was, also in classes made in between."""
    before = [vars(owner)[name] for owner, name in PATCHED]
    instrumentor = AutoGenInstrumentor()
    instrumentor.instrument(tracer_provider=SpanRecorder().provider)
    during = [vars(owner)[name] for owner, name in PATCHED]

    async def on_messages(self: Any, messages: Any, cancellation_token: Any) -> Response:
        return await Echo.on_messages(self, messages, cancellation_token)

    late = type("Late", (Echo,), {"on_messages": on_messages})
    wrapped = vars(late)["on_messages"]
    instrumentor.uninstrument()

    assert all(now is not then for now, then in zip(during, before, strict=True))
    assert wrapped is not on_messages
    assert all(vars(owner)[name] is then for (owner, name), then in zip(PATCHED, before, strict=True))
    assert vars(late)["on_messages"] is on_messages
    assert not any("__init_subclass__" in vars(root) for root in HOOKED)
    assert not hasattr(vars(MessageFilterAgent)["on_messages"], "__wrapped__")


async def test_uninstrumented_program_records_nothing(recorder: SpanRecorder) -> None:
    """What was instrumented and is no longer leaves no spans."""
    AutoGenInstrumentor().uninstrument()
    await outcome(team())
    AutoGenInstrumentor().instrument(tracer_provider=recorder.provider)

    assert recorder.spans() == []


async def test_wrapper_wrapped_by_others_steps_aside(recorder: SpanRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where somebody has wrapped our wrapper, it stays there after uninstrument() and does nothing."""
    ours = vars(BaseAgent)["on_message"]

    async def theirs(self: Any, message: Any, ctx: Any) -> Any:
        return await ours(self, message, ctx)

    monkeypatch.setattr(BaseAgent, "on_message", theirs)
    AutoGenInstrumentor().uninstrument()
    await outcome(team())

    assert vars(BaseAgent)["on_message"] is theirs
    assert recorder.spans() == []


class Peer(BaseInstrumentor):  # type: ignore[misc]  # mypy cannot read its module
    """Another instrumentation, which on leaving puts back what it found when it came."""

    def instrumentation_dependencies(self) -> list[str]:
        return []

    def _instrument(self, **_: Any) -> None:
        self.found = [(owner, name, vars(owner)[name]) for owner, name in PATCHED[:6]]

    def _uninstrument(self, **_: Any) -> None:
        for owner, name, original in self.found:
            setattr(owner, name, original)


async def test_peer_that_was_there_first_leaves_without_us() -> None:
    """A peer on leaving takes our wrappers out with its own: they are back at once, and gone when we leave."""
    before = [vars(owner)[name] for owner, name in PATCHED]
    recorder, peer = SpanRecorder(), Peer()
    peer.instrument()
    AutoGenInstrumentor().instrument(tracer_provider=recorder.provider)
    peer.uninstrument()
    await outcome(team())
    AutoGenInstrumentor().uninstrument()

    assert Counter(span.name for span in recorder.spans())["invoke_agent writer"] == 2
    assert all(vars(owner)[name] is then for (owner, name), then in zip(PATCHED, before, strict=True))


async def test_version_we_do_not_know_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If AutoGen is not as we know it, instrument() says so, patches nothing and does not raise."""
    before = [vars(owner)[name] for owner, name in PATCHED]
    monkeypatch.delattr(_wrap, "model_start")
    monkeypatch.setattr(shield_host, "strict", False)
    AutoGenInstrumentor().instrument(tracer_provider=SpanRecorder().provider)
    after = [vars(owner)[name] for owner, name in PATCHED]
    AutoGenInstrumentor().uninstrument()

    assert after == before
    assert "could not autogen: instrument this version of AutoGen" in caplog.text


async def test_instrumented_twice_records_once(recorder: SpanRecorder, caplog: pytest.LogCaptureFixture) -> None:
    """A second instrument() changes nothing."""
    with caplog.at_level(logging.CRITICAL):
        AutoGenInstrumentor().instrument(tracer_provider=recorder.provider)
    await outcome(team())

    assert Counter(span.name for span in recorder.spans()) == {
        "invoke_workflow RoundRobinGroupChat": 1,
        "invoke_agent writer": 2,
        "invoke_agent echo": 1,
        "execute_tool add": 1,
        "chat ReplayChatCompletionClient": 2,
    }


@pytest.mark.parametrize(
    ("owner", "method"),
    [
        *((Recorder, name) for name in ("start_run", "start_agent", "start_tool", "start_chat")),
        *((kind, "end") for kind in (RunSpan, AgentSpan, ToolSpan, ChatSpan)),
    ],
)
async def test_failure_on_our_side_changes_nothing(
    recorder: SpanRecorder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, owner: Any, method: str
) -> None:
    """If recording fails anywhere, the program's result is what it was."""

    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("a bug of ours")

    expected = [
        ("TextMessage", "go"),
        ("ToolCallRequestEvent", "[FunctionCall(id='call-0', arguments='{\"one\": 1, \"other\": 2}', name='add')]"),
        (
            "ToolCallExecutionEvent",
            "[FunctionExecutionResult(content='3', name='add', call_id='call-0', is_error=False)]",
        ),
        ("ToolCallSummaryMessage", "3"),
        ("TextMessage", "echo: 3"),
        ("TextMessage", "fine"),
    ]
    monkeypatch.setattr(owner, method, broken)
    monkeypatch.setattr(shield_host, "strict", False)
    monkeypatch.setattr(shield_host, "_reported", set())

    assert await outcome(team()) == expected
    assert "a bug of ours" in caplog.text


async def test_programs_exceptions_pass_as_they_are(recorder: SpanRecorder) -> None:
    """An exception of the program's own reaches the caller as the same object."""
    error = LookupError("mine")

    class Fails(Echo):
        async def on_messages(self, messages: Any, cancellation_token: CancellationToken) -> Response:
            raise error

    with pytest.raises(LookupError) as caught:
        await Fails().run(task="go")
    with pytest.raises(LookupError) as caught_in_stream:
        async for _ in Fails().run_stream(task="go"):
            pass

    assert caught.value is error
    assert caught_in_stream.value is error


async def scopes(exporter: InMemorySpanExporter) -> Counter[str]:
    """Run a team; count the spans that come of it by who made them."""
    exporter.clear()
    await outcome(team())
    made_by = [span.instrumentation_scope for span in exporter.get_finished_spans()]
    return Counter(scope.name for scope in made_by if scope is not None)


async def test_autogens_own_spans_are_silent_until_uninstrument(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one provider for all, every span is ours; after uninstrument() AutoGen's own come again."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(otel, "_TRACER_PROVIDER", provider)
    before = await scopes(exporter)
    AutoGenInstrumentor().instrument()
    during = await scopes(exporter)
    AutoGenInstrumentor().uninstrument()

    assert during == {"blamespan.autogen": 7}
    assert before["autogen SingleThreadedAgentRuntime"] > 30
    assert await scopes(exporter) == before


@pytest.mark.parametrize("is_made_first", [False, True])
async def test_provider_that_the_program_gave_a_runtime_is_left_alone(is_made_first: bool) -> None:
    """Spans of a runtime with a provider of its own arrive as without us, and ours are one trace of their own."""

    async def traced(runtime: SingleThreadedAgentRuntime) -> Counter[str]:
        exporter.clear()
        runtime.start()
        teamed = RoundRobinGroupChat([Echo("one"), Echo("two")], max_turns=2, runtime=runtime)
        await teamed.run(task="go")
        await runtime.stop_when_idle()
        spans = exporter.get_finished_spans()
        return Counter(f"{span.name.split('_')[0]} {len(span.links)} {sorted(span.attributes or ())}" for span in spans)

    exporter, own = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    own.add_span_processor(SimpleSpanProcessor(exporter))
    bare = await traced(SingleThreadedAgentRuntime(tracer_provider=own))
    early, recorder = SingleThreadedAgentRuntime(tracer_provider=own), SpanRecorder()
    AutoGenInstrumentor().instrument(tracer_provider=recorder.provider)
    watched = await traced(early if is_made_first else SingleThreadedAgentRuntime(tracer_provider=own))
    silent = SingleThreadedAgentRuntime()
    AutoGenInstrumentor().uninstrument()

    assert watched == bare
    assert not vars(silent).keys() ^ vars(early).keys()
    ids = {span.span_id for span in recorder.spans()}
    parents = {span.parent_id for span in recorder.spans()}
    assert (len(ids), parents - ids) == (3, {None})


async def test_spans_the_program_makes_with_autogens_helpers_and_its_own_tracer_stay(recorder: SpanRecorder) -> None:
    """Only AutoGen's own tracer is silent."""
    tracer = recorder.provider.get_tracer("app")
    with _genai.trace_tool_span("mine", tracer=tracer):
        pass
    with _genai.trace_tool_span("autogens"):
        pass

    assert [span.name for span in recorder.spans()] == ["execute_tool mine"]


async def test_wrapped_methods_look_like_the_originals(recorder: SpanRecorder) -> None:
    """Signature, name and kind of a wrapped method are the original's: others inspect them."""
    assert inspect.iscoroutinefunction(AssistantAgent.on_messages)
    assert inspect.isasyncgenfunction(AssistantAgent.on_messages_stream)
    assert list(inspect.signature(AssistantAgent.on_messages).parameters) == ["self", "messages", "cancellation_token"]
    assert BaseChatAgent.__abstractmethods__ == {"on_messages", "on_reset", "produced_message_types"}
    assert SelectorGroupChat.run_stream.__name__ == "run_stream"


async def test_finished_team_is_let_go(recorder: SpanRecorder) -> None:
    """Nothing of ours keeps a team, its agents or their messages alive once its run is over."""
    runtime = SingleThreadedAgentRuntime()
    runtime.start()
    teams = [team(), RoundRobinGroupChat([Echo()], max_turns=1, runtime=runtime)]
    for each in teams:
        await each.run(task="go")
    await runtime.stop_when_idle()
    agents = [weakref.ref(agent) for each in teams for agent in each._participants]
    del teams, each, runtime
    gc.collect()

    assert [agent() for agent in agents] == [None] * 3


PROGRAM = """
import asyncio
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient

agent = AssistantAgent("writer", ReplayChatCompletionClient(["a draft"]))
asyncio.run(RoundRobinGroupChat([agent], max_turns=1).run(task="write"))
"""


def test_opentelemetry_instrument_finds_us(tmp_path: Path) -> None:
    """`opentelemetry-instrument python program.py` records an unchanged program."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [str(Path(sys.executable).with_name("opentelemetry-instrument")), sys.executable, str(program)]
    settings = {"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, timeout=100, check=True)

    assert done.stdout.count('"trace_id"') >= 3
    assert '"name": "invoke_workflow RoundRobinGroupChat"' in done.stdout
    assert '"name": "invoke_agent writer"' in done.stdout
    assert "autogen process" not in done.stdout
