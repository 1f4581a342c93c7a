"""What a recorded run holds to run it again: every model's and tool's answer, in order, and where each is a step."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from blamespan import conventions as words
from blamespan.errors import ConfigError
from blamespan.genai_messages import load_messages
from blamespan.intercepting.boundaries import Said, ToolCall
from blamespan.json_text import parse_json
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace, Step

_OF_TOOLS = ("tool_call", "tool_result")


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """What a model answered.

    Attributes:
        agent: On whose behalf, by the name of the step.
        said: The answer.
        heard: What was new to it, None where that is not known; see `content_of_request`.
        step: Index of the step that shows it; a selector's decision, which is none, lies between two.
        message: Index of the agent's message that it is a part of; -1 where there is none.
        lost: Why its content cannot be replayed; empty if it can.
    """

    agent: str
    said: Said
    heard: object
    step: float
    message: int = -1
    lost: str = ""


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """What a tool answered.

    Attributes:
        agent: Who called.
        tool: The tool.
        arguments: As the model wrote them, read as JSON where they are.
        call_id: The model's id of the call; empty where that is not known.
        text: The answer, or what the exception said.
        error: Class of the exception; empty if there was none.
        step: Index of the step.
        lost: Why its content cannot be replayed; empty if it can.
    """

    agent: str
    tool: str
    arguments: object
    call_id: str
    text: str
    error: str
    step: int
    lost: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """A recorded run as its answers.

    Attributes:
        trace: The run.
        answers: Of models, in order.
        results: Of tools, in order.
    """

    trace: MessageActionTrace
    answers: tuple[RecordedAnswer, ...]
    results: tuple[RecordedResult, ...]

    @property
    def is_cut(self) -> bool:
        """Return whether anything cannot be replayed."""
        return any(part.lost for part in self.answers) or any(part.lost for part in self.results)

    def check(self, before: float) -> None:
        """Make sure that what came before the step *before* is there to be given again.

        Raises:
            ConfigError: if contents were withheld or cut, or nobody knows what models answered.
        """
        parts: list[RecordedAnswer | RecordedResult] = [*self.answers, *self.results]
        for part in parts:
            if part.step <= before and part.lost:
                raise ConfigError(
                    f"step {int(part.step)} of {part.agent!r} cannot be replayed: {part.lost}. Record the run again "
                    "with contents, and with a higher BLAMESPAN_MAX_CONTENT_BYTES if they were cut"
                )


def script_of(trace: MessageActionTrace, spans: Sequence[Span] = ()) -> Script:
    """Read the answers of a run: off its model and tool spans where there are any, else off its steps.

    Args:
        trace: The run.
        spans: Its spans, in our own words; empty where the file has none.
    """
    chats = sorted((span for span in spans if _is(span, words.OPERATION_CHAT)), key=lambda span: span.start_ns)
    if not chats:
        return Script(trace, tuple(_answers_of_steps(trace)), tuple(_results_of_steps(trace)))
    tools = {span.span_id: span for span in spans if _is(span, words.OPERATION_TOOL)}
    return Script(trace, tuple(_answers(trace, chats, tools)), tuple(_results(trace, tools)))


def content_of_request(attributes: Mapping[str, Any]) -> object:
    """Return what a model span says that was new to the model, so that two of them can be compared; None if unknown."""
    value = attributes.get(words.INPUT_MESSAGES)
    if value is None:
        return ()
    if words.INPUT_MESSAGES in (*_keys(attributes, words.TRUNCATED), *_keys(attributes, words.WITHHELD)):
        return None
    messages = load_messages(value)
    if messages is None:
        return None
    return tuple(
        (message.role, message.name or "", tuple(_shown(part) for part in message.parts)) for message in messages
    )


def _shown(part: Mapping[str, Any]) -> str:
    lasting = {key: value for key, value in part.items() if key != "id"}  # frameworks draw some ids
    return json.dumps(lasting, ensure_ascii=False, sort_keys=True, default=str)


def _is(span: Span, operation: str) -> bool:
    return span.attributes.get(words.OPERATION) == operation


def _keys(attributes: Mapping[str, Any], key: str) -> tuple[str, ...]:
    values = attributes.get(key, ())
    return tuple(values) if isinstance(values, tuple | list) else ()


def _lost(attributes: Mapping[str, Any], key: str) -> str:
    if key in _keys(attributes, words.WITHHELD):
        return "its content was withheld when it was recorded"
    return "its content was cut when it was recorded" if key in _keys(attributes, words.TRUNCATED) else ""


def _answers(trace: MessageActionTrace, chats: Sequence[Span], tools: Mapping[str, Span]) -> Iterator[RecordedAnswer]:
    messages = {step.span_id: step.index for step in trace.steps if step.kind not in _OF_TOOLS}
    calls = {
        str(tools[step.span_id].attributes.get(words.TOOL_CALL_ID)): step.index
        for step in reversed(trace.steps)
        if step.kind == "tool_call" and step.span_id in tools
    }
    for span in chats:
        reply, lost = _said(span), _lost(span.attributes, words.OUTPUT_MESSAGES)
        if reply is None:
            if span.status == "error":
                lost = lost or f"its model failed ({span.attributes.get(words.ERROR_TYPE, 'an error')})"
            reply, lost = Said(), lost or "what its model answered was not recorded"
        shown: list[float] = [calls[call.id] for call in reply.calls if call.id in calls]
        message = messages.get(span.parent_id or "", -1)
        step = min(shown) if shown else message if message >= 0 else _between(trace, span)
        yield RecordedAnswer(
            span.text(words.AGENT_NAME) or "", reply, content_of_request(span.attributes), step, message, lost
        )


def _between(trace: MessageActionTrace, span: Span) -> float:
    """Place what is no step after the last step that had ended when it began."""
    return max((step.index for step in trace.steps if step.end_ns <= span.start_ns), default=-1) + 0.5


def _said(span: Span) -> Said | None:
    messages = load_messages(span.attributes.get(words.OUTPUT_MESSAGES))
    if not messages:
        return None
    parts = [part for message in messages for part in message.parts]
    texts = [str(part.get("content", "")) for part in parts if part.get("type") == "text"]
    calls = [
        ToolCall(str(part.get("name", "")), write_arguments(part.get("arguments", {})), str(part.get("id") or ""))
        for part in parts
        if part.get("type") == "tool_call"
    ]
    return Said("\n".join(texts), tuple(calls), messages[0].name or "")


def write_arguments(arguments: object) -> str:
    """Write arguments as JSON, unless they are a text already.

    Raises:
        TypeError: if JSON cannot hold them.
    """
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _results(trace: MessageActionTrace, tools: Mapping[str, Span]) -> Iterator[RecordedResult]:
    for step in trace.steps:
        if step.kind == "tool_result" and step.span_id in tools:
            attributes = tools[step.span_id].attributes
            yield RecordedResult(
                step.agent,
                str(attributes.get(words.TOOL_NAME, "")),
                read_arguments(attributes.get(words.TOOL_ARGUMENTS)),
                str(attributes.get(words.TOOL_CALL_ID) or ""),
                _exception_message(tools[step.span_id]) or step.content,
                step.error or "",
                step.index,
                _lost(attributes, words.TOOL_RESULT),
            )


def _exception_message(span: Span) -> str:
    """Return what the exception said that ended a tool's span."""
    messages = [event.attributes.get("exception.message") for event in span.events if event.name == "exception"]
    return str(messages[-1]) if messages and messages[-1] is not None else ""


def read_arguments(value: object) -> object:
    """Read arguments as JSON where they are, so that blanks and escapes do not matter."""
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value)
    except ValueError:
        return value


def _answers_of_steps(trace: MessageActionTrace) -> Iterator[RecordedAnswer]:
    """Take each message for an answer, and the calls that an agent makes at once for one."""
    decided = [step for step in trace.steps if trace.can_be_blamed(step) and step.kind != "handoff"]
    for _, steps in groupby(decided, key=lambda step: (step.agent, step.kind == "tool_call", _once(step))):
        group = list(steps)
        if group[0].kind == "tool_call":
            calls = tuple(ToolCall(*_call(step), f"call_{step.index}") for step in group)
            yield RecordedAnswer(group[0].agent, Said(calls=calls), None, group[0].index)
            continue
        for step in group:
            yield RecordedAnswer(step.agent, Said(step.content), None, step.index, step.index)


def _once(step: Step) -> object:
    return step.inputs if step.kind == "tool_call" else step.index


def _results_of_steps(trace: MessageActionTrace) -> Iterator[RecordedResult]:
    for step in trace.steps:
        calls = [trace.steps[i] for i in step.inputs if trace.steps[i].kind == "tool_call"]
        if step.kind == "tool_result" and calls:
            name, arguments = _call(calls[0])
            yield RecordedResult(
                step.agent,
                name,
                read_arguments(arguments),
                f"call_{calls[0].index}",
                step.content,
                step.error or "",
                step.index,
            )


def _call(step: Step) -> tuple[str, str]:
    name, _, rest = step.content.partition("(")
    return name, rest.removesuffix(")") or "{}"


def correct_answer(answer: RecordedAnswer, step: Step, text: str) -> RecordedAnswer:
    """Return *answer* with what *step* shows of it said otherwise.

    Raises:
        ConfigError: if *step* is a call and *text* is none, or the answer does not show in the step.
    """
    reply = answer.said
    if step.kind == "tool_call":
        name, arguments = _call(step)
        wanted = [call for call in reply.calls if call.name == name and _same(call.arguments, arguments)]
        new_name, opening, rest = text.strip().partition("(")
        if not opening or not rest.endswith(")"):
            raise ConfigError(
                f"step {step.index} calls a tool: expected a call in its place, got {text!r}. Write it like "
                f"{step.content[:200]!r}"
            )
        changed = replace((wanted or list(reply.calls))[0], name=new_name, arguments=rest[:-1])
        calls = tuple(changed if call == (wanted or list(reply.calls))[0] else call for call in reply.calls)
        return replace(answer, said=replace(reply, calls=calls))
    quoted = json.dumps(step.content, ensure_ascii=False)[1:-1]
    escaped = json.dumps(step.content)[1:-1]
    if reply.text != step.content and step.content and (quoted in reply.text or escaped in reply.text):
        form = quoted if quoted in reply.text else escaped  # in the JSON of a ledger
        return replace(answer, said=replace(reply, text=reply.text.replace(form, json.dumps(text)[1:-1])))
    return replace(answer, said=replace(reply, text=text, calls=()))


def _same(left: str, right: str) -> bool:
    return read_arguments(left) == read_arguments(right)
