"""Runs of Microsoft Agent Framework, rebuilt from the spans it makes itself."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.integrations.dialects.recordings import HIDDEN, trace_of
from tests.integrations.drawing import draw


def drawn(construct: str) -> str:
    return draw(trace_of(f"agent-framework.{construct}"), hide=HIDDEN)


def text(literal: str) -> str:
    return dedent(literal).strip()


@pytest.mark.construct("Agent Framework", "Agent run")
def test_agent_run() -> None:
    """What the agent was asked is the task, what it said is its message; tokens of its model calls add up."""
    assert drawn("agent") == text("""
        task: Write a line about the sea.
        agents: writer
        0 writer: message 'The sea is wide.', 20+5 tokens
        """)


@pytest.mark.construct("Agent Framework", "Tool")
def test_tool() -> None:
    """A tool's span is the agent's call and the tool's answer, which the agent's message builds on."""
    assert drawn("tool") == text("""
        task: Write a line about the sea.
        agents: critic
        0 critic: tool_call 'count_words({"text": "The sea is wide."})'
        1 critic: tool_result '4' after 0
        2 critic: message 'Four words.' after 1, 40+10 tokens
        """)


@pytest.mark.construct("Agent Framework", "Sequential workflow")
def test_sequential() -> None:
    """Each agent builds on the one before it and speaks to the next, by the links between their executors."""
    assert drawn("sequential") == text("""
        task: Write a line about the sea.
        agents: writer, critic, editor
        0 writer: message 'The sea is wide.' to critic, 20+5 tokens
        1 critic: tool_call 'count_words({"text": "The sea is wide."})' after 0
        2 critic: tool_result '4' after 1
        3 critic: message 'Four words. Make it longer.' to editor after 0 2, 40+10 tokens
        4 editor: message 'The sea is wide and grey.' after 3, 20+5 tokens
        """)


@pytest.mark.construct("Agent Framework", "Concurrent workflow")
def test_concurrent() -> None:
    """Agents asked at once build on nothing of each other's."""
    assert drawn("concurrent") == text("""
        task: Write a line about the sea.
        agents: poet, sailor
        0 poet: message 'Grey waves.', 20+5 tokens
        1 sailor: message 'Rough today.', 20+5 tokens
        """)


@pytest.mark.construct("Agent Framework", "Fan-out and fan-in")
def test_fan_out_and_in() -> None:
    """Branches build on what fanned out; what joins them builds on all, through an executor that is no agent."""
    assert drawn("fan-out-and-in") == text("""
        task: Write a line about the sea.
        agents: planner, poet, sailor, editor
        0 planner: message 'One of you writes, one of you counts.' to poet, sailor, 20+5 tokens
        1 poet: message 'Grey waves.' to editor after 0, 20+5 tokens
        2 sailor: message 'Rough today.' to editor after 0, 20+5 tokens
        3 editor: message 'Grey waves, rough today.' after 1 2, 20+5 tokens
        """)


@pytest.mark.construct("Agent Framework", "Handoff")
def test_handoff() -> None:
    """An agent that only calls the tool to hand over hands over; the next agent builds on that."""
    assert drawn("handoff") == text("""
        task: When is the tide?
        agents: desk, expert
        0 desk: handoff 'handoff_to_expert({})' to expert, 20+5 tokens
        1 expert: message 'The tide is at nine.' after 0, 20+5 tokens
        """)


@pytest.mark.construct("Agent Framework", "Group chat")
def test_group_chat() -> None:
    """Each agent chosen builds on the message before it; the orchestrator between them is no agent."""
    assert drawn("group-chat") == text("""
        task: Write a line about the sea.
        agents: writer, critic
        0 writer: message 'The sea is wide.' to critic, 20+5 tokens
        1 critic: message 'Longer.' to writer after 0, 20+5 tokens
        2 writer: message 'The sea is grey.' after 1, 20+5 tokens
        """)
