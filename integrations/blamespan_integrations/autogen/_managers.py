"""A team's manager: it selects speakers, and MagenticOne's also plans and speaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autogen_agentchat.messages import BaseChatMessage
from autogen_agentchat.teams._group_chat._base_group_chat_manager import BaseGroupChatManager
from autogen_agentchat.teams._group_chat._events import GroupChatAgentResponse, GroupChatStart, GroupChatTeamResponse
from autogen_agentchat.teams._group_chat._magentic_one._magentic_one_orchestrator import MagenticOneOrchestrator
from opentelemetry.context import Context

from blamespan.trace import StepKind
from blamespan_integrations.autogen._agents import MESSAGE_TYPE, AgentTurn, error_of
from blamespan_integrations.autogen._convert import chat_message_text, from_chat_message, kind_of
from blamespan_integrations.autogen._frames import Frame, current_frame
from blamespan_integrations.autogen._teams import TeamRun
from blamespan_integrations.recording import AgentSpan, Recorder

__all__ = ["ManagerTurn", "manager_at_work", "speech_start"]


def manager_at_work(frame: Frame) -> str | None:
    """Name the manager on whose behalf *frame* is at work; None where an agent is, or nobody."""
    for found in frame.outwards():
        if isinstance(found, ManagerTurn):
            return found.name
        if isinstance(found, AgentTurn | TeamRun):
            return None
    return None


def speech_start(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
    """Record what a manager says itself; stands before `BaseAgent.publish_message(message, ...)`."""
    message = args[1] if len(args) > 1 else kwargs.get("message")
    turn = current_frame()
    if isinstance(turn, ManagerTurn) and turn.owner is args[0] and isinstance(message, GroupChatAgentResponse):
        turn.say(message.response.chat_message)
    return None


class ManagerTurn(Frame):
    """A manager at a message it received.

    The span of a speaking manager begins with its first model call and ends with what it says; in one
    turn it can say several things, or nothing.

    Attributes:
        name: The manager.
        ambient: The context in which it received the message.
    """

    def __init__(self, recorder: Recorder, manager: BaseGroupChatManager, message: object, context: Context) -> None:
        outer = current_frame(context)
        super().__init__(manager, outer)
        self.name: str = getattr(manager, "_name", type(manager).__name__)
        self._recorder = recorder
        self._speaks = isinstance(manager, MagenticOneOrchestrator)
        self._received = _chat_messages(message)
        self._span: AgentSpan | None = None
        self.ambient = context
        self.enter(context)

    def thinking(self) -> Context:
        """Give the context of a model call: the manager's own span where it speaks, else the run's."""
        return self._speaking().context if self._speaks else self.ambient

    def say(self, message: BaseChatMessage) -> None:
        """Record that the manager says *message* to all."""
        team = self.enclosing(TeamRun)
        self.memory.roles.setdefault(self.name, "agent")
        self.memory.last_said[self.name] = message.id
        span, self._span = self._speaking(), None
        span.end(
            output=[from_chat_message(message, "assistant")],
            kind=self._kind(message),
            message_id=message.id,
            recipients=team.names if team is not None else (),
            attributes={MESSAGE_TYPE: type(message).__name__},
        )

    def close(self, error: BaseException | None) -> None:
        """End a span whose manager failed, or had nothing to say."""
        self.is_open = False
        if self._span is not None:
            self._span.end(error=error_of(error) if error is not None else None)
            self._span = None

    def _speaking(self) -> AgentSpan:
        if self._span is None:
            team = self.enclosing(TeamRun)
            before = self.memory.last_said.get(self.name)
            self._span = self._recorder.start_agent(
                self.name,
                received=self.memory.received(self._received),
                builds_on=[message.id for message in self._received] or ([before] if before else []),
                agent_id=team.agent_ids.get(self.name) if team is not None else None,
                conversation_id=team.conversation_id if team is not None else None,
                parent=self.ambient,
            )
            self._received = []
        return self._span

    def _kind(self, message: BaseChatMessage) -> StepKind:
        plan = getattr(self.owner, "_plan", None)
        is_plan = isinstance(plan, str) and plan != "" and plan in chat_message_text(message)
        return "plan" if is_plan else kind_of(message)


def _chat_messages(message: object) -> Sequence[BaseChatMessage]:
    """List what a manager learns from a message of AutoGen's runtime."""
    if isinstance(message, GroupChatStart):
        return list(message.messages or ())
    if isinstance(message, GroupChatAgentResponse):
        return [message.response.chat_message]
    if isinstance(message, GroupChatTeamResponse):
        return [item for item in message.result.messages if isinstance(item, BaseChatMessage)]
    return []
