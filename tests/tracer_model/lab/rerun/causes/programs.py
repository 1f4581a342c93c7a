"""Teams whose adder errs, and what comes of putting it right: it heeds, is overheard, hangs, or had bad luck."""

from __future__ import annotations

import os
import time
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from blamespan_lab.rerun.feedback.writing import BEGIN

MOOD = "BLAMESPAN_TEST_MOOD"
"""Variable with what the reporter does beside its duty: `deaf`, `unlucky`, `slow`, or nothing."""
TASK = "How many birds?"
asked: list[str] = []
"""Who asked a model, in this process."""
saver = InMemorySaver()
"""Keeps the threads of `remembering`, as a database would."""


class Member(BaseChatModel):
    """Counts 40 birds, makes 52 of it unless told what is wrong, and reports the last figure that it heard."""

    role: str

    @property
    def _llm_type(self) -> str:
        return "member"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        asked.append(self.role)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self._say(messages)))])

    def _say(self, messages: list[BaseMessage]) -> str:
        if self.role == "counter":
            return "I see 40 birds, and 2 more."
        if self.role == "adder":
            return (
                "It makes 42." if any(BEGIN in message.text for message in messages) else "As 40 + 2 = 52, it makes 52."
            )
        mood = os.environ.get(MOOD, "")
        if mood == "slow":
            time.sleep(60)
        if mood == "lucky":
            return "The answer is 42."
        return "The answer is 52." if mood == "deaf" else f"The answer is {_figure(messages)}."


def _figure(messages: list[BaseMessage]) -> str:
    heard = [message.text for message in messages if BEGIN not in message.text]
    words = [word.strip(".") for text in heard for word in text.split()]
    return [word for word in words if word.isdigit()][-1]


def _graph(checkpointer: BaseCheckpointSaver[Any] | None = None, *, roles: tuple[str, ...]) -> Any:
    builder = StateGraph(MessagesState)
    for before, role in zip((START, *roles), roles, strict=False):
        model = Member(role=role)

        def speak(state: MessagesState, model: Member = model) -> dict[str, Any]:
            return {"messages": [model.invoke(state["messages"])]}

        builder.add_node(role, speak)
        builder.add_edge(before, role)
    builder.add_edge(roles[-1], END)
    return builder.compile(name="birds", checkpointer=checkpointer)


def team() -> Any:
    """Three agents, the second of whom adds wrongly: step 0 counts, 1 adds, 2 reports."""
    return _graph(roles=("counter", "adder", "reporter"))


class Deaf(Member):
    """Adds what it hears; the counter miscounts, the adder adds too much in any case."""

    def _say(self, messages: list[BaseMessage]) -> str:
        if self.role == "counter":
            return "I see 30."
        return f"It makes {int(_figure(messages)) + (22 if self.role == 'adder' else 0)}."


def two_who_err() -> Any:
    """Three agents: 0 counts 30 for 40, 1 adds 22 for 2, 2 reports; 42 takes both of them right."""
    builder = StateGraph(MessagesState)
    for before, role in ((START, "counter"), ("counter", "adder"), ("adder", "reporter")):
        model = Deaf(role=role)
        builder.add_node(role, lambda state, model=model: {"messages": [model.invoke(state["messages"])]})
        builder.add_edge(before, role)
    builder.add_edge("reporter", END)
    return builder.compile(name="birds")


def other_team() -> Any:
    """Another team than was recorded."""
    return _graph(roles=("adder", "reporter"))


def remembering() -> Any:
    """The same team with a checkpointer that outlives it."""
    return _graph(saver, roles=("counter", "adder", "reporter"))


def raises() -> Any:
    """A factory that fails."""
    raise RuntimeError("no key")


def is_42(answer: str, task: str) -> bool:
    """Tell whether the birds were counted right."""
    del task
    return "42" in answer
