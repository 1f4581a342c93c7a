"""Runs that ours does not record, rebuilt from others' spans; and every age of the GenAI conventions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from blamespan import conventions as words
from blamespan.errors import MalformedSpan
from blamespan.importing.recorded import RecordedRun
from blamespan.otlp.logs import logs_from_document, message_events, with_events
from blamespan.plugins import plugins
from blamespan.rebuilding.rebuild import rebuild
from blamespan.spans import Scope, Span, SpanEvent
from blamespan.trace import AttributeValue
from blamespan_integrations.importers.otlp_json import OtlpJsonImporter
from tests.integrations.dialects.recordings import FOLDER, HIDDEN, NAMES, logs_of, trace_of, traces_of
from tests.integrations.dialects.table import KEPT_OF_AUTOGEN, KEPT_OF_LANGGRAPH
from tests.integrations.drawing import draw
from tests.sdk.builders import span

CHAT = """
    task: Write a line about the sea.
    agents: writer, critic
    0 writer: message 'The sea is wide.', 20+5 tokens
    1 critic: message 'Four words. Make it longer.' after 0, 20+5 tokens
"""


def drawn(name: str) -> str:
    return draw(trace_of(name), hide=HIDDEN)


def text(literal: str) -> str:
    return dedent(literal).strip()


def test_openai_agents_by_openinference() -> None:
    """A handoff is the message of the agent that hands over; tools belong to the agent that called them."""
    assert drawn("openinference-openai-agents.openai-agents-handoff") == text("""
        task: Write a line about the sea.
        agents: writer, critic
        0 writer: handoff 'transfer_to_critic({})' to critic, ok, 20+5 tokens
        1 critic: tool_call 'count_words({"text": "The sea is wide."})' after 0, ok
        2 critic: tool_result '4' after 1, ok
        3 critic: message 'Four words. Make it longer.' after 0 2, ok, 40+10 tokens
        """)


def test_failing_openai_agents_by_openinference() -> None:
    """A tool that raises is a failed call each time it is made, and the answer builds on the last of them."""
    assert drawn("openinference-openai-agents.openai-agents-failing") == text("""
        task: Write a line about the sea.
        agents: writer, critic
        0 writer: handoff 'transfer_to_critic({})' to critic, ok, 20+5 tokens
        1 critic: tool_call 'count_words({"text": "The sea is wide."})' after 0, error 'Error running tool'
        2 critic: tool_result 'An error occurred while running the tool. Please try again.' after 1, error 'Error running tool'
        3 critic: tool_call 'count_words({"text": "The sea is wide."})' after 2, error 'Error running tool'
        4 critic: tool_result 'An error occurred while running the tool. Please try again.' after 3, error 'Error running tool'
        5 critic: message 'Nine words, too long.' after 0 4, ok, 60+15 tokens
        """)  # noqa: E501


def test_pydantic_ai_by_itself() -> None:
    """An agent that is asked by a tool builds on the call, and gives its answer; it was given its instructions."""
    trace = trace_of("pydantic-ai.pydantic-ai-sound")

    assert draw(trace, hide=HIDDEN | {words.CONVERSATION_ID}) == text("""
        task: Write a line about the sea.
        agents: writer, critic
        0 writer: tool_call 'ask_critic({"line":"The sea is wide."})'
        1 critic: tool_call 'count_words({"text":"The sea is wide."})' after 0
        2 critic: tool_result '4' after 1
        3 critic: message 'Four words, good.' to writer after 0 2, 113+20 tokens
        4 writer: tool_result 'Four words, good.' after 0
        5 writer: message 'The sea is wide. (Four words, good.)' after 4, 118+24 tokens
        """)
    assert {step.index: step.input_text for step in trace.steps if step.input_text} == {
        3: "You criticise lines of at most 6 words.\n\nCriticise: The sea is wide.",
        5: "You write lines.",
    }


def test_failing_pydantic_ai_by_itself() -> None:
    """A tool that asks to be called again is a failed call with its reason, before the call that went well."""
    trace = trace_of("pydantic-ai.pydantic-ai-failing")

    assert draw(trace, hide=HIDDEN | {words.CONVERSATION_ID}) == text("""
        task: Write a line about the sea.
        agents: writer, critic
        0 writer: tool_call 'ask_critic({"line":"The sea is wide."})'
        1 critic: tool_call 'count_words({"text":"The sea is wide."})' after 0, error pydantic_ai.exceptions.ToolRetryError
        2 critic: tool_result 'the counter is out of order' after 1, error pydantic_ai.exceptions.ToolRetryError
        3 critic: tool_call 'count_words({"text":"The sea is wide."})' after 2
        4 critic: tool_result '4' after 3
        5 critic: message 'Nine words, too long.' to writer after 0 4, 187+45 tokens
        6 writer: tool_result 'Nine words, too long.' after 0
        7 writer: message 'The sea is wide. (Nine words, too long.)' after 6, 119+25 tokens
        """)  # noqa: E501


def test_openai_agents_by_genai() -> None:
    """Where the model calls are not told of, neither is what the agents said; who worked and which tool ran is."""
    assert drawn("genai-openai-agents.openai-agents-handoff") == text("""
        task: ''
        agents: writer, critic
        0 writer: message ''
        1 critic: tool_call 'count_words({"text":"The sea is wide."})' after 0
        2 critic: tool_result '4' after 1
        3 critic: message '' after 0 2
        """)


def test_crewai_by_openinference() -> None:
    """Each agent of a crew speaks with what its task gave; the tool it called by text is not told of."""
    assert drawn("openinference-crewai.crewai-crew") == text("""
        task: Write a line about the sea.
        agents: writer, critic
        0 writer: message 'The sea is wide.', ok
        1 critic: message 'Four words. Make it longer.' after 0, ok
        """)


def test_failing_crewai_by_openinference() -> None:
    """A crew whose tool fails is told by what its agents gave in the end."""
    assert drawn("openinference-crewai.crewai-failing") == text("""
        task: Write a line about the sea.
        agents: writer, critic
        0 writer: message 'The sea is wide.', ok
        1 critic: message 'Nine words, too long.' after 0, ok
        """)


@pytest.mark.parametrize("peer", ["genai-openai", "openllmetry-openai", "openllmetry-openai-0.40"])
def test_agents_of_the_program_with_model_calls_of_an_instrumentation(peer: str) -> None:
    """An agent whose span says nothing said what its model answered, in message JSON as in indexed attributes."""
    assert drawn(f"{peer}.openai-chat") == text(CHAT)


def test_messages_in_log_records() -> None:
    """Messages that an instrumentation put into log records are read as events of the span they name."""
    [spans] = traces_of("openai-v2.openai-chat")

    told = rebuild(with_events(spans, message_events(logs_of("openai-v2.openai-chat").resource_logs)))

    assert draw(told, hide=HIDDEN) == text(CHAT)


def test_log_records_in_the_same_file(tmp_path: Path) -> None:
    """A file of spans and log records, in any order, gives runs with what the records say."""
    logs = json.loads((FOLDER / "openai-v2.openai-chat.logs.json").read_text(encoding="utf-8"))
    spans = (FOLDER / "openai-v2.openai-chat.jsonl").read_text(encoding="utf-8")
    path = tmp_path / "both.jsonl"
    path.write_text(f"{json.dumps(logs)}\n{spans}", encoding="utf-8")
    importer = OtlpJsonImporter()

    [run] = importer.read(path)

    assert isinstance(run, RecordedRun)
    assert draw(run.trace, hide=HIDDEN) == text(CHAT)
    assert importer.matches(path, path.read_bytes()[:5_000])


@pytest.mark.parametrize("document", [{"resourceLogs": 3}, {"resourceLogs": [{"scopeLogs": [{"logRecords": [7]}]}]}])
def test_log_records_that_are_none_are_refused(document: object) -> None:
    """A damaged document of log records is one error of ours."""
    with pytest.raises(MalformedSpan, match="expected OTLP-JSON log records"):
        logs_from_document(document)


def test_without_their_log_records_messages_are_lost() -> None:
    """The spans alone tell who worked and what it cost."""
    assert drawn("openai-v2.openai-chat") == text("""
        task: ''
        agents: writer, critic
        0 writer: message '', 20+5 tokens
        1 critic: message '' after 0, 20+5 tokens
        """)


ASKED = {"role": "user", "content": "Write a line about the sea."}
SAID = {"role": "assistant", "content": "The sea is wide."}
FORMS: dict[str, tuple[Mapping[str, AttributeValue], list[SpanEvent]]] = {
    "message JSON": (
        {
            "gen_ai.input.messages": json.dumps(
                [{"role": "user", "parts": [{"type": "text", "content": ASKED["content"]}]}]
            ),
            "gen_ai.output.messages": json.dumps(
                [{"role": "assistant", "parts": [{"type": "text", "content": SAID["content"]}]}]
            ),
        },
        [],
    ),
    "indexed attributes": (
        {
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": ASKED["content"],
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": SAID["content"],
        },
        [],
    ),
    "one event for each message": (
        {},
        [
            SpanEvent("gen_ai.user.message", 1, {"content": ASKED["content"]}),
            SpanEvent("gen_ai.choice", 2, {"index": 0, "message": json.dumps(SAID)}),
        ],
    ),
    "events with a JSON body": (
        {},
        [
            SpanEvent("gen_ai.user.message", 1, {"gen_ai.event.content": json.dumps(ASKED)}),
            SpanEvent("gen_ai.choice", 2, {"gen_ai.event.content": json.dumps({"index": 0, "message": SAID})}),
        ],
    ),
    "two events": (
        {},
        [
            SpanEvent("gen_ai.content.prompt", 1, {"gen_ai.prompt": json.dumps([ASKED])}),
            SpanEvent("gen_ai.content.completion", 2, {"gen_ai.completion": json.dumps([SAID])}),
        ],
    ),
    "the details event": (
        {},
        [
            SpanEvent(
                "gen_ai.client.inference.operation.details",
                1,
                {
                    "gen_ai.input.messages": json.dumps(
                        [{"role": "user", "parts": [{"type": "text", "content": ASKED["content"]}]}]
                    ),
                    "gen_ai.output.messages": (
                        {"role": "assistant", "parts": ({"type": "text", "content": SAID["content"]},)},
                    ),
                },
            )
        ],
    ),
}
"""The same two messages in each form, built from the conventions' text: few released packages write the older ones."""


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_messages_is_read(form: str) -> None:
    """Whatever form a model call's messages are in, its agent said the same."""
    attributes, events = FORMS[form]
    agent = {words.OPERATION: words.OPERATION_AGENT, words.AGENT_NAME: "writer"}
    call = {
        words.OPERATION: "chat",
        "gen_ai.usage.prompt_tokens": 20,
        "gen_ai.usage.completion_tokens": 5,
        **attributes,
    }
    spans = [
        named(span(1, "invoke_agent writer", end_ns=10**10, attributes=agent)),
        named(span(2, "chat scripted", parent=1, at_s=1, attributes=call, events=tuple(events))),
    ]

    assert draw(rebuild(spans), hide=HIDDEN) == text("""
        task: Write a line about the sea.
        agents: writer
        0 writer: message 'The sea is wide.', 20+5 tokens
    """)


def named(given: Span) -> Span:
    return replace(given, scope=Scope("some.instrumentation"))


def test_our_spans_beside_others_tell_each_step_once() -> None:
    """Where ours recorded the process, another's steps and model calls beside them add nothing."""
    [theirs] = [spans for spans in traces_of("openllmetry.langgraph-nodes") if len(spans) > 1]
    ours: dict[str, Any] = {
        words.OPERATION: words.OPERATION_AGENT,
        words.STEP_KIND: "message",
        words.STEP_INDEX: 0,
        words.AGENT_NAME: "planner",
        words.STEP_CONTENT: "a plan",
    }
    root = min(theirs, key=lambda span: span.start_ns)
    step = replace(
        root,
        span_id=f"{1:016x}",
        parent_id=root.span_id,
        attributes=ours,
        scope=Scope("blamespan_integrations.langgraph"),
        origin=None,
    )

    assert [s.content for s in rebuild([*theirs, step]).steps] == ["a plan"]


def test_every_recording_is_held_to_something() -> None:
    """No recording lies about unread, and each dialect has one."""
    source = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_dialect*.py"))
    unread = [
        name
        for name in NAMES
        if name not in {*KEPT_OF_AUTOGEN, *KEPT_OF_LANGGRAPH}
        and name not in source
        and name.rpartition(".")[2] not in source
    ]

    assert unread == []
    assert {
        dialect for dialect in plugins("blamespan.dialects") if not any(n.startswith(dialect) for n in NAMES)
    } == set()
