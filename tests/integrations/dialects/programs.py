"""The programs that every dialect is recorded on: frameworks for real, models scripted, no network.

They run in an environment of their own for each instrumentation (see `record.py`), and under our own
instrumentation in the tests: what both rebuild to is compared. So nothing but the framework is imported here,
and that inside each program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

TASK = "Write a line about the sea."
PLAN = "Plan: the worker writes one line about the sea and counts its words."
DRAFT = "The sea is wide."
COUNTED = "Four words, as asked."
VERDICT = "Four words. Make it longer."
FINAL = "The sea is wide and grey."
APPROVAL = "The line is about the sea. Approved."


def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


def autogen_round_robin() -> None:
    """A writer, then a critic that calls a tool before it speaks, then the writer again."""
    from autogen_agentchat.agents import AssistantAgent
    from autogen_agentchat.teams import RoundRobinGroupChat
    from autogen_core import FunctionCall
    from autogen_core.tools import FunctionTool

    call = FunctionCall("call_1", '{"text": "The sea is wide."}', "count_words")
    writer = AssistantAgent("writer", replay(DRAFT, FINAL))
    critic = AssistantAgent(
        "critic",
        replay([call], VERDICT),
        tools=[FunctionTool(count_words, "Count the words of a text.")],
        max_tool_iterations=3,
    )
    asyncio.run(RoundRobinGroupChat([writer, critic], name="desk", max_turns=3).run(task=TASK))


def autogen_served() -> None:
    """The same team run by a service whose own span is around it, as a web framework's instrumentation makes one."""
    from opentelemetry import trace

    with trace.get_tracer("opentelemetry.instrumentation.asgi").start_as_current_span("POST /ask"):
        autogen_round_robin()


def autogen_swarm() -> None:
    """A desk that hands over to an expert, who answers; a service's span is around them."""
    from autogen_agentchat.agents import AssistantAgent
    from autogen_agentchat.conditions import TextMentionTermination
    from autogen_agentchat.teams import Swarm
    from autogen_core import FunctionCall
    from opentelemetry import trace

    call = FunctionCall("call_1", "{}", "transfer_to_expert")
    desk = AssistantAgent("desk", replay([call]), handoffs=["expert"])
    expert = AssistantAgent("expert", replay("The tide is at nine."), handoffs=["desk"])
    with trace.get_tracer("opentelemetry.instrumentation.asgi").start_as_current_span("POST /ask"):
        team = Swarm([desk, expert], name="harbour", termination_condition=TextMentionTermination("nine"))
        asyncio.run(team.run(task="When is the tide?"))


def replay(*replies: Any) -> Any:
    """Make an AutoGen model client that gives *replies* one after the other; a list is a reply of tool calls."""
    from autogen_core.models import CreateResult, ModelFamily, ModelInfo, RequestUsage
    from autogen_ext.models.replay import ReplayChatCompletionClient

    info = ModelInfo(
        vision=False, function_calling=True, json_output=False, family=ModelFamily.UNKNOWN, structured_output=False
    )
    usage = RequestUsage(prompt_tokens=20, completion_tokens=5)
    results = [
        CreateResult(
            finish_reason="stop" if isinstance(reply, str) else "function_calls",
            content=reply,
            usage=usage,
            cached=False,
        )
        for reply in replies
    ]
    return ReplayChatCompletionClient(results, model_info=info)


def nodes_graph() -> Any:
    """Build a graph of plain nodes: a planner, a worker that goes through a tool node once, a checker."""
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    def node(*replies: Any) -> Callable[[Any], Any]:
        model = chat_model(replies)
        return lambda state: {"messages": [model.invoke(state["messages"])]}

    def after_worker(state: Any) -> str:
        last = state["messages"][-1]
        return "tools" if isinstance(last, AIMessage) and last.tool_calls else "checker"

    builder = StateGraph(MessagesState)
    builder.add_node("planner", node(PLAN))
    builder.add_node("worker", node([("call_1", "count_words", {"text": DRAFT})], COUNTED))
    builder.add_node("tools", ToolNode([tool(count_words)]))
    builder.add_node("checker", node(APPROVAL))
    builder.add_edge(START, "planner")
    builder.add_edge("planner", "worker")
    builder.add_conditional_edges("worker", after_worker, ["tools", "checker"])
    builder.add_edge("tools", "worker")
    builder.add_edge("checker", END)
    return builder


def langgraph_nodes() -> None:
    """Ask that graph once."""
    from langchain_core.messages import HumanMessage

    nodes_graph().compile(name="desk").invoke({"messages": [HumanMessage(TASK)]})


def langgraph_agents() -> None:
    """A graph of three agents as `langchain.agents.create_agent` makes them; the worker has a tool."""
    from langchain.agents import create_agent
    from langchain_core.messages import HumanMessage
    from langchain_core.tools import tool
    from langgraph.graph import END, START, MessagesState, StateGraph

    worker = [[("call_1", "count_words", {"text": DRAFT})], COUNTED]
    builder = StateGraph(MessagesState)
    builder.add_node("planner", create_agent(chat_model([PLAN]), [], name="planner"))
    builder.add_node("worker", create_agent(chat_model(worker), [tool(count_words)], name="worker"))
    builder.add_node("checker", create_agent(chat_model([APPROVAL]), [], name="checker"))
    builder.add_edge(START, "planner")
    builder.add_edge("planner", "worker")
    builder.add_edge("worker", "checker")
    builder.add_edge("checker", END)
    builder.compile(name="desk").invoke({"messages": [HumanMessage(TASK)]})


def langgraph_branches() -> None:
    """Two branches, one of them a subgraph of two nodes, joined by an end; no messages, only state."""
    import operator
    from typing import Annotated, TypedDict

    from langgraph.graph import END, START, StateGraph

    state = TypedDict("state", {"task": str, "lines": Annotated[list[str], operator.add]})  # noqa: UP013

    def node(line: str) -> Callable[[Any], Any]:
        return lambda _: {"lines": [line]}

    team = StateGraph(state)
    team.add_node("drafter", node("a draft"))
    team.add_node("polisher", node("a polished draft"))
    team.add_edge(START, "drafter")
    team.add_edge("drafter", "polisher")
    team.add_edge("polisher", END)
    builder = StateGraph(state)
    builder.add_node("opener", node("go"))
    builder.add_node("counter", node("four words"))
    builder.add_node("team", team.compile(name="team"))
    builder.add_node("closer", node("done"))
    builder.add_edge(START, "opener")
    builder.add_edge("opener", "counter")
    builder.add_edge("opener", "team")
    builder.add_edge(["counter", "team"], "closer")
    builder.add_edge("closer", END)
    builder.compile(name="desk").invoke({"task": TASK, "lines": []})


def chat_model(replies: Any) -> Any:
    """Make a LangChain model that gives *replies* one after the other; a list is a reply of tool calls."""
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    script = iter(replies)

    class ScriptedModel(BaseChatModel):
        model_name: str = "scripted"

        @property
        def _llm_type(self) -> str:
            return "scripted"

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
            reply = next(script)
            usage = {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25}
            if isinstance(reply, str):
                message = AIMessage(reply, usage_metadata=usage)
            else:
                calls = [{"id": id_, "name": name, "args": arguments} for id_, name, arguments in reply]
                message = AIMessage("", tool_calls=calls, usage_metadata=usage)
            return ChatResult(generations=[ChatGeneration(message=message)])

        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

    return ScriptedModel()


PROGRAMS: dict[str, Callable[[], None]] = {
    "autogen-round-robin": autogen_round_robin,
    "autogen-served": autogen_served,
    "autogen-swarm": autogen_swarm,
    "langgraph-nodes": langgraph_nodes,
    "langgraph-agents": langgraph_agents,
    "langgraph-branches": langgraph_branches,
}
