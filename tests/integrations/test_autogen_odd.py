"""Programs that break AutoGen's rules: their results are what they are without us, and the spans say what was lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken
from autogen_core.models import CreateResult, ModelInfo, RequestUsage
from autogen_core.tools import FunctionTool
from autogen_ext.models.replay import ReplayChatCompletionClient
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from blamespan import conventions as words
from blamespan.testing import SpanRecorder
from blamespan_integrations.autogen import AutoGenInstrumentor
from blamespan_integrations.recording import AgentSpan, ChatSpan, RunSpan, ToolSpan
from tests.integrations.autogen_runs import INFO, Echo, assistant, calls, replay


class Open(SpanProcessor):
    """Knows the names of the spans that have begun and not ended."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        assert span.context is not None
        self.names[span.context.span_id] = span.name

    def on_end(self, span: ReadableSpan) -> None:
        assert span.context is not None
        self.names.pop(span.context.span_id, None)


class Answers(Echo):
    """Answers with whatever it was given."""

    def __init__(self, answer: Any) -> None:
        super().__init__("odd")
        self.answer = answer

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]


class Shy(Echo):
    """Lets its name and description be read when its team is made, and never again."""

    asked = 0

    @property
    def name(self) -> str:
        type(self).asked += 1
        if type(self).asked > 12:
            raise RuntimeError("who asks?")
        return "shy"

    @property
    def description(self) -> str:
        raise RuntimeError("who asks?")


class Junk(ReplayChatCompletionClient):
    """A model client whose answers are none."""

    def __init__(self, *items: Any, info: Any = INFO) -> None:
        super().__init__(["unused"], model_info=INFO)
        self.items, self.info = items, info

    @property
    def model_info(self) -> ModelInfo:
        if isinstance(self.info, Exception):
            raise self.info
        return self.info  # type: ignore[no-any-return]

    async def create(self, *_: Any, **__: Any) -> Any:
        return self.items[-1]

    async def create_stream(self, *_: Any, **__: Any) -> AsyncGenerator[Any, None]:
        for item in self.items:
            yield item


class Rude(FunctionTool):
    """A tool whose schema, and what it says of itself, cannot be read."""

    def __init__(self, broken: str) -> None:
        super().__init__(lambda: 1, "Rude", name="rude")
        self.broken = broken

    def __getattribute__(self, name: str) -> Any:
        if name == vars(self).get("broken") if name != "__dict__" else False:
            raise OSError(name)
        return super().__getattribute__(name)


def result(**fields: Any) -> CreateResult:
    usage = RequestUsage(prompt_tokens=1, completion_tokens=1)
    known = {
        "finish_reason": "stop",
        "content": "hi",
        "usage": usage,
        "cached": False,
        "thought": None,
        "logprobs": None,
    }
    return CreateResult.model_construct(**{**known, **fields})


def message(**fields: Any) -> TextMessage:
    known = {"content": "hi", "source": "odd", "id": "1", "metadata": {}, "models_usage": None, "type": "TextMessage"}
    return TextMessage.model_construct(**{**known, **fields})


def team(*members: Any) -> Callable[[], Awaitable[Any]]:
    return lambda: RoundRobinGroupChat(list(members), max_turns=2).run(task="go")


def asked(agent: Any, *messages: Any) -> Callable[[], Awaitable[Any]]:
    return lambda: agent.on_messages(list(messages) or [TextMessage(content="go", source="user")], CancellationToken())


def modelled(client: Any, *, stream: bool = False) -> Callable[[], Awaitable[Any]]:
    return lambda: AssistantAgent("odd", client, model_client_stream=stream).run(task="go")


def tooled(broken: str) -> Callable[[], Awaitable[Any]]:
    return lambda: assistant("odd", calls(("rude", {})), "done", tools=[Rude(broken)], max_tool_iterations=2).run(
        task="go"
    )


PROGRAMS: dict[str, tuple[Callable[[], Callable[[], Awaitable[Any]]], str]] = {
    "text for a message": (lambda: team(Answers(Response(chat_message="hi")), Echo()), "chat_message"),  # type: ignore[arg-type]
    "text for a message, by hand": (lambda: asked(Answers(Response(chat_message="hi"))), "chat_message"),  # type: ignore[arg-type]
    "nothing for a message": (lambda: asked(Answers(Response(chat_message=None))), "chat_message"),  # type: ignore[arg-type]
    "inner messages that are none": (
        lambda: asked(Answers(Response(chat_message=message(), inner_messages=7))),  # type: ignore[arg-type]
        "inner_messages",
    ),
    "no response": (lambda: asked(Answers("hi")), ""),
    "message without a source": (lambda: asked(Answers(Response(chat_message=message(source=None)))), ""),
    "message without an id": (lambda: asked(Answers(Response(chat_message=message(id=None)))), ""),
    "message with an id that is a list": (lambda: asked(Answers(Response(chat_message=message(id=[1])))), ""),
    "messages that are none": (lambda: asked(Answers(Response(chat_message=message())), 7, None, "go"), ""),
    "name that raises": (lambda: asked(Shy()), ""),
    "name that raises in a team": (lambda: team(Shy(), Echo()), ""),
    "model that answers with text": (lambda: modelled(Junk("hi")), "answer"),
    "model that answers with nothing": (lambda: modelled(Junk(None)), "answer"),
    "model that streams junk": (lambda: modelled(Junk("a", 7, None), stream=True), ""),
    "model that streams nothing": (lambda: modelled(Junk(), stream=True), "answer"),
    "model that streams junk before its answer": (lambda: modelled(Junk("a", b"x", result()), stream=True), ""),
    "model with a number for content": (lambda: modelled(Junk(result(content=7))), "content"),
    "model with a number among calls": (lambda: modelled(Junk(result(content=[7]))), "content"),
    "model without usage": (lambda: modelled(Junk(result(usage=None))), "usage"),
    "model without a reason": (lambda: modelled(Junk(result(finish_reason=None))), ""),
    "model that does not know itself": (lambda: modelled(Junk(result(), info=None)), ""),
    "model whose info raises": (lambda: modelled(Junk(result(), info=OSError("no"))), ""),
    **{f"tool whose {name} raises": (lambda name=name: tooled(name), "") for name in ("schema", "name", "description")},
    "tool whose answer cannot be written": (lambda: tooled("return_value_as_string"), ""),
}


async def outcome(make: Callable[[], Callable[[], Awaitable[Any]]]) -> tuple[str, str]:
    """Run a program; give the kind of its result, and the text of what it gave or raised, but for ids and times."""
    Shy.asked = 0
    try:
        found = await make()()
    except Exception as error:
        return type(error).__name__, str(error).splitlines()[0][:80]
    messages = getattr(found, "messages", None) or [getattr(found, "chat_message", found)]
    return type(found).__name__, str([(type(each).__name__, getattr(each, "content", each)) for each in messages])


@pytest.mark.filterwarnings("ignore::UserWarning")  # pydantic's, on fields of the wrong type
@pytest.mark.parametrize(("make", "lost"), PROGRAMS.values(), ids=PROGRAMS)
async def test_odd_program(make: Any, lost: str) -> None:
    """Its result is what it is without us, no span stays open, and what could not be read is named as lost."""
    recorder, still_open = SpanRecorder(), Open()
    recorder.provider.add_span_processor(still_open)
    without = await outcome(make)
    AutoGenInstrumentor().instrument(tracer_provider=recorder.provider)
    try:
        with_us = await outcome(make)
    finally:
        AutoGenInstrumentor().uninstrument()

    said = [what for span in recorder.spans() for what in span.attributes.get(words.LOST, ())]  # type: ignore[union-attr]
    assert with_us == without
    assert still_open.names == {}
    assert [what for what in said if str(what).startswith(lost)] or not lost, said


@pytest.mark.parametrize("kind", [RunSpan, AgentSpan, ToolSpan, ChatSpan])
async def test_span_that_cannot_be_ended_in_order_is_ended(
    recorder: SpanRecorder, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    """Whatever fails on our side, no span is left open, and it says that its end was not recorded."""
    monkeypatch.setattr("blamespan.host_safety.shield_host.strict", False)
    still_open = Open()
    recorder.provider.add_span_processor(still_open)

    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr(kind, "end", broken)
    agent = assistant("writer", calls(("add", {"one": 1})), "fine", tools=[add], max_tool_iterations=2)
    await RoundRobinGroupChat([agent], max_turns=1).run(task="go")

    lost = [span.name for span in recorder.spans() if words.LOST in span.attributes]
    assert still_open.names == {}
    assert lost
    assert {name.split()[0] for name in lost} == {
        {RunSpan: "invoke_workflow", AgentSpan: "invoke_agent", ToolSpan: "execute_tool", ChatSpan: "chat"}[kind]
    }


async def add(one: int) -> int:
    """Add."""
    return one + 1


async def test_model_that_is_stopped_is_no_failure(recorder: SpanRecorder) -> None:
    """A model call and its agent that a program leaves early are cancelled, not failed."""
    agent = AssistantAgent("writer", replay("one two three"), model_client_stream=True)
    stream = agent.on_messages_stream([TextMessage(content="go", source="user")], CancellationToken())
    async for _ in stream:
        break
    await stream.aclose()

    assert {span.status for span in recorder.spans()} == {"unset"}
