"""A whole rebuilt trace as text, so that a test can compare all of it with a literal.

    task: write
    agents: writer, critic, user (user)
    0 writer: message 'a draft' to critic
    1 critic: tool_call 'look({})' after 0
    2 critic: tool_result 'no such page' after 1, error ToolError
    3 critic: message 'too short' after 0 2, 7+3 tokens, langgraph.step=2

Two traces have the same drawing when they say the same, but for ids, times, the resource, models and what agents say of
themselves, none of which is drawn. What a step says beyond its fields stands at its end, but for the keys
in `hide`. A name or task that could be misread stands in quotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from textwrap import dedent

from blamespan import conventions as words
from blamespan import rebuild
from blamespan.genai_messages import load_messages
from blamespan.spans import Span
from blamespan.testing import SpanRecorder
from blamespan.trace import MessageActionTrace, Step

TOLD_ELSEWHERE = frozenset(
    {
        words.MESSAGE_ID,
        words.AGENT_ID,
        words.AGENT_DESCRIPTION,
        words.CONVERSATION_ID,
        words.INPUT_MESSAGES,
        words.TOOL_CALL_ID,
        words.TOOL_NAME,
        words.TOOL_DESCRIPTION,
    }
)
"""Keys of what differs from run to run, and what other parts of a drawing say."""


def draw(trace: MessageActionTrace, *, hide: Collection[str] = ()) -> str:
    """Draw *trace*: what was asked, who took part, and one line per step."""
    return "\n".join(_lines(trace, hide))


def draw_runs(spans: Sequence[Span], headline: Callable[[Span], str], *, hide: Collection[str] = ()) -> str:
    """Draw every run among *spans*, first to start first: what *headline* says of its own span, then its trace."""
    roots = roots_of(spans)
    runs = [[span for span in spans if span.trace_id == root.trace_id] for root in roots]
    assert sum(map(len, runs)) == len(spans)
    drawings = [f"{headline(root)}\n{draw(rebuild(run), hide=hide)}" for root, run in zip(roots, runs, strict=True)]
    return "\n".join(line.rstrip() for drawing in drawings for line in drawing.splitlines())


def roots_of(spans: Sequence[Span]) -> list[Span]:
    """List the spans whose parent is not among them, first to start first."""
    ids = {span.span_id for span in spans}
    return sorted((span for span in spans if span.parent_id not in ids), key=lambda span: span.start_ns)


def outline(recorded: SpanRecorder | Sequence[Span]) -> str:
    """Draw the spans by name, children indented below their parent, in the order they started."""
    found = recorded.spans() if isinstance(recorded, SpanRecorder) else recorded
    spans = sorted(found, key=lambda span: span.start_ns)
    known = {span.span_id for span in spans}

    def below(parent: str | None, depth: int) -> Iterator[str]:
        for span in spans:
            if span.parent_id == parent or (parent is None and span.parent_id not in known):
                yield "  " * depth + span.name
                yield from below(span.span_id, depth + 1)

    return "\n".join(below(None, 0))


def read_messages(span: Span, key: str = words.INPUT_MESSAGES) -> list[tuple[str, str | None, str]]:
    """List the messages of an attribute: role, name, text."""
    messages = load_messages(span.attributes.get(key)) or ()
    texts = ["".join(str(part.get("content", part.get("response", ""))) for part in item.parts) for item in messages]
    return [(message.role, message.name, text) for message, text in zip(messages, texts, strict=True)]


def literal(text: str) -> str:
    """Read a drawing written in a test: dedented, without the line ends around it."""
    return dedent(text).strip("\n")


def _lines(trace: MessageActionTrace, hide: Collection[str]) -> Iterator[str]:
    yield f"task: {_on_one_line(trace.task)}"
    yield "agents: " + ", ".join(
        _name(agent.name) if agent.role == "agent" else f"{_name(agent.name)} ({agent.role})" for agent in trace.agents
    )
    if trace.outcome != "unknown":
        yield f"outcome: {trace.outcome}"
    for step in trace.steps:
        yield f"{step.index} {_name(step.agent)}: {step.kind} {step.content!r}" + ", ".join(_details(step, hide))


def _details(step: Step, hide: Collection[str]) -> Iterator[str]:
    place = "".join(
        [
            f" to {', '.join(map(_name, step.recipients))}" if step.recipients else "",
            f" after {' '.join(map(str, step.inputs))}" if step.inputs else "",
        ]
    )
    yield place
    if step.status != "unset" or step.error:
        yield f"{step.status} {_name(step.error)}" if step.error else step.status
    if step.usage:
        yield f"{step.usage.input_tokens}+{step.usage.output_tokens} tokens"
    not_drawn = {
        *hide,
        words.STEP_INSTRUCTIONS,  # marks what a step was given, which is not drawn either
        words.REQUEST_MODEL,  # stands on the spans of the calls
    }
    yield from (f"{key}={value!r}" for key, value in sorted(step.attributes.items()) if key not in not_drawn)


def _name(name: str) -> str:
    return name if re.fullmatch(r"[^\s,'\"()]+", name) else repr(name)


def _on_one_line(text: str) -> str:
    is_plain = text.isprintable() and text == text.strip() and text[:1] not in ("", "'", '"')
    return text if is_plain else repr(text)


_OF_A_GUARD = re.compile(r"blamespan\.(message\.id|agent\.id|guard\..*)|gen_ai\.conversation\.id")


def steps_without_guard(trace: MessageActionTrace) -> list[Step]:
    """List the steps of *trace* without ids, times and what a guard writes."""
    return [
        replace(
            step,
            span_id="",
            start_ns=0,
            end_ns=0,
            attributes={key: value for key, value in step.attributes.items() if not _OF_A_GUARD.fullmatch(key)},
        )
        for step in trace.steps
    ]
