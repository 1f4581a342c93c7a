"""Playing a scene inside AutoGen or LangGraph: who speaks is fixed, what they are given is up to the framework."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from blamespan.errors import MissingExtra
from blamespan_lab.make.conflicts.scenes import Scene
from blamespan_lab.make.simulation.agents.policy import InputMessage, Reply, ToolSpec
from blamespan_lab.make.simulation.agents.team import TeamMember
from blamespan_lab.make.simulation.program import await_unless_stuck
from blamespan_lab.make.simulation.simulated_run import CURRENT_RUN, SimulatedRun
from blamespan_lab.make.simulation.statements.reading import TaskLexicon
from blamespan_lab.make.simulation.tasks.task import Task, Tool

__all__ = ["play"]

_USER = "user"


def play(scene: Scene) -> None:
    """Play a scene once. Spans go where `blamespan.instrument()` was told.

    Raises:
        MissingExtra: if the scene's framework is not installed.
        StuckError: if the framework waits for something that never comes.
    """
    run = _prepare(scene)
    perform = _perform_autogen if scene.framework == "autogen" else _perform_langgraph
    try:
        asyncio.run(await_unless_stuck(perform(scene, run)))
    except ImportError as error:
        raise MissingExtra(str(error)) from error


@dataclass
class _ScriptedPolicy:
    """An agent's model that answers what its script says, whatever it is sent."""

    replies: list[Reply]
    index: int = field(default=0)

    def reply(self, messages: Sequence[InputMessage], tools: Sequence[ToolSpec]) -> Reply:
        """Return the next reply."""
        del messages, tools
        self.index += 1
        return self.replies[self.index - 1]


def _prepare(scene: Scene) -> SimulatedRun:
    replies: dict[str, list[Reply]] = {}
    for turn in scene.turns:
        if turn.speaker != _USER:
            replies.setdefault(turn.speaker, []).extend(turn.replies)
    calls = [call for turn in scene.turns for reply in turn.replies for call in reply.calls]
    tools = [_make_tool(name, answer, _argument_names(calls, name)) for name, answer in scene.tools.items()]
    return SimulatedRun(
        Task("conflicts", scene.task, TaskLexicon({}, ""), (), tuple(tools), {}, ()),
        tuple(TeamMember(name, "solver") for name in replies),
        {name: _ScriptedPolicy(own) for name, own in replies.items()},
        scene.system,
        {name: frozenset(scene.tools if name == scene.writer else ()) for name in replies},
    )


def _argument_names(calls: Sequence[Any], name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for call in calls if call.name == name for key in json.loads(call.arguments)))


def _make_tool(name: str, answer: str, arguments: tuple[str, ...]) -> Tool:
    return Tool(name, name.replace("_", " ").capitalize() + ".", dict.fromkeys(arguments, "a text"), lambda **_: answer)


async def _perform_langgraph(scene: Scene, run: SimulatedRun) -> None:
    """Run a graph with a node for each agent; what the user says later came before the run, with what was said."""
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
    from langgraph.graph import END, START, MessagesState, StateGraph

    from blamespan_lab.make.simulation.model_clients.langchain import PolicyModel
    from blamespan_lab.make.simulation.topologies.langgraph import take_turn

    told: list[AnyMessage] = [HumanMessage(scene.task)]
    last_of_user = max((index for index, turn in enumerate(scene.turns) if turn.speaker == _USER), default=-1)
    for turn in scene.turns[: last_of_user + 1]:
        if turn.speaker == _USER:
            told.append(HumanMessage(turn.text))
        else:
            told += [AIMessage(run.policies[turn.speaker].reply((), ()).text, name=turn.speaker) for _ in turn.replies]  # type: ignore[union-attr]  # scripts are not awaited
    order = [turn.speaker for turn in scene.turns[last_of_user + 1 :]]

    def make_node(name: str) -> Any:  # LangGraph spells its type as a protocol of ten
        model = PolicyModel(agent=name)

        async def node(state: MessagesState) -> dict[str, Any]:
            return {"messages": await take_turn(model, state["messages"])}  # type: ignore[arg-type]  # messages of any kind are messages

        return node

    graph = StateGraph(MessagesState)
    for name, before in zip(order, (START, *order), strict=False):
        graph.add_node(name, make_node(name))
        graph.add_edge(before, name)
    graph.add_edge(order[-1], END)
    token = CURRENT_RUN.set(run)
    try:
        await graph.compile().ainvoke({"messages": told})
    finally:
        CURRENT_RUN.reset(token)


async def _perform_autogen(scene: Scene, run: SimulatedRun) -> None:
    """Run a team whose members speak in the scene's order; the user is one of them where they speak again."""
    from autogen_agentchat.agents import UserProxyAgent
    from autogen_agentchat.base import ChatAgent
    from autogen_agentchat.conditions import MaxMessageTermination
    from autogen_agentchat.teams import DiGraphBuilder, GraphFlow, RoundRobinGroupChat

    from blamespan_lab.make.simulation.topologies.autogen import make_agent

    order = [turn.speaker for turn in scene.turns]
    texts = iter([turn.text for turn in scene.turns if turn.speaker == _USER])
    members: dict[str, ChatAgent] = {name: make_agent(run, name) for name in dict.fromkeys(order) if name != _USER}
    if _USER in order:
        members[_USER] = UserProxyAgent(_USER, input_func=lambda _: next(texts))
    if max(Counter(order).values()) > 1:
        names = list(dict.fromkeys(order))
        team: Any = RoundRobinGroupChat(
            [members[name] for name in names], termination_condition=MaxMessageTermination(1 + len(order))
        )
    else:
        builder = DiGraphBuilder()
        for name in order:
            builder.add_node(members[name])
        for name, following in pairwise(order):
            builder.add_edge(name, following)
        team = GraphFlow(list(members.values()), builder.build())
    await team.run(task=scene.task)
