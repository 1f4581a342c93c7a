"""What the drawing of a LangGraph run leaves out: attributes and payloads; see `test_langgraph_constructs.py`."""

from __future__ import annotations

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send

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


def test_agent_that_runs_a_tool_itself_is_its_parent(recorder: SpanRecorder) -> None:
    """A tool called within a node is a child of the node's span, and its answer is what the message builds on."""
    chain(("solver", lambda _: {"words": [str(add.invoke({"a": 1, "b": 2}))]})).invoke({"words": []})

    assert tree(recorder) == ["invoke_workflow chain", "  invoke_agent solver", "    execute_tool add"]
    assert [(kind, inputs) for _, kind, _, inputs in steps(recorder)] == [
        ("tool_call", ()),
        ("tool_result", (0,)),
        ("message", (1,)),
    ]


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
