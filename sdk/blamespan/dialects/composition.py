"""From what each foreign span says to the run they tell of together, as spans in our words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from blamespan import conventions as words
from blamespan.dialects.cast import Cast
from blamespan.dialects.content import Content, Spoken
from blamespan.dialects.predecessors import Predecessors
from blamespan.dialects.reading import SpanReading
from blamespan.dialects.tree import Tree
from blamespan.genai_messages import Message, dump_messages
from blamespan.spans import Span, SpanLink
from blamespan.trace import AttributeValue

_KEPT = frozenset({words.CONVERSATION_ID, words.TOOL_DESCRIPTION, words.PROVIDER_NAME, words.REQUEST_MODEL})
"""Attributes that mean the same everywhere, and stay where a span has them."""
_NO_ERRORS = ("GraphInterrupt", "GraphBubbleUp", "ParentCommand", "NodeInterrupt")
"""Exceptions by which LangGraph steers; some instrumentations set the status to error for them."""


def compose(spans: Sequence[Span], readings: Mapping[str, SpanReading]) -> dict[str, Span]:
    """Compose a trace in our words from *readings*.

    Args:
        spans: The trace.
        readings: What its foreign spans say, by span id.

    Returns:
        For each foreign span, by id, its stand-in; and one for the trace's root where the run has no span of its own.
    """
    return _Composition(spans, readings).spans()


class _Composition:
    def __init__(self, spans: Sequence[Span], readings: Mapping[str, SpanReading]) -> None:
        self._tree = Tree(spans)
        self._readings = readings
        self._cast = Cast(self._tree, readings)
        self._content = Content(self._tree, readings, self._cast)
        self._predecessors = Predecessors(self._tree, readings, self._cast.is_step, self._cast.holders)
        self._places = self._order_steps()
        self._takers = self._taken_up()
        self._given = self._new_to_agents()

    def spans(self) -> dict[str, Span]:
        """Make the stand-ins."""
        by_id, is_step = self._tree.by_id, self._cast.is_step
        translated = {
            span_id: self._step(by_id[span_id]) if is_step(span_id) else self._aside(by_id[span_id])
            for span_id in self._readings
        }
        for span_id in self._cast.runs:
            translated[span_id] = self._run(self._tree.by_id[span_id])
        if self._places and not self._cast.runs:
            translated |= self._trace_roots(translated)
        return translated

    def _trace_roots(self, translated: Mapping[str, Span]) -> dict[str, Span]:
        """Where no span is a run's own, the trace's root stands for it."""
        roots = [span for span in self._tree.spans if span.parent_id is None and words.STEP_KIND not in span.attributes]
        return {root.span_id: self._with_task(translated.get(root.span_id, root), root.span_id) for root in roots}

    def _order_steps(self) -> dict[tuple[str, bool], int]:
        """Number the steps by the clock: what was said when it was out, a call when it began, an answer when it came.

        Keys are the span's id and whether the place is an answer's.
        """
        by_id = self._tree.by_id
        drafts = [(by_id[span_id].end_ns, 1, span_id, False) for span_id in self._cast.speakers]
        for span_id in self._cast.tools:
            drafts.append((by_id[span_id].start_ns, 0, span_id, False))
            if self._content.result(span_id) is not None:
                ended_ns = max(by_id[span_id].start_ns, by_id[span_id].end_ns)  # a clock may run backwards
                drafts.append((ended_ns, 0, span_id, True))
        ordered = sorted(drafts, key=lambda draft: (draft[0], draft[1], by_id[draft[2]].start_ns, draft[3]))
        return {(span_id, is_answer): index for index, (_, _, span_id, is_answer) in enumerate(ordered)}

    def _taken_up(self) -> dict[str, list[str]]:
        """Name for each message the agents whose spans say that they took it up."""
        takers: dict[str, list[str]] = {}
        for span_id, agent in self._cast.speakers.items():
            for step in self._predecessors.of_step(span_id):
                takers.setdefault(step, []).append(agent)
        return takers

    def _new_to_agents(self) -> dict[str, list[Message]]:
        """Choose of the messages that each step was given those that its agent had not been given before."""
        new_messages: dict[str, list[Message]] = {}
        messages_of_agents: dict[str, set[str]] = {}
        for span_id, is_answer in self._places:
            if is_answer or span_id not in self._cast.speakers:
                continue
            agent_messages = messages_of_agents.setdefault(self._cast.speakers[span_id], set())
            for message in self._content.inputs_of(span_id):
                key = repr((message.role, message.parts))
                if key not in agent_messages:
                    agent_messages.add(key)
                    new_messages.setdefault(span_id, []).append(message)
        return new_messages

    def _aside(self, span: Span) -> Span:
        """A foreign span that is no step: whatever it says, it does not count as one."""
        return replace(span, attributes=_attributes_to_keep(span), **_status(span))  # type: ignore[arg-type]  # two fields of the span

    def _run(self, span: Span) -> Span:
        reading = self._readings[span.span_id]
        aside = self._aside(span).with_attributes({words.OPERATION: words.OPERATION_WORKFLOW})
        if reading.name:
            aside = aside.with_attributes({words.AGENT_NAME: reading.name})
        if reading.participants:
            listed = [{"name": name, "role": "agent"} for name in dict.fromkeys(reading.participants)]
            aside = aside.with_attributes({words.RUN_AGENTS: json.dumps(listed)})
        return self._with_task(aside, span.span_id)

    def _with_task(self, span: Span, span_id: str) -> Span:
        task = self._content.task(span_id)
        return span.with_attributes({words.INPUT_MESSAGES: _writable(dump_messages(task))}) if task else span

    def _step(self, span: Span) -> Span:
        is_tool = span.span_id in self._cast.tools
        attributes = self._tool(span) if is_tool else self._message(span)
        usage = self._content.usage(span.span_id)
        if usage is not None:
            attributes |= {words.INPUT_TOKENS: usage.input_tokens, words.OUTPUT_TOKENS: usage.output_tokens}
        error = _error(span)
        if error is not None:
            attributes[words.ERROR_TYPE] = error
        attributes[words.STEP_INDEX] = self._places[span.span_id, False]
        clean = {key: _writable(value) for key, value in attributes.items()}
        return replace(span, attributes=_attributes_to_keep(span) | clean, links=self._links(span), **_status(span))  # type: ignore[arg-type]

    def _message(self, span: Span) -> dict[str, AttributeValue]:
        reading = self._readings[span.span_id]
        spoken = self._content.spoken(span.span_id)
        agent = self._cast.speakers[span.span_id]
        attributes: dict[str, AttributeValue] = {
            words.OPERATION: words.OPERATION_AGENT,
            words.STEP_KIND: reading.kind or spoken.kind,
            words.AGENT_NAME: agent,
            **_content_of(spoken, agent),
        }
        attributes |= _given_attributes(self._given.get(span.span_id, ()))
        if recipients := self._recipients(span.span_id, spoken):
            attributes[words.MESSAGE_RECIPIENTS] = recipients
        if reading.agent_id:
            attributes[words.AGENT_ID] = reading.agent_id
        if reading.description:
            attributes[words.AGENT_DESCRIPTION] = reading.description
        return attributes

    def _recipients(self, span_id: str, spoken: Spoken) -> tuple[str, ...]:
        if spoken.recipients:
            return spoken.recipients
        agent = self._cast.speakers[span_id]
        agents = [*self._content.recipients(span_id), *self._takers.get(span_id, ())]
        heard = tuple(name for name in dict.fromkeys(agents) if name in self._cast.agents and name != agent)
        return heard or self._asker(span_id, agent)

    def _asker(self, span_id: str, agent: str) -> tuple[str, ...]:
        """Name the agent that had *agent* called, by a tool or within its own work: it gets the answer."""
        around = self._tree.nearest(span_id, self._cast.is_step)
        if around is None:
            return ()
        in_tool = around in self._cast.tools
        asker = self._caller(self._tree.by_id[around]) if in_tool else self._cast.speakers[around]
        return (asker,) if asker in self._cast.agents and asker != agent else ()

    def _tool(self, span: Span) -> dict[str, AttributeValue]:
        reading = self._readings[span.span_id]
        attributes: dict[str, AttributeValue] = {
            words.OPERATION: words.OPERATION_TOOL,
            words.STEP_KIND: "tool_call",
            words.TOOL_NAME: reading.name or span.name,
            words.TOOL_ARGUMENTS: self._content.arguments(span.span_id),
        }
        if agent := self._caller(span):
            attributes[words.AGENT_NAME] = agent
        result = self._content.result(span.span_id)
        if result is not None:
            attributes[words.TOOL_RESULT] = result
            attributes[words.STEP_RESULT_INDEX] = self._places[span.span_id, True]
        if reading.call_id:
            attributes[words.TOOL_CALL_ID] = reading.call_id
        return attributes

    def _caller(self, span: Span) -> str | None:
        """Name who called a tool: who the span says, the agent around it, or who asked for the call before."""
        reading = self._readings[span.span_id]
        if reading.agent and reading.agent in self._cast.agents:
            return reading.agent
        around = self._tree.nearest(span.span_id, lambda at: at in self._cast.speakers)
        if around is not None:
            return self._cast.speakers[around]
        asked = self._content.asked(span.span_id)
        return self._cast.speakers[asked] if asked is not None else reading.agent

    def _links(self, span: Span) -> tuple[SpanLink, ...]:
        span_links: list[SpanLink] = []
        for step in self._predecessors.of(span.span_id):
            index = self._places.get((step, True), self._places.get((step, False)))
            if index is not None and index > self._places[span.span_id, False]:
                index = self._places.get((step, False))  # within a tool: what its answer is made of builds on its call
            span_links.append(SpanLink(span.trace_id, step, {words.LINK_STEP: index}))
        return tuple(span_links)


def _attributes_to_keep(span: Span) -> dict[str, AttributeValue]:
    return {key: value for key, value in span.attributes.items() if key in _KEPT}


def _given_attributes(messages: Sequence[Message]) -> dict[str, AttributeValue]:
    """Write what an agent was given; instructions apart, as the task of a run may take the place of the messages."""
    instructions = [part for message in messages if message.role == "system" for part in message.parts]
    others = [message for message in messages if message.role != "system"]
    attributes: dict[str, AttributeValue] = {}
    if instructions:
        attributes[words.SYSTEM_INSTRUCTIONS] = json.dumps(instructions, ensure_ascii=False, default=str)
    if others:
        attributes[words.INPUT_MESSAGES] = dump_messages(others)
    return attributes


def _content_of(spoken: Spoken, agent: str) -> dict[str, AttributeValue]:
    if spoken.messages:
        named = [replace(message, name=agent) for message in spoken.messages]
        return {words.OUTPUT_MESSAGES: dump_messages(named)}
    if spoken.text:
        return {words.OUTPUT_MESSAGES: dump_messages([Message.of_text("assistant", spoken.text, name=agent)])}
    return {}


def _writable(value: AttributeValue) -> AttributeValue:
    """Replace halves of characters, which JSON can hold and nothing else can: a span's own text has none."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _status(span: Span) -> dict[str, str]:
    """Read the status; steering by exception is no error."""
    if span.status == "error" and _exception(span).rpartition(".")[2] in _NO_ERRORS:
        return {"status": "unset", "status_message": ""}
    return {}


def _error(span: Span) -> str | None:
    if span.status != "error" or _status(span):
        return None
    error_type = span.text(words.ERROR_TYPE)
    return error_type or _exception(span) or None


def _exception(span: Span) -> str:
    """Name the class of the last exception a span recorded, or the start of its status message."""
    for happened in reversed(span.events):
        name = happened.attributes.get("exception.type")
        if isinstance(name, str):
            return name
    return span.status_message.partition("(")[0].strip() if "(" in span.status_message[:100] else ""
