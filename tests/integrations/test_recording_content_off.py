"""With content capture off, who acted on what remains, and nothing anybody said leaves the process."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from blamespan import conventions as words
from blamespan.genai_messages import Message
from blamespan.instrumenting.settings import CAPTURE_CONTENT, ContentSettings
from blamespan.plugins import load_plugin
from blamespan.rebuilding.rebuild import rebuild
from blamespan.testing import SpanRecorder
from blamespan.trace import Agent
from blamespan_integrations.recording import Recorder

CANARY = "canary-7f3a"


def said(*parts: dict[str, Any], role: str = "user") -> list[Message]:
    return [Message(role, parts or ({"type": "text", "content": CANARY},), "writer")]


def failure() -> BaseException:
    try:
        try:
            raise KeyError("canary-7f3a")
        except KeyError as error:
            raise ValueError("canary-7f3a") from error
    except ValueError as error:
        error.add_note(CANARY)
        return error


def record(recorder: Recorder) -> None:
    """Put the canary wherever a program can put a content."""
    run = recorder.start_run("team", task=said(), agents=[Agent("writer", description=CANARY)], conversation_id="c1")
    agent = recorder.start_agent(
        "writer", received=said(), description=CANARY, parent=run.context, attributes={"framework.reason": CANARY}
    )
    agent.add({"framework.state": {"deep": [CANARY]}, "framework.words": [CANARY], "framework.node": "solver"})
    call = {"type": "tool_call", "id": "call_1", "name": "add", "arguments": {"a": CANARY}}
    others = ({"type": "uri", "modality": "image", "uri": f"https://{CANARY}"}, {"type": "blob", "content": CANARY})
    chat = recorder.start_chat("m", sent=said(*others, role="tool"), parent=agent.context)
    chat.end(output=said(call, {"type": "reasoning", "content": CANARY}), error=failure())
    tool = recorder.start_tool("add", arguments={CANARY: CANARY}, call_id="call_1", description=CANARY)
    tool.end(result={"x": CANARY}, error=failure())
    agent.end(output=said(role="assistant"), attributes={"framework.size": 3}, error=failure())
    run.end(output=said(role="assistant"), agents=[Agent("writer", description=CANARY)], error=f"failed: {CANARY}")


@pytest.fixture
def spans() -> SpanRecorder:
    recorder = SpanRecorder()
    record(Recorder("blamespan.test", recorder.provider, content=ContentSettings(capture=False)))
    return recorder


def test_no_content_leaves_the_process(spans: SpanRecorder) -> None:
    """A word put into every input is in no exported span: not in attributes, events, links, names or statuses."""
    exported = "\n".join(span.to_json() for span in spans.finished())

    assert len(spans.finished()) == 4
    assert CANARY not in exported
    assert CANARY[:6] not in exported


def test_captured_contents_are_there() -> None:
    """The same run, captured, holds the word in every span: the test above can fail."""
    recorder = SpanRecorder()
    record(Recorder("blamespan.test", recorder.provider))

    assert all(CANARY in span.to_json() for span in recorder.finished())


def test_shape_of_messages_remains(spans: SpanRecorder) -> None:
    """Roles, names, part types, call ids and lengths say what happened."""
    chat = next(span for span in spans.spans() if span.name == "chat m")

    assert json.loads(str(chat.attributes[words.OUTPUT_MESSAGES])) == [
        {
            "role": "user",
            "name": "writer",
            "parts": [
                {"type": "tool_call", "id": "call_1", "name": "add", "arguments": "", "size_bytes": 19},
                {"type": "reasoning", "content": "", "size_bytes": 11},
            ],
        }
    ]


def test_what_was_withheld_is_named(spans: SpanRecorder) -> None:
    """Each withheld key stands beside its length."""
    tool = next(span for span in spans.spans() if span.name == "execute_tool add")
    withheld = tool.attributes[words.WITHHELD]

    assert withheld == (words.TOOL_ARGUMENTS, words.TOOL_DESCRIPTION, words.TOOL_RESULT, "exception.message")
    assert len(tool.attributes[words.WITHHELD_BYTES]) == 4  # type: ignore[arg-type]


def test_errors_keep_their_kind_and_place(spans: SpanRecorder) -> None:
    """An error's type, its causes' types and the functions it passed are no contents."""
    agent = next(span for span in spans.spans() if span.name == "invoke_agent writer")
    stack = str(agent.events[0].attributes["exception.stacktrace"])

    assert (agent.status, agent.status_message, agent.attributes[words.ERROR_TYPE]) == (
        "error",
        "ValueError",
        "ValueError",
    )
    assert [line.split()[-1] for line in stack.splitlines()] == ["ValueError", "failure", "KeyError", "failure"]


def test_steps_remain(spans: SpanRecorder) -> None:
    """The run is rebuilt: who did what, in order, with nothing said."""
    run = rebuild([span for span in spans.spans() if span.name != "execute_tool add"])

    assert [(step.agent, step.kind, step.content, step.status) for step in run.steps] == [
        ("writer", "message", "", "error")
    ]
    assert run.steps[0].attributes["framework.node"] == "solver"


@pytest.mark.parametrize(
    ("said", "is_captured"),
    [
        *[("", True), ("true", True), ("TRUE", True), ("span_only", True), ("SPAN_AND_EVENT", True)],
        *[("false", False), ("no_content", False), ("event_only", False)],
    ],
)
def test_standard_variable_decides(said: str, is_captured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both vocabularies of the standard variable are understood; contents are on where it is not set."""
    monkeypatch.setenv(CAPTURE_CONTENT, said)

    assert ContentSettings.of().capture is is_captured


def test_unknown_word_withholds(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A word nobody knows, perhaps meant for another instrumentation, is logged, and contents are off."""
    monkeypatch.setenv(CAPTURE_CONTENT, "flase")
    with caplog.at_level(logging.WARNING, "blamespan"):
        settings = ContentSettings.of()

    assert settings.capture is False
    assert "got 'flase': no contents are recorded" in caplog.text


def test_argument_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the program says stands above what its environment says."""
    monkeypatch.setenv(CAPTURE_CONTENT, "true")

    assert ContentSettings.of(capture_content=False).capture is False


def test_tracer_that_reads_texts_abstains() -> None:
    """With nothing to read the bundled tracer gives no verdict and says why; it does not guess from names."""
    pytest.importorskip("numpy")
    recorder = SpanRecorder()
    recording = Recorder("blamespan.test", recorder.provider, content=ContentSettings(capture=False))
    run = recording.start_run("team", task=said())
    for name in ("writer", "critic"):
        agent = recording.start_agent(name, received=said(), parent=run.context)
        recording.start_tool("look", arguments={"page": CANARY}, parent=agent.context).end(result=CANARY)
        agent.end(output=said(role="assistant"))
    run.end()

    [verdict] = load_plugin("blamespan.tracers", "lexical")().attribute([rebuild(recorder.spans())])

    assert verdict.abstained == "no agent's step has any text to read"
