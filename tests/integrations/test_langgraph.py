"""What a LangGraph run looks like: one trace, one span per agent message, tools and model calls below."""

from __future__ import annotations

import json

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send

from blamespan import conventions as words
from blamespan import rebuild
from blamespan.testing import SpanRecorder
from tests.integrations.langgraph_programs import (
    Words,
    add,
    asks_for,
    calculator,
    chain,
    model,
    named,
    says,
    steps,
    tree,
)

ASK = {"messages": [("user", "1 + 2?")]}


def test_conditional_edge_and_tool_node_give_one_span_per_agent_message(recorder: SpanRecorder) -> None:
    """A graph with a conditional edge and a tool node is one trace: an agent span per message, nothing doubled."""
    calculator(asks_for("add", a=1, b=2), "It is 3.").invoke(ASK)

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
    assert {span.trace_id for span in recorder.spans()} == {f"{1:032x}"}


def test_run_is_rebuilt_in_causal_order(recorder: SpanRecorder) -> None:
    """The steps come in order, each with what was said and the steps it builds on."""
    calculator(asks_for("add", a=1, b=2), "It is 3.").invoke(ASK)

    trace = rebuild(recorder.spans())
    assert trace.task == "1 + 2?"
    assert [agent.name for agent in trace.agents] == ["solver", "checker"]
    assert steps(recorder) == [
        ("solver", "message", 'add({"a": 1, "b": 2})', ()),
        ("solver", "tool_call", 'add({"a": 1, "b": 2})', (0,)),
        ("solver", "tool_result", "3", (1,)),
        ("solver", "message", "It is 3.", (2,)),
        ("checker", "message", "I checked it.", (3,)),
    ]


def test_tool_span_says_who_called_and_what_came(recorder: SpanRecorder) -> None:
    """A tool of a tool node belongs to the agent that asked for it, with call id, arguments and result."""
    calculator(asks_for("add", "call_7", a=1, b=2), "It is 3.").invoke(ASK)

    [tool] = named(recorder, "execute_tool add")
    keys = [words.AGENT_NAME, words.TOOL_CALL_ID, words.TOOL_ARGUMENTS, words.TOOL_RESULT, words.TOOL_DESCRIPTION]
    assert [tool.attributes[key] for key in keys] == [
        "solver",
        "call_7",
        '{"a": 1, "b": 2}',
        "3",
        "Add two numbers.",
    ]


def test_chat_span_has_usage_and_tool_calls(recorder: SpanRecorder) -> None:
    """A model call says its tokens and its answer; its agent's message adds them up."""
    calculator(asks_for("add", a=1, b=2), "It is 3.").invoke(ASK)

    chat, agent = named(recorder, "chat ScriptedModel")[0], named(recorder, "invoke_agent solver")[0]
    part = json.loads(str(chat.attributes[words.OUTPUT_MESSAGES]))[0]["parts"][0]
    assert part == {"type": "tool_call", "id": "call_0", "name": "add", "arguments": {"a": 1, "b": 2}}
    for span in (chat, agent):
        assert (span.attributes[words.INPUT_TOKENS], span.attributes[words.OUTPUT_TOKENS]) == (3, 4)


def test_agent_span_holds_only_what_is_new(recorder: SpanRecorder) -> None:
    """An agent's second message shows what came since its first: the tool's answer, not the task again."""
    calculator(asks_for("add", a=1, b=2), "It is 3.").invoke(ASK)

    first, second = named(recorder, "invoke_agent solver")
    parts = [
        [part for message in json.loads(str(span.attributes[words.INPUT_MESSAGES])) for part in message["parts"]]
        for span in (first, second)
    ]
    assert parts == [
        [{"type": "text", "content": "1 + 2?"}],
        [{"type": "tool_call_response", "id": "call_0", "response": "3"}],
    ]


@pytest.mark.parametrize("agents", [1, 2, 40])
def test_payload_grows_linearly_with_the_run(recorder: SpanRecorder, agents: int) -> None:
    """Twice as many messages make twice as many bytes, however many agents share them."""
    sizes = []
    for rounds in (1, 2):
        count = 40 * rounds
        nodes = [f"agent{number}" for number in range(agents)]
        graph = StateGraph(MessagesState)
        for place, name in enumerate(nodes):
            graph.add_node(name, lambda state: {"messages": [AIMessage(f"{len(state['messages']):04d}" + "x" * 996)]})
            following = nodes[(place + 1) % agents]
            graph.add_conditional_edges(
                name, lambda state, to=following, n=count: to if len(state["messages"]) <= n else "__end__"
            )
        graph.add_edge(START, nodes[0])
        graph.compile().invoke({"messages": [("user", "go")]}, {"recursion_limit": 200})
        spans = recorder.spans()
        sizes.append(sum(len(str(value)) for span in spans for value in span.attributes.values()))
        assert len([span for span in spans if span.name.startswith("invoke_agent")]) == count
        recorder.clear()

    assert sizes[1] < 2.2 * sizes[0]
    assert sizes[1] < 3 * 80 * 1_000


def test_payload_of_a_state_without_messages_is_linear_too(recorder: SpanRecorder) -> None:
    """A list that grows in the state is written once by who added to it, and once by who builds on that."""
    nodes = [(f"agent{number}", says(f"{number:03d}" + "x" * 997)) for number in range(40)]
    chain(*nodes).invoke({"words": ["go"]})

    written = [span.attributes for span in recorder.spans() if span.name.startswith("invoke_agent")]
    assert sum(len(str(value)) for attributes in written for value in attributes.values()) < 40 * 3 * 1_000


def test_packet_builds_on_who_sent_it(recorder: SpanRecorder) -> None:
    """Of two senders in one superstep, a packet's work builds on its own."""
    graph = StateGraph(Words)
    for name in ("left", "right"):
        graph.add_node(name, says(name))
        graph.add_edge(START, name)
        graph.add_conditional_edges(name, lambda _, of=name: [Send("worker", {"of": of})], ["worker"])
    graph.add_node("worker", lambda given: {"words": [f"for {given['of']}"]})
    graph.compile().invoke({"words": []})

    trace = rebuild(recorder.spans())
    names = {step.index: step.agent for step in trace.steps}
    found = {step.content: [names[place] for place in step.inputs] for step in trace.steps if step.agent == "worker"}
    assert found == {"words: for left": ["left"], "words: for right": ["right"]}


def test_command_is_a_handoff_to_its_target(recorder: SpanRecorder) -> None:
    """An agent that sends the run on with `Command(goto=...)` hands off to the named node."""
    graph = StateGraph(Words)
    graph.add_node("clerk", lambda _: Command(goto="expert", update={"words": ["for you"]}), destinations=("expert",))
    graph.add_node("expert", says("done"))
    graph.add_edge(START, "clerk")
    graph.compile().invoke({"words": ["help"]})

    handoff, answer = rebuild(recorder.spans()).steps
    assert (handoff.kind, handoff.recipients, handoff.content) == ("handoff", ("expert",), "words: for you")
    assert (answer.kind, answer.agent, answer.inputs) == ("message", "expert", (0,))


def test_send_fans_out_and_join_builds_on_every_branch(recorder: SpanRecorder) -> None:
    """Packets run as branches that build on their sender; what follows builds on all of them."""
    graph = StateGraph(Words)
    graph.add_node("planner", says("plan"))
    graph.add_node("worker", lambda given: {"words": [f"part {given['part']}"]})
    graph.add_node("writer", says("all"))
    graph.add_edge(START, "planner")
    graph.add_conditional_edges("planner", lambda _: [Send("worker", {"part": n}) for n in range(3)], ["worker"])
    graph.add_edge("worker", "writer")
    graph.compile().invoke({"words": []})

    by_agent = {step.agent: step for step in rebuild(recorder.spans()).steps}
    branches = {span.attributes["langgraph.branch"] for span in named(recorder, "invoke_agent worker")}
    assert by_agent["planner"].recipients == ("worker",)
    assert branches == {0, 1, 2}
    assert by_agent["worker"].inputs == (0,)
    assert by_agent["writer"].inputs == (1, 2, 3)


def test_parallel_branches_and_join_edge_link_exactly(recorder: SpanRecorder) -> None:
    """Branches of fixed edges build on their common source, and a joining edge on exactly its sources."""
    graph = StateGraph(Words)
    for name in ("source", "left", "right", "more", "join"):
        graph.add_node(name, says(name))
    graph.add_edge(START, "source")
    graph.add_edge("source", "left")
    graph.add_edge("source", "right")
    graph.add_edge("right", "more")
    graph.add_edge(["left", "more"], "join")
    graph.compile().invoke({"words": []})

    trace = rebuild(recorder.spans())
    names = {step.index: step.agent for step in trace.steps}
    built_on = {step.agent: {names[place] for place in step.inputs} for step in trace.steps}
    assert built_on["left"] == built_on["right"] == {"source"}
    assert built_on["join"] == {"left", "more"}


def test_subgraph_node_is_a_team_and_its_members_are_the_steps(recorder: SpanRecorder) -> None:
    """A subgraph's node is one span with its members below; no message appears twice."""
    team = chain(("reader", says("read")), ("writer", says("written")), name="team")
    chain(("chief", says("go")), ("desk", team), ("editor", says("fine"))).invoke({"words": []})

    assert tree(recorder) == [
        "invoke_workflow chain",
        "  invoke_agent chief",
        "  invoke_workflow team",
        "    invoke_agent reader",
        "    invoke_agent writer",
        "  invoke_agent editor",
    ]
    assert [(agent, inputs) for agent, _, _, inputs in steps(recorder)] == [
        ("chief", ()),
        ("reader", (0,)),
        ("writer", (1,)),
        ("editor", (2,)),
    ]


def test_subgraph_called_in_a_node_is_not_doubled_either(recorder: SpanRecorder) -> None:
    """A node that calls a graph and hands its words on says nothing itself; what it adds is its own message."""
    team = chain(("reader", says("read")), name="team")
    hands_on = ("caller", lambda state: {"words": team.invoke(state)["words"][-1:]})
    adds = ("adder", lambda state: {"words": [team.invoke(state)["words"][-1] + " twice"]})
    chain(hands_on, adds).invoke({"words": []})

    assert [(agent, content) for agent, _, content, _ in steps(recorder)] == [
        ("reader", "words: read"),
        ("reader", "words: read"),
        ("adder", "words: read twice"),
    ]


def test_teams_nest_to_any_depth_and_keep_members_apart(recorder: SpanRecorder) -> None:
    """Members of different teams that share a name are different agents."""
    inner = chain(("writer", says("deep")), name="inner")
    middle = chain(("deeper", inner), ("writer", says("middle")), name="middle")
    chain(("writer", says("top")), ("middle", middle)).invoke({"words": []})

    assert [(agent, content) for agent, _, content, _ in steps(recorder)] == [
        ("writer", "words: top"),
        ("inner/writer", "words: deep"),
        ("middle/writer", "words: middle"),
    ]


def test_prebuilt_agent_goes_by_its_own_name(recorder: SpanRecorder) -> None:
    """The messages of `create_agent(name=...)` are that agent's, whatever its nodes are called."""
    create_agent(model(asks_for("add", a=1, b=2), "3"), [add], name="adder").invoke(ASK)

    assert [(agent, kind) for agent, kind, _, _ in steps(recorder)] == [
        ("adder", "message"),
        ("adder", "tool_call"),
        ("adder", "tool_result"),
        ("adder", "message"),
    ]


def test_prebuilt_agents_without_a_name_go_by_their_node(recorder: SpanRecorder) -> None:
    """Two unnamed agents in one graph are told apart by the nodes they stand in."""
    graph = StateGraph(MessagesState)
    graph.add_node("planner", create_agent(model("a plan"), []))
    graph.add_node("worker", create_agent(model("the work"), []))
    graph.add_edge(START, "planner")
    graph.add_edge("planner", "worker")
    graph.compile().invoke(ASK)

    assert steps(recorder) == [("planner", "message", "a plan", ()), ("worker", "message", "the work", (0,))]


def test_handoff_by_tool_names_its_target(recorder: SpanRecorder) -> None:
    """A tool that answers with a `Command` is a tool call addressed to the agent it leads to."""
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import tool

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
    graph.compile().invoke(ASK)

    trace = rebuild(recorder.spans())
    assert [(step.agent, step.kind, step.status) for step in trace.steps] == [
        ("clerk", "message", "unset"),
        ("clerk", "tool_call", "unset"),
        ("clerk", "tool_result", "unset"),
        ("expert", "message", "unset"),
    ]
    assert trace.steps[1].recipients == ("expert",)
    assert trace.steps[3].inputs == (2,)


def test_agent_that_runs_a_tool_itself_is_its_parent(recorder: SpanRecorder) -> None:
    """A tool called within a node is a child of the node's span, and its answer is what the message builds on."""
    chain(("solver", lambda _: {"words": [str(add.invoke({"a": 1, "b": 2}))]})).invoke({"words": []})

    assert tree(recorder) == ["invoke_workflow chain", "  invoke_agent solver", "    execute_tool add"]
    assert [(kind, inputs) for _, kind, _, inputs in steps(recorder)] == [
        ("tool_call", ()),
        ("tool_result", (0,)),
        ("message", (1,)),
    ]


def test_agent_as_a_tool_lies_below_the_call(recorder: SpanRecorder) -> None:
    """A graph that a tool runs is a team below the tool's span, and its first step builds on the call."""
    from langchain_core.tools import tool

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
    assert [(agent, kind, inputs) for agent, kind, _, inputs in steps(recorder)] == [
        ("boss", "message", ()),
        ("boss", "tool_call", (0,)),
        ("helper", "message", (1,)),
        ("boss", "tool_result", (1,)),
        ("boss", "message", (3,)),
    ]


def test_functional_tasks_are_the_steps(recorder: SpanRecorder) -> None:
    """In the functional API the tasks speak; the entrypoint does where it says something new."""

    @task
    def draft(topic: str) -> str:
        return f"about {topic}"

    @task
    def polish(text: str) -> str:
        return text.upper()

    @entrypoint()
    def flow(topic: str) -> str:
        return polish(draft(topic).result()).result()

    assert flow.invoke("lamps") == "ABOUT LAMPS"

    assert steps(recorder) == [("draft", "message", "about lamps", ()), ("polish", "message", "ABOUT LAMPS", (0,))]


def test_run_says_its_graph_task_agents_and_conversation(recorder: SpanRecorder) -> None:
    """The run's span names the graph, the last question, the agents, the answer and the thread."""
    from langgraph.checkpoint.memory import InMemorySaver

    graph = StateGraph(MessagesState)
    graph.add_node("clerk", lambda _: {"messages": [AIMessage("It is 3.")]})
    graph.add_edge(START, "clerk")
    asked = [HumanMessage("hi"), AIMessage("hello"), HumanMessage("1 + 2?")]
    thread = {"configurable": {"thread_id": "t-1"}}
    graph.compile(name="desk", checkpointer=InMemorySaver()).invoke({"messages": asked}, thread)

    [run] = named(recorder, "invoke_workflow desk")
    assert run.attributes[words.AGENT_NAME] == "desk"
    assert run.attributes[words.CONVERSATION_ID] == "t-1"
    assert run.attributes[words.RUN_COMPLETE] is True
    assert json.loads(str(run.attributes[words.RUN_AGENTS])) == [{"name": "clerk", "role": "agent"}]
    assert "It is 3." in str(run.attributes[words.OUTPUT_MESSAGES])
    assert rebuild(recorder.spans()).task == "1 + 2?"


def test_later_run_of_a_conversation_does_not_repeat_the_earlier_one(recorder: SpanRecorder) -> None:
    """In a thread's second run an agent's input is what that run was given, not the thread's history."""
    from langgraph.checkpoint.memory import InMemorySaver

    graph = StateGraph(MessagesState)
    graph.add_node("clerk", lambda state: {"messages": [AIMessage(f"answer {len(state['messages'])}")]})
    graph.add_edge(START, "clerk")
    compiled = graph.compile(checkpointer=InMemorySaver())
    for question in ("first", "second"):
        compiled.invoke({"messages": [("user", question)]}, {"configurable": {"thread_id": "t-1"}})

    _, second = named(recorder, "invoke_agent clerk")
    assert json.loads(str(second.attributes[words.INPUT_MESSAGES])) == [
        {"role": "user", "parts": [{"type": "text", "content": "second"}]}
    ]


def test_custom_tool_node_is_no_agent_either(recorder: SpanRecorder) -> None:
    """A hand-written node that only executes the calls asked for is an executor, by what it does."""
    from langchain_core.messages import ToolMessage

    def execute(state: MessagesState) -> dict[str, list[ToolMessage]]:
        return {"messages": [add.invoke(call) for call in state["messages"][-1].tool_calls]}

    speaker = model(asks_for("add", a=1, b=2), "3")
    graph = StateGraph(MessagesState)
    graph.add_node("solver", lambda state: {"messages": [speaker.invoke(state["messages"])]})
    graph.add_node("run_tools", execute)
    graph.add_edge(START, "solver")
    graph.add_conditional_edges("solver", lambda s: "run_tools" if s["messages"][-1].tool_calls else "__end__")
    graph.add_edge("run_tools", "solver")
    graph.compile().invoke(ASK)

    assert [(agent, kind) for agent, kind, _, _ in steps(recorder)] == [
        ("solver", "message"),
        ("solver", "tool_call"),
        ("solver", "tool_result"),
        ("solver", "message"),
    ]


def test_node_between_a_request_and_its_tool_is_an_agent(recorder: SpanRecorder) -> None:
    """A node that looks at open tool calls without executing them speaks for itself."""
    speaker = model(asks_for("add", a=1, b=2))
    graph = StateGraph(MessagesState)
    graph.add_node("solver", lambda state: {"messages": [speaker.invoke(state["messages"])]})
    graph.add_node("censor", lambda _: {"messages": [AIMessage("I allow it.")]})
    graph.add_edge(START, "solver")
    graph.add_edge("solver", "censor")
    graph.compile().invoke(ASK)

    assert [(agent, content) for agent, _, content, _ in steps(recorder)][-1] == ("censor", "I allow it.")
