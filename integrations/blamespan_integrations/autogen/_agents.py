"""An agent's turn to speak: from the messages it is given to the one message it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from autogen_agentchat.base import ChatAgent, Response
from autogen_agentchat.messages import BaseChatMessage, HandoffMessage
from opentelemetry import trace

from blamespan_integrations.autogen._convert import (
    agent_role,
    answer_usage,
    from_chat_message,
    kind_of,
    thoughts_of,
)
from blamespan_integrations.autogen._frames import Frame, Start, current_frame
from blamespan_integrations.autogen._teams import SELECTION_REASON, TeamRun
from blamespan_integrations.recording import AgentSpan, Recorder, StepRef

__all__ = ["CANCELLED", "MESSAGE_TYPE", "AgentTurn", "Called", "agent_start", "error_of"]

MESSAGE_TYPE = "blamespan.autogen.message_type"
"""str, on an agent's span: AutoGen's class of the message, e.g. `ToolCallSummaryMessage`."""

CANCELLED = "cancelled"
"""`error.type` of what was cut short by the program: a cancelled task, a stream left early."""


def agent_start(recorder: Recorder) -> Start:
    """Record `ChatAgent.on_messages(messages, ...)` and `on_messages_stream`: the outermost of one agent's."""

    def start(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        outer = current_frame()
        agent: ChatAgent = args[0]
        if isinstance(outer, AgentTurn) and outer.owner is agent and outer.is_open:
            return None
        messages = args[1] if len(args) > 1 else kwargs.get("messages", ())
        return AgentTurn(recorder, agent, messages, outer)

    return start


class Called(Frame):
    """A call of a tool, for agents that are tools of others.

    Attributes:
        call_step: The call as a step: what an agent within it builds on.
    """

    call_step: StepRef

    def grounds(self) -> list[StepRef]:
        """Give the call: what happens within happens because of it."""
        return [self.call_step]

    def heard(self, step: StepRef) -> None:
        """Leave it: whoever called builds on the tool's answer."""


class AgentTurn(Frame):
    """An agent between the messages it received and its answer.

    Attributes:
        name: The agent.
    """

    awaits = (Response,)

    def __init__(
        self, recorder: Recorder, agent: ChatAgent, messages: Sequence[BaseChatMessage], outer: Frame | None
    ) -> None:
        super().__init__(agent, outer)
        self.name = agent.name
        self.memory.roles.setdefault(self.name, agent_role(agent))
        self._team = self.enclosing(TeamRun)
        self._span = self._start(recorder, agent, list(messages))
        if outer is not None and (isinstance(outer, Called) or not self._span.inputs):
            for step in outer.grounds():
                self._span.build_on(step)
        self.enter(self._span.context)

    def grounds(self) -> list[StepRef]:
        """List what this message itself builds on so far."""
        return list(self._span.inputs)

    def heard(self, step: StepRef) -> None:
        """Build on what others said while this agent made up its mind."""
        if self.is_open and step not in self._span.inputs:
            self._span.build_on(step)

    def _start(self, recorder: Recorder, agent: ChatAgent, messages: Sequence[BaseChatMessage]) -> AgentSpan:
        before = self.memory.last_said.get(self.name)
        builds_on = [message.id for message in messages] or ([before] if before else [])
        team = self._team
        return recorder.start_agent(
            self.name,
            received=self.memory.received(messages),
            builds_on=builds_on,
            agent_id=team.agent_ids.get(self.name) if team else None,
            description=None if team else agent.description,  # a run lists its agents once for all
            conversation_id=team.conversation_id if team else None,
            attributes=_selection(self.outer, self.name),
            parent=self.outer.onward if self.outer is not None and _is_outside_spans() else None,
        )

    def see(self, item: Any) -> None:
        """End with the answer: a stream may never be read beyond it."""
        if self.is_open:
            message = item.chat_message
            output = [from_chat_message(message, "assistant", thoughts_of(item))]
            message_id, kind, recipients = message.id, kind_of(message), self._recipients(message)
            if self._span.usage is None:
                self._span.usage = answer_usage(item)
            self.memory.last_said[self.name] = message_id
            self.is_open = False  # not before: an answer that is no message leaves the turn to be closed
            step = self._span.end(
                output=output,
                kind=kind,
                message_id=message_id,
                recipients=recipients,
                attributes={MESSAGE_TYPE: type(message).__name__},
            )
            if self.outer is not None:
                self.outer.heard(step)

    def _recipients(self, message: BaseChatMessage) -> tuple[str, ...]:
        if isinstance(message, HandoffMessage) and message.target:
            return (message.target,)
        if self._team is not None and self.name in self._team.names:
            return self._team.recipients(self.name)
        caller = self.outer.enclosing(AgentTurn) if self.outer is not None else None
        return (caller.name,) if caller is not None else ()

    def close(self, error: BaseException | None) -> None:
        """End a turn without an answer."""
        if self.is_open:
            self.is_open = False
            self._span.end(error=error_of(error) if error is not None else "no_response")
        if self.outer is None:
            self.memory.forget()


def _selection(outer: Frame | None, name: str) -> dict[str, object] | None:
    reason = outer.selected.pop(name, None) if isinstance(outer, TeamRun) else None
    return {SELECTION_REASON: reason} if reason is not None else None


def _is_outside_spans() -> bool:
    return not trace.get_current_span().get_span_context().is_valid


def error_of(error: BaseException) -> BaseException | str:
    """Name what ended a step early: a word where the program itself cut it short."""
    return CANCELLED if isinstance(error, GeneratorExit | asyncio.CancelledError) else error
