"""The program that is watched: nothing of it changes, whatever happens on our side."""

from __future__ import annotations

import inspect
from collections import Counter
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent, BaseChatAgent, MessageFilterAgent
from autogen_agentchat.base import ChatAgent, Response, Team
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat
from autogen_core import BaseAgent, SingleThreadedAgentRuntime
from autogen_core._telemetry import _genai
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import BaseTool, Workbench
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from blamespan.testing import SpanRecorder
from blamespan_integrations.autogen import AutoGenInstrumentor
from tests.integrations.autogen_runs import Echo
from tests.integrations.host_autogen import HOST

HOOKED = (Team, ChatAgent, BaseTool, Workbench, ChatCompletionClient)


def test_class_made_while_instrumented_gets_its_originals_back() -> None:
    """A class that a program defines in between is wrapped, and after uninstrument() no more."""
    AutoGenInstrumentor().instrument(tracer_provider=SpanRecorder().provider)

    async def on_messages(self: Any, messages: Any, cancellation_token: Any) -> Response:
        return await Echo.on_messages(self, messages, cancellation_token)

    late = type("Late", (Echo,), {"on_messages": on_messages})
    wrapped = vars(late)["on_messages"]
    AutoGenInstrumentor().uninstrument()

    assert wrapped is not on_messages
    assert vars(late)["on_messages"] is on_messages
    assert not any("__init_subclass__" in vars(root) for root in HOOKED)
    assert not hasattr(vars(MessageFilterAgent)["on_messages"], "__wrapped__")


async def test_wrapper_wrapped_by_others_steps_aside(recorder: SpanRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where somebody has wrapped our wrapper, it stays there after uninstrument() and does nothing."""
    ours = vars(BaseAgent)["on_message"]

    async def theirs(self: Any, message: Any, ctx: Any) -> Any:
        return await ours(self, message, ctx)

    monkeypatch.setattr(BaseAgent, "on_message", theirs)
    AutoGenInstrumentor().uninstrument()
    await HOST.runs[0]()

    assert vars(BaseAgent)["on_message"] is theirs
    assert recorder.spans() == []


class Peer(BaseInstrumentor):  # type: ignore[misc]  # mypy cannot read its module
    """Another instrumentation, which on leaving puts back what it found when it came."""

    def instrumentation_dependencies(self) -> list[str]:
        return []

    def _instrument(self, **_: Any) -> None:
        self.found = [(owner, name, vars(owner)[name]) for owner, name in HOST.patched[:6]]

    def _uninstrument(self, **_: Any) -> None:
        for owner, name, original in self.found:
            setattr(owner, name, original)


async def test_peer_that_was_there_first_leaves_without_us() -> None:
    """A peer on leaving takes our wrappers out with its own: they are back at once, and gone when we leave."""
    before = HOST.attributes()
    recorder, peer = SpanRecorder(), Peer()
    peer.instrument()
    AutoGenInstrumentor().instrument(tracer_provider=recorder.provider)
    peer.uninstrument()
    await HOST.runs[0]()
    AutoGenInstrumentor().uninstrument()

    assert Counter(span.name for span in recorder.spans())["invoke_agent writer"] == 2
    assert all(now is then for now, then in zip(HOST.attributes(), before, strict=True))


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
