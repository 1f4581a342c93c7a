"""Graphs, models and tools that the LangGraph tests run: real LangGraph, scripted models, no network."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from blamespan import rebuild
from blamespan.spans import Span
from blamespan.testing import SpanRecorder
from tests.integrations.drawing import draw_runs, outline, roots_of


class Words(TypedDict):
    """A state without messages."""

    words: Annotated[list[str], operator.add]


class ScriptedModel(BaseChatModel):
    """A chat model that says what it is told, and takes tools."""

    answers: Iterator[AIMessage]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        answer = next(self.answers, None)
        if answer is None:
            raise RuntimeError("no answer left")
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self.bind(tools=[one.name for one in tools])


def model(*answers: AIMessage | str) -> ScriptedModel:
    """Make a model that gives *answers*, one per call."""
    return ScriptedModel(answers=iter([AIMessage(a) if isinstance(a, str) else a for a in answers]))


def asks_for(name: str, call_id: str = "call_0", /, **arguments: Any) -> AIMessage:
    """Make the message of a model that asks for a tool."""
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    call = {"name": name, "args": arguments, "id": call_id}
    return AIMessage("", tool_calls=[call], usage_metadata=usage)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def divide(a: int, b: int) -> float:
    """Divide two numbers."""
    return a / b


def calculator(
    *answers: AIMessage | str, tools: Sequence[Any] = (add, divide), checkpointer: Any = None, **options: Any
) -> CompiledStateGraph:
    """Make a graph of an agent, a conditional edge and a tool node, and a checker at the end."""
    speaker, checker = model(*answers), model("I checked it.")
    graph = StateGraph(MessagesState)
    graph.add_node("solver", lambda state: {"messages": [speaker.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(list(tools), **options))
    graph.add_node("checker", lambda state: {"messages": [checker.invoke(state["messages"])]})
    graph.add_edge(START, "solver")
    graph.add_conditional_edges("solver", tools_condition, {"tools": "tools", END: "checker"})
    graph.add_edge("tools", "solver")
    graph.add_edge("checker", END)
    return graph.compile(name="calculator", checkpointer=checkpointer)


def chain(*nodes: tuple[str, Any], name: str = "chain", state: Any = Words, **options: Any) -> CompiledStateGraph:
    """Make a graph whose nodes run one after another."""
    graph = StateGraph(state)
    at = START
    for label, node in nodes:
        graph.add_node(label, node)
        graph.add_edge(at, label)
        at = label
    return graph.compile(name=name, **options)


def says(*words: str) -> Any:
    """Make a node that says *words*."""
    return lambda _: {"words": list(words)}


def steps(recorder: SpanRecorder) -> list[tuple[str, str, str, tuple[int, ...]]]:
    """Rebuild the one recorded run: agent, kind, content and inputs of each step."""
    return [(step.agent, step.kind, step.content, step.inputs) for step in rebuild(recorder.spans()).steps]


def named(recorder: SpanRecorder, name: str) -> list[Span]:
    """List the ended spans of a name, first to start first."""
    return sorted((span for span in recorder.spans() if span.name == name), key=lambda span: span.start_ns)


def tree(recorder: SpanRecorder) -> list[str]:
    """Draw the ended spans, a line each, children indented below their parent, in the order they started."""
    return outline(recorder).splitlines()


_HIDDEN = (
    "blamespan.message.id",
    "gen_ai.conversation.id",
    "gen_ai.input.messages",
    "gen_ai.tool.description",
    "gen_ai.tool.name",
)
"""What is random, stands in the line already, or would make it long; other tests compare it."""


def drawn(recorded: SpanRecorder | Sequence[Span]) -> str:
    """Draw every recorded run, first to start first: what its own span says of it, then its rebuilt trace."""
    spans = recorded.spans() if isinstance(recorded, SpanRecorder) else recorded
    numbers = {(root.trace_id, root.span_id): number for number, root in enumerate(roots_of(spans))}
    return draw_runs(spans, lambda root: _headline(root, numbers), hide=_HIDDEN)


def _headline(root: Span, numbers: dict[tuple[str, str], int]) -> str:
    said = [root.name]
    said += ["complete" if root.attributes.get("blamespan.run.complete") else "incomplete"]
    said += ["interrupted"] if root.attributes.get("blamespan.run.interrupted") else []
    said += [f"{root.status} {root.attributes.get('error.type')}"] if root.status != "unset" else []
    said += [
        f"{key.removeprefix('langgraph.')}={root.attributes[key]}"
        for key in sorted(root.attributes)
        if key.startswith("langgraph.")
    ]
    for link in root.links:
        run = numbers.get((link.trace_id, link.span_id), "elsewhere")
        said.append(f"{link.attributes['blamespan.link.relation']} run {run}")
    return f"run {numbers[root.trace_id, root.span_id]}: " + ", ".join(said)
