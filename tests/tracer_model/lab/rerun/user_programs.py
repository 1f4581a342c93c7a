"""Programs as users have them, and checks: what a small model says depends on nothing but what it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from blamespan_lab.make.simulation.program import Program
from tests.tracer_model.lab.rerun.rule_models import RuleModel, by_rule, speak

asked: list[str] = []
"""Who asked a model, in order; tests clear it."""
looked_up: list[str] = []
"""What a tool was asked, in order."""
prompts = {"adder": "Add the numbers."}

SWARM = Program("planning", "round_robin", "autogen", seed=13)


def _add(messages: list[BaseMessage]) -> AIMessage | str:
    """Look one number up and add it to 2."""
    asked.append("adder")
    if isinstance(last := messages[-1], ToolMessage):
        return f"With {last.text} it makes {int(last.text) + 2}."
    return AIMessage("", tool_calls=[{"name": "number", "args": {"of": "birds"}, "id": "call_1"}])


def _report(messages: list[BaseMessage]) -> str:
    """Repeat the last figure that was heard."""
    asked.append("reporter")
    return f"The answer is {_figure(messages)}."


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
    adder = RuleModel(rule=_add).bind_tools([number])
    builder.add_node("adder", lambda state: speak(adder, SystemMessage(prompts["adder"]))(state))
    builder.add_node("reporter", by_rule(_report))
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
