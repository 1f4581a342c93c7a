"""Who takes part in a run, each under a name that no other has.

A name stays as the program gave it while it is one agent's. Agents that share one, in teams within the team, go by
where they stand: `draft_team/writer` and `final_team/writer`. That is known when the run begins, from teams within
teams, societies, and agents and teams that agents have as tools, so it does not depend on who speaks first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from autogen_agentchat.agents import MessageFilterAgent, SocietyOfMindAgent
from autogen_agentchat.base import ChatAgent, Team
from autogen_agentchat.teams._group_chat._magentic_one._magentic_one_orchestrator import MagenticOneOrchestrator

from blamespan.trace import Agent, AgentRole
from blamespan_integrations.autogen._convert import agent_role, text_attribute
from blamespan_integrations.autogen._references import reference

__all__ = ["Cast", "plain_name"]

_MAX_DEPTH = 16
"""Teams within teams; one that holds itself ends here."""


@dataclass(frozen=True, slots=True)
class _Member:
    """One who may speak.

    Attributes:
        owner: The agent; the team, where it is the team's manager.
        path: Names of the teams, or of the agents that have others as tools, around it.
        agent: What a run tells of it, under the name the program gave it.
    """

    owner: object
    path: tuple[str, ...]
    agent: Agent


class Cast:
    """The agents of one run.

    Attributes:
        roles: What is known of those who speak, by the name the program gave them.
    """

    def __init__(self) -> None:
        self.roles: dict[str, AgentRole] = {}
        self._names: dict[int, tuple[Callable[[], object], str, str]] = {}
        self._by_place: dict[str, str] = {}
        self._taken: set[str] = set()

    def add(self, runner: object, caller: str | None = None) -> list[Agent]:
        """Name all who are found in *runner*, a team or an agent; once found, they keep their names.

        Args:
            runner: What is about to run.
            caller: The agent that runs it, if one does.

        Returns:
            Them, first found first.
        """
        above = () if caller is None else (caller, plain_name(runner)) if isinstance(runner, Team) else (caller,)
        members = list({id(member.owner): member for member in _members(runner, above, 0)}.values())
        places = _places([member for member in members if self._known(member.owner, member.agent.name) is None])
        counts = Counter(member.agent.name for place, member in places.items() if place not in self._by_place)
        for place, member in places.items():
            plain = member.agent.name
            name = self._name_at(place, plain, is_shared=counts[plain] > 1)
            self._names[id(member.owner)] = reference(member.owner), plain, name
            self.roles.setdefault(plain, member.agent.role)
        return [replace(member.agent, name=self.name_of(member.owner, member.agent.name, None)) for member in members]

    def name_of(self, agent: object, plain: str, caller: str | None) -> str:
        """Name who speaks; one that no structure told of goes by its own name, or by its caller's and its own."""
        known = self._known(agent, plain)
        if known is not None:
            return known
        self.roles.setdefault(plain, agent_role(agent))
        return self._name_at(plain if caller is None else f"{caller}/{plain}", plain, is_shared=False)

    def manager_of(self, team: object) -> str | None:
        """Name the manager of *team*, if it says things of its own."""
        return self._known(team, None)

    def knows(self, plain: str) -> bool:
        """Return whether the program has given that name to somebody here."""
        return plain in self.roles

    def hearers(self, team: object, depth: int = 0) -> dict[str, tuple[str, ...]]:
        """List who hears what is said in *team*, by the names that its participants have in it.

        A team that takes part stands for its own members; what speaks for the team itself stands under an empty name.
        """
        manager = self.manager_of(team)
        found: dict[str, tuple[str, ...]] = {} if manager is None else {"": (manager,)}
        for member in _participants(team) if depth <= _MAX_DEPTH else ():
            if isinstance(member, Team):
                inner = self.hearers(member, depth + 1)
                found[plain_name(member)] = tuple(name for names in inner.values() for name in names)
            else:
                speaker = _speaker(member)
                found[plain_name(member)] = (self.name_of(speaker, plain_name(speaker), None),)
        return found

    def _name_at(self, place: str, plain: str, *, is_shared: bool) -> str:
        name = self._by_place.get(place)
        if name is None:
            wanted = (place,) if is_shared else (plain, place)
            name = next((each for each in wanted if each not in self._taken), None)
            if name is None:
                name = next(each for number in count(2) if (each := f"{place}#{number}") not in self._taken)
            self._by_place[place] = name
            self._taken.add(name)
        return name

    def _known(self, owner: object, plain: str | None) -> str | None:
        refers, named, name = self._names.get(id(owner), (_nothing, "", ""))
        return name if refers() is owner and plain in (named, None) else None


def plain_name(named: Any) -> str:
    """Read the name that the program gave to an agent or team; its class's where it has none that can be read."""
    return text_attribute(named, "name") or type(named).__name__


def _nothing() -> object:
    return None


def _places(members: list[_Member]) -> dict[str, _Member]:
    found: dict[str, _Member] = {}
    for member in members:
        place = "/".join((*member.path, member.agent.name))
        if place in found:  # teams without a name of their own, in one agent's tools
            place = next(each for number in count(2) if (each := f"{place}#{number}") not in found)
        found[place] = member
    return found


def _members(runner: object, path: tuple[str, ...], depth: int) -> Iterator[_Member]:
    if depth > _MAX_DEPTH:
        return
    if not isinstance(runner, Team):
        yield from _agent(runner, path, None, depth)
        return
    manager = _speaking_manager(runner)
    if manager is not None:
        yield _Member(runner, path, manager)
    team_id = getattr(runner, "_team_id", None)
    for member in _participants(runner):
        name = plain_name(member)
        if isinstance(member, Team):
            yield from _members(member, (*path, name), depth + 1)
        else:
            yield from _agent(member, path, f"{name}_{team_id}/{team_id}" if team_id else None, depth)


def _agent(member: object, path: tuple[str, ...], agent_id: str | None, depth: int) -> Iterator[_Member]:
    speaker = _speaker(member)
    if not isinstance(speaker, ChatAgent):
        return
    name = plain_name(speaker)
    if speaker is not member:
        path = *path, plain_name(member)
    agent = Agent(name, agent_role(speaker), agent_id, text_attribute(speaker, "description") or None)
    yield _Member(speaker, path, agent)
    if isinstance(speaker, SocietyOfMindAgent):
        yield from _members(getattr(speaker, "_team", None), (*path, name), depth + 1)
    for tool in _tools(speaker):
        runner = getattr(tool, "_task_runner", None)
        if isinstance(runner, Team):
            yield from _members(runner, (*path, name, plain_name(runner)), depth + 1)
        elif runner is not None:
            yield from _members(runner, (*path, name), depth + 1)


def _participants(team: object) -> list[Any]:
    members = getattr(team, "_participants", ())
    return list(members) if isinstance(members, list | tuple) else []


def _speaker(member: object) -> object:
    for _ in range(_MAX_DEPTH):
        if not isinstance(member, MessageFilterAgent):  # it passes on what another one says
            break
        member = getattr(member, "_wrapped_agent", None)
    return member


def _tools(agent: object) -> list[Any]:
    """List the tools of an `AssistantAgent` that are known before it runs."""
    found: list[Any] = []
    with suppress(Exception):  # workbenches of the program's own may have anything there
        for bench in getattr(agent, "_workbench", None) or ():
            found.extend(getattr(bench, "_tools", ()))
    return found


def _speaking_manager(team: Team) -> Agent | None:
    manager = getattr(team, "_base_group_chat_manager_class", None)
    if not isinstance(manager, type) or not issubclass(manager, MagenticOneOrchestrator):  # it says things of its own
        return None
    name = getattr(team, "_group_chat_manager_name", None)
    name = name if isinstance(name, str) and name else manager.__name__
    return Agent(name, description="Plans, and tells the others what to do next")
