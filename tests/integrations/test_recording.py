"""The spans of a run look as the conventions say, whatever framework made them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.trace import SpanKind

from blamespan import conventions as words
from blamespan.genai_messages import Message, load_messages
from blamespan.instrumenting.settings import ContentSettings
from blamespan.rebuilding.rebuild import rebuild
from blamespan.testing import SpanRecorder
from blamespan.trace import Agent, Usage
from blamespan_integrations.recording import Recorder
from blamespan_integrations.recording.content import ContentPolicy, Contents


@pytest.fixture
def spans() -> SpanRecorder:
    return SpanRecorder()


@pytest.fixture
def recorder(spans: SpanRecorder) -> Recorder:
    return Recorder("blamespan.test", spans.provider)


def record_a_run(recorder: Recorder) -> None:
    """A user asks, a solver calls a model and a tool, a checker builds on the solver's message."""
    run = recorder.start_run(
        "team",
        task=[Message.of_text("user", "add 2 and 2")],
        agents=[Agent("solver", id="s1"), Agent("checker"), Agent("silent", description="never speaks")],
        conversation_id="c1",
    )
    solver = recorder.start_agent("solver", agent_id="s1", parent=run.context)
    chat = recorder.start_chat("model", provider="openai", parent=solver.context)
    chat.end(usage=Usage(10, 3), finish_reasons=["tool_calls"])
    tool = recorder.start_tool("add", arguments={"a": 2, "b": 2}, call_id="call_1", parent=solver.context)
    tool.end(result=4)
    solver.end(output=[Message.of_text("assistant", "It is 4.")], message_id="m1", recipients=["checker"])
    checker = recorder.start_agent("checker", builds_on=["m1", "of another run"], parent=run.context)
    checker.end(output=[Message.of_text("assistant", "Right.")], message_id="m2")
    run.end(output=[Message.of_text("assistant", "Right.")])


def test_recorded_run_rebuilds_to_what_happened(recorder: Recorder, spans: SpanRecorder) -> None:
    """Agents, order, provenance, tokens and contents survive."""
    record_a_run(recorder)

    run = rebuild(spans.spans())

    assert run.task == "add 2 and 2"
    assert run.agents == (Agent("solver", id="s1"), Agent("checker"), Agent("silent", description="never speaks"))
    assert [(s.agent, s.kind, s.content, s.inputs, s.recipients, s.usage) for s in run.steps] == [
        ("solver", "tool_call", 'add({"a": 2, "b": 2})', (), (), None),
        ("solver", "tool_result", "4", (0,), (), None),
        ("solver", "message", "It is 4.", (1,), ("checker",), Usage(10, 3)),
        ("checker", "message", "Right.", (2,), (), None),
    ]


def test_names_kinds_and_operations_are_the_conventions(recorder: Recorder, spans: SpanRecorder) -> None:
    """Backends that know the GenAI conventions know our spans."""
    record_a_run(recorder)

    found = [(s.name, s.kind, s.attributes[words.OPERATION]) for s in spans.spans()]

    assert found == [
        ("chat model", SpanKind.CLIENT, "chat"),
        ("execute_tool add", SpanKind.INTERNAL, "execute_tool"),
        ("invoke_agent solver", SpanKind.INTERNAL, "invoke_agent"),
        ("invoke_agent checker", SpanKind.INTERNAL, "invoke_agent"),
        ("invoke_workflow team", SpanKind.INTERNAL, "invoke_workflow"),
    ]


def test_every_key_is_a_released_convention_or_ours(recorder: Recorder, spans: SpanRecorder) -> None:
    """No key is made up outside our own namespace."""
    record_a_run(recorder)
    released = {value for name, value in vars(gen_ai).items() if name.startswith("GEN_AI_")} | {words.ERROR_TYPE}

    for span in spans.spans():
        assert {k for k in span.attributes if not k.startswith("blamespan.")} <= released


def test_team_within_a_team_counts_on(recorder: Recorder, spans: SpanRecorder) -> None:
    """Steps of nested teams share one count, so that their order is exact."""
    outer = recorder.start_run("outer")
    boss = recorder.start_agent("boss", parent=outer.context)
    inner = recorder.start_run("inner", parent=boss.context)
    recorder.start_agent("worker", parent=inner.context).end(output=[Message.of_text("assistant", "done")])
    inner.end()
    boss.end(output=[Message.of_text("assistant", "fine")])
    outer.end()

    assert [(s.index, s.agent) for s in rebuild(spans.spans()).steps] == [(0, "worker"), (1, "boss")]


def test_agent_outside_every_run_is_a_run_of_its_own(recorder: Recorder, spans: SpanRecorder) -> None:
    """An agent that is asked directly counts its own tools and itself."""
    agent = recorder.start_agent("lone")
    recorder.start_tool("look", arguments="{}", parent=agent.context).end(result="seen")
    agent.end(output=[Message.of_text("assistant", "I saw")])

    assert [(s.kind, s.inputs) for s in rebuild(spans.spans()).steps] == [
        ("tool_call", ()),
        ("tool_result", (0,)),
        ("message", (1,)),
    ]


def test_errors_show_as_errors(recorder: Recorder, spans: SpanRecorder) -> None:
    """What raised is ERROR with its type; an answer that is an error message is too."""
    run = recorder.start_run("team")
    agent = recorder.start_agent("a", parent=run.context)
    recorder.start_tool("t", arguments="{}", parent=agent.context).end(result="no such file", error="ToolError")
    agent.end(error=TimeoutError("too slow"))
    run.end(error=TimeoutError("too slow"))

    found = [(s.status, s.status_message, s.attributes[words.ERROR_TYPE]) for s in spans.spans()]

    assert found == [
        ("error", "ToolError", "ToolError"),
        ("error", "too slow", "TimeoutError"),
        ("error", "too slow", "TimeoutError"),
    ]


def test_long_exceptions_are_cut(recorder: Recorder, spans: SpanRecorder) -> None:
    """An exception that quotes a whole conversation does not make a span of megabytes."""
    recorder.start_run("team").end(error=RuntimeError("x" * 1_000_000))
    [span] = spans.spans()

    assert len(span.status_message.encode()) <= words.MAX_ATTRIBUTION_BYTES
    assert all(len(str(value)) <= words.DEFAULT_MAX_CONTENT_BYTES for value in span.events[0].attributes.values())


def test_nothing_becomes_the_current_span(recorder: Recorder) -> None:
    """The recorder leaves the current context to the integration."""
    record_a_run(recorder)

    assert trace.get_current_span() is trace.INVALID_SPAN


def test_long_content_is_cut_and_says_so(spans: SpanRecorder) -> None:
    """A cut value names its key and its original length."""
    recorder = Recorder("blamespan.test", spans.provider, content=ContentSettings(max_bytes=1_000))
    recorder.start_agent("a").end(output=[Message.of_text("assistant", "ä" * 5_000)])
    [span] = spans.spans()

    messages = load_messages(span.attributes[words.OUTPUT_MESSAGES])

    assert messages is not None
    assert len(str(span.attributes[words.OUTPUT_MESSAGES]).encode()) <= 1_000
    assert span.attributes[words.TRUNCATED] == (words.OUTPUT_MESSAGES,)
    assert span.attributes[words.ORIGINAL_BYTES] == (10_000 + len(_empty_message()),)


def _empty_message() -> str:
    message = {"role": "assistant", "parts": [{"type": "text", "content": ""}]}
    return json.dumps([message], separators=(",", ":"))


def contents(limit: int) -> Contents:
    return Contents(ContentPolicy.of(ContentSettings(max_bytes=limit, mask_secrets=False)))


@given(
    st.lists(st.builds(lambda t: Message.of_text("user", t), st.text(max_size=400)), max_size=30), st.integers(64, 900)
)
@settings(max_examples=200, deadline=None)
def test_capped_messages_stay_messages(messages: list[Message], limit: int) -> None:
    """However long and hostile the texts: the value fits and is still message JSON."""
    text = contents(limit).messages("k", messages)

    assert len(text.encode()) <= limit
    assert load_messages(text) is not None


@given(st.text(alphabet=st.characters(), max_size=300), st.integers(64, 200))
@settings(max_examples=200, deadline=None)
def test_capped_text_is_a_prefix_on_a_character_boundary(text: str, limit: int) -> None:
    """Cutting never makes half a character, and surrogates never reach the wire."""
    found = contents(limit).text("k", text)

    assert found is not None
    assert len(found.encode()) <= limit
    assert text.encode("utf-8", "replace").decode().startswith(found)
