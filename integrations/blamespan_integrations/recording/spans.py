"""Spans being recorded: the run's, an agent's message, a tool's call and answer, a model's call.

`Around` is the step within which something takes place: how what two integrations record comes together in one trace.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import SpanLimits
from opentelemetry.trace import Link, SpanContext, Status, StatusCode

from blamespan import conventions as words
from blamespan.genai_messages import Message
from blamespan.outcomes.record_outcome import run_ends
from blamespan.trace import Agent, AttributeValue, StepKind, Usage
from blamespan_integrations.recording.content import ContentPolicy, Contents
from blamespan_integrations.recording.exceptions import error_text, exception_event

AGENT_KEY = otel_context.create_key("blamespan-agent")
"""Where the OpenTelemetry context holds the agent whose turn it is."""
CALL_KEY = otel_context.create_key("blamespan-call")
"""Where it holds the call of the tool at work within that agent's turn."""
STEP_CANCELLED = "blamespan.step.cancelled"
"""bool, true where the program cut short what the span is of: no failure, and nobody's."""
_MOST_RECIPIENTS = 128
_OWN = 40
"""Attributes kept free for ours: a span has at most 25 of them, and a verdict adds 12 more."""

_RANKED = (
    *(words.OPERATION, words.AGENT_NAME, words.TOOL_NAME, words.STEP_INDEX, words.STEP_KIND),
    *(words.STEP_RESULT_INDEX, words.RUN_COMPLETE, words.LOST, words.OUTPUT_MESSAGES, words.TOOL_ARGUMENTS),
    *(words.TOOL_RESULT, words.ERROR_TYPE, words.INPUT_MESSAGES, words.MESSAGE_ID, words.MESSAGE_RECIPIENTS),
)
"""What a trace cannot be rebuilt without comes first."""
_PUSHED_OUT = "attributes: over the limit of {}"


@dataclass(frozen=True, slots=True)
class StepRef:
    """A step that others can build on: its span, and its place in the run."""

    span: SpanContext
    index: int


@dataclass(slots=True)
class RunState:
    """What the spans of one run share, across its teams within teams. One process only."""

    step_numbers: itertools.count[int] = field(default_factory=itertools.count)
    steps_by_message: dict[str, StepRef] = field(default_factory=dict)
    """Messages of this run by the framework's message id."""


class AttributeBudget:
    """Counts the attributes of one span, of which the SDK drops the oldest when there are too many.

    Args:
        limit: Most attributes the span may have; None for any number.
        own: Ours, as set when the span started.
    """

    __slots__ = ("_extras", "_limit", "_own")

    def __init__(self, limit: int | None, own: Mapping[str, AttributeValue]) -> None:
        self._limit = limit
        self._own = own
        self._extras = 0

    def extras(self, extras: dict[str, AttributeValue]) -> tuple[dict[str, AttributeValue], str | None]:
        """Choose what of an integration's attributes fits beside ours.

        Returns:
            Those that fit, and what to say of the others.
        """
        budget = len(extras) if self._limit is None else max(0, self._limit - _OWN - self._extras)
        self._extras += min(budget, len(extras))
        if len(extras) <= budget:
            return extras, None
        return dict(
            list(extras.items())[:budget]
        ), f"{len(extras) - budget} attributes: over the limit of {self._limit}"

    def is_tight(self, span: trace.Span, more: int) -> bool:
        """Return whether *more* attributes do not fit, or others have pushed out some of ours."""
        if self._limit is None:
            return False
        had = getattr(span, "attributes", None)
        return had is not None and len(had) + more >= self._limit

    def squeeze(self, attributes: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
        """Return all of ours that fit, the most needed ones: set again, they push out what is not ours."""
        own = {
            **self._own,
            **attributes,
            words.LOST: [*_as_list(attributes.get(words.LOST)), _PUSHED_OUT.format(self._limit)],
        }
        ranks = {key: rank for rank, key in enumerate(_RANKED)}
        ranked = sorted(own, key=lambda key: ranks.get(key, len(ranks)))[: self._limit]
        return {key: own[key] for key in ranked}


@dataclass(slots=True, eq=False)
class RunOutcome:
    """Takes the outcome of one run; of a run that has ended it keeps nothing but the ids."""

    _span: trace.Span
    _contents: Contents
    _tracer: trace.Tracer
    _policy: ContentPolicy
    _has_reason: bool = False

    def take(self, outcome: Literal["succeeded", "failed"], reason: str) -> None:
        """Write it on the run's trace; what was said last counts."""
        if self._span.is_recording():
            self._span.set_attributes(self._outcome_attributes(self._contents, outcome, reason))
            return
        run = self._span.get_span_context()
        if run.is_valid:
            contents, self._has_reason = Contents(self._policy), False
            attributes = self._outcome_attributes(contents, outcome, reason)
            parent = trace.set_span_in_context(trace.NonRecordingSpan(run), Context())
            self._tracer.start_span(words.RUN_OUTCOME_SPAN, parent, attributes={**attributes, **contents.notes()}).end()

    def detach(self, context: Context, *, agents: Iterable[str] = (), result: object = None) -> None:
        """Note that the run has ended.

        Args:
            context: What it was in.
            agents: Names of who took part.
            result: What it returns to the program.
        """
        self._span = trace.NonRecordingSpan(self._span.get_span_context())
        run_ends(self, context, agents=agents, result=result)

    def _outcome_attributes(self, contents: Contents, outcome: str, reason: str) -> dict[str, AttributeValue]:
        attributes: dict[str, AttributeValue] = {words.RUN_OUTCOME: outcome}
        written = contents.text(words.RUN_OUTCOME_REASON, reason) if reason or self._has_reason else None
        if written is not None:  # an empty one stands in place of the reason of what was said before
            attributes[words.RUN_OUTCOME_REASON] = written
            self._has_reason = True
        return attributes


@dataclass(slots=True)
class _OpenSpan:
    """A span being recorded.

    Attributes:
        span: OpenTelemetry's own.
        context: The context with this span in it: attach it around the framework's call.
    """

    span: trace.Span
    context: Context
    _contents: Contents
    _budget: AttributeBudget

    def add(self, attributes: Mapping[str, object]) -> None:
        """Write what else the framework knows, under keys of its own: masked, and withheld where it is content."""
        if self.span.is_recording():
            self.span.set_attributes(choose_extras(attributes, self._contents, self._budget))

    def lose(self, what: str) -> None:
        """Note what could not be recorded, and why; names and types only."""
        self._contents.lose(what)

    def abandon(self) -> None:
        """End what could not be ended in order: no span is left open."""
        if self.span.is_recording():
            self._contents.lose("how it ended: not recorded")
            self.span.set_attributes(self._contents.notes())
            self.span.end()

    def loss_recorder(self, key: str) -> Callable[[str], None]:
        """Return what notes that something of the value under *key* could not be recorded: types, no content."""
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
            own = {**choose_extras(extras, self._contents, self._budget), **own}
        own |= self._contents.notes()
        if self._budget.is_tight(self.span, len(own)):
            own = self._budget.squeeze(own)
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
class RunSpan(_OpenSpan):
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
        attributes: dict[str, AttributeValue] = {words.RUN_COMPLETE: is_complete}
        if output:
            attributes[words.OUTPUT_MESSAGES] = self._contents.messages(words.OUTPUT_MESSAGES, output)
        if agents:
            attributes[words.RUN_AGENTS] = self._contents.agents(agents)
            self.agents = [self._contents.name(agent.name) for agent in agents]
        self._close(attributes, error)
        self._let_go(result)

    def abandon(self) -> None:
        """End what could not be ended in order."""
        _OpenSpan.abandon(self)  # `super()` knows no class with slots made by `dataclass`
        self._let_go()

    def _let_go(self, result: object = None) -> None:
        if self.outcome is not None:
            self.outcome.detach(self.context, agents=self.agents, result=result)


@dataclass(slots=True)
class AgentSpan(_OpenSpan):
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
        index = next(self._state.step_numbers)
        own: dict[str, AttributeValue] = {
            words.STEP_INDEX: index,
            words.STEP_KIND: kind,
            words.MESSAGE_SENDER: self.name,
        }
        if output:
            own[words.OUTPUT_MESSAGES] = self._contents.messages(words.OUTPUT_MESSAGES, output)
        if not self._contents.is_captured:
            own[words.STEP_CONTENT] = ""
        if message_id is not None:
            own[words.MESSAGE_ID] = self._contents.name(message_id)
        if recipients:
            own[words.MESSAGE_RECIPIENTS] = [
                self._contents.name(recipient) for recipient in recipients[:_MOST_RECIPIENTS]
            ]
        if self.usage is not None:
            own[words.INPUT_TOKENS] = self.usage.input_tokens
            own[words.OUTPUT_TOKENS] = self.usage.output_tokens
        note_links(self._contents, len(self.inputs), self._most_links)
        self._close(own, error, attributes)
        ref = StepRef(self.span.get_span_context(), index)
        if message_id is not None and ref.span.is_valid:
            self._state.steps_by_message[message_id] = ref
        return ref

    def as_run(self, name: str) -> RunSpan:
        """Go on as the span of a run within the run: what acts turned out to be the team *name*.

        The span is then no step: the messages of its members are.
        """
        note_links(self._contents, len(self.inputs), self._most_links)
        name = self._contents.name(name)
        self.span.update_name(f"{words.OPERATION_WORKFLOW} {name}")
        self.span.set_attributes({words.OPERATION: words.OPERATION_WORKFLOW, words.AGENT_NAME: name})
        return RunSpan(self.span, otel_context.set_value(AGENT_KEY, None, self.context), self._contents, self._budget)

    def has_message(self, message_id: str) -> bool:
        """Return whether the message is a step of this run already."""
        return message_id in self._state.steps_by_message

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
class ToolSpan(_OpenSpan):
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
        index = next(self._state.step_numbers)
        attributes: dict[str, AttributeValue] = {words.STEP_RESULT_INDEX: index}
        if self.span.is_recording():
            self._answer(attributes, result if result is not None else "" if error is None else error)
        self._close(attributes, error)
        answer = StepRef(self.span.get_span_context(), index)
        if self._caller is not None:
            self._caller.build_on(answer)
        return answer

    def _answer(self, attributes: dict[str, AttributeValue], result: object) -> None:
        result = error_text(self._contents, result) if isinstance(result, BaseException) else result
        written = self._contents.value(words.TOOL_RESULT, result)
        if written is not None:
            attributes[words.TOOL_RESULT] = written


@dataclass(slots=True)
class ChatSpan(_OpenSpan):
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
        attributes: dict[str, AttributeValue] = {}
        if output:
            attributes[words.OUTPUT_MESSAGES] = self._contents.messages(words.OUTPUT_MESSAGES, output)
        if finish_reasons:
            attributes[words.FINISH_REASONS] = [self._contents.name(reason) for reason in finish_reasons]
        if response_model:
            attributes[words.RESPONSE_MODEL] = self._contents.name(response_model)
        if self._caller is not None:
            parts = [part for message in output for part in message.parts if part.get("type") == "tool_call"]
            self._caller.asked.update({str(part.get("id") or ""): len(self._caller.inputs) for part in parts})
            self._caller.asked.pop("", None)
        if usage is not None:
            attributes[words.INPUT_TOKENS] = usage.input_tokens
            attributes[words.OUTPUT_TOKENS] = usage.output_tokens
            if self._caller is not None:
                had = self._caller.usage or Usage()
                self._caller.usage = Usage(
                    had.input_tokens + usage.input_tokens, had.output_tokens + usage.output_tokens
                )
        self._close(attributes, error)


@dataclass(frozen=True, slots=True)
class Around:
    """The step around a run or an agent, whichever framework it belongs to.

    Attributes:
        agent: The agent whose turn it is; None outside all, and within a tool.
        call: The call of the tool at work.
    """

    agent: AgentSpan | None = None
    call: StepRef | None = None

    @property
    def predecessors(self) -> list[StepRef]:
        """List what begins in here builds on: the tool's call, or what the agent builds on so far."""
        if self.call is not None:
            return [self.call]
        return list(self.agent.inputs) if self.agent is not None else []

    @property
    def is_nothing(self) -> bool:
        """Whether there is no such step."""
        return self.agent is None and self.call is None

    def is_that_of(self, context: Context) -> bool:
        """Return whether what begins in *context* takes place within the same step."""
        other = around(context)
        return self.agent is other.agent and self.call is other.call

    def note_steps(self, steps: Iterable[StepRef]) -> None:
        """Let the agent around build on *steps*; who called a tool builds on the tool's answer instead."""
        if self.agent is not None:
            for step in steps:
                if step not in self.agent.inputs:
                    self.agent.build_on(step)


def around(context: Context | None = None) -> Around:
    """Find the step around what begins in *context*, or in the current one."""
    call = otel_context.get_value(CALL_KEY, context)
    if isinstance(call, StepRef):
        return Around(None, call)
    agent = otel_context.get_value(AGENT_KEY, context)
    return Around(agent if isinstance(agent, AgentSpan) else None, None)


def choose_extras(
    extras: Mapping[str, object], contents: Contents, budget: AttributeBudget
) -> dict[str, AttributeValue]:
    """Write what fits of an integration's own attributes."""
    attributes, left_out = budget.extras(contents.extras(extras))
    if left_out:
        contents.lose(left_out)
    return attributes


def note_links(contents: Contents, links: int, most: int | None) -> None:
    """Note that a span builds on more steps than it can have links: those said first are missing."""
    if most is not None and links > most:
        contents.lose(f"links: {links - most} over the limit of {most}")


def link_to(ref: StepRef) -> Link:
    """Make the link that says a span builds on *ref*."""
    return Link(ref.span, {words.LINK_STEP: ref.index})


def span_limits(provider: trace.TracerProvider) -> SpanLimits:
    """Find the limits of *provider*'s spans: its own, where it is the SDK's; else what the variables say."""
    attributes: Any = getattr(provider, "_span_limits", None)  # the SDK has no other way to ask
    return attributes if isinstance(attributes, SpanLimits) else SpanLimits()


def _as_list(value: AttributeValue) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
