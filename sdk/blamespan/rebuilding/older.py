"""Recordings that earlier versions made, read as today's are written: the state of a LangGraph node as its text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from blamespan import conventions as words
from blamespan.genai_messages import Message, dump_messages, load_messages, text_of
from blamespan.rebuilding.state_text import unwrapped, unwrapped_task
from blamespan.spans import Span
from blamespan.trace import AttributeValue

_SCOPE = "blamespan.langgraph"


def in_current_form(spans: Sequence[Span]) -> Sequence[Span]:
    """Return *spans* of one run with the text of LangGraph's states in place of their JSON.

    Which runs an earlier version recorded shows in the key under which it wrote the name of a run. What a model
    answered is data, also where it is JSON.

    Args:
        spans: The run's, in our words.
    """
    if not any(span.scope.name == _SCOPE and words.WORKFLOW_NAME in span.attributes for span in spans):
        return spans
    models = [span for span in spans if span.text(words.OPERATION) in words.MODEL_OPERATIONS]
    answers = {text_of(span.attributes.get(words.OUTPUT_MESSAGES)) for span in models}
    return [_rewritten(span, answers) if span.scope.name == _SCOPE else span for span in spans]


def _rewritten(span: Span, answers: Collection[str]) -> Span:
    operation = span.text(words.OPERATION)
    if operation not in (words.OPERATION_AGENT, words.OPERATION_WORKFLOW):
        return span
    changed: dict[str, AttributeValue] = {}
    for key in (words.INPUT_MESSAGES, words.OUTPUT_MESSAGES):
        value = span.attributes.get(key)
        if isinstance(value, str) and "{" in value and (messages := load_messages(value)) is not None:
            is_task = operation == words.OPERATION_WORKFLOW and key == words.INPUT_MESSAGES
            written = [_with_lines(message, answers, is_task=is_task) for message in messages]
            if written != list(messages):
                changed[key] = dump_messages(written)
    return span.with_attributes(changed)


def _with_lines(message: Message, answers: Collection[str], *, is_task: bool) -> Message:
    if len(message.parts) != 1 or message.parts[0].get("type") != "text":
        return message
    text = message.parts[0].get("content")
    if not isinstance(text, str) or text in answers:
        return message
    lines = unwrapped_task(text) if is_task else unwrapped(text)
    if lines is None:
        return message
    return replace(message, parts=tuple([{"type": "text", "content": line} for line in lines]))
