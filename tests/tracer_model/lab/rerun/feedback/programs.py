"""Programs that can be told: their small model does what feedback says, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient
from langchain_core.messages import BaseMessage

from tests.tracer_model.lab.rerun.feedback.notes import notes_in
from tests.tracer_model.lab.rerun.rule_models import by_rule, in_a_row

heard: list[str] = []
"""What the graph's solver was told, attempt by attempt; tests clear it."""
made: list[int] = []
"""Counts the AutoGen teams made."""


def _solve(messages: list[BaseMessage]) -> str:
    """Get a sum wrong until told to work it out again."""
    told = messages[0].text
    heard.append(told)
    is_told = any(note.agent == "solver" for note in notes_in(told))
    return "It is 12 times 4 = 48." if is_told else "It is 12 times 4 = 84, I assume, without any checking."


def graph() -> Any:
    """One that asks, and one that works it out."""
    nodes = {"planner": by_rule(lambda messages: "Let the solver multiply."), "solver": by_rule(_solve)}
    return in_a_row(nodes, name="sum")


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
