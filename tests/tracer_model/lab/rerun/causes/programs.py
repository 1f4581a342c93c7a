"""Teams whose adder errs, and what comes of putting it right: it heeds, is overheard, hangs, or had bad luck."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from blamespan_lab.rerun.feedback.writing import BEGIN
from tests.tracer_model.lab.rerun.rule_models import by_rule, in_a_row

MOOD = "BLAMESPAN_TEST_MOOD"
"""Variable with what the reporter does beside its duty: `deaf`, `unlucky`, `slow`, or nothing."""
TASK = "How many birds?"
asked: list[str] = []
"""Who asked a model, in this process."""
saver = InMemorySaver()
"""Keeps the threads of `remembering`, as a database would."""


def _say(role: str, messages: list[BaseMessage]) -> str:
    """Count 40 birds, make 52 of it unless told what is wrong, or report the last figure that was heard."""
    asked.append(role)
    if role == "counter":
        return "I see 40 birds, and 2 more."
    if role == "adder":
        is_told = any(BEGIN in message.text for message in messages)
        return "It makes 42." if is_told else "As 40 + 2 = 52, it makes 52."
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


def _graph(*roles: str, **options: Any) -> Any:
    return in_a_row({role: by_rule(partial(_say, role)) for role in roles}, name="birds", **options)


def team() -> Any:
    """Three agents, the second of whom adds wrongly: step 0 counts, 1 adds, 2 reports."""
    return _graph("counter", "adder", "reporter")


def two_who_err() -> Any:
    """Three agents: 0 counts 30 for 40, 1 adds 22 for 2, 2 reports; 42 takes both of them right."""
    nodes = {
        "counter": by_rule(lambda messages: "I see 30."),
        "adder": by_rule(lambda messages: f"It makes {int(_figure(messages)) + 22}."),
        "reporter": by_rule(lambda messages: f"It makes {_figure(messages)}."),
    }
    return in_a_row(nodes, name="birds")


def other_team() -> Any:
    """Another team than was recorded."""
    return _graph("adder", "reporter")


def remembering() -> Any:
    """The same team with a checkpointer that outlives it."""
    return _graph("counter", "adder", "reporter", checkpointer=saver)


def raises() -> Any:
    """A factory that fails."""
    raise RuntimeError("no key")


def is_42(answer: str, task: str) -> bool:
    """Tell whether the birds were counted right."""
    del task
    return "42" in answer
