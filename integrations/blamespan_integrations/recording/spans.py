"""Spans being recorded: the run's, an agent's message, a tool's call and answer, a model's call."""

from __future__ import annotations

import itertools
import json
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanContext, Status, StatusCode

from blamespan import conventions as words
from blamespan.annotate import cut
from blamespan.emit import dump_agents
from blamespan.messages import Message
from blamespan.trace import Agent, AttributeValue, StepKind, Usage
from blamespan_integrations.recording.content import Capped, cap_messages, cap_text

__all__ = [
    "AGENT_KEY",
    "AgentSpan",
    "ChatSpan",
    "RunSpan",
    "RunState",
    "StepRef",
    "ToolSpan",
    "as_json",
    "link_to",
    "listed",
]

AGENT_KEY = otel_context.create_key("blamespan-agent")
"""Where the OpenTelemetry context holds the agent whose turn it is."""


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
    _capped: Capped

    def _close(self, attributes: Mapping[str, Any], error: BaseException | str | None) -> None:
        """End the span. Status is set only now: a span set OK could never become ERROR."""
        self.span.set_attributes({**attributes, **self._capped.attributes()})
        if isinstance(error, BaseException):
            message = str(error) or type(error).__qualname__
            stack = "".join(traceback.format_exception(error))
            capped = {"exception.message": cut(message), "exception.stacktrace": cut(stack, self._capped.max_bytes)}
            self.span.record_exception(error, attributes=capped)
            self.span.set_attribute(words.ERROR_TYPE, type(error).__qualname__)
            self.span.set_status(Status(StatusCode.ERROR, cut(message)))
        elif error is not None:
            self.span.set_attribute(words.ERROR_TYPE, error)
            self.span.set_status(Status(StatusCode.ERROR, cut(error)))
        self.span.end()


@dataclass(slots=True)
class RunSpan(_Recording):
    """The span of a run."""

    def end(
        self,
        *,
        output: Sequence[Message] = (),
        agents: Sequence[Agent] = (),
        error: BaseException | str | None = None,
        is_complete: bool = True,
    ) -> None:
        """End the run.

        Args:
            output: What it gave back.
            agents: Who took part, where that was not known at the start.
            error: What it raised, or a word for how it failed.
            is_complete: False where the program walked away from it (an abandoned stream).
        """
        found: dict[str, AttributeValue] = {words.RUN_COMPLETE: is_complete}
        if output:
            found[words.OUTPUT_MESSAGES] = cap_messages(self._capped, words.OUTPUT_MESSAGES, output)
        if agents:
            found[words.RUN_AGENTS] = listed(agents, self._capped.max_bytes)
        self._close(found, error)


@dataclass(slots=True)
class AgentSpan(_Recording):
    """The span of an agent's message.

    Attributes:
        name: The agent.
        inputs: What the message builds on so far: messages received, answers of its tools.
        usage: Tokens of its model calls so far.
        asked: How many of its inputs were known when its model asked for a tool, by call id: tools that
            one answer asks for at once do not build on each other's answers.
    """

    name: str
    _state: RunState
    inputs: list[StepRef]
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
            **(attributes or {}),
            words.STEP_INDEX: index,
            words.STEP_KIND: kind,
            words.MESSAGE_SENDER: self.name,
        }
        if output:
            found[words.OUTPUT_MESSAGES] = cap_messages(self._capped, words.OUTPUT_MESSAGES, output)
        if message_id is not None:
            found[words.MESSAGE_ID] = message_id
        if recipients:
            found[words.MESSAGE_RECIPIENTS] = list(recipients)
        if self.usage is not None:
            found[words.INPUT_TOKENS] = self.usage.input_tokens
            found[words.OUTPUT_TOKENS] = self.usage.output_tokens
        self._close(found, error)
        ref = StepRef(self.span.get_span_context(), index)
        if message_id is not None:
            self._state.said[message_id] = ref
        return ref

    def as_run(self, name: str) -> RunSpan:
        """Go on as the span of a run within the run: what acts turned out to be the team *name*.

        The span is then no step: the messages of its members are.
        """
        self.span.update_name(f"{words.OPERATION_WORKFLOW} {name}")
        self.span.set_attributes({words.OPERATION: words.OPERATION_WORKFLOW, words.WORKFLOW_NAME: name})
        return RunSpan(self.span, otel_context.set_value(AGENT_KEY, None, self.context), self._capped)

    def known_for(self, call_id: str | None) -> list[StepRef]:
        """List the inputs that a tool call builds on: those known when it was asked for."""
        return self.inputs[: self.asked.get(call_id or "", len(self.inputs))]

    def build_on(self, ref: StepRef) -> None:
        """Link this message to a step it builds on, if it is not over: a tool may outlive a cancelled agent."""
        if self.span.is_recording():
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
        text = as_json(result) if result is not None else str(error) if error is not None else ""
        self._close(
            {words.STEP_RESULT_INDEX: index, words.TOOL_RESULT: cap_text(self._capped, words.TOOL_RESULT, text)}, error
        )
        answer = StepRef(self.span.get_span_context(), index)
        if self._caller is not None:
            self._caller.build_on(answer)
        return answer


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
            found[words.OUTPUT_MESSAGES] = cap_messages(self._capped, words.OUTPUT_MESSAGES, output)
        if finish_reasons:
            found[words.FINISH_REASONS] = list(finish_reasons)
        if response_model:
            found[words.RESPONSE_MODEL] = response_model
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


def listed(agents: Sequence[Agent], max_bytes: int) -> str:
    """List the participants; without their descriptions where those are over the limit."""
    text = dump_agents(agents)
    return (
        text
        if len(text.encode("utf-8", "replace")) <= max_bytes
        else dump_agents(replace(agent, description=None) for agent in agents)
    )


def as_json(value: object) -> str:
    """Write *value* as JSON; text stays as it is, and what JSON cannot hold becomes its text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def link_to(ref: StepRef) -> Link:
    """Make the link that says a span builds on *ref*."""
    return Link(ref.span, {words.LINK_STEP: ref.index})
