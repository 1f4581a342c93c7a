"""A run: from the call of `run` or `run_stream` to the result, the error, or nobody listening any more.

A run is that of a team, also of a team within a team, or of an agent that the program runs alone.
"""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from autogen_agentchat.base import ChatAgent, TaskResult, Team
from autogen_agentchat.messages import BaseChatMessage, HandoffMessage
from opentelemetry import context as otel_context
from opentelemetry.trace import SpanContext

from blamespan import conventions as words
from blamespan.genai_messages import Message
from blamespan.host_safety import shield_host
from blamespan.trace import Agent
from blamespan_integrations.autogen._convert import from_chat_message, task_messages
from blamespan_integrations.autogen._frames import Frame, Start, current_frame, frame_around
from blamespan_integrations.autogen._participants import plain_name
from blamespan_integrations.patching import Function, Patches
from blamespan_integrations.recording import Recorder, StepRef
from blamespan_integrations.recording.objects import SafeReader, reference
from blamespan_integrations.recording.recorder import RUN_KEY

STOP_REASON = "blamespan.autogen.stop_reason"
"""str, on the run's span: why the team stopped, in AutoGen's words."""


_MAX_TASK_CHARS = 4_096
"""Kept of what a run was asked, for the run that goes on from it."""


class RunFrame(Frame):
    """A team, or an agent alone, at what it was asked.

    Attributes:
        task: What that is, as text.
    """

    awaits = (TaskResult,)

    def __init__(self, owner: object, outer: Frame | None) -> None:
        super().__init__(owner, outer)
        self._last: StepRef | None = None
        self.task = ""
        self._task: Callable[[], object] = lambda: None

    def begin(
        self, recorder: Recorder, task: object, agents: Sequence[Agent], conversation_id: str | None = None
    ) -> None:
        """Begin its span."""
        with suppress(RuntimeError):  # outside every event loop there is no task that could be cancelled
            self._task = reference(asyncio.current_task())
        reader = SafeReader()
        asked = reader.read_list("task", lambda: [self._as_task_message(message) for message in task_messages(task)])
        texts = [str(part.get("content", "")) for message in asked for part in message.parts]
        self.task = "\n".join(filter(None, texts))[:_MAX_TASK_CHARS]
        name = plain_name(self.owner)
        self._span = recorder.start_run(name, task=asked, agents=agents, conversation_id=conversation_id)
        reader.report(self._span.lose)
        self.enter(self._span.context)

    @property
    def is_cancelled(self) -> bool:
        """Whether the program has cancelled the task that awaits the run; AutoGen goes on until it is idle."""
        task = self._task()
        return isinstance(task, asyncio.Task) and (task.cancelled() or task.cancelling() > 0)

    def _as_task_message(self, message: BaseChatMessage | str) -> Message:
        if isinstance(message, str):
            return Message.of_text("user", message, name="user")
        return self.memory.received([message])[0]

    def note_step(self, step: StepRef) -> None:
        """Keep the latest: to whoever runs the team it is the team's answer."""
        self._last = step

    def see(self, item: Any) -> None:
        """End the run with its result: a stream may never be read beyond it."""
        if self.is_open:
            if item.stop_reason is not None:
                self._span.add({STOP_REASON: item.stop_reason})
            self.end([message for message in item.messages[-1:] if isinstance(message, BaseChatMessage)], item)

    def end(self, answer: Sequence[object], result: object = None) -> None:
        """End the run in order; *answer* is what it gave back, within *result*."""
        reader = SafeReader()
        output = reader.read_list("answer", lambda: [from_chat_message(item, "assistant") for item in answer])
        reader.report(self._span.lose)
        self._leave()
        self._span.end(output=output, result=result)

    def close(self, error: BaseException | None) -> None:
        """End a run without a result: failed, or left by the program."""
        if self.is_open:
            self._leave()
            is_left = error is None or self.is_cut_short(error)
            self._span.end(error=None if is_left else error, is_complete=isinstance(error, Exception))

    def abandon(self) -> None:
        """End its span, whatever has come of it."""
        if self.is_open:
            self._leave()
        self._span.abandon()

    def _leave(self) -> None:
        """Let go of what the run held: its context may outlive it, with messages that nobody receives."""
        self.is_open = False
        self.owner = None
        if self.is_outermost:
            self.memory.forget()
        if self.outer is not None and self._last is not None:
            self.outer.note_step(self._last)


class AgentRun(RunFrame):
    """An agent that the program runs without a team.

    Args:
        task: What it is asked.

    Attributes:
        turn: The agent at its answer.
    """

    def __init__(self, recorder: Recorder, agent: ChatAgent, task: object) -> None:
        super().__init__(agent, None)
        self.turn: Frame | None = None
        self.begin(recorder, task, self.memory.participants.add(agent))

    def close(self, error: BaseException | None) -> None:
        """End the run; the agent whose stream nobody reads any more has not got to its answer either."""
        if self.turn is not None and self.turn.is_open:
            self.turn.close(error)
        self.turn = None
        super().close(error)


def agent_run_start(recorder: Recorder) -> Start:
    """Record `ChatAgent.run(*, task)` and `run_stream(*, task)` outside every other run: within one it is a step."""

    def start(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        if current_frame() is not None or otel_context.get_value(RUN_KEY) is not None:
            return None
        return AgentRun(recorder, args[0], kwargs.get("task"))

    return start


PAUSES = "blamespan.autogen.pauses"
"""int, on the run's span: how often the program paused the team; an event of the same name says when."""

RESUMES = "blamespan.autogen.resumes"
"""int, on the run's span: how often the program had it go on; an event of the same name says when."""

SELECTION_REASON = "blamespan.autogen.selection.reason"
"""str, on the span of who was selected to speak: why, in the words of the model or the rule that chose."""


def team_start(recorder: Recorder) -> Start:
    """Record `Team.run(*, task)` and `Team.run_stream(*, task)`; the one inside the other counts once."""

    def start(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        outer = frame_around()
        team: Team = args[0]
        if isinstance(outer, TeamRun) and outer.owner is team and outer.is_open:
            return None
        return TeamRun(recorder, team, kwargs.get("task"), outer)

    return start


def wrap_reset(patches: Patches) -> Callable[[Function], Function]:
    """Make the wrapper of `Team.reset`: the next run goes on from none."""

    def wrapper(original: Function) -> Function:
        @functools.wraps(original)
        async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if patches.active:  # also while instrumentation is suppressed: nothing is recorded, and the team is reset
                with shield_host("autogen: note that a team is reset"), suppress(TypeError):
                    _interrupted_runs.pop(self, None)
            return await original(self, *args, **kwargs)

        return call

    return wrapper


def notice_pause(key: str, team: object, *_: object, **__: object) -> None:
    """Note that `Team.pause` or `Team.resume` is called: the run that the team is at notes it under *key*."""
    run = _running_teams.get(id(team))
    if run is not None:
        run.mark(key)


class Speaker(Frame):
    """An agent at what it says.

    Attributes:
        name: Its name in the run.
    """

    name: str


class TeamRun(RunFrame):
    """A team at work.

    Attributes:
        conversation_id: The team's id: the same in every run of this team.
        manager_name: Its manager's name in the run, where that says things of its own.
        names: Who hears what is said in it.
        agent_ids: AutoGen's ids of them, by name.
        selected: Why those were chosen who are to speak next: teams and agents by the names they have here.
    """

    def __init__(self, recorder: Recorder, team: Team, task: object, outer: Frame | None) -> None:
        super().__init__(team, outer)
        self.selected: dict[str, str] = {}
        participants = self.memory.participants
        caller = outer.enclosing(Speaker) if outer is not None else None
        agents = participants.add(team, caller.name if caller is not None else None)
        self.conversation_id: str | None = getattr(team, "_team_id", None)
        self.manager_name = participants.manager_of(team)
        self._hearers = participants.list_hearers(team)
        self._inner = {plain_name(member) for member in getattr(team, "_participants", ()) if isinstance(member, Team)}
        self.names = tuple(dict.fromkeys(name for names in self._hearers.values() for name in names))
        self.agent_ids = {agent.name: agent.id for agent in agents}
        self.begin(recorder, task, agents, self.conversation_id)
        if isinstance(outer, TeamRun) and (reason := outer.selected.pop(plain_name(team), None)) is not None:
            self._span.add({SELECTION_REASON: reason})
        if self.is_outermost:
            self._go_on(team)
        self._marks: Counter[str] = Counter()
        _running_teams[id(team)] = self

    def see(self, item: Any) -> None:
        """End the run with its result; a hand-over to nobody of the team waits for an answer from outside."""
        last = item.messages[-1] if item.messages else None
        if self.is_open and self.is_outermost and isinstance(last, HandoffMessage) and last.target not in self.names:
            self._span.add({words.RUN_INTERRUPTED: True})
            with suppress(TypeError):  # a team of the program's own need not be hashable
                _interrupted_runs[self.owner] = _InterruptedRun(self._span.span.get_span_context(), self.task)
        super().see(item)

    def _go_on(self, team: Team) -> None:
        """Link to the run of this team that has waited for what it is given now."""
        before: _InterruptedRun | None = None
        with suppress(TypeError):
            before = _interrupted_runs.pop(team, None)
        if before is not None and before.run.is_valid:
            self._span.span.add_link(before.run, {words.LINK_RELATION: "continues"})
            self.task = before.task or self.task
            self._span.add({words.RUN_TASK: self.task})

    def recipients(self, speaker: str, *, is_answer: bool = True) -> tuple[str, ...]:
        """List who hears what *speaker* says to all.

        What it says on the way to its answer only those hear who hear all of the team: the members of a team
        in which this one takes part, or the agent whose team it is.
        """
        names = dict.fromkeys(self.names if is_answer else ())
        if isinstance(self.outer, TeamRun):
            names |= dict.fromkeys(name for name in self.outer.recipients(speaker) if name not in self.names)
        elif isinstance(self.outer, Speaker):
            names[self.outer.name] = None
        names.pop(speaker, None)
        return tuple(names)

    def addressees(self, name: str) -> tuple[str, ...]:
        """List who is meant by the name of a participant."""
        return self._hearers.get(name, (name,))

    def select(self, name: str, reason: str) -> None:
        """Keep why the participant of that name is to speak next."""
        self.selected[name if name in self._inner else self.addressees(name)[0]] = reason

    def mark(self, key: str) -> None:
        """Note on its span what the program did to it."""
        self._marks[key] += 1
        self._span.span.add_event(key)
        self._span.add({key: self._marks[key]})

    def _leave(self) -> None:
        if _running_teams.get(id(self.owner)) is self:
            del _running_teams[id(self.owner)]
        super()._leave()


@dataclass(frozen=True, slots=True)
class _InterruptedRun:
    """A run that has ended with a hand-over to a user, and what it was asked."""

    run: SpanContext
    task: str


_interrupted_runs: WeakKeyDictionary[Any, _InterruptedRun] = WeakKeyDictionary()
"""By team: its next run goes on from there, unless the team is reset."""

_running_teams: WeakValueDictionary[int, TeamRun] = WeakValueDictionary()
"""The run that each team is at, by the team's identity: `pause` and `resume` are called from outside it."""
