"""Recordings of earlier versions."""

from __future__ import annotations

from typing import Any

from blamespan import conventions as words
from blamespan.genai_messages import Message, dump_messages
from blamespan.rebuilding.rebuild import rebuild
from blamespan.spans import Scope, Span

STATE = '{"plan":"ask the clerk","notes":["one","two"]}'
ANSWER = '{"sum":42}'


def recorded(name_key: str, *, scope: str = "blamespan.langgraph") -> Any:
    def span(number: int, parent: int | None, operation: str, **more: Any) -> Span:
        ids = (f"{7:032x}", f"{number:016x}", None if parent is None else f"{parent:016x}")
        attributes = {words.OPERATION: operation, **more}
        return Span(*ids, operation, start_ns=number, end_ns=number, attributes=attributes, scope=Scope(scope))

    def said(text: str) -> str:
        return dump_messages([Message.of_text("assistant", text, finish_reason="stop")])

    def agent(number: int, name: str, text: str) -> Span:
        given = {words.STEP_INDEX: number - 2, words.STEP_KIND: "message", words.HOSTED_AGENT_ID: f"team/{name}"}
        return span(number, 1, "invoke_agent", **given, **{words.AGENT_NAME: name, words.OUTPUT_MESSAGES: said(text)})

    return rebuild(
        [
            span(
                1, None, "invoke_workflow", **{name_key: "g", words.INPUT_MESSAGES: said('{"n":1,"question":"Why?"}')}
            ),
            agent(2, "planner", STATE),
            agent(3, "adder", ANSWER),
            span(4, 3, "chat", **{words.OUTPUT_MESSAGES: said(ANSWER)}),
        ]
    )


def test_state_in_an_older_recording_is_told_as_text() -> None:
    """A node's state and the run's task are unwrapped; what a model answered stays JSON; ids are still known."""
    trace = recorded(words.WORKFLOW_NAME)

    assert trace.task == "Why?\nn: 1"
    assert [step.content for step in trace.steps] == ["plan: ask the clerk\nnotes:\n- one\n- two", ANSWER]
    assert [agent.id for agent in trace.agents] == ["team/planner", "team/adder"]


def test_recording_of_today_is_taken_at_its_word() -> None:
    """What today's recorder writes as JSON is data, and so is what other integrations of ours write."""
    for trace in (recorded(words.AGENT_NAME), recorded(words.WORKFLOW_NAME, scope="blamespan.autogen")):
        assert [step.content for step in trace.steps] == [STATE, ANSWER]
