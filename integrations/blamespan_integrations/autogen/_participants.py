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
from blamespan_integrations.recording.objects import reference

_MAX_DEPTH = 16
"""Teams within teams; one that holds itself ends here."""


@dataclass(frozen=True, slots=True)
class _Participant:
    """One who may speak.

    Attributes:
        owner: The agent; the team, where it is the team's manager.
        path: Names of the teams, or of the agents that have others as tools, around it.
        agent: What a run tells of it, under the name the program gave it.
    """

    owner: object
    path: tuple[str, ...]
    agent: Agent


class Participants:
    """The agents of one run.

    Attributes:
        roles: What is known of those who speak, by the name the program gave them.
    """

    def __init__(self) -> None:
        self.roles: dict[str, AgentRole] = {}
        self._names: dict[int, tuple[Callable[[], object], str, str]] = {}
        self._names_by_path: dict[str, str] = {}
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
        by_path = _index_by_path([member for member in members if self._known(member.owner, member.agent.name) is None])
        counts = Counter(member.agent.name for path, member in by_path.items() if path not in self._names_by_path)
        for path, member in by_path.items():
            plain = member.agent.name
            name = self._name_at(path, plain, is_shared=counts[plain] > 1)
            self._names[id(member.owner)] = reference(member.owner), plain, name
            self.roles.setdefault(plain, member.agent.role)
        return [replace(member.agent, name=self.name_of(member.owner, member.agent.name, None)) for member in members]

    def name_of(self, agent: object, plain: str, caller: str | None) -> str:
        """Name who speaks; one that no structure told of goes by its own name, or by its caller's and its own."""
        name = self._known(agent, plain)
        if name is not None:
            return name
        self.roles.setdefault(plain, agent_role(agent))
        return self._name_at(plain if caller is None else f"{caller}/{plain}", plain, is_shared=False)

    def manager_of(self, team: object) -> str | None:
        """Name the manager of *team*, if it says things of its own."""
        return self._known(team, None)

    def knows(self, plain: str) -> bool:
        """Return whether the program has given that name to somebody here."""
        return plain in self.roles

    def list_hearers(self, team: object, depth: int = 0) -> dict[str, tuple[str, ...]]:
        """List who hears what is said in *team*, by the names that its participants have in it.

        A team that takes part stands for its own members; what speaks for the team itself stands under an empty name.
        """
        manager = self.manager_of(team)
        speakers: dict[str, tuple[str, ...]] = {} if manager is None else {"": (manager,)}
        for member in _participants(team) if depth <= _MAX_DEPTH else ():
            if isinstance(member, Team):
                inner = self.list_hearers(member, depth + 1)
                speakers[plain_name(member)] = tuple(name for names in inner.values() for name in names)
            else:
                speaker = _speaker(member)
                speakers[plain_name(member)] = (self.name_of(speaker, plain_name(speaker), None),)
        return speakers

    def _name_at(self, path: str, plain: str, *, is_shared: bool) -> str:
        name = self._names_by_path.get(path)
        if name is None:
            wanted = (path,) if is_shared else (plain, path)
            name = next((candidate for candidate in wanted if candidate not in self._taken), None)
            if name is None:
                name = next(candidate for number in count(2) if (candidate := f"{path}#{number}") not in self._taken)
            self._names_by_path[path] = name
            self._taken.add(name)
        return name

    def _known(self, owner: object, plain: str | None) -> str | None:
        refers, named, name = self._names.get(id(owner), (lambda: None, "", ""))
        return name if refers() is owner and plain in (named, None) else None


def plain_name(named: Any) -> str:
    """Read the name that the program gave to an agent or team; its class's where it has none that can be read."""
    return text_attribute(named, "name") or type(named).__name__


def _index_by_path(members: list[_Participant]) -> dict[str, _Participant]:
    by_path: dict[str, _Participant] = {}
    for member in members:
        path = "/".join((*member.path, member.agent.name))
        if path in by_path:  # teams without a name of their own, in one agent's tools
            path = next(candidate for number in count(2) if (candidate := f"{path}#{number}") not in by_path)
        by_path[path] = member
    return by_path


def _members(runner: object, path: tuple[str, ...], depth: int) -> Iterator[_Participant]:
    if depth > _MAX_DEPTH:
        return
    if not isinstance(runner, Team):
        yield from _agent(runner, path, None, depth)
        return
    manager = _speaking_manager(runner)
    if manager is not None:
        yield _Participant(runner, path, manager)
    team_id = getattr(runner, "_team_id", None)
    for member in _participants(runner):
        name = plain_name(member)
        if isinstance(member, Team):
            yield from _members(member, (*path, name), depth + 1)
        else:
            yield from _agent(member, path, f"{name}_{team_id}/{team_id}" if team_id else None, depth)


def _agent(member: object, path: tuple[str, ...], agent_id: str | None, depth: int) -> Iterator[_Participant]:
    speaker = _speaker(member)
    if not isinstance(speaker, ChatAgent):
        return
    name = plain_name(speaker)
    if speaker is not member:
        path = *path, plain_name(member)
    agent = Agent(name, agent_role(speaker), agent_id, text_attribute(speaker, "description") or None)
    yield _Participant(speaker, path, agent)
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
    tools: list[Any] = []
    with suppress(Exception):  # workbenches of the program's own may have anything there
        for bench in getattr(agent, "_workbench", None) or ():
            tools.extend(getattr(bench, "_tools", ()))
    return tools


def _speaking_manager(team: Team) -> Agent | None:
    manager = getattr(team, "_base_group_chat_manager_class", None)
    if not isinstance(manager, type) or not issubclass(manager, MagenticOneOrchestrator):  # it says things of its own
        return None
    name = getattr(team, "_group_chat_manager_name", None)
    name = name if isinstance(name, str) and name else manager.__name__
    return Agent(name, description="Plans, and tells the others what to do next")
