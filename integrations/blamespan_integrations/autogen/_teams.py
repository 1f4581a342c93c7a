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
from blamespan_integrations.autogen._convert import from_chat_message, participants, task_messages
from blamespan_integrations.autogen._frames import Frame, Start, current_frame
from blamespan_integrations.recording import Recorder

__all__ = ["STOP_REASON", "TeamRun", "team_start"]

STOP_REASON = "blamespan.autogen.stop_reason"
"""str, on the run's span: why the team stopped, in AutoGen's words."""


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
        names: Who hears what is said in it.
        agent_ids: AutoGen's ids of them, by name.
    """

    def __init__(self, recorder: Recorder, team: Team, task: object, outer: Frame | None) -> None:
        super().__init__(team, outer)
        agents = _agents(team)
        self.memory.roles.update({agent.name: agent.role for agent in agents})
        self.conversation_id: str | None = getattr(team, "_team_id", None)
        self.names: tuple[str, ...] = tuple(getattr(team, "_participant_names", ()))
        self.agent_ids = {agent.name: agent.id for agent in agents}
        self._span = recorder.start_run(
            _name(team),
            task=[self._asked(message) for message in task_messages(task)],
            agents=agents,
            conversation_id=self.conversation_id,
        )
        self.enter(self._span.context)

    def _asked(self, message: BaseChatMessage | str) -> Message:
        if isinstance(message, str):
            return Message.of_text("user", message, name="user")
        return self.memory.received([message])[0]

    def recipients(self, speaker: str) -> tuple[str, ...]:
        """List who hears what *speaker* says to all."""
        return tuple(name for name in self.names if name != speaker)

    def see(self, item: Any) -> None:
        """End the run with its result: a stream may never be read beyond it."""
        if isinstance(item, TaskResult) and self.is_open:
            self._leave()
            if item.stop_reason is not None:
                self._span.span.set_attribute(STOP_REASON, item.stop_reason)
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


def _agents(team: Team) -> list[Agent]:
    agents = participants(team)
    manager = getattr(team, "_base_group_chat_manager_class", None)
    if isinstance(manager, type) and issubclass(manager, MagenticOneOrchestrator):  # it says things of its own
        name: str = getattr(team, "_group_chat_manager_name", manager.__name__)
        agents.insert(0, Agent(name, description="Plans, and tells the others what to do next"))
    return agents


def _name(team: Team) -> str:
    name = getattr(team, "name", None)
    return name if isinstance(name, str) and name else type(team).__name__
