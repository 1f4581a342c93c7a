"""Starting the spans of a run; `blamespan_integrations.recording.spans` is what they are until they end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanContext, SpanKind

from blamespan import conventions as words
from blamespan._version import __version__
from blamespan.messages import Message
from blamespan.settings import max_content_bytes
from blamespan.trace import Agent, AttributeValue
from blamespan_integrations.recording.content import Capped, cap_messages, cap_text
from blamespan_integrations.recording.spans import (
    AGENT_KEY,
    AgentSpan,
    ChatSpan,
    RunSpan,
    RunState,
    StepRef,
    ToolSpan,
    as_json,
    link_to,
    listed,
)

__all__ = ["Recorder"]

RUN_KEY = otel_context.create_key("blamespan-run")
"""Where the OpenTelemetry context holds what the spans of a run share."""

_MAX_LINKS = 127
"""The SDK keeps 128 links of a span and drops the oldest."""


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
            attributes[words.RUN_AGENTS] = listed(agents, self._max_bytes)
        span = self._start(f"{words.OPERATION_WORKFLOW} {name}", attributes, parent, [Link(c) for c in links])
        context = trace.set_span_in_context(span, parent)
        if otel_context.get_value(RUN_KEY, context) is None:
            context = otel_context.set_value(RUN_KEY, RunState(), context)
        # An agent further out is not this run's: its team within a team has agents of its own.
        return RunSpan(span, otel_context.set_value(AGENT_KEY, None, context), capped)

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
        links = [link_to(ref) for ref in inputs]
        span = self._start(f"{words.OPERATION_AGENT} {name}", found, parent, links, start_ns=start_ns)
        context = otel_context.set_value(RUN_KEY, state, trace.set_span_in_context(span, parent))
        agent = AgentSpan(span, context, capped, name, state, inputs)
        agent.context = otel_context.set_value(AGENT_KEY, agent, context)
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
        links = [link_to(ref) for ref in [*(caller.known_for(call_id) if caller else ()), *builds_on]]
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


def _run_state(context: Context | None) -> RunState:
    """Find the run's state; an agent outside every run is a run of its own."""
    state = otel_context.get_value(RUN_KEY, context)
    return state if isinstance(state, RunState) else RunState()


def _agent_span(context: Context | None) -> AgentSpan | None:
    agent = otel_context.get_value(AGENT_KEY, context)
    return agent if isinstance(agent, AgentSpan) else None
