"""Every attribute is a released convention or a word of ours, and every message is message JSON."""

from __future__ import annotations

from typing import Any

import pytest

from blamespan import conventions as words
from blamespan.genai_messages import Message
from blamespan.instrumenting.settings import ContentSettings
from blamespan.testing import SpanRecorder
from blamespan.trace import Agent, Usage
from blamespan_integrations.recording import Recorder
from tests.integrations.message_schema import violations

EVERY_PART: list[dict[str, Any]] = [
    {"type": "text", "content": "a"},
    {"type": "reasoning", "content": "b"},
    {"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": float("nan"), "b": b"\xff", "c": {1, 2}}},
    {"type": "tool_call", "id": None, "name": None, "arguments": None},
    {"type": "tool_call", "id": "c2", "name": "add", "arguments": '{"a": 1}'},
    {"type": "tool_call_response", "id": "c1", "response": object()},
    {"type": "tool_call_response", "id": "c1", "response": None},
    {"type": "blob", "modality": "image"},
    {"type": "uri", "modality": "image", "uri": "https://example.com/a.png"},
    {"type": "file", "modality": "document", "file_id": "f1"},
]


def record_everything(recorder: Recorder) -> None:
    run = recorder.start_run("team", task=[Message("user", EVERY_PART)], agents=[Agent("a")], conversation_id="c")
    agent = recorder.start_agent("a", received=[Message("tool", EVERY_PART, "b")], agent_id="a1", parent=run.context)
    chat = recorder.start_chat("m", sent=[Message("system", EVERY_PART)], provider="openai", parent=agent.context)
    chat.end(output=[Message("assistant", EVERY_PART)], usage=Usage(1, 2), finish_reasons=["stop"], response_model="m2")
    tool = recorder.start_tool("t", arguments={}, call_id="c1", description="d", parent=agent.context)
    tool.end(error=ValueError("no"))
    agent.end(output=[Message("assistant", EVERY_PART, "a")], message_id="m1", recipients=["b"])
    run.end(output=[Message("assistant", EVERY_PART)], error="cancelled")


@pytest.mark.parametrize("capture", [True, False])
@pytest.mark.parametrize("max_bytes", [64, 500, 32_768])
def test_spans_keep_to_the_conventions(capture: bool, max_bytes: int) -> None:
    """Keys, operations, roles, part types and their fields are the released ones, captured or not, cut or not."""
    spans = SpanRecorder()
    record_everything(
        Recorder("blamespan.test", spans.provider, content=ContentSettings(capture=capture, max_bytes=max_bytes))
    )

    assert len(spans.spans()) == 4
    assert [wrong for span in spans.spans() for wrong in violations(span)] == []


def test_why_an_answer_ended_stands_beside_it() -> None:
    """Since v0.1.0 messages do not say why they ended: the model's span does."""
    spans = SpanRecorder()
    recorder = Recorder("blamespan.test", spans.provider)
    said = Message.of_text("assistant", "x", finish_reason="length")
    recorder.start_chat("m").end(output=[said], finish_reasons=["length"])
    call = {"type": "tool_call", "id": "1", "name": "t", "arguments": {"n": 1}}
    recorder.start_agent("a").end(output=[Message("assistant", [call], finish_reason="tool_call")])

    assert [span.attributes.get(words.FINISH_REASONS) for span in spans.spans()] == [("length",), None]
    assert not any("finish_reason" in str(span.attributes[words.OUTPUT_MESSAGES]) for span in spans.spans())
