"""What was said, given and used at each step, gathered from all spans that tell of it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from blamespan.dialects.cast import Cast
from blamespan.dialects.reading import SpanReading
from blamespan.dialects.tree import Tree
from blamespan.genai_messages import Message, Part
from blamespan.json_text import parse_json, text_or_json
from blamespan.trace import StepKind, Usage

_HANDOFF = re.compile(r"(?:transfer|handoff|hand_off)(?:_back)?_to_(.+)", re.IGNORECASE | re.DOTALL)
"""Names of the tools by which agents hand over, in every framework that does so by a tool call."""
_TARGET_KEYS = ("agent_name", "to_agent")
"""Arguments that name the agent, where one tool hands over to any."""
_ASKING = ("user", "human")
_MAX_JSON_CHARACTERS = 1_000_000
"""Longer arguments are left as they are written."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """What an agent said in one step."""

    messages: Sequence[Message] = ()
    text: str | None = None
    kind: StepKind = "message"
    recipients: tuple[str, ...] = ()


class Content:
    """Finds what each step holds."""

    def __init__(self, tree: Tree, readings: Mapping[str, SpanReading], cast: Cast) -> None:
        self._tree = tree
        self._readings = readings
        self._cast = cast
        self._models: dict[str, list[SpanReading]] = defaultdict(list)
        self._delivered: dict[str, list[SpanReading]] = defaultdict(list)
        self._tools: dict[str, list[SpanReading]] = defaultdict(list)
        self._twins: dict[str, list[SpanReading]] = defaultdict(list)
        for span in sorted(tree.spans, key=lambda span: span.start_ns):
            if span.span_id in readings:
                self._sort_in(span.span_id, readings[span.span_id])
        self._transcripts = {run: _by_name(readings[run].outputs) for run in cast.runs}
        self._recited = self._recite()
        self._calls, self._named_calls = self._asked_calls()
        self._first_asked = self._asked_below()
        self._spoken: dict[str, Spoken] = {}

    def _sort_in(self, span_id: str, reading: SpanReading) -> None:
        if reading.role == "model":
            owner = self._tree.nearest(span_id, self._cast.is_step)
            if owner is not None:
                self._models[owner].append(reading)
        elif reading.role == "delivery":
            for cause in reading.causes:
                is_in_trace = cause in self._tree.by_id
                owner = (
                    self._tree.nearest(cause, self._cast.speakers.__contains__, or_self=True) if is_in_trace else None
                )
                if owner is not None:
                    self._delivered[owner].append(reading)
        elif reading.role == "tool":
            owner = self._tree.nearest(span_id, self._cast.speakers.__contains__)
            if owner is not None:
                self._tools[owner].append(reading)
        elif span_id in self._cast.merged:
            self._twins[self._cast.merged[span_id]].append(reading)

    def spoken(self, span_id: str) -> Spoken:
        """Return what an agent said; the calls of tools that stand as steps of their own left out."""
        if span_id not in self._spoken:
            self._spoken[span_id] = self._find_spoken(span_id)
        return self._spoken[span_id]

    def _find_spoken(self, span_id: str) -> Spoken:
        reading = self._readings[span_id]
        run = self._tools[span_id]
        for outputs in self._tellings(span_id):
            own = [message for message in _unseen(outputs, reading.inputs) if message.role not in ("tool", *_ASKING)]
            spoken = [message for message in own if not _only_calls(message, run)] if run else own
            if spoken or own:
                return self._handed_over(span_id, _as_spoken(spoken or own[-1:], run))
        return Spoken(text=reading.text)

    def _handed_over(self, span_id: str, spoken: Spoken) -> Spoken:
        """Note where those who received a message say that it is no plain one."""
        delivery_with_kind = next((delivery for delivery in self._delivered[span_id] if delivery.kind), None)
        return (
            replace(spoken, kind=delivery_with_kind.kind, recipients=delivery_with_kind.recipients)
            if delivery_with_kind and delivery_with_kind.kind
            else spoken
        )

    def _tellings(self, span_id: str) -> Iterator[Sequence[Message]]:
        """List what tells of a message, nearest first."""
        yield self._readings[span_id].outputs
        yield from (twin.outputs for twin in self._twins[span_id])
        yield _last_of_each([m for reading in self._delivered[span_id] for m in reading.outputs])
        if self._readings[span_id].text is None:
            yield from (model.outputs for model in reversed(self._models[span_id]))
            yield self._recited.get(span_id, ())

    def _recite(self) -> dict[str, Sequence[Message]]:
        """Assign each agent's messages of the run's transcript to its steps, in order."""
        messages_of_steps: dict[str, Sequence[Message]] = {}
        next_indices: dict[tuple[str | None, str], int] = defaultdict(int)
        by_end = sorted(self._cast.speakers.items(), key=lambda item: self._tree.by_id[item[0]].end_ns)
        for span_id, agent in by_end:
            run = self._tree.nearest(span_id, self._cast.runs.__contains__)
            texts = [m for m in self._transcripts.get(run or "", {}).get(agent, ()) if not _only_tool_parts(m)]
            next_index = next_indices[run, agent]
            next_indices[run, agent] += 1
            messages_of_steps[span_id] = texts[next_index : next_index + 1]
        return messages_of_steps

    def usage(self, span_id: str) -> Usage | None:
        """Add up the tokens of a step."""
        models = [model.usage for model in self._models[span_id] if model.usage]
        if models:
            return _total(models)
        readings = (self._readings[span_id], *self._twins[span_id])
        own = next((reading.usage for reading in readings if reading.usage), None)
        delivered = {id(d.outputs): d.usage for d in _first_of_each(self._delivered[span_id]) if d.usage}
        return own or (_total(delivered.values()) if delivered else None)

    def inputs_of(self, span_id: str) -> Sequence[Message]:
        """List the messages that an agent and its models were given, as often as their spans say so."""
        tellers = (self._readings[span_id], *self._twins[span_id], *self._models[span_id])
        return [message for reading in tellers for message in (*reading.instructions, *reading.inputs)]

    def recipients(self, span_id: str) -> Sequence[str]:
        """List the names of those who heard a message, also of some who are no agents."""
        tellers = (self._readings[span_id], *self._twins[span_id], *self._delivered[span_id])
        return [name for reading in tellers for name in reading.recipients]

    def task(self, root_id: str) -> Sequence[Message]:
        """Find what a run was asked to do: what its root was given, else the first message given within it."""
        reading = self._readings.get(root_id)
        asked = [message for message in reading.inputs if message.role in _ASKING] if reading else []
        return asked or self._first_asked.get(root_id, ())

    def _asked_below(self) -> dict[str, Sequence[Message]]:
        """Find for each span the last message of the first ones asked below it."""
        questions: dict[str, Sequence[Message]] = {}
        for span in sorted(self._tree.spans, key=lambda span: span.start_ns):
            inputs = self._readings[span.span_id].inputs if span.span_id in self._readings else ()
            asked = [message for message in inputs if message.role in _ASKING]
            if asked:
                for at in self._tree.above(span.span_id):
                    if at in questions:
                        break  # what is above it has been told of something earlier
                    questions[at] = asked[-1:]
        return questions

    def arguments(self, span_id: str) -> str:
        """Return what a tool was called with: as its span says, or where that is no JSON, as its caller said."""
        own = self._readings[span_id].arguments
        if _is_json_object(own):
            return own or ""
        arguments = self._find_tool_part(span_id, "tool_call").get("arguments")
        return text_or_json(arguments) if isinstance(arguments, Mapping) or _is_json_object(arguments) else own or ""

    def result(self, span_id: str) -> str | None:
        """Return what a tool answered; None where no span says."""
        reading = self._readings[span_id]
        if reading.result is not None:
            return reading.result
        response = self._find_tool_part(span_id, "tool_call_response")
        return text_or_json(response["response"]) if "response" in response else None

    def asked(self, span_id: str) -> str | None:
        """Find the step that asked for a tool's call: by the call's id, else the last before it that named the tool."""
        reading, start_ns = self._readings[span_id], self._tree.by_id[span_id].start_ns
        if reading.call_id in self._calls:
            return self._calls[reading.call_id]
        before = self._named_calls.get(reading.name, [])
        index = bisect_right(before, start_ns, key=lambda asked: asked[0])
        return before[index - 1][1] if index else None

    def _asked_calls(self) -> tuple[dict[str | None, str], dict[str, list[tuple[int, str]]]]:
        """Find who asked for tools' calls: by the call's id, and by the tool's name with the time, in order."""
        by_id: dict[str | None, str] = {}
        by_name: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for span_id in self._cast.speakers:
            readings = [self._readings[span_id], *self._models[span_id]]
            for part in _parts(m for reading in readings for m in reading.outputs):
                if part.get("type") == "tool_call":
                    by_name[str(part.get("name"))].append((self._tree.by_id[span_id].end_ns, span_id))
                    if isinstance(part.get("id"), str):
                        by_id.setdefault(part["id"], span_id)
        return by_id, {name: sorted(asked) for name, asked in by_name.items()}

    def _find_tool_part(self, span_id: str, kind: str) -> Part:
        """Find the part of a message that tells of a tool's call or answer, by its id or, without one, its name."""
        reading = self._readings[span_id]
        owner = self._tree.nearest(span_id, self._cast.speakers.__contains__) or self.asked(span_id)
        if owner is None:
            return {}
        run = self._tree.nearest(span_id, self._cast.runs.__contains__)
        agent = self._cast.speakers[owner]
        messages = [m for reading in self._delivered[owner] for m in reading.outputs]
        messages += [m for reading in self._models[owner] for m in (*reading.inputs, *reading.outputs)]
        messages += self._readings[owner].outputs
        messages += self._transcripts.get(run or "", {}).get(agent, ())
        matching = (
            part
            for part in _parts(messages)
            if part.get("type") == kind
            and (part.get("id") == reading.call_id if reading.call_id else part.get("name") == reading.name)
        )
        return next(matching, {})


def _as_spoken(messages: Sequence[Message], run: Sequence[SpanReading]) -> Spoken:
    calls = [part for part in messages[-1].parts if part.get("type") == "tool_call"]
    executed = {tool.name for tool in run}
    for part in calls:
        target = _handoff_target(part)
        if target and part.get("name") not in executed:
            return Spoken(messages[-1:], kind="handoff", recipients=(target,))
    return Spoken(messages)


def _handoff_target(call: Part) -> str | None:
    """Name the agent that a call hands over to: it stands in the tool's name or in the arguments."""
    name = str(call.get("name"))
    match = _HANDOFF.fullmatch(name)
    if match is not None and match[1] != "agent":
        return match[1]
    arguments = call.get("arguments") if match or name == "handoff" else None
    if isinstance(arguments, str) and _is_json_object(arguments):
        arguments = parse_json(arguments)
    targets = [arguments.get(key) for key in _TARGET_KEYS] if isinstance(arguments, Mapping) else []
    return next((target for target in targets if isinstance(target, str)), None)


def _unseen(outputs: Sequence[Message], inputs: Sequence[Message]) -> Sequence[Message]:
    """Leave out the messages given, where a node gives back the whole conversation."""
    input_keys = [(message.role, message.parts) for message in inputs]
    if (
        input_keys
        and len(outputs) > len(input_keys)
        and [(m.role, m.parts) for m in outputs[: len(input_keys)]] == input_keys
    ):
        return outputs[len(input_keys) :]
    return outputs


def _only_calls(message: Message, run: Sequence[SpanReading]) -> bool:
    """Check whether a message is nothing but calls of tools that ran."""
    ids, names = {tool.call_id for tool in run if tool.call_id}, {tool.name for tool in run}
    return bool(message.parts) and all(
        part.get("type") == "tool_call" and (part.get("id") in ids or part.get("name") in names)
        for part in message.parts
    )


def _only_tool_parts(message: Message) -> bool:
    return bool(message.parts) and all(
        part.get("type") in ("tool_call", "tool_call_response") for part in message.parts
    )


def _last_of_each(messages: Sequence[Message]) -> Sequence[Message]:
    """Keep what was said in the end: the last message that is more than a tool's call or answer."""
    texts = [message for message in messages if not _only_tool_parts(message)]
    return texts[-1:] or messages[-1:]


def _first_of_each(readings: Sequence[SpanReading]) -> list[SpanReading]:
    """Leave out what was delivered more than once."""
    first_readings: list[SpanReading] = []
    texts: set[str] = set()
    for reading in readings:
        key = repr(reading.outputs)
        if key not in texts:
            texts.add(key)
            first_readings.append(reading)
    return first_readings


def _by_name(messages: Sequence[Message]) -> dict[str, list[Message]]:
    by_name: dict[str, list[Message]] = defaultdict(list)
    for message in messages:
        if message.name:
            by_name[message.name].append(message)
    return by_name


def _parts(messages: Iterable[Message]) -> Iterator[Part]:
    for message in messages:
        yield from message.parts


def _is_json_object(value: Any) -> bool:
    if not isinstance(value, str) or not value.startswith("{") or len(value) > _MAX_JSON_CHARACTERS:
        return False
    try:
        return isinstance(parse_json(value), Mapping)
    except ValueError:
        return False


def _total(usages: Iterable[Usage]) -> Usage:
    read = written = 0
    for usage in usages:
        read += usage.input_tokens
        written += usage.output_tokens
    return Usage(read, written)
