"""An agent's turn to speak: from the messages it is given to the one it answers, and those it says on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autogen_agentchat.base import ChatAgent, Response
from autogen_agentchat.messages import BaseChatMessage, HandoffMessage
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan

from blamespan_integrations.autogen._convert import (
    counted_usage,
    from_chat_message,
    kind_of,
    text_attribute,
    thoughts_of,
)
from blamespan_integrations.autogen._frames import Frame, Start, frame_around
from blamespan_integrations.autogen._memory import TraceMemories, TraceMemory
from blamespan_integrations.autogen._participants import plain_name
from blamespan_integrations.autogen._runs import SELECTION_REASON, AgentRun, RunFrame, Speaker, TeamRun
from blamespan_integrations.recording import AgentSpan, Recorder, StepRef
from blamespan_integrations.recording.objects import SafeReader
from blamespan_integrations.recording.recorder import RUN_KEY
from blamespan_integrations.recording.spans import STEP_CANCELLED

MESSAGE_TYPE = "blamespan.autogen.message_type"
"""str, on an agent's span: AutoGen's class of the message, e.g. `ToolCallSummaryMessage`."""


def agent_start(recorder: Recorder, conversations: TraceMemories) -> Start:
    """Record `ChatAgent.on_messages(messages, ...)` and `on_messages_stream`: the outermost of one agent's.

    Called by hand outside everything, an agent is a run of its own; called by hand within a span of the
    program's, a step among those that the program has its agents do in that trace.
    """

    def start(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        outer = frame_around()
        agent: ChatAgent = args[0]
        if isinstance(outer, AgentTurn) and outer.owner is agent and outer.is_open:
            return None
        messages = args[1] if len(args) > 1 else kwargs.get("messages", ())
        context = otel_context.get_current()
        span = trace.get_current_span(context).get_span_context()
        if outer is not None and outer.onward is not None and not span.is_valid:
            context = outer.onward
        if outer is not None or otel_context.get_value(RUN_KEY, context) is not None:
            return AgentTurn(recorder, agent, messages, outer, context)
        if not span.is_valid:
            run = AgentRun(recorder, agent, messages)
            return AgentTurn(recorder, agent, messages, run, run.context, opened=run)
        conversation = conversations.of(span.trace_id)
        context = otel_context.set_value(RUN_KEY, conversation.state, context)
        return AgentTurn(recorder, agent, messages, None, context, conversation=conversation)

    return start


class CalledTool(Frame):
    """A call of a tool, for agents that are tools of others.

    Attributes:
        call_step: The call as a step: what an agent within it builds on.
    """

    call_step: StepRef

    def predecessors(self) -> list[StepRef]:
        """Return the call: what happens within happens because of it."""
        return [self.call_step]

    def note_step(self, step: StepRef) -> None:
        """Leave it: whoever called builds on the tool's answer."""


class AgentTurn(Speaker):
    """An agent between the messages it received and its answer.

    Each message has a span of its own: one that the agent says on its way ends the span at work, and the
    next one, which builds on it, begins.

    Args:
        context: The one around its spans.
        opened: A run to be ended with it.
        conversation: What is known of the trace, where no run is around it.

    Attributes:
        model_calls: The model calls that it waits for.
    """

    awaits = (Response, BaseChatMessage)

    def __init__(
        self,
        recorder: Recorder,
        agent: ChatAgent,
        messages: Sequence[BaseChatMessage],
        outer: Frame | None,
        context: Context,
        *,
        opened: RunFrame | None = None,
        conversation: TraceMemory | None = None,
    ) -> None:
        super().__init__(agent, outer)
        if conversation is not None:
            self.memory = conversation.memory
        self._recorder, self._around, self._opened = recorder, context, opened
        self.model_calls: set[Frame] = set()
        reader = SafeReader()
        plain = reader.read("name", lambda: agent.name, "")
        caller = outer.enclosing(Speaker) if outer is not None else None
        self._plain = plain if isinstance(plain, str) and plain else plain_name(agent)
        self.name = self.memory.participants.name_of(agent, self._plain, caller.name if caller is not None else None)
        self._team = self.enclosing(TeamRun)
        received = reader.read_list("messages", lambda: list(messages))
        self._received = {text_attribute(message, "id") for message in received}
        self._span = self._first(received, reader)
        predecessors = (
            outer.predecessors()
            if outer is not None and (isinstance(outer, CalledTool) or not self._span.inputs)
            else []
        )
        before = self.memory.last_said.get(self.name)
        for step in predecessors or ([before] if before is not None and not self._span.inputs else []):
            self._span.build_on(step)
        if isinstance(outer, AgentRun):
            outer.turn = self
        self.enter(self._span.context)

    def predecessors(self) -> list[StepRef]:
        """List what this message itself builds on so far."""
        return list(self._span.inputs)

    def note_step(self, step: StepRef) -> None:
        """Build on what others said while this agent made up its mind."""
        if self.is_open and step not in self._span.inputs:
            self._span.build_on(step)

    def _first(self, received: Sequence[BaseChatMessage], reader: SafeReader) -> AgentSpan:
        before = self.memory.last_said.get(self.name)
        is_listed = self.enclosing(RunFrame) is not None  # a run lists its agents once for all
        span = self._start(
            [message_id for message in received if (message_id := text_attribute(message, "id"))]
            or ([before] if before is not None else []),
            received=reader.read_list("messages", lambda: self.memory.received(received)),
            description=None if is_listed else text_attribute(self.owner, "description") or None,
            attributes=_selection(self.outer, self.name),
        )
        reader.report(span.lose)
        return span

    def _start(self, builds_on: Sequence[str | StepRef], **more: Any) -> AgentSpan:
        team = self._team
        return self._recorder.start_agent(
            self.name,
            builds_on=builds_on,
            agent_id=team.agent_ids.get(self.name) if team is not None else None,
            conversation_id=team.conversation_id if team is not None else None,
            parent=self._around,
            **more,
        )

    def see(self, item: Any) -> None:
        """End with the answer: a stream may never be read beyond it."""
        if not self.is_open:
            return
        if not isinstance(item, Response):
            self._say_on_the_way([item])
            return
        reader = SafeReader()
        inner = reader.read_list("inner_messages", lambda: list(item.inner_messages or ()))
        self._say_on_the_way(inner)
        message = item.chat_message
        if self._span.usage is None:
            ours = [event for event in inner if not isinstance(event, BaseChatMessage)]
            self._span.usage = reader.read("models_usage", lambda: counted_usage([*ours, message]), None)
        thoughts = reader.read_list("inner_messages", lambda: thoughts_of(item))
        if not isinstance(message, BaseChatMessage):
            reader.lost.append(f"chat_message: {type(message).__name__} is no BaseChatMessage")
        self.is_open = False
        if self._is_of_one_within(message):
            self._pass_on(message)
        else:
            self._say(message, reader, thoughts)
        if self._opened is not None:
            self._opened.end([message])

    def _say_on_the_way(self, messages: Iterable[object]) -> None:
        """Record what the agent says before its answer; what others have said it only passes on."""
        for message in messages:
            if not isinstance(message, BaseChatMessage) or self._is_passed_on(message):
                continue
            if self._span.usage is None:
                self._span.usage = counted_usage([message])
            step = self._say(message, SafeReader(), is_answer=False)
            if not trace.get_current_span(self._around).get_span_context().is_valid:
                self._around = trace.set_span_in_context(NonRecordingSpan(step.span), self._around)
            self._span = self._start([step])
            self.enter(self._span.context)

    def _is_passed_on(self, message: BaseChatMessage) -> bool:
        message_id, source = text_attribute(message, "id"), text_attribute(message, "source")
        # AutoGen's own tools pass on, as `user`, what they ask of an agent
        is_others = source != self._plain and (source == "user" or self.memory.participants.knows(source))
        return is_others or message_id in self._received or self._span.has_message(message_id)

    def _is_of_one_within(self, message: object) -> bool:
        """Return whether its answer is that of an agent which it asked: a message is one agent's step."""
        message_id = text_attribute(message, "id")
        return message_id not in self._received and self._span.has_message(message_id)

    def _pass_on(self, message: BaseChatMessage) -> None:
        """End as what is around the step of another, which is the answer."""
        self._span.as_run(self.name).end(output=[from_chat_message(message, "assistant")])
        if self.outer is not None and self._span.inputs:
            self.outer.note_step(self._span.inputs[-1])

    def _say(
        self, message: BaseChatMessage, reader: SafeReader, thoughts: Sequence[str] = (), *, is_answer: bool = True
    ) -> StepRef:
        message_id = text_attribute(message, "id") or None
        output = reader.read_list(
            "chat_message", lambda: [from_chat_message(message, "assistant", thoughts, name=self._plain)]
        )
        reader.report(self._span.lose)
        step = self.memory.last_said[self.name] = self._span.end(
            output=output,
            kind=kind_of(message),
            message_id=message_id,
            recipients=self._recipients(message, is_answer),
            attributes={MESSAGE_TYPE: type(message).__name__},
            error=None if isinstance(message, BaseChatMessage) else "no_message",
        )
        if self.outer is not None:
            self.outer.note_step(step)
        return step

    def _recipients(self, message: BaseChatMessage, is_answer: bool) -> tuple[str, ...]:
        around = self._listeners()
        if isinstance(message, HandoffMessage) and message.target:
            return around.addressees(message.target) if isinstance(around, TeamRun) else (message.target,)
        if isinstance(around, TeamRun):
            return around.recipients(self.name, is_answer=is_answer)
        return (around.name,) if around is not None else ()

    def _listeners(self) -> TeamRun | Speaker | None:
        """Find the team that it speaks in, or the agent that called it."""
        frames = self.outer.outwards() if self.outer is not None else ()
        return next((frame for frame in frames if isinstance(frame, TeamRun | Speaker)), None)

    def close(self, error: BaseException | None) -> None:
        """End a turn without an answer; a model's stream that it has left open may be closed much later."""
        for call in list(self.model_calls) if error is not None else ():
            call.close(GeneratorExit())
        if self.is_open:
            self.is_open = False
            if error is not None and self.is_cut_short(error):
                self._span.end(attributes={STEP_CANCELLED: True})
            else:
                self._span.end(error=error if error is not None else "no_response")
        if self._opened is not None:
            self._opened.close(error)
        if self.is_outermost:
            self.memory.forget()

    def abandon(self) -> None:
        """End its span, and the run it is, whatever has come of them."""
        self.is_open = False
        self._span.abandon()
        if self._opened is not None:
            self._opened.abandon()


def _selection(outer: Frame | None, name: str) -> dict[str, object] | None:
    reason = outer.selected.pop(name, None) if isinstance(outer, TeamRun) else None
    return {SELECTION_REASON: reason} if reason is not None else None
