"""From the message-action trace to spans: pure, and the inverse of `blamespan.rebuild`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from blamespan import conventions as words
from blamespan._version import __version__
from blamespan.errors import MalformedTrace
from blamespan.genai_messages import Message, dump_messages
from blamespan.rebuilding.rebuild import OWNED_KEYS, step_content
from blamespan.rebuilding.step_inputs import input_texts
from blamespan.spans import Scope, Span, SpanLink
from blamespan.trace import Agent, AttributeValue, MessageActionTrace, Step

_SCOPE = Scope("blamespan.emit", __version__)


def emit(trace: MessageActionTrace) -> list[Span]:
    """Write a run as the spans our integrations would have made: one for the run, one per step.

    A tool call and its result that share a span id come as one tool span. `rebuild(emit(trace))`
    equals *trace*.

    Returns:
        The run's span, then the steps' spans in step order.

    Raises:
        MalformedTrace: if a step's `attributes` hold a key that one of its fields stands for.
    """
    answers = {step.span_id: step for step in trace.steps if step.kind == "tool_result"}
    spans = [_run_span(trace)]
    emitted: dict[str, Step] = {}
    for step in trace.steps:
        if step.span_id in emitted:
            continue  # the result of a call: it stands on the call's span
        emitted[step.span_id] = step
        answer = answers.get(step.span_id) if step.kind == "tool_call" else None
        spans.append(_step_span(trace, step, answer, spans[0].span_id))
    return _with_explicit_inputs(trace, spans, list(emitted.values()))


def run_span_id(trace_id: str) -> str:
    """Derive the id of the run's span from the trace's, so that emitting twice gives the same spans."""
    return hashlib.sha256(f"{trace_id}/run".encode()).hexdigest()[:16]


def _run_span(trace: MessageActionTrace) -> Span:
    attributes: dict[str, AttributeValue] = {
        words.OPERATION: words.OPERATION_WORKFLOW,
        words.RUN_COMPLETE: True,
        words.RUN_AGENTS: dump_agents(trace.agents),
    }
    if trace.task:
        attributes[words.INPUT_MESSAGES] = dump_messages([Message.of_text("user", trace.task)])
    if trace.outcome != "unknown":
        attributes[words.RUN_OUTCOME] = trace.outcome
    return Span(
        trace_id=trace.trace_id,
        span_id=run_span_id(trace.trace_id),
        parent_id=None,
        name=words.OPERATION_WORKFLOW,
        start_ns=min((step.start_ns for step in trace.steps), default=0),
        end_ns=max((step.end_ns for step in trace.steps), default=0),
        attributes=attributes,
        resource=trace.resource,
        scope=_SCOPE,
    )


def dump_agents(agents: Iterable[Agent]) -> str:
    """Write participants as the JSON that `blamespan.run.agents` holds."""
    rows = [
        {"name": agent.name, "role": agent.role}
        | ({"id": agent.id} if agent.id is not None else {})
        | ({"description": agent.description} if agent.description is not None else {})
        for agent in agents
    ]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def _step_span(trace: MessageActionTrace, step: Step, answer: Step | None, run_id: str) -> Span:
    owned = sorted(OWNED_KEYS & step.attributes.keys())
    if owned:
        raise MalformedTrace(f"step {step.index}: attributes must not hold {owned!r}; set the step's own fields")
    is_tool = step.kind in ("tool_call", "tool_result")
    operation = words.OPERATION_TOOL if is_tool else words.OPERATION_AGENT
    about = step.attributes.get(words.TOOL_NAME) if is_tool else step.agent
    span = Span(
        trace_id=trace.trace_id,
        span_id=step.span_id,
        parent_id=run_id,
        name=f"{operation} {about or step.agent}",
        start_ns=step.start_ns,
        end_ns=step.end_ns,
        attributes={**step.attributes, words.OPERATION: operation, **_step_attributes(step, answer)},
        status=step.status,
        links=tuple(_link(trace, index) for index in step.inputs),
        resource=trace.resource,
        scope=_SCOPE,
    )
    return _with_explicit_content(span, step, answer)


def _step_attributes(step: Step, answer: Step | None) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        words.STEP_INDEX: step.index,
        words.STEP_KIND: step.kind,
        words.AGENT_NAME: step.agent,
        **_content_attributes(step),
    }
    if step.recipients:
        attributes[words.MESSAGE_RECIPIENTS] = step.recipients
    if step.error is not None:
        attributes[words.ERROR_TYPE] = step.error
    if step.usage is not None:
        attributes[words.INPUT_TOKENS] = step.usage.input_tokens
        attributes[words.OUTPUT_TOKENS] = step.usage.output_tokens
    if answer is not None:
        attributes[words.STEP_RESULT_INDEX] = answer.index
        attributes[words.TOOL_RESULT] = answer.content
    return attributes


def _content_attributes(step: Step) -> Mapping[str, AttributeValue]:
    """Put a step's text where the conventions want it."""
    if step.kind == "tool_call":
        name = step.attributes.get(words.TOOL_NAME)
        if isinstance(name, str) and step.content.startswith(f"{name}(") and step.content.endswith(")"):
            return {words.TOOL_ARGUMENTS: step.content[len(name) + 1 : -1]}
        return {}
    if step.kind == "tool_result":
        return {words.TOOL_RESULT: step.content}
    if not step.content:
        return {}
    return {words.OUTPUT_MESSAGES: dump_messages([Message.of_text("assistant", step.content, name=step.agent)])}


def _with_explicit_content(span: Span, step: Step, answer: Step | None) -> Span:
    """Add the text itself wherever reading the span back would give another."""
    if step_content(span, step.kind) != step.content:
        span = replace(span, attributes={**span.attributes, words.STEP_CONTENT: step.content})
    if answer is not None and step_content(span, "tool_result") != answer.content:
        span = replace(span, attributes={**span.attributes, words.STEP_RESULT_CONTENT: answer.content})
    return span


def _with_explicit_inputs(trace: MessageActionTrace, spans: list[Span], steps: list[Step]) -> list[Span]:
    """Add what a step was given itself wherever reading the spans back would give another text."""
    own = [(span, step.index, step.agent, step.content) for span, step in zip(spans[1:], steps, strict=True)]
    read = input_texts(spans, own, [trace.task])
    return [
        spans[0],
        *(
            span.with_attributes({words.STEP_INPUT: step.input_text})
            if (read[step.index].text if step.index in read else "") != step.input_text
            else span
            for span, step in zip(spans[1:], steps, strict=True)
        ),
    ]


def _link(trace: MessageActionTrace, index: int) -> SpanLink:
    return SpanLink(trace.trace_id, trace.steps[index].span_id, {words.LINK_STEP: index})
