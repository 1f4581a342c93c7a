"""Starting the spans of a run; `blamespan_integrations.recording.spans` is what they are until they end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from opentelemetry.trace import Link, SpanKind

from blamespan import conventions as words
from blamespan._version import __version__
from blamespan.genai_messages import Message
from blamespan.instrumenting.settings import ContentSettings
from blamespan.outcomes.record_outcome import run_begins
from blamespan.trace import Agent, AttributeValue
from blamespan_integrations.recording.content import ContentPolicy, Contents
from blamespan_integrations.recording.spans import (
    AGENT_KEY,
    CALL_KEY,
    AgentSpan,
    AttributeBudget,
    ChatSpan,
    RunOutcome,
    RunSpan,
    RunState,
    StepRef,
    ToolSpan,
    choose_extras,
    link_to,
    note_links,
    span_limits,
)

(_SPAN_KEY,) = trace.set_span_in_context(trace.INVALID_SPAN, Context())
"""Where OpenTelemetry's context holds the current span: contexts are made in one go with all that is ours."""

RUN_KEY = otel_context.create_key("blamespan-run")
"""Where the OpenTelemetry context holds what the spans of a run share."""


class Recorder:
    """Makes the spans of one integration.

    Args:
        scope: Instrumentation scope, e.g. `blamespan.autogen`.
        tracer_provider: Where the spans go; the global one if None.
        content: What of contents may be recorded; as the variables say if None.
    """

    def __init__(
        self,
        scope: str,
        tracer_provider: trace.TracerProvider | None = None,
        *,
        content: ContentSettings | None = None,
    ) -> None:
        provider = tracer_provider or trace.get_tracer_provider()
        limits = span_limits(provider)
        self._tracer = trace.get_tracer(scope, __version__, tracer_provider)
        self._policy = ContentPolicy.of(content or ContentSettings.of(), limits.max_span_attribute_length)
        self._max_attributes = limits.max_span_attributes
        self._max_links = limits.max_links

    @classmethod
    def of(cls, scope: str, arguments: Mapping[str, Any]) -> Recorder:
        """Make the recorder that the arguments of an instrumentor's `instrument()` ask for."""
        return cls(scope, arguments.get("tracer_provider"), content=ContentSettings.among(arguments))

    def start_run(
        self,
        name: str,
        *,
        task: Sequence[Message] = (),
        agents: Sequence[Agent] = (),
        conversation_id: str | None = None,
        parent: Context | None = None,
    ) -> RunSpan:
        """Start the span of a team's or graph's run.

        Args:
            name: The team or graph.
            task: What it was asked.
            agents: Who takes part.
            conversation_id: Equal across runs that continue each other.
            parent: The current context if None. Within another run's context the new run is a part of
                that one: they count steps together.
        """
        contents = Contents(self._policy)
        name = contents.name(name)
        attributes = self._common(contents, words.OPERATION_WORKFLOW, conversation_id)
        attributes[words.AGENT_NAME] = name
        if task:
            attributes[words.INPUT_MESSAGES] = contents.messages(words.INPUT_MESSAGES, task)
        if agents:
            attributes[words.RUN_AGENTS] = contents.agents(agents)
        span = self._start(f"{words.OPERATION_WORKFLOW} {name}", attributes, parent, ())
        context = _within(span, parent)
        if otel_context.get_value(RUN_KEY, context) is None:
            context = otel_context.set_value(RUN_KEY, RunState(), context)
        # An agent further out is not this run's: its team within a team has agents of its own.
        context = Context({**context, AGENT_KEY: None, CALL_KEY: None})
        outcome = RunOutcome(span, contents, self._tracer, self._policy)
        is_first = not trace.get_current_span(parent).get_span_context().is_valid
        trace_id = span.get_span_context().trace_id
        context = run_begins(
            outcome, trace_id, context, begins_trace=is_first, name=name, conversation_id=conversation_id
        )
        names = tuple(contents.name(agent.name) for agent in agents)
        return RunSpan(span, context, contents, AttributeBudget(self._max_attributes, attributes), outcome, names)

    def start_agent(
        self,
        name: str,
        *,
        received: Sequence[Message] = (),
        builds_on: Sequence[str | StepRef] = (),
        agent_id: str | None = None,
        description: str | None = None,
        conversation_id: str | None = None,
        attributes: Mapping[str, object] | None = None,
        parent: Context | None = None,
        start_ns: int | None = None,
    ) -> AgentSpan:
        """Start the span of an agent that is about to say something.

        Args:
            name: The agent.
            received: Messages new since it last spoke.
            builds_on: Steps that it builds on, or message ids of what it received; those of this run become links.
            agent_id: The framework's id of the instance.
            description: What the agent says of itself.
            conversation_id: As the run's.
            attributes: What else the framework knows, under keys of its own.
            parent: The current context if None.
            start_ns: When it began, Unix time, where that is known only now; this moment if None.
        """
        around = otel_context.get_current() if parent is None else parent
        state = _run_state(around)
        inputs = [
            ref
            for item in builds_on
            if (ref := item if isinstance(item, StepRef) else state.steps_by_message.get(item))
        ]
        contents = Contents(self._policy)
        name = contents.name(name)
        own = self._common(contents, words.OPERATION_AGENT, conversation_id)
        own[words.AGENT_NAME] = name
        if agent_id is not None:
            own[words.AGENT_ID] = contents.name(agent_id)
        if description:
            _set_if_known(own, words.AGENT_DESCRIPTION, contents.text(words.AGENT_DESCRIPTION, description))
        if received:
            own[words.INPUT_MESSAGES] = contents.messages(words.INPUT_MESSAGES, received)
        links = [Link(ref.span, {words.LINK_STEP: ref.index}) for ref in inputs if ref.span.is_valid]
        budget = AttributeBudget(self._max_attributes, own)
        every = {**choose_extras(attributes, contents, budget), **own} if attributes else own
        span = self._start(f"{words.OPERATION_AGENT} {name}", every, parent, links, start_ns=start_ns)
        agent = AgentSpan(span, around, contents, budget, name, state, inputs, self._max_links)
        inside = {RUN_KEY: state, AGENT_KEY: agent, CALL_KEY: None}
        if span is not trace.INVALID_SPAN:  # what is not recorded leaves its parent where it is
            inside[_SPAN_KEY] = span
        agent.context = Context({**around, **inside})
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
        contents = Contents(self._policy)
        name = contents.name(name)
        attributes = self._common(contents, words.OPERATION_TOOL, None)
        attributes |= {words.TOOL_NAME: name, words.STEP_KIND: "tool_call"}
        _set_if_known(attributes, words.TOOL_ARGUMENTS, contents.value(words.TOOL_ARGUMENTS, arguments))
        if not contents.is_captured:
            attributes[words.STEP_CONTENT] = ""  # else a tracer would take the tool's name for what was said
        if caller or agent:
            attributes[words.AGENT_NAME] = caller.name if caller else contents.name(agent)
        if call_id:
            attributes[words.TOOL_CALL_ID] = contents.name(call_id)
        if description:
            _set_if_known(attributes, words.TOOL_DESCRIPTION, contents.text(words.TOOL_DESCRIPTION, description))
        index = next(state.step_numbers)
        attributes[words.STEP_INDEX] = index
        inputs = [*(caller.known_for(call_id) if caller else ()), *builds_on]
        links = [link_to(ref) for ref in inputs if ref.span.is_valid]
        note_links(contents, len(links), self._max_links)
        span = self._start(f"{words.OPERATION_TOOL} {name}", attributes, parent, links)
        call = StepRef(span.get_span_context(), index)
        budget = AttributeBudget(self._max_attributes, attributes)
        context = otel_context.set_value(CALL_KEY, call, _within(span, parent))
        return ToolSpan(span, context, contents, budget, call, state, caller)

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
        contents = Contents(self._policy)
        model = contents.name(model)
        attributes = self._common(contents, words.OPERATION_CHAT, None)
        attributes[words.REQUEST_MODEL] = model
        if provider:
            attributes[words.PROVIDER_NAME] = contents.name(provider)
        if caller or agent:
            attributes[words.AGENT_NAME] = caller.name if caller else contents.name(agent)
        if sent:
            attributes[words.INPUT_MESSAGES] = contents.messages(words.INPUT_MESSAGES, sent)
        span = self._start(f"{words.OPERATION_CHAT} {model}", attributes, parent, (), SpanKind.CLIENT)
        return ChatSpan(
            span, _within(span, parent), contents, AttributeBudget(self._max_attributes, attributes), caller
        )

    def _common(self, contents: Contents, operation: str, conversation_id: str | None) -> dict[str, AttributeValue]:
        attributes: dict[str, AttributeValue] = {words.OPERATION: operation}
        if conversation_id is not None:
            attributes[words.CONVERSATION_ID] = contents.name(conversation_id)
        return attributes

    def _start(
        self,
        name: str,
        attributes: Mapping[str, Any],
        parent: Context | None,
        links: Sequence[Link],
        kind: SpanKind = SpanKind.INTERNAL,
        start_ns: int | None = None,
    ) -> trace.Span:
        if not is_instrumentation_enabled():
            return trace.INVALID_SPAN
        links = links[-self._max_links :] if self._max_links and len(links) > self._max_links else links
        return self._tracer.start_span(name.rstrip(), parent, kind, attributes, links, start_time=start_ns)


def _within(span: trace.Span, parent: Context | None) -> Context:
    """Make the context inside *span*; what is not recorded leaves its parent where it is."""
    if span is trace.INVALID_SPAN:
        return otel_context.get_current() if parent is None else parent
    return trace.set_span_in_context(span, parent)


def _set_if_known(attributes: dict[str, AttributeValue], key: str, value: str | None) -> None:
    if value is not None:
        attributes[key] = value


def _run_state(context: Context | None) -> RunState:
    """Find the run's state; an agent outside every run is a run of its own."""
    state = otel_context.get_value(RUN_KEY) if context is None else context.get(RUN_KEY)
    return state if isinstance(state, RunState) else RunState()


def _agent_span(context: Context | None) -> AgentSpan | None:
    agent = otel_context.get_value(AGENT_KEY, context)
    return agent if isinstance(agent, AgentSpan) else None
