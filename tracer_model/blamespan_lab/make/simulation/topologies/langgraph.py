"""The topologies as LangGraph graphs: compiled once for each team of names, run by many runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeAlias

try:
    from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.graph.state import CompiledStateGraph
except ImportError as error:
    raise ImportError("simulated LangGraph teams need LangGraph: pip install 'blamespan[langgraph]'") from error

from blamespan_lab.make.simulation.agents.protocols import read_next_speaker
from blamespan_lab.make.simulation.agents.team import TeamMember
from blamespan_lab.make.simulation.model_clients.langchain import PolicyModel, tool_for
from blamespan_lab.make.simulation.simulated_run import CURRENT_RUN, SimulatedRun
from blamespan_lab.make.wordings.banks import TALK

# Every function of a graph is async: LangGraph runs others in threads, and steps of branches would change places.

_MAX_TOOL_ROUNDS = 12
_MAX_ROUNDS = 15
"""How often a loop comes round before the team is stopped."""
_DEBATE_ROUNDS = 2

_Graph: TypeAlias = CompiledStateGraph[Any, Any, Any, Any]
_Node: TypeAlias = Any  # an async function of the state; LangGraph spells its type as a protocol of ten
_Team: TypeAlias = tuple[TeamMember, ...]


async def perform(topology: str, run: SimulatedRun) -> list[tuple[str, str]]:
    """Run the graph on the run's task.

    Returns:
        Sender and text of each message of the conversation, in order.
    """
    graph = _compile(topology, run.team)
    token = CURRENT_RUN.set(run)
    try:
        state = await graph.ainvoke({"messages": [HumanMessage(run.task.question)]}, {"recursion_limit": 400})
    finally:
        CURRENT_RUN.reset(token)
    messages: list[BaseMessage] = state["messages"]
    return [(m.name or "", str(m.text)) for m in messages if isinstance(m, AIMessage) and not m.tool_calls and m.text]


@lru_cache(maxsize=512)
def _compile(topology: str, team: _Team) -> _Graph:
    return _GRAPHS[topology](team)


def _make_node(name: str, *, last_only: bool = False) -> _Node:
    """Make the node of an agent: its model, its tools in a loop, and what it says in the end."""
    model = PolicyModel(agent=name)

    async def speak(state: MessagesState) -> dict[str, Any]:
        return {"messages": await take_turn(model, _filter_messages(state["messages"], name, last_only))}

    return speak


async def take_turn(model: PolicyModel, visible: list[BaseMessage]) -> list[AnyMessage]:
    """Return what an agent of the run that is on says to the messages that it sees, its tools in a loop."""
    run = CURRENT_RUN.get()
    tools = {tool.name: tool_for(tool) for tool in run.tools_of(model.agent)}
    bound = model.bind_tools(list(tools.values())) if tools else model
    prompt: list[BaseMessage] = [SystemMessage(run.system[model.agent]), *visible]
    new: list[AnyMessage] = []
    for _ in range(_MAX_TOOL_ROUNDS):
        answer = await bound.ainvoke([*prompt, *new])
        new.append(answer)
        if not (answer.tool_calls or answer.invalid_tool_calls):
            break
        new += [await _call_tool(tools, call) for call in answer.tool_calls]
        new += [
            ToolMessage(f"Error: {c['error']}", tool_call_id=c["id"], name=c["name"]) for c in answer.invalid_tool_calls
        ]
    return new


async def _call_tool(tools: Mapping[str, Any], call: Any) -> ToolMessage:
    """Run one call; an error is told to the model, as ToolNode does."""
    if call["name"] not in tools:
        text = f"Error: {call['name']} is not a valid tool, try one of {sorted(tools)}."
        return ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")
    try:
        result = await tools[call["name"]].ainvoke(call)
    except Exception as error:  # what a tool raises is its answer
        return ToolMessage(f"Error: {error!r}", tool_call_id=call["id"], name=call["name"], status="error")
    assert isinstance(result, ToolMessage)
    return result


def _filter_messages(messages: Sequence[BaseMessage], name: str, last_only: bool) -> list[BaseMessage]:
    """Leave out the others' dealings with their tools; of a relay, all but the last word."""
    own_calls = {c["id"] for m in messages if isinstance(m, AIMessage) and m.name == name for c in m.tool_calls}
    visible = [m for m in messages if _is_visible(m, name, own_calls)]
    if not last_only:
        return visible
    others = [m for m in visible if not isinstance(m, ToolMessage) and m.name != name]
    return others[-1:]


def _is_visible(message: BaseMessage, name: str, own_calls: set[str | None]) -> bool:
    if isinstance(message, ToolMessage):
        return message.tool_call_id in own_calls
    if isinstance(message, AIMessage) and message.name != name:
        return bool(message.text) and not message.tool_calls
    return True


def _last_text(state: MessagesState) -> str:
    return str(state["messages"][-1].text)


def _is_terminated(state: MessagesState) -> bool:
    return any(mark in _last_text(state) for mark in TALK.termination_words)


def _is_over(state: MessagesState, name: str, most: int) -> bool:
    """Return whether an agent has spoken more than *most* times, and note that the team was stopped by it."""
    spoken = sum(1 for message in state["messages"] if message.name == name and not isinstance(message, ToolMessage))
    if spoken > most:
        CURRENT_RUN.get().ran_out = True
    return spoken > most


def _chain(team: _Team) -> _Graph:
    return _build_line(team, "chain")


def _relay(team: _Team) -> _Graph:
    return _build_line(team, "relay", last_only=True)


def _build_line(team: _Team, name: str, *, last_only: bool = False) -> _Graph:
    builder = _add_nodes(team, last_only=last_only)
    for source, following in zip([START, *(m.name for m in team)], [*(m.name for m in team), END], strict=True):
        builder.add_edge(source, following)
    return builder.compile(name=name)


def _round_robin(team: _Team) -> _Graph:
    builder = _add_nodes(team)
    names = [member.name for member in team]
    builder.add_edge(START, names[0])
    for number, name in enumerate(names):
        following = names[(number + 1) % len(names)]
        builder.add_conditional_edges(name, _route_unless_terminated(following, names[0]), [following, END])
    return builder.compile(name="round_table")


def _route_unless_terminated(following: str, counted: str) -> Callable[[MessagesState], Awaitable[str]]:
    async def route(state: MessagesState) -> str:
        return END if _is_terminated(state) or _is_over(state, counted, _MAX_ROUNDS) else following

    return route


def _orchestrator(team: _Team) -> _Graph:
    orchestrator, *members = team
    names = [member.name for member in members]
    builder = _add_nodes(team)
    builder.add_edge(START, orchestrator.name)

    async def route(state: MessagesState) -> str:
        wanted = read_next_speaker(_last_text(state))
        return wanted if wanted in names and not _is_over(state, orchestrator.name, _MAX_ROUNDS * 2) else END

    builder.add_conditional_edges(orchestrator.name, route, [*names, END])
    for name in names:
        builder.add_edge(name, orchestrator.name)
    return builder.compile(name="supervised_team")


def _debate(team: _Team) -> _Graph:
    """Let all debaters speak at once, round after round, then the judge."""
    *debaters, judge = [member.name for member in team]
    builder = _add_nodes(team)
    for name in debaters:
        builder.add_edge(START, name)
        builder.add_conditional_edges(name, _route_until_debated(name, debaters, judge), [*debaters, judge])
    builder.add_edge(judge, END)
    return builder.compile(name="debate")


def _route_until_debated(name: str, debaters: list[str], judge: str) -> Callable[[MessagesState], Awaitable[list[str]]]:
    async def route(state: MessagesState) -> list[str]:
        spoken = sum(1 for m in state["messages"] if m.name == name and isinstance(m, AIMessage) and not m.tool_calls)
        return debaters if spoken < _DEBATE_ROUNDS else [judge]

    return route


def _add_nodes(team: Sequence[TeamMember], *, last_only: bool = False) -> StateGraph[Any, Any, Any, Any]:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    for member in team:
        builder.add_node(member.name, _make_node(member.name, last_only=last_only))
    return builder


_GRAPHS: Mapping[str, Callable[[_Team], _Graph]] = MappingProxyType(
    {
        "chain": _chain,
        "relay": _relay,
        "round_robin": _round_robin,
        "orchestrator": _orchestrator,
        "debate": _debate,
    }
)
