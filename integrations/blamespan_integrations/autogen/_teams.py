"""A team's run, and teams within teams."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from autogen_agentchat.base import Team
from autogen_agentchat.messages import HandoffMessage
from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from opentelemetry.trace import SpanContext

from blamespan import conventions as words
from blamespan.instrumenting.guard import guard
from blamespan_integrations.autogen._cast import plain_name
from blamespan_integrations.autogen._foreign import frame_around
from blamespan_integrations.autogen._frames import Frame, Start
from blamespan_integrations.autogen._patches import Function, Patches
from blamespan_integrations.autogen._runs import RunFrame
from blamespan_integrations.recording import Recorder

__all__ = ["PAUSES", "RESUMES", "SELECTION_REASON", "Speaking", "TeamRun", "begun_anew", "marked", "team_start"]

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


def begun_anew(patches: Patches) -> Callable[[Function], Function]:
    """Make the wrapper of `Team.reset`: the next run goes on from none."""

    def wrapper(original: Function) -> Function:
        @functools.wraps(original)
        async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if patches.active:
                with guard("autogen: note that a team is reset"), suppress(TypeError):
                    _waiting.pop(self, None)
            return await original(self, *args, **kwargs)

        return call

    return wrapper


def marked(patches: Patches, key: str) -> Callable[[Function], Function]:
    """Make the wrapper of `Team.pause` or `Team.resume`: the run that the team is at notes it under *key*."""

    def wrapper(original: Function) -> Function:
        @functools.wraps(original)
        async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if patches.active and is_instrumentation_enabled():
                with guard("autogen: note that a team is paused or goes on"):
                    run = _running.get(id(self))
                    if run is not None:
                        run.mark(key)
            return await original(self, *args, **kwargs)

        return call

    return wrapper


class Speaking(Frame):
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
        cast = self.memory.cast
        caller = outer.enclosing(Speaking) if outer is not None else None
        agents = cast.add(team, caller.name if caller is not None else None)
        self.conversation_id: str | None = getattr(team, "_team_id", None)
        self.manager_name = cast.manager_of(team)
        self._hearers = cast.hearers(team)
        self._inner = {plain_name(member) for member in getattr(team, "_participants", ()) if isinstance(member, Team)}
        self.names = tuple(dict.fromkeys(name for names in self._hearers.values() for name in names))
        self.agent_ids = {agent.name: agent.id for agent in agents}
        self.begin(recorder, task, agents, self.conversation_id)
        if isinstance(outer, TeamRun) and (reason := outer.selected.pop(plain_name(team), None)) is not None:
            self._span.add({SELECTION_REASON: reason})
        if self.is_outermost:
            self._go_on(team)
        self._marks: Counter[str] = Counter()
        _running[id(team)] = self

    def see(self, item: Any) -> None:
        """End the run with its result; a hand-over to nobody of the team waits for an answer from outside."""
        last = item.messages[-1] if item.messages else None
        if self.is_open and self.is_outermost and isinstance(last, HandoffMessage) and last.target not in self.names:
            self._span.add({words.RUN_INTERRUPTED: True})
            with suppress(TypeError):  # a team of the program's own need not be hashable
                _waiting[self.owner] = _Waiting(self._span.span.get_span_context(), self.task)
        super().see(item)

    def _go_on(self, team: Team) -> None:
        """Link to the run of this team that has waited for what it is given now."""
        before: _Waiting | None = None
        with suppress(TypeError):
            before = _waiting.pop(team, None)
        if before is not None and before.run.is_valid:
            self._span.span.add_link(before.run, {words.LINK_RELATION: "continues"})
            self.task = before.task or self.task
            self._span.add({words.RUN_TASK: self.task})

    def recipients(self, speaker: str, *, is_answer: bool = True) -> tuple[str, ...]:
        """List who hears what *speaker* says to all.

        What it says on the way to its answer only those hear who hear all of the team: the members of a team
        in which this one takes part, or the agent whose team it is.
        """
        found = dict.fromkeys(self.names if is_answer else ())
        if isinstance(self.outer, TeamRun):
            found |= dict.fromkeys(name for name in self.outer.recipients(speaker) if name not in self.names)
        elif isinstance(self.outer, Speaking):
            found[self.outer.name] = None
        found.pop(speaker, None)
        return tuple(found)

    def addressed(self, name: str) -> tuple[str, ...]:
        """List who is meant by the name of a participant."""
        return self._hearers.get(name, (name,))

    def select(self, name: str, reason: str) -> None:
        """Keep why the participant of that name is to speak next."""
        self.selected[name if name in self._inner else self.addressed(name)[0]] = reason

    def mark(self, key: str) -> None:
        """Note on its span what the program did to it."""
        self._marks[key] += 1
        self._span.span.add_event(key)
        self._span.add({key: self._marks[key]})

    def _leave(self) -> None:
        if _running.get(id(self.owner)) is self:
            del _running[id(self.owner)]
        super()._leave()


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A run that has ended with a hand-over to a user, and what it was asked."""

    run: SpanContext
    task: str


_waiting: WeakKeyDictionary[Any, _Waiting] = WeakKeyDictionary()
"""By team: its next run goes on from there, unless the team is reset."""

_running: WeakValueDictionary[int, TeamRun] = WeakValueDictionary()
"""The run that each team is at, by the team's identity: `pause` and `resume` are called from outside it."""
