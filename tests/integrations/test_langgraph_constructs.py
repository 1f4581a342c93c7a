"""Each construct of LangGraph that moves a run along: the whole trace that comes of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send

from blamespan import conventions as words
from blamespan.genai_messages import text_of
from blamespan.testing import SpanRecorder
from tests.integrations.drawing import literal
from tests.integrations.langgraph_programs import (
    Words,
    add,
    asks_for,
    calculator,
    chain,
    drawn,
    model,
    named,
    says,
    tree,
)

ASK: Any = {"messages": [("user", "1 + 2?")]}


def after(seconds: float, *words: str) -> Any:
    """Make a node that speaks later than another, so that their order is the same in every run."""

    def node(_: Any) -> dict[str, list[str]]:
        time.sleep(seconds)
        return {"words": list(words)}

    return node


async def read(stream: Any) -> None:
    async for _ in stream:
        pass


MODES: list[Any] = ["values", "updates", "messages", "custom", "tasks", "checkpoints", "debug", ["values", "messages"]]


RUNS: dict[str, Callable[[Any], object]] = {
    "invoke": lambda graph: graph.invoke(ASK),
    "ainvoke": lambda graph: asyncio.run(graph.ainvoke(ASK)),
    **{f"stream {mode}": lambda graph, mode=mode: list(graph.stream(ASK, stream_mode=mode)) for mode in MODES},  # type: ignore[misc]
    **{
        f"astream {mode}": lambda graph, mode=mode: asyncio.run(read(graph.astream(ASK, stream_mode=mode)))  # type: ignore[misc]
        for mode in MODES
    },
    "stream v2": lambda graph: list(graph.stream(ASK, stream_mode=["updates", "messages"], version="v2")),
    "stream_events v3": lambda graph: list(graph.stream_events(ASK, version="v3")),
    "astream_events v2": lambda graph: asyncio.run(read(graph.astream_events(ASK, version="v2"))),
}


@pytest.mark.construct("LangGraph", "invoke")
@pytest.mark.construct("LangGraph", "ainvoke")
@pytest.mark.construct("LangGraph", "stream, every mode and lists of modes")
@pytest.mark.construct("LangGraph", "astream, every mode and lists of modes")
@pytest.mark.construct("LangGraph", "stream(version='v2')")
@pytest.mark.construct("LangGraph", "stream_events v3")
@pytest.mark.construct("LangGraph", "astream_events v2")
@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_however_a_graph_is_run(recorder: SpanRecorder, run: Callable[[Any], object]) -> None:
    """One trace: a span for the run, one for each agent message, tools and model calls below or beside them."""
    run(calculator(asks_for("add", a=1, b=2), "It is 3."))

    assert tree(recorder) == [
        "invoke_workflow calculator",
        "  invoke_agent solver",
        "    chat ScriptedModel",
        "  execute_tool add",
        "  invoke_agent solver",
        "    chat ScriptedModel",
        "  invoke_agent checker",
        "    chat ScriptedModel",
    ]
    assert drawn(recorder) == literal("""
        run 0: invoke_workflow calculator, complete
        task: 1 + 2?
        agents: solver, checker
        0 solver: message 'add({"a": 1, "b": 2})', 3+4 tokens, langgraph.step=1
        1 solver: tool_call 'add({"a": 1, "b": 2})' after 0, gen_ai.tool.call.id='call_0'
        2 solver: tool_result '3' after 1
        3 solver: message 'It is 3.' after 2, langgraph.step=3
        4 checker: message 'I checked it.' after 3, langgraph.step=4
    """)


@pytest.mark.construct("LangGraph", "Streaming LLM tokens")
def test_streaming_tokens(recorder: SpanRecorder) -> None:
    """A model that streams is one call with its whole answer, and its agent says that once."""
    speaker = GenericFakeChatModel(messages=iter([AIMessage("one two three")]))
    graph = StateGraph(MessagesState)
    graph.add_node("speaker", lambda state: {"messages": [speaker.invoke(state["messages"])]})
    graph.add_edge(START, "speaker")
    assert len(list(graph.compile(name="g").stream(ASK, stream_mode="messages"))) > 3

    assert tree(recorder) == ["invoke_workflow g", "  invoke_agent speaker", "    chat GenericFakeChatModel"]
    [chat] = named(recorder, "chat GenericFakeChatModel")
    assert text_of(chat.attributes[words.OUTPUT_MESSAGES]) == "one two three"
    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: 1 + 2?
        agents: speaker
        0 speaker: message 'one two three', langgraph.step=1
    """)


@pytest.mark.construct("LangGraph", "StateGraph with conditional edges and loops")
def test_conditional_edges(recorder: SpanRecorder) -> None:
    """A loop is a message of the same agent each time round; edges are no steps."""
    graph = StateGraph(Words)
    graph.add_node("writer", lambda state: {"words": [f"draft {len(state['words'])}"]})
    graph.add_node("editor", says("fine"))
    graph.add_edge(START, "writer")
    graph.add_conditional_edges("writer", lambda state: "writer" if len(state["words"]) < 3 else "editor")
    graph.compile(name="g").invoke({"words": ["go"]})

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: words: go
        agents: writer, editor
        0 writer: message 'words: draft 1', langgraph.step=1
        1 writer: message 'words: draft 2' after 0, langgraph.step=2
        2 editor: message 'words: fine' after 1, langgraph.step=3
    """)


@pytest.mark.construct("LangGraph", "Functional API: @entrypoint and @task")
def test_functional_api(recorder: SpanRecorder) -> None:
    """Tasks are the steps; those called together build on the same ones; the entrypoint says what is new."""

    @task
    def look_up(word: str) -> str:
        time.sleep(0.02 if word == "two" else 0)
        return f"{word} found"

    @task
    def join(parts: list[str]) -> str:
        return " and ".join(parts)

    @entrypoint()
    def flow(words: list[str]) -> str:
        found = [look_up(word) for word in words]
        return join([one.result() for one in found]).result() + "!"

    assert flow.invoke(["one", "two"]) == "one found and two found!"

    assert tree(recorder) == [
        "invoke_workflow LangGraph",
        "  invoke_workflow flow",
        "    invoke_agent look_up",
        "    invoke_agent look_up",
        "    invoke_agent join",
        "    invoke_agent flow",
    ]
    assert drawn(recorder) == literal("""
        run 0: invoke_workflow LangGraph, complete
        task: '- one\\n- two'
        agents: look_up, join, flow
        0 look_up: message 'one found', blamespan.agent.id='flow/look_up', langgraph.step=0
        1 look_up: message 'two found', blamespan.agent.id='flow/look_up', langgraph.step=0
        2 join: message 'one found and two found' after 0 1, blamespan.agent.id='flow/join', langgraph.step=0
        3 flow: message 'one found and two found!' after 2, langgraph.step=0
    """)


@pytest.mark.construct("LangGraph", "Functional API, async")
async def test_functional_api_async(recorder: SpanRecorder) -> None:
    """Async tasks are recorded as sync ones are."""

    @task
    async def shout(word: str) -> str:
        await asyncio.sleep(0)
        return word.upper()

    @entrypoint()
    async def flow(word: str) -> str:
        return await shout(word)

    assert await flow.ainvoke("hey") == "HEY"

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow LangGraph, complete
        task: hey
        agents: shout
        0 shout: message 'HEY', blamespan.agent.id='flow/shout', langgraph.step=0
    """)


@pytest.mark.construct("LangGraph", "Prebuilt agent: langchain create_agent")
@pytest.mark.parametrize("is_async", [False, True])
def test_create_agent(recorder: SpanRecorder, is_async: bool) -> None:
    """The agent speaks under its own name, and its tools are its calls."""
    agent = create_agent(model(asks_for("add", a=1, b=2), "3"), [add], name="adder", system_prompt="Add.")
    asyncio.run(agent.ainvoke(ASK)) if is_async else agent.invoke(ASK)

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow adder, complete
        task: 1 + 2?
        agents: adder
        0 adder: message 'add({"a": 1, "b": 2})', 3+4 tokens, langgraph.node='model', langgraph.step=1
        1 adder: tool_call 'add({"a": 1, "b": 2})' after 0, gen_ai.tool.call.id='call_0'
        2 adder: tool_result '3' after 1
        3 adder: message '3' after 2, langgraph.node='model', langgraph.step=3
    """)


@pytest.mark.construct("LangGraph", "Prebuilt agent: langgraph create_react_agent")
@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
def test_create_react_agent(recorder: SpanRecorder) -> None:
    """The older prebuilt agent is recorded as the newer one is."""
    from langgraph.prebuilt import create_react_agent

    create_react_agent(model(asks_for("add", a=1, b=2), "3"), [add], name="adder").invoke(ASK)

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow adder, complete
        task: 1 + 2?
        agents: adder
        0 adder: message 'add({"a": 1, "b": 2})', 3+4 tokens, langgraph.node='agent', langgraph.step=1
        1 adder: tool_call 'add({"a": 1, "b": 2})' after 0, gen_ai.tool.call.id='call_0'
        2 adder: tool_result '3' after 1
        3 adder: message '3' after 2, langgraph.node='agent', langgraph.step=3
    """)


@pytest.mark.construct("LangGraph", "ToolNode with several calls at once")
def test_tool_node_with_several_calls(recorder: SpanRecorder) -> None:
    """Each call of one answer is a call of its own that builds on it; the next message builds on all answers."""

    @tool
    def slow_add(a: int, b: int) -> int:
        """Add slowly."""
        time.sleep(0.03)
        return a + b

    calls = [{"name": "add", "args": {"a": 1, "b": 2}, "id": "c1"}]
    calls += [{"name": "slow_add", "args": {"a": 3, "b": 4}, "id": "c2"}]
    calculator(AIMessage("", tool_calls=calls), "3 and 7", tools=(add, slow_add)).invoke(ASK)

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow calculator, complete
        task: 1 + 2?
        agents: solver, checker
        0 solver: message 'add({"a": 1, "b": 2})\\nslow_add({"a": 3, "b": 4})', langgraph.step=1
        1 solver: tool_call 'add({"a": 1, "b": 2})' after 0, gen_ai.tool.call.id='c1'
        2 solver: tool_result '3' after 1
        3 solver: tool_call 'slow_add({"a": 3, "b": 4})' after 0, gen_ai.tool.call.id='c2'
        4 solver: tool_result '7' after 3
        5 solver: message '3 and 7' after 2 4, langgraph.step=3
        6 checker: message 'I checked it.' after 5, langgraph.step=4
    """)


@pytest.mark.construct("LangGraph", "Command(goto=...) handoff")
def test_command_goto(recorder: SpanRecorder) -> None:
    """An agent that sends the run on itself hands off to the node it names."""
    graph = StateGraph(Words)
    graph.add_node("clerk", lambda _: Command(goto="expert", update={"words": ["for you"]}), destinations=("expert",))
    graph.add_node("expert", says("done"))
    graph.add_edge(START, "clerk")
    graph.compile(name="g").invoke({"words": ["help"]})

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: words: help
        agents: clerk, expert
        0 clerk: handoff 'words: for you' to expert, langgraph.step=1
        1 expert: message 'words: done' after 0, langgraph.step=2
    """)


@pytest.mark.construct("LangGraph", "Command(graph=Command.PARENT) handoff out of a subgraph")
def test_command_to_parent(recorder: SpanRecorder) -> None:
    """A member of a team hands the whole run to a node outside; that is no error of the team."""
    team = StateGraph(Words)
    team.add_node("clerk", lambda _: Command(goto="expert", graph=Command.PARENT, update={"words": ["over to you"]}))
    team.add_edge(START, "clerk")
    graph = StateGraph(Words)
    graph.add_node("desk", team.compile(name="desk"), destinations=("expert",))
    graph.add_node("expert", says("solved"))
    graph.add_edge(START, "desk")
    graph.compile(name="g").invoke({"words": ["help"]})

    assert tree(recorder) == [
        "invoke_workflow g",
        "  invoke_workflow desk",
        "    invoke_agent clerk",
        "  invoke_agent expert",
    ]
    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: words: help
        agents: clerk, expert
        0 clerk: handoff 'words: over to you' to expert, blamespan.agent.id='desk/clerk', langgraph.step=1
        1 expert: message 'words: solved' after 0, langgraph.step=2
    """)


@pytest.mark.construct("LangGraph", "Handoff by a tool that returns a Command")
def test_handoff_tool(recorder: SpanRecorder) -> None:
    """The tool call names the agent that it leads to."""

    @tool
    def to_expert() -> Command[str]:
        """Hand over to the expert."""
        answer = ToolMessage("handed over", tool_call_id="call_0")
        return Command(goto="expert", graph=Command.PARENT, update={"messages": [answer]})

    graph = StateGraph(MessagesState)
    clerk = create_agent(model(asks_for("to_expert")), [to_expert], name="clerk")
    graph.add_node("clerk", clerk, destinations=("expert",))
    graph.add_node("expert", create_agent(model("solved"), [], name="expert"))
    graph.add_edge(START, "clerk")
    graph.compile(name="g").invoke(ASK)

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: 1 + 2?
        agents: clerk, expert
        0 clerk: message 'to_expert({})', 3+4 tokens, langgraph.node='model', langgraph.step=1
        1 clerk: tool_call 'to_expert({})' to expert after 0, gen_ai.tool.call.id='call_0'
        2 clerk: tool_result 'handed over' after 1
        3 expert: message 'solved' after 2, langgraph.node='model', langgraph.step=1
    """)


@pytest.mark.construct("LangGraph", "Send fan-out and what follows it")
def test_send_fan_out(recorder: SpanRecorder) -> None:
    """Each branch says which packet it works on and builds on who sent it; the next node builds on all branches."""

    def work(given: dict[str, Any]) -> dict[str, list[str]]:
        time.sleep(0.03 * given["part"])
        return {"words": [f"part {given['part']}"]}

    graph = StateGraph(Words)
    graph.add_node("planner", says("plan"))
    graph.add_node("worker", work)
    graph.add_node("writer", says("all"))
    graph.add_edge(START, "planner")
    graph.add_conditional_edges("planner", lambda _: [Send("worker", {"part": n}) for n in range(3)], ["worker"])
    graph.add_edge("worker", "writer")
    graph.compile(name="g").invoke({"words": []})

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: words: []
        agents: planner, worker, writer
        0 planner: message 'words: plan' to worker, langgraph.step=1
        1 worker: message 'words: part 0' after 0, langgraph.branch=0, langgraph.step=2
        2 worker: message 'words: part 1' after 0, langgraph.branch=1, langgraph.step=2
        3 worker: message 'words: part 2' after 0, langgraph.branch=2, langgraph.step=2
        4 writer: message 'words: all' after 1 2 3, langgraph.step=3
    """)


@pytest.mark.construct("LangGraph", "Parallel branches and joins")
def test_parallel_branches_and_join(recorder: SpanRecorder) -> None:
    """Branches build on what they share; a join builds on all that lead to it, however far back they ended."""
    graph = StateGraph(Words)
    nodes = {"source": says("go"), "left": says("left"), "right": after(0.03, "right"), "more": says("more")}
    for name, node in {**nodes, "join": says("joined")}.items():
        graph.add_node(name, node)
    graph.add_edge(START, "source")
    graph.add_edge("source", "left")
    graph.add_edge("source", "right")
    graph.add_edge("right", "more")
    graph.add_edge(["left", "more"], "join")
    graph.compile(name="g").invoke({"words": []})

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: words: []
        agents: source, left, right, more, join
        0 source: message 'words: go', langgraph.step=1
        1 left: message 'words: left' after 0, langgraph.step=2
        2 right: message 'words: right' after 0, langgraph.step=2
        3 more: message 'words: more' after 2, langgraph.step=3
        4 join: message 'words: joined' after 1 3, langgraph.step=4
    """)


@pytest.mark.construct("LangGraph", "Deferred nodes")
def test_deferred_node(recorder: SpanRecorder) -> None:
    """A deferred node waits for branches of any length, and builds on the last of each."""
    graph = StateGraph(Words)
    graph.add_node("short", says("short"))
    graph.add_node("long", after(0.03, "long"))
    graph.add_node("longer", says("longer"))
    graph.add_node("last", says("all done"), defer=True)
    graph.add_edge(START, "short")
    graph.add_edge(START, "long")
    graph.add_edge("long", "longer")
    graph.add_edge("short", "last")
    graph.add_edge("longer", "last")
    graph.compile(name="g").invoke({"words": []})

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: words: []
        agents: short, long, longer, last
        0 short: message 'words: short', langgraph.step=1
        1 long: message 'words: long', langgraph.step=1
        2 longer: message 'words: longer' after 1, langgraph.step=2
        3 last: message 'words: all done' after 0 2, langgraph.step=3
    """)


@pytest.mark.construct("LangGraph", "Subgraph as a node, on several levels")
def test_subgraphs_as_nodes(recorder: SpanRecorder) -> None:
    """A subgraph is a team below the run, its members are the steps, and nothing is said twice."""
    inner = chain(("reader", says("read")), name="inner")
    team = chain(("deeper", inner), ("writer", says("written")), name="team")
    chain(("chief", says("go")), ("desk", team), ("editor", says("fine")), name="g").invoke({"words": []})

    assert tree(recorder) == [
        "invoke_workflow g",
        "  invoke_agent chief",
        "  invoke_workflow team",
        "    invoke_workflow inner",
        "      invoke_agent reader",
        "    invoke_agent writer",
        "  invoke_agent editor",
    ]
    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: words: []
        agents: chief, reader, writer, editor
        0 chief: message 'words: go', langgraph.step=1
        1 reader: message 'words: read' after 0, blamespan.agent.id='inner/reader', langgraph.step=1
        2 writer: message 'words: written' after 1, blamespan.agent.id='team/writer', langgraph.step=2
        3 editor: message 'words: fine' after 2, langgraph.step=3
    """)


@pytest.mark.construct("LangGraph", "Subgraph called inside a node")
def test_subgraph_called_in_a_node(recorder: SpanRecorder) -> None:
    """The graph is a team below the node's own span; what the node adds of its own is its own message, and no more."""
    team = chain(("reader", says("read")), name="team")
    hands_on = ("porter", lambda state: {"words": team.invoke(state)["words"][-1:]})
    adds = ("caller", lambda state: {"words": [team.invoke(state)["words"][-1] + " twice"]})
    chain(hands_on, adds, name="g").invoke({"words": []})

    assert tree(recorder) == [
        "invoke_workflow g",
        "  invoke_workflow porter",
        "    invoke_workflow team",
        "      invoke_agent reader",
        "  invoke_workflow caller",
        "    invoke_workflow team",
        "      invoke_agent reader",
        "    invoke_agent caller",
    ]
    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: words: []
        agents: reader, caller
        0 reader: message 'words: read', blamespan.agent.id='team/reader', langgraph.step=1
        1 reader: message 'words: read' after 0, blamespan.agent.id='team/reader', langgraph.step=1
        2 caller: message 'words: read twice' after 1, langgraph.step=2
    """)


@pytest.mark.construct("LangGraph", "Subgraph called by a tool (agent as a tool)")
def test_subgraph_called_by_a_tool(recorder: SpanRecorder) -> None:
    """A graph that a tool runs is a team below the tool's span."""
    helper = create_agent(model("42"), [], name="helper")

    @tool
    def ask_helper(question: str) -> str:
        """Ask the helper."""
        return str(helper.invoke({"messages": [("user", question)]})["messages"][-1].content)

    create_agent(model(asks_for("ask_helper", question="?"), "It is 42."), [ask_helper], name="boss").invoke(ASK)

    assert tree(recorder) == [
        "invoke_workflow boss",
        "  invoke_agent boss",
        "    chat ScriptedModel",
        "  execute_tool ask_helper",
        "    invoke_workflow helper",
        "      invoke_agent helper",
        "        chat ScriptedModel",
        "  invoke_agent boss",
        "    chat ScriptedModel",
    ]
    assert drawn(recorder) == literal("""
        run 0: invoke_workflow boss, complete
        task: 1 + 2?
        agents: boss, helper
        0 boss: message 'ask_helper({"question": "?"})', 3+4 tokens, langgraph.node='model', langgraph.step=1
        1 boss: tool_call 'ask_helper({"question": "?"})' after 0, gen_ai.tool.call.id='call_0'
        2 helper: message '42' after 1, langgraph.node='model', langgraph.step=1
        3 boss: tool_result '42' after 1
        4 boss: message 'It is 42.' after 3, langgraph.node='model', langgraph.step=3
    """)


@pytest.mark.construct("LangGraph", "Agents without a name, or of one name")
def test_agents_of_one_name(recorder: SpanRecorder) -> None:
    """Agents that share a name are told apart by where they stand; one without goes by its node."""
    writers = [create_agent(model(answer), [], name="writer") for answer in ("one", "two", "again")]
    twice = create_agent(model("first", "second"), [], name="twice")
    graph = StateGraph(MessagesState)
    at = START
    for name, agent in {
        "a": writers[0],
        "b": writers[1],
        "writer": writers[2],
        "c": lambda state: {"messages": twice.invoke(state)["messages"][-1:]},
        "d": lambda state: {"messages": twice.invoke(state)["messages"][-1:]},
        "nameless": create_agent(model("three"), []),
        "team": chain_of_agents("agent"),
    }.items():
        graph.add_node(name, agent)
        graph.add_edge(at, name)
        at = name
    graph.compile(name="g").invoke(ASK)

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: 1 + 2?
        agents: writer, b/writer, writer#2, twice, nameless, agent (executor)
        0 writer: message 'one', blamespan.agent.id='a/writer', langgraph.node='model', langgraph.step=1
        1 b/writer: message 'two' after 0, langgraph.node='model', langgraph.step=1
        2 writer#2: message 'again' after 1, blamespan.agent.id='writer', langgraph.node='model', langgraph.step=1
        3 twice: message 'first' after 2, blamespan.agent.id='c/twice', langgraph.node='model', langgraph.step=1
        4 twice: message 'second' after 3, blamespan.agent.id='d/twice', langgraph.node='model', langgraph.step=1
        5 nameless: message 'three' after 4, langgraph.node='model', langgraph.step=1
        6 agent: message 'said' after 5, blamespan.agent.id='team/agent', langgraph.step=1
    """)


def chain_of_agents(name: str) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node(name, lambda _: {"messages": [AIMessage("said")]})
    graph.add_edge(START, name)
    return graph.compile(name="team")


@pytest.mark.parametrize("has_model", [True, False])
def test_node_without_a_model_executes_what_its_author_wrote(recorder: SpanRecorder, has_model: bool) -> None:
    """A retriever beside a writer with a model is nobody to blame; where no node calls a model, nobody can tell."""
    writer = model("One must pay 12 euros.") if has_model else None

    def retrieve(_: Any) -> dict[str, Any]:
        return {"messages": [("ai", "prices.md: the fee is 12 euros")]}

    def write(state: Any) -> dict[str, Any]:
        said = writer.invoke(state["messages"]) if writer else AIMessage("One must pay 12 euros.")
        return {"messages": [said]}

    graph = StateGraph(MessagesState)
    graph.add_node("retriever", retrieve)
    graph.add_node("writer", write)
    graph.add_edge(START, "retriever")
    graph.add_edge("retriever", "writer")
    graph.compile(name="desk").invoke(ASK)

    listed = "retriever (executor), writer" if has_model else "retriever, writer"
    assert f"agents: {listed}\n" in drawn(recorder)
