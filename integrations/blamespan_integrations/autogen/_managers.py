"""A team's manager: it selects speakers, and MagenticOne's also plans and speaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autogen_agentchat.messages import BaseChatMessage
from autogen_agentchat.teams._group_chat._base_group_chat_manager import BaseGroupChatManager
from autogen_agentchat.teams._group_chat._events import (
    GroupChatAgentResponse,
    GroupChatRequestPublish,
    GroupChatStart,
    GroupChatTeamResponse,
)
from autogen_agentchat.teams._group_chat._magentic_one._magentic_one_orchestrator import MagenticOneOrchestrator
from autogen_core import TopicId
from opentelemetry.context import Context

from blamespan.trace import StepKind
from blamespan_integrations.autogen._agents import MESSAGE_TYPE, AgentTurn
from blamespan_integrations.autogen._convert import (
    chat_message_text,
    from_chat_message,
    kind_of,
    selection_reason,
    text_attribute,
)
from blamespan_integrations.autogen._frames import Frame, current_frame, is_any
from blamespan_integrations.autogen._runs import TeamRun
from blamespan_integrations.recording import AgentSpan, Recorder
from blamespan_integrations.recording.spans import STEP_CANCELLED

_SPOKEN = (GroupChatAgentResponse, GroupChatRequestPublish)


def manager_at_work(frame: Frame) -> str | None:
    """Name the manager on whose behalf *frame* is at work; None where an agent is, or nobody."""
    for ancestor in frame.outwards():
        if isinstance(ancestor, ManagerTurn):
            return ancestor.name
        if isinstance(ancestor, AgentTurn | TeamRun):
            return None
    return None


def notice_publish(agent: object, message: object, topic_id: TopicId, *_: Any, **__: Any) -> None:
    """Note that `BaseAgent.publish_message` is called: what managers say, and whom they ask."""
    if is_any(type(message), _SPOKEN):
        turn = current_frame()
        if isinstance(turn, ManagerTurn) and turn.owner is agent:
            turn.publish(message, topic_id)


class ManagerTurn(Frame):
    """A manager at a message it received.

    The span of a speaking manager begins with its first model call and ends with what it says; in one
    turn it can say several things, or nothing.

    Attributes:
        name: The manager.
        ambient: The context in which it received the message.
        advice: What its model answered last.
    """

    def __init__(self, recorder: Recorder, manager: BaseGroupChatManager, message: object, context: Context) -> None:
        outer = current_frame(context)
        super().__init__(manager, outer)
        team = self.enclosing(TeamRun)
        own = team.manager_name if team is not None else None
        self.name = own or text_attribute(manager, "_name") or type(manager).__name__
        self._recorder = recorder
        self._speaks = isinstance(manager, MagenticOneOrchestrator)
        self._received = _chat_messages(message)
        self._span: AgentSpan | None = None
        self.ambient = context
        self.advice: str | None = None
        self.enter(context)

    def thinking(self) -> Context:
        """Return the context of a model call: the manager's own span where it speaks, else the run's."""
        return self._speaking().context if self._speaks else self.ambient

    def publish(self, message: object, topic: TopicId) -> None:
        """Record what it is about to publish."""
        if isinstance(message, GroupChatAgentResponse):
            self.say(message.response.chat_message)
        else:
            self.select(topic)

    def say(self, message: BaseChatMessage) -> None:
        """Record that the manager says *message* to all."""
        team = self.enclosing(TeamRun)
        span, self._span = self._speaking(), None
        step = self.memory.last_said[self.name] = span.end(
            output=[from_chat_message(message, "assistant")],
            kind=self._kind(message),
            message_id=message.id,
            recipients=team.recipients(self.name) if team is not None else (),
            attributes={MESSAGE_TYPE: type(message).__name__},
        )
        if self.outer is not None:
            self.outer.note_step(step)

    def select(self, topic: TopicId) -> None:
        """Keep for whoever is asked to speak why it was chosen."""
        team = self.enclosing(TeamRun)
        topics: Mapping[str, str] = getattr(self.owner, "_participant_name_to_topic_type", {})
        name = next((name for name, type_ in topics.items() if type_ == topic.type), None)
        reason = selection_reason(self.owner, self.advice, name) if name is not None else None
        if team is not None and name is not None and reason is not None:
            team.select(name, reason)

    def close(self, error: BaseException | None) -> None:
        """End a span whose manager failed, or had nothing to say."""
        self.is_open = False
        if self._span is not None:
            is_left = error is None or self.is_cut_short(error)
            self._span.end(
                attributes={STEP_CANCELLED: True} if error is not None and is_left else None,
                error=None if is_left else error,
            )
            self._span = None

    def abandon(self) -> None:
        """End its span, whatever has come of it."""
        self.is_open = False
        if self._span is not None:
            self._span.abandon()
            self._span = None

    def _speaking(self) -> AgentSpan:
        if self._span is None:
            team = self.enclosing(TeamRun)
            before = self.memory.last_said.get(self.name)
            self._span = self._recorder.start_agent(
                self.name,
                received=self.memory.received(self._received),
                builds_on=[message.id for message in self._received] or ([before] if before is not None else []),
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
