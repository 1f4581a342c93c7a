"""What each step was given: prompts, documents, packets, memories, as far as no step of the run said them before.

A run's spans say it in two places: on the step's own span (`gen_ai.input.messages`), and on the spans of the model
calls below it. Both also hold what the task and earlier steps say; that is left out, as is what the same agent was
given before. So each text stands on the record once per agent, and its size grows with the run, not with its square.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from blamespan import conventions as words
from blamespan.genai_messages import texts_by_role, texts_of
from blamespan.spans import Span

_KEY = re.compile(r"[\w .\-\[\]]{1,60}:(?:\s+|$)")
"""What stands before a value of a state, or before the words of somebody who is quoted: `plan: `, `writer: `."""
_ITEM = "\n- "
_BETWEEN = "\n\n"
_INSTRUCTING = ("system", "developer")
"""Roles of messages that say what an agent is and must do; OpenAI calls the second what others call the first."""
_TELLING = 8
"""Characters of a value that is the same wherever it stands; a shorter one, a number above all, goes with its key."""
_TASK_INDEX = -1
"""Stands for the task among the indices of steps: it was there before all of them."""
_MAX_HOPS = 128
"""Levels between a model call and its step, at most: a hostile trace may hold a cycle, or be as deep as it is long."""


@dataclass(frozen=True, slots=True)
class InputText:
    """What a step was given.

    Attributes:
        text: The messages' texts, a blank line between two.
        instructions: First and end of each stretch of it that is a message of the role `system`, one after the other.
    """

    text: str
    instructions: tuple[int, ...] = ()


class StepTexts:
    """The texts of a run by the step that said them first, and by the agents that were given them."""

    def __init__(self) -> None:
        self._said: dict[str, int] = {}
        self._items: dict[str, int] = {}
        self._given: dict[str, set[str]] = {}

    def is_said(self, text: str, index: int) -> None:
        """Note that step *index* says *text*."""
        text = text.strip()
        value = _without_key(text)
        self._said.setdefault(text, index)
        self._said.setdefault(value, index)
        for item in _items(value):
            self._items.setdefault(item, index)

    def is_new(self, text: str, agent: str, index: int) -> bool:
        """Check whether *text* is new to the run at step *index*, and to *agent*, which knows it from now on."""
        text = text.strip()
        agent_texts = self._given.setdefault(agent, set())
        if not text or text in agent_texts:
            return False
        agent_texts.add(text)
        return not self._is_in_earlier_step(text, index)

    def _is_in_earlier_step(self, text: str, index: int) -> bool:
        def is_before(texts: Mapping[str, int], text: str) -> bool:
            return texts.get(text, index + 1) <= index

        value = _without_key(text)
        if is_before(self._said, text) or (len(value) >= _TELLING and is_before(self._said, value)):
            return True
        items = _items(value)
        return bool(items) and all(is_before(self._said, item) or is_before(self._items, item) for item in items)


def input_texts(
    spans: Sequence[Span], steps: Sequence[tuple[Span, int, str, str]], task: Sequence[str]
) -> Mapping[int, InputText]:
    """Find what each step was given.

    Args:
        spans: The run's, in our words.
        steps: Of each step its span, index, agent and content, in order; the answer of a tool's span is left out.
        task: What the run was asked: the whole text, and its parts.

    Returns:
        By index, for the steps that were given anything new.
    """
    models = _model_spans(spans, {span.span_id for span, *_ in steps})
    messages_of_steps = {
        index: [message for source in (span, *models.get(span.span_id, ())) for message in _messages(source)]
        for span, index, *_ in steps
    }
    texts = StepTexts()
    if any(messages_of_steps.values()):
        for text in task:
            texts.is_said(text, _TASK_INDEX)
        for span, index, _, content in steps:
            for text in (content, *_said_parts(span)):
                texts.is_said(text, index)
            texts.is_said(_answer(span), max(index, span.integer(words.STEP_RESULT_INDEX) or index))
    inputs: dict[int, InputText] = {}
    for span, index, agent, _ in steps:
        explicit = span.text(words.STEP_INPUT)
        new_messages = [
            (is_instruction, [text for text in message if texts.is_new(text, agent, index)])
            for is_instruction, message in messages_of_steps[index]
        ]
        given = _join_messages(new_messages) if explicit is None else InputText(explicit)
        if given.text:
            inputs[index] = given
    return inputs


def _join_messages(messages: Sequence[tuple[bool, Sequence[str]]]) -> InputText:
    """Join the texts of messages, each with whether it is an instruction."""
    blocks: list[str] = []
    stretches: list[int] = []
    length = 0
    for is_instruction, message in messages:
        if not message:
            continue
        block = "\n".join(message)
        if is_instruction:
            stretches += (length, length + len(block))
        blocks.append(block)
        length += len(block) + len(_BETWEEN)
    return InputText(_BETWEEN.join(blocks), tuple(stretches))


def _answer(span: Span) -> str:
    value = span.attributes.get(words.TOOL_RESULT)
    return value if isinstance(value, str) else ""


def _said_parts(span: Span) -> list[str]:
    value = span.attributes.get(words.OUTPUT_MESSAGES)
    return [] if value is None else [text for message in texts_of(value) for text in message]


def _messages(span: Span) -> Iterator[tuple[bool, Sequence[str]]]:
    """Yield the texts of each message that a span was given, with whether it is an instruction; instructions first."""
    instructions, messages = (span.attributes.get(key) for key in (words.SYSTEM_INSTRUCTIONS, words.INPUT_MESSAGES))
    if instructions is not None:
        yield from ((True, texts) for texts in texts_of(instructions))
    if messages is not None:
        yield from ((role in _INSTRUCTING, texts) for role, texts in texts_by_role(messages))


def _model_spans(spans: Sequence[Span], step_ids: set[str]) -> dict[str, list[Span]]:
    """List the spans of model calls by the step that they lie below; those below a tool are the tool's own affair."""
    by_id = {span.span_id: span for span in spans}
    spans_of_steps: dict[str, list[Span]] = {}
    for span in sorted(spans, key=lambda span: span.start_ns):
        if span.text(words.OPERATION) not in words.MODEL_OPERATIONS or span.span_id in step_ids:
            continue
        parent_id = span.parent_id
        for _ in range(_MAX_HOPS):
            if parent_id is None or parent_id in step_ids:
                break
            parent = by_id.get(parent_id)
            parent_id = parent.parent_id if parent is not None else None
        if parent_id in step_ids and by_id[parent_id].text(words.OPERATION) != words.OPERATION_TOOL:
            spans_of_steps.setdefault(parent_id, []).append(span)
    return spans_of_steps


def _items(text: str) -> list[str]:
    """List the items of a list, as `state_text` writes one; nothing where the text is none."""
    return [item.strip() for item in f"\n{text}".split(_ITEM)[1:]] if text.startswith(_ITEM[1:]) else []


def _without_key(text: str) -> str:
    key = _KEY.match(text)
    return text[key.end() :] if key else text
