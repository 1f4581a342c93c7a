"""The spans of a run, as every integration makes them: the run, agent messages, tools and model calls.

An integration says *what happened*; this module says *how that looks on the wire*. State travels in the
OpenTelemetry context: whoever starts a tool span inside an agent's context gets that agent's name, its
place in the run and a link from the agent's message to the tool's answer.

Nothing here makes a span current. The integration does, around the framework's own calls, and never
across a `yield`.
"""

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
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode

from blamespan import conventions as words
from blamespan._version import __version__
from blamespan.annotate import cut
from blamespan.emit import dump_agents
from blamespan.messages import Message
from blamespan.settings import max_content_bytes
from blamespan.trace import Agent, AttributeValue, StepKind, Usage
from blamespan_integrations.content import Capped, cap_messages, cap_text

__all__ = ["AgentSpan", "ChatSpan", "Recorder", "RunSpan", "StepRef", "ToolSpan"]

_RUN = otel_context.create_key("blamespan-run")
_AGENT = otel_context.create_key("blamespan-agent")
_MAX_LINKS = 127
"""The SDK keeps 128 links of a span and drops the oldest."""


@dataclass(frozen=True, slots=True)
class StepRef:
    """A step that others can build on: its span, and its place in the run."""

    span: SpanContext
    index: int


@dataclass(slots=True)
class _RunState:
    """What the spans of one run share, across its teams within teams. One process only."""

    places: itertools.count[int] = field(default_factory=itertools.count)
    said: dict[str, StepRef] = field(default_factory=dict)
    """Messages of this run by the framework's message id."""


class Recorder:
    """Makes the spans of one integration.

    Args:
        scope: Instrumentation scope, e.g. `blamespan.autogen`.
        tracer_provider: Where the spans go; the global one if None.
        max_bytes: Limit of one content attribute; `BLAMESPAN_MAX_CONTENT_BYTES` or 32 KiB if None.
    """

    def __init__(
        self, scope: str, tracer_provider: trace.TracerProvider | None = None, *, max_bytes: int | None = None
    ) -> None:
        self._tracer = trace.get_tracer(scope, __version__, tracer_provider)
        self._max_bytes = max_content_bytes(max_bytes)

    def start_run(
        self,
        name: str,
        *,
        task: Sequence[Message] = (),
        agents: Sequence[Agent] = (),
        conversation_id: str | None = None,
        parent: Context | None = None,
        links: Sequence[SpanContext] = (),
    ) -> RunSpan:
        """Start the span of a team's or graph's run.

        Args:
            name: The team or graph.
            task: What it was asked.
            agents: Who takes part.
            conversation_id: Equal across runs that continue each other.
            parent: The current context if None. Within another run's context the new run is a part of
                that one: they count steps together.
            links: Spans of other runs that this one continues.
        """
        attributes = self._common(words.OPERATION_WORKFLOW, conversation_id) | {words.WORKFLOW_NAME: name}
        capped = Capped(self._max_bytes)
        if task:
            attributes[words.INPUT_MESSAGES] = cap_messages(capped, words.INPUT_MESSAGES, task)
        if agents:
            attributes[words.RUN_AGENTS] = _listed(agents, self._max_bytes)
        span = self._start(f"{words.OPERATION_WORKFLOW} {name}", attributes, parent, [Link(c) for c in links])
        context = trace.set_span_in_context(span, parent)
        if otel_context.get_value(_RUN, context) is None:
            context = otel_context.set_value(_RUN, _RunState(), context)
        # An agent further out is not this run's: its team within a team has agents of its own.
        return RunSpan(span, otel_context.set_value(_AGENT, None, context), capped)

    def start_agent(
        self,
        name: str,
        *,
        received: Sequence[Message] = (),
        builds_on: Sequence[str] = (),
        agent_id: str | None = None,
        description: str | None = None,
        conversation_id: str | None = None,
        attributes: Mapping[str, AttributeValue] | None = None,
        parent: Context | None = None,
        start_ns: int | None = None,
    ) -> AgentSpan:
        """Start the span of an agent that is about to say something.

        Args:
            name: The agent.
            received: Messages new since it last spoke.
            builds_on: Message ids of what it received; those of this run become links.
            agent_id: The framework's id of the instance.
            description: What the agent says of itself.
            conversation_id: As the run's.
            attributes: What else the framework knows, under keys of its own.
            parent: The current context if None.
            start_ns: When it began, Unix time, where that is known only now; this moment if None.
        """
        state = _run_state(parent)
        inputs = [ref for message_id in builds_on if (ref := state.said.get(message_id))]
        found = self._common(words.OPERATION_AGENT, conversation_id) | {words.AGENT_NAME: name, **(attributes or {})}
        capped = Capped(self._max_bytes)
        if agent_id is not None:
            found[words.AGENT_ID] = agent_id
        if description:
            found[words.AGENT_DESCRIPTION] = cap_text(capped, words.AGENT_DESCRIPTION, description)
        if received:
            found[words.INPUT_MESSAGES] = cap_messages(capped, words.INPUT_MESSAGES, received)
        links = [_link(ref) for ref in inputs]
        span = self._start(f"{words.OPERATION_AGENT} {name}", found, parent, links, start_ns=start_ns)
        context = otel_context.set_value(_RUN, state, trace.set_span_in_context(span, parent))
        agent = AgentSpan(span, context, capped, name, state, inputs)
        agent.context = otel_context.set_value(_AGENT, agent, context)
        return agent

    def start_tool(
        self,
        name: str,
        *,
        arguments: object,
        call_id: str | None = None,
        description: str | None = None,
        agent: str | None = None,
        builds_on: Sequence[StepRef] = (),
        parent: Context | None = None,
    ) -> ToolSpan:
        """Start the span of a tool at work; inside an agent's context it is that agent's call.

        Args:
            name: The tool.
            arguments: JSON text, or an object that becomes it.
            call_id: The model's id of the call.
            description: What the tool says of itself.
            agent: Who called, where no agent's context says so.
            builds_on: The steps that led to the call, beside those its agent's message builds on.
            parent: The current context if None.
        """
        state, caller = _run_state(parent), _agent_span(parent)
        capped = Capped(self._max_bytes)
        found = self._common(words.OPERATION_TOOL, None) | {
            words.TOOL_NAME: name,
            words.TOOL_ARGUMENTS: cap_text(capped, words.TOOL_ARGUMENTS, as_json(arguments)),
            words.STEP_KIND: "tool_call",
        }
        if caller or agent:
            found[words.AGENT_NAME] = caller.name if caller else agent
        if call_id:
            found[words.TOOL_CALL_ID] = call_id
        if description:
            found[words.TOOL_DESCRIPTION] = cap_text(capped, words.TOOL_DESCRIPTION, description)
        index = next(state.places)
        found[words.STEP_INDEX] = index
        links = [_link(ref) for ref in [*(caller.known_for(call_id) if caller else ()), *builds_on]]
        span = self._start(f"{words.OPERATION_TOOL} {name}", found, parent, links)
        call = StepRef(span.get_span_context(), index)
        return ToolSpan(span, trace.set_span_in_context(span, parent), capped, call, state, caller)

    def start_chat(
        self,
        model: str,
        *,
        sent: Sequence[Message] = (),
        provider: str | None = None,
        agent: str | None = None,
        parent: Context | None = None,
    ) -> ChatSpan:
        """Start the span of a model call; inside an agent's context its tokens count for that agent.

        Args:
            model: The model, as asked for.
            sent: Messages new since this agent's last call, so that payload grows linearly.
            provider: `openai`, `anthropic`, ...
            agent: On whose behalf, where no agent's context says so.
            parent: The current context if None.
        """
        caller = _agent_span(parent)
        capped = Capped(self._max_bytes)
        found = self._common(words.OPERATION_CHAT, None) | {words.REQUEST_MODEL: model}
        if provider:
            found[words.PROVIDER_NAME] = provider
        if caller or agent:
            found[words.AGENT_NAME] = caller.name if caller else agent
        if sent:
            found[words.INPUT_MESSAGES] = cap_messages(capped, words.INPUT_MESSAGES, sent)
        span = self._start(f"{words.OPERATION_CHAT} {model}", found, parent, (), SpanKind.CLIENT)
        return ChatSpan(span, trace.set_span_in_context(span, parent), capped, caller)

    def _common(self, operation: str, conversation_id: str | None) -> dict[str, AttributeValue]:
        found: dict[str, AttributeValue] = {words.OPERATION: operation}
        if conversation_id is not None:
            found[words.CONVERSATION_ID] = conversation_id
        return found

    def _start(
        self,
        name: str,
        attributes: Mapping[str, Any],
        parent: Context | None,
        links: Sequence[Link],
        kind: SpanKind = SpanKind.INTERNAL,
        start_ns: int | None = None,
    ) -> trace.Span:
        return self._tracer.start_span(name, parent, kind, attributes, links[-_MAX_LINKS:], start_time=start_ns)


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
            found[words.RUN_AGENTS] = _listed(agents, self._capped.max_bytes)
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
    _state: _RunState
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
        return RunSpan(self.span, otel_context.set_value(_AGENT, None, self.context), self._capped)

    def known_for(self, call_id: str | None) -> list[StepRef]:
        """List the inputs that a tool call builds on: those known when it was asked for."""
        return self.inputs[: self.asked.get(call_id or "", len(self.inputs))]

    def build_on(self, ref: StepRef) -> None:
        """Link this message to a step it builds on, if it is not over: a tool may outlive a cancelled agent."""
        if self.span.is_recording():
            self.inputs.append(ref)
            link = _link(ref)
            self.span.add_link(link.context, link.attributes)


@dataclass(slots=True)
class ToolSpan(_Recording):
    """The span of a tool at work: the call and, once ended, its answer.

    Attributes:
        call: The call, for steps within the tool to build on.
    """

    call: StepRef
    _state: _RunState
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


def _listed(agents: Sequence[Agent], max_bytes: int) -> str:
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


def _run_state(context: Context | None) -> _RunState:
    """Find the run's state; an agent outside every run is a run of its own."""
    state = otel_context.get_value(_RUN, context)
    return state if isinstance(state, _RunState) else _RunState()


def _agent_span(context: Context | None) -> AgentSpan | None:
    agent = otel_context.get_value(_AGENT, context)
    return agent if isinstance(agent, AgentSpan) else None


def _link(ref: StepRef) -> Link:
    return Link(ref.span, {words.LINK_STEP: ref.index})
