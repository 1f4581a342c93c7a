"""Spans being recorded: the run's, an agent's message, a tool's call and answer, a model's call."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanContext, Status, StatusCode

from blamespan import conventions as words
from blamespan.rebuilding.messages import Message
from blamespan.trace import Agent, AttributeValue, StepKind, Usage
from blamespan_integrations.recording.content import Contents
from blamespan_integrations.recording.exceptions import error_text, exception_event
from blamespan_integrations.recording.outcome import RunOutcome
from blamespan_integrations.recording.room import Room

__all__ = [
    "AGENT_KEY",
    "CALL_KEY",
    "STEP_CANCELLED",
    "AgentSpan",
    "ChatSpan",
    "RunSpan",
    "RunState",
    "StepRef",
    "ToolSpan",
    "chosen",
    "link_to",
    "note_links",
]

AGENT_KEY = otel_context.create_key("blamespan-agent")
"""Where the OpenTelemetry context holds the agent whose turn it is."""
CALL_KEY = otel_context.create_key("blamespan-call")
"""Where it holds the call of the tool at work within that agent's turn."""
STEP_CANCELLED = "blamespan.step.cancelled"
"""bool, true where the program cut short what the span is of: no failure, and nobody's."""
_MOST_RECIPIENTS = 128


@dataclass(frozen=True, slots=True)
class StepRef:
    """A step that others can build on: its span, and its place in the run."""

    span: SpanContext
    index: int


@dataclass(slots=True)
class RunState:
    """What the spans of one run share, across its teams within teams. One process only."""

    places: itertools.count[int] = field(default_factory=itertools.count)
    said: dict[str, StepRef] = field(default_factory=dict)
    """Messages of this run by the framework's message id."""


@dataclass(slots=True)
class _Recording:
    """A span being recorded.

    Attributes:
        span: OpenTelemetry's own.
        context: The context with this span in it: attach it around the framework's call.
    """

    span: trace.Span
    context: Context
    _contents: Contents
    _room: Room

    def add(self, attributes: Mapping[str, object]) -> None:
        """Write what else the framework knows, under keys of its own: masked, and withheld where it is content."""
        if self.span.is_recording():
            self.span.set_attributes(chosen(attributes, self._contents, self._room))

    def lose(self, what: str) -> None:
        """Say what could not be recorded, and why; names and types only."""
        self._contents.lose(what)

    def abandon(self) -> None:
        """End what could not be ended in order: no span is left open."""
        if self.span.is_recording():
            self._contents.lose("how it ended: not recorded")
            self.span.set_attributes(self._contents.notes())
            self.span.end()

    def losing(self, key: str) -> Callable[[str], None]:
        """Give what remembers that something of the value under *key* could not be recorded: types, no content."""
        return lambda what: self._contents.lose(f"{key}: {what}")

    def _close(
        self,
        own: dict[str, AttributeValue],
        error: BaseException | str | None,
        extras: Mapping[str, object] | None = None,
    ) -> None:
        """End the span. Status is set only now: a span set OK could never become ERROR."""
        if not self.span.is_recording():
            return
        if error is not None:
            self._fail(error, own)
        if extras:
            own = {**chosen(extras, self._contents, self._room), **own}
        own |= self._contents.notes()
        if self._room.is_tight(self.span, len(own)):
            own = self._room.squeezed(own)
        self.span.set_attributes(own)
        self.span.end()

    def _fail(self, error: BaseException | str, own: dict[str, AttributeValue]) -> None:
        if isinstance(error, str):
            own[words.ERROR_TYPE] = word = self._contents.word(error)
            self.span.set_status(Status(StatusCode.ERROR, word))
            return
        own[words.ERROR_TYPE] = name = self._contents.name(type(error).__qualname__)
        message, event = exception_event(self._contents, error)
        self.span.add_event("exception", event)
        self.span.set_status(Status(StatusCode.ERROR, message or name))


@dataclass(slots=True)
class RunSpan(_Recording):
    """The span of a run."""

    outcome: RunOutcome | None = None
    """Takes what the program says of how it ended."""
    agents: Sequence[str] = ()
    """Names of who takes part."""

    def end(
        self,
        *,
        output: Sequence[Message] = (),
        agents: Sequence[Agent] = (),
        error: BaseException | str | None = None,
        is_complete: bool = True,
        result: object = None,
    ) -> None:
        """End the run.

        Args:
            output: What it gave back.
            agents: Who took part, where that was not known at the start.
            error: What it raised, or a word for how it failed.
            is_complete: False where the program walked away from it (an abandoned stream).
            result: What it returns to the program, which may name the run by it.
        """
        found: dict[str, AttributeValue] = {words.RUN_COMPLETE: is_complete}
        if output:
            found[words.OUTPUT_MESSAGES] = self._contents.messages(words.OUTPUT_MESSAGES, output)
        if agents:
            found[words.RUN_AGENTS] = self._contents.agents(agents)
            self.agents = [self._contents.name(agent.name) for agent in agents]
        self._close(found, error)
        self._let_go(result)

    def abandon(self) -> None:
        """End what could not be ended in order."""
        _Recording.abandon(self)  # `super()` knows no class with slots made by `dataclass`
        self._let_go()

    def _let_go(self, result: object = None) -> None:
        if self.outcome is not None:
            self.outcome.let_go(self.context, agents=self.agents, result=result)


@dataclass(slots=True)
class AgentSpan(_Recording):
    """The span of an agent's message.

    Attributes:
        name: The agent, as it is written.
        inputs: What the message builds on so far: messages received, answers of its tools.
        usage: Tokens of its model calls so far.
        asked: How many of its inputs were known when its model asked for a tool, by call id: tools that
            one answer asks for at once do not build on each other's answers.
    """

    name: str
    _state: RunState
    inputs: list[StepRef]
    _most_links: int | None = None
    usage: Usage | None = None
    asked: dict[str, int] = field(default_factory=dict)

    def end(
        self,
        *,
        output: Sequence[Message] = (),
        kind: StepKind = "message",
        message_id: str | None = None,
        recipients: Sequence[str] = (),
        attributes: Mapping[str, AttributeValue] | None = None,
        error: BaseException | str | None = None,
    ) -> StepRef:
        """End it: the agent has said *output*, or failed to.

        Args:
            output: The message, in one or more parts.
            kind: What the step is.
            message_id: The framework's id of the message, by which later agents build on it.
            recipients: Who receives it, where that is known.
            attributes: What else the framework knows, under keys of its own.
            error: What the agent raised, or a word for how it failed.

        Returns:
            The step, for others to build on.
        """
        index = next(self._state.places)
        found: dict[str, AttributeValue] = {
            words.STEP_INDEX: index,
            words.STEP_KIND: kind,
            words.MESSAGE_SENDER: self.name,
        }
        if output:
            found[words.OUTPUT_MESSAGES] = self._contents.messages(words.OUTPUT_MESSAGES, output)
        if not self._contents.is_captured:
            found[words.STEP_CONTENT] = ""
        if message_id is not None:
            found[words.MESSAGE_ID] = self._contents.name(message_id)
        if recipients:
            found[words.MESSAGE_RECIPIENTS] = [self._contents.name(one) for one in recipients[:_MOST_RECIPIENTS]]
        if self.usage is not None:
            found[words.INPUT_TOKENS] = self.usage.input_tokens
            found[words.OUTPUT_TOKENS] = self.usage.output_tokens
        note_links(self._contents, len(self.inputs), self._most_links)
        self._close(found, error, attributes)
        ref = StepRef(self.span.get_span_context(), index)
        if message_id is not None and ref.span.is_valid:
            self._state.said[message_id] = ref
        return ref

    def as_run(self, name: str) -> RunSpan:
        """Go on as the span of a run within the run: what acts turned out to be the team *name*.

        The span is then no step: the messages of its members are.
        """
        note_links(self._contents, len(self.inputs), self._most_links)
        name = self._contents.name(name)
        self.span.update_name(f"{words.OPERATION_WORKFLOW} {name}")
        self.span.set_attributes({words.OPERATION: words.OPERATION_WORKFLOW, words.AGENT_NAME: name})
        return RunSpan(self.span, otel_context.set_value(AGENT_KEY, None, self.context), self._contents, self._room)

    def has_said(self, message_id: str) -> bool:
        """Return whether the message is a step of this run already."""
        return message_id in self._state.said

    def known_for(self, call_id: str | None) -> list[StepRef]:
        """List the inputs that a tool call builds on: those known when it was asked for."""
        return self.inputs[: self.asked.get(call_id or "", len(self.inputs))]

    def build_on(self, ref: StepRef) -> None:
        """Link this message to a step it builds on, if it is not over: a tool may outlive a cancelled agent."""
        if self.span.is_recording() and ref.span.is_valid:
            self.inputs.append(ref)
            link = link_to(ref)
            self.span.add_link(link.context, link.attributes)


@dataclass(slots=True)
class ToolSpan(_Recording):
    """The span of a tool at work: the call and, once ended, its answer.

    Attributes:
        call: The call, for steps within the tool to build on.
    """

    call: StepRef
    _state: RunState
    _caller: AgentSpan | None

    def end(self, *, result: object = None, error: BaseException | str | None = None) -> StepRef:
        """End it.

        Args:
            result: The answer, as text or as an object that becomes JSON.
            error: What it raised, or a word for how it failed (an answer that is an error message).

        Returns:
            The answer, for others to build on.
        """
        index = next(self._state.places)
        found: dict[str, AttributeValue] = {words.STEP_RESULT_INDEX: index}
        if self.span.is_recording():
            self._answer(found, result if result is not None else "" if error is None else error)
        self._close(found, error)
        answer = StepRef(self.span.get_span_context(), index)
        if self._caller is not None:
            self._caller.build_on(answer)
        return answer

    def _answer(self, found: dict[str, AttributeValue], result: object) -> None:
        result = error_text(self._contents, result) if isinstance(result, BaseException) else result
        written = self._contents.value(words.TOOL_RESULT, result)
        if written is not None:
            found[words.TOOL_RESULT] = written


@dataclass(slots=True)
class ChatSpan(_Recording):
    """The span of a model call."""

    _caller: AgentSpan | None

    def end(
        self,
        *,
        output: Sequence[Message] = (),
        usage: Usage | None = None,
        finish_reasons: Sequence[str] = (),
        response_model: str | None = None,
        error: BaseException | str | None = None,
    ) -> None:
        """End it; its tokens are added to the calling agent's."""
        found: dict[str, AttributeValue] = {}
        if output:
            found[words.OUTPUT_MESSAGES] = self._contents.messages(words.OUTPUT_MESSAGES, output)
        if finish_reasons:
            found[words.FINISH_REASONS] = [self._contents.name(reason) for reason in finish_reasons]
        if response_model:
            found[words.RESPONSE_MODEL] = self._contents.name(response_model)
        if self._caller is not None:
            parts = [part for message in output for part in message.parts if part.get("type") == "tool_call"]
            self._caller.asked.update({str(part.get("id") or ""): len(self._caller.inputs) for part in parts})
            self._caller.asked.pop("", None)
        if usage is not None:
            found[words.INPUT_TOKENS] = usage.input_tokens
            found[words.OUTPUT_TOKENS] = usage.output_tokens
            if self._caller is not None:
                had = self._caller.usage or Usage()
                self._caller.usage = Usage(
                    had.input_tokens + usage.input_tokens, had.output_tokens + usage.output_tokens
                )
        self._close(found, error)


def chosen(extras: Mapping[str, object], contents: Contents, room: Room) -> dict[str, AttributeValue]:
    """Write what fits of an integration's own attributes."""
    found, left_out = room.extras(contents.extras(extras))
    if left_out:
        contents.lose(left_out)
    return found


def note_links(contents: Contents, links: int, most: int | None) -> None:
    """Say that a span builds on more steps than it can have links: those said first are missing."""
    if most is not None and links > most:
        contents.lose(f"links: {links - most} over the limit of {most}")


def link_to(ref: StepRef) -> Link:
    """Make the link that says a span builds on *ref*."""
    return Link(ref.span, {words.LINK_STEP: ref.index})
