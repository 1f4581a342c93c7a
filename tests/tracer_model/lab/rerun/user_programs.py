"""Programs as users have them, and checks: what a small model says depends on nothing but what it is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from blamespan_lab.make.simulation.program import Program

asked: list[str] = []
"""Who asked a model, in order; tests clear it."""
looked_up: list[str] = []
"""What a tool was asked, in order."""
prompts = {"adder": "Add the numbers."}

SWARM = Program("planning", "round_robin", "autogen", seed=13)


class Adder(BaseChatModel):
    """Looks one number up, adds it to 2; or repeats the last figure that it was told."""

    role: str

    @property
    def _llm_type(self) -> str:
        return "adder"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        asked.append(self.role)
        last = messages[-1]
        if self.role == "reporter":
            message = AIMessage(f"The answer is {_figure(messages)}.")
        elif isinstance(last, ToolMessage):
            message = AIMessage(f"With {last.text} it makes {int(last.text) + 2}.")
        else:
            message = AIMessage("", tool_calls=[{"name": "number", "args": {"of": "birds"}, "id": "call_1"}])
        return ChatResult(generations=[ChatGeneration(message=message)])

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self.bind(tools=[one.name for one in tools])


def _figure(messages: list[BaseMessage]) -> str:
    words = [word.strip(".") for message in messages for word in message.text.split()]
    return [word for word in words if word.isdigit()][-1]


@tool
def number(of: str) -> str:
    """Tell how many there are."""
    looked_up.append(of)
    return "40"


def graph() -> Any:
    """Two agents and a tool: 42 is right."""
    builder = StateGraph(MessagesState)
    adder, reporter = Adder(role="adder").bind_tools([number]), Adder(role="reporter")

    def add(state: MessagesState) -> dict[str, Any]:
        return {"messages": [adder.invoke([SystemMessage(prompts["adder"]), *state["messages"]])]}

    def report(state: MessagesState) -> dict[str, Any]:
        return {"messages": [reporter.invoke(state["messages"])]}

    builder.add_node("adder", add)
    builder.add_node("reporter", report)
    builder.add_node("tools", ToolNode([number]))
    builder.add_edge(START, "adder")
    builder.add_conditional_edges("adder", tools_condition, {"tools": "tools", END: "reporter"})
    builder.add_edge("tools", "adder")
    builder.add_edge("reporter", END)
    return builder.compile(name="birds")


def is_42(answer: str, task: str) -> bool:
    """Tell whether the birds were counted right."""
    del task
    return "42" in answer


def team() -> Callable[[str], str]:
    """A simulated AutoGen team on its task, as a function."""
    return lambda task: SWARM.run().final_text


team.check = lambda answer, task: SWARM.task().check(answer)  # type: ignore[attr-defined]


def plain() -> Callable[[str], str]:
    """A function that knows nothing of agents."""
    return str.upper


async def later() -> Callable[[str], str]:
    """An async factory."""
    return str.lower


def breaks() -> Callable[[str], str]:
    """A program that leaves the process when it is run."""

    def leave(task: str) -> str:
        raise SystemExit(task)

    return leave


def nothing() -> int:
    """What is made here cannot be run."""
    return 3


def uncompiled() -> Any:
    """A graph somebody forgot to compile."""
    return StateGraph(MessagesState)


def raises() -> Any:
    """A factory that fails."""
    raise RuntimeError("no\nkey")


def needs(key: str) -> str:
    """No factory: it takes an argument."""
    return key


def cannot_read(answer: str, task: str) -> bool:
    """A check that takes the answer for a number."""
    return int(answer) == len(task)


def forgets(answer: str, task: str) -> None:
    """A check that gives nothing."""
