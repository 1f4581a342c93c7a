"""A team's run: from the call of `run` or `run_stream` to the result, the error, or nobody listening any more."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from autogen_agentchat.base import TaskResult, Team
from autogen_agentchat.messages import BaseChatMessage
from autogen_agentchat.teams._group_chat._magentic_one._magentic_one_orchestrator import MagenticOneOrchestrator

from blamespan.messages import Message
from blamespan.trace import Agent
from blamespan_integrations.autogen._convert import from_chat_message, participants, speaker_name, task_messages
from blamespan_integrations.autogen._frames import Frame, Start, current_frame
from blamespan_integrations.recording import Recorder, StepRef

__all__ = ["SELECTION_REASON", "STOP_REASON", "TeamRun", "team_start"]

STOP_REASON = "blamespan.autogen.stop_reason"
"""str, on the run's span: why the team stopped, in AutoGen's words."""

SELECTION_REASON = "blamespan.autogen.selection.reason"
"""str, on the span of who was selected to speak: why, in the words of the model or the rule that chose."""


def team_start(recorder: Recorder) -> Start:
    """Record `Team.run(*, task)` and `Team.run_stream(*, task)`; the one inside the other counts once."""

    def start(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        outer = current_frame()
        team: Team = args[0]
        if isinstance(outer, TeamRun) and outer.owner is team and outer.is_open:
            return None
        return TeamRun(recorder, team, kwargs.get("task"), outer)

    return start


class TeamRun(Frame):
    """A team at work.

    Attributes:
        conversation_id: The team's id: the same in every run of this team.
        speakers: Under which names its members speak, by their own.
        names: Who hears what is said in it.
        agent_ids: AutoGen's ids of them, by name.
        selected: Why those were chosen who are to speak next, by name.
    """

    awaits = (TaskResult,)

    def __init__(self, recorder: Recorder, team: Team, task: object, outer: Frame | None) -> None:
        super().__init__(team, outer)
        self.selected: dict[str, str] = {}
        self._last: StepRef | None = None
        agents = participants(team)
        self.conversation_id: str | None = getattr(team, "_team_id", None)
        self.speakers = {member.name: speaker_name(member) for member in getattr(team, "_participants", ())}
        self.names = tuple(self.speakers.values())
        manager = _speaking_manager(team)
        if manager is not None:
            agents.insert(0, manager)
            self.names = manager.name, *self.names
        self.memory.roles.update({agent.name: agent.role for agent in agents})
        self.agent_ids = {agent.name: agent.id for agent in agents}
        self._span = recorder.start_run(
            _name(team),
            task=[self._asked(message) for message in task_messages(task)],
            agents=agents,
            conversation_id=self.conversation_id,
        )
        if isinstance(outer, TeamRun) and (reason := outer.selected.pop(_name(team), None)) is not None:
            self._span.add({SELECTION_REASON: reason})
        self.enter(self._span.context)

    def _asked(self, message: BaseChatMessage | str) -> Message:
        if isinstance(message, str):
            return Message.of_text("user", message, name="user")
        return self.memory.received([message])[0]

    def recipients(self, speaker: str) -> tuple[str, ...]:
        """List who hears what *speaker* says to all."""
        return tuple(name for name in self.names if name != speaker)

    def heard(self, step: StepRef) -> None:
        """Keep the latest: to whoever runs the team it is the team's answer."""
        self._last = step

    def see(self, item: Any) -> None:
        """End the run with its result: a stream may never be read beyond it."""
        if self.is_open:
            self._leave()
            if item.stop_reason is not None:
                self._span.add({STOP_REASON: item.stop_reason})
            last = [message for message in item.messages[-1:] if isinstance(message, BaseChatMessage)]
            self._span.end(output=[from_chat_message(message, "assistant") for message in last])

    def close(self, error: BaseException | None) -> None:
        """End a run without a result: failed, or left by the program."""
        if self.is_open:
            self._leave()
            is_left = error is None or isinstance(error, GeneratorExit | asyncio.CancelledError)
            self._span.end(error=None if is_left else error, is_complete=isinstance(error, Exception))

    def _leave(self) -> None:
        """Let go of what the run held: its context may outlive it, with messages that nobody receives."""
        self.is_open = False
        self.owner = None
        if self.outer is None:
            self.memory.forget()
        elif self._last is not None:
            self.outer.heard(self._last)


def _speaking_manager(team: Team) -> Agent | None:
    manager = getattr(team, "_base_group_chat_manager_class", None)
    if not isinstance(manager, type) or not issubclass(manager, MagenticOneOrchestrator):  # it says things of its own
        return None
    name: str = getattr(team, "_group_chat_manager_name", manager.__name__)
    return Agent(name, description="Plans, and tells the others what to do next")


def _name(team: Team) -> str:
    name = getattr(team, "name", None)
    return name if isinstance(name, str) and name else type(team).__name__
