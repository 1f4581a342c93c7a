"""Programs that can be told: their small model does what feedback says, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import END, START, MessagesState, StateGraph

from tests.tracer_model.lab.rerun.feedback.notes import notes_in

heard: list[str] = []
"""What the graph's solver was told, attempt by attempt; tests clear it."""
made: list[int] = []
"""Counts the AutoGen teams made."""


class Solver(BaseChatModel):
    """Gets a sum wrong until it is told to work it out again."""

    @property
    def _llm_type(self) -> str:
        return "solver"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        told = messages[0].text
        heard.append(told)
        right = any(note.agent == "solver" for note in notes_in(told))
        text = "It is 12 times 4 = 48." if right else "It is 12 times 4 = 84, I assume, without any checking."
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self


def graph() -> Any:
    """One that asks, one that works it out, and one that repeats it."""
    planner, solver = FakeListChatModel(responses=["Let the solver multiply."]), Solver()
    builder = StateGraph(MessagesState)
    builder.add_node("planner", lambda state: {"messages": [planner.invoke(state["messages"])]})
    builder.add_node("solver", lambda state: {"messages": [solver.invoke(state["messages"])]})
    builder.add_edge(START, "planner")
    builder.add_edge("planner", "solver")
    builder.add_edge("solver", END)
    return builder.compile(name="sum")


def is_48(answer: str, task: str) -> bool:
    """Tell whether the sum is right."""
    del task
    return "48" in answer


graph.check = is_48  # type: ignore[attr-defined]


def team() -> Any:
    """An AutoGen team whose solver is right from the second attempt on."""
    made.append(1)
    says = ["I think it is 84."] if len(made) < 2 else ["It is 48."]
    agents = [
        AssistantAgent("planner", ReplayChatCompletionClient(["Let the solver multiply."])),
        AssistantAgent("solver", ReplayChatCompletionClient(says)),
    ]
    return RoundRobinGroupChat(list(agents), termination_condition=MaxMessageTermination(3))


def breaks() -> Callable[[str], str]:
    """A program that never works."""

    def fail(task: str) -> str:
        raise RuntimeError(f"no model for {len(task)}")

    return fail


def silent() -> Callable[[str], str]:
    """A program without agents."""
    return str.upper
