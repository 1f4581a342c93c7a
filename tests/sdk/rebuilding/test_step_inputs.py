"""What each step was given, as far as no step before it says it."""

from __future__ import annotations

from typing import Any

import pytest

from blamespan import conventions as words
from blamespan.genai_messages import Message, dump_messages
from blamespan.otlp import spans_from_json, spans_from_proto, spans_to_json, spans_to_proto
from blamespan.rebuilding.emit import emit
from blamespan.rebuilding.rebuild import rebuild
from blamespan.spans import Scope, Span
from blamespan.trace import Agent, MessageActionTrace, Step

TRACE = f"{1:032x}"
TEXTS = tuple[str, ...]


def messages(*texts: str, role: Any = "user") -> str:
    return dump_messages([Message.of_text(role, text) for text in texts])


def span(number: int, parent: int | None, operation: str, **attributes: Any) -> Span:
    known = {name: getattr(words, name) for name in ("INPUT_MESSAGES", "OUTPUT_MESSAGES", "AGENT_NAME", "STEP_INDEX")}
    more = {known.get(name, name): value for name, value in attributes.items()}
    return Span(
        TRACE,
        f"{number:016x}",
        None if parent is None else f"{parent:016x}",
        operation,
        start_ns=number * 10,
        end_ns=number * 10 + 5,
        attributes={words.OPERATION: operation, **more},
        scope=Scope("blamespan.test"),
    )


def agent(number: int, index: int, name: str, said: str, *received: str) -> Span:
    given = {"INPUT_MESSAGES": messages(*received)} if received else {}
    return span(number, 1, "invoke_agent", AGENT_NAME=name, STEP_INDEX=index, OUTPUT_MESSAGES=messages(said), **given)


def run(*steps: Span, task: str = "Count the rooms.") -> list[str]:
    root = span(1, None, "invoke_workflow", INPUT_MESSAGES=messages(task))
    return [step.input_text for step in rebuild([root, *steps]).steps]


def test_prompt_of_a_model_is_what_its_step_was_given() -> None:
    """Instructions, documents and packets stand on the step, whichever span below it says so, in order."""
    given = run(
        agent(2, 0, "clerk", "48 rooms", "floor: the second"),
        span(3, 2, "chat", INPUT_MESSAGES=messages("You are a clerk.", "The list: 40 and 8.")),
        span(4, 2, "chat", **{words.SYSTEM_INSTRUCTIONS: '[{"type":"text","content":"Be brief."}]'}),
    )

    assert given == ["floor: the second\n\nYou are a clerk.\n\nThe list: 40 and 8.\n\nBe brief."]


def test_what_the_run_says_itself_is_not_repeated() -> None:
    """The task, what steps before said, and lists of that, are no news; what is said only later is."""
    given = run(
        agent(2, 0, "reader", "notes: the first floor has 40", "Count the rooms."),
        agent(3, 1, "writer", "48 in all", "notes: the first floor has 40", "task: Count the rooms.", "rate: 7"),
        agent(
            4, 2, "checker", "right", "notes:\n- the first floor has 40\n- 48 in all", "reader: 48 in all", "8 of them"
        ),
        agent(5, 3, "closer", "8 of them"),
    )

    assert given == ["", "rate: 7", "8 of them", ""]


def test_each_agent_is_given_a_text_once() -> None:
    """Instructions sent with every call stand on the agent's first step; another agent's are its own."""
    steps = [
        one
        for index, name in enumerate(("ann", "bob", "ann", "bob"))
        for one in (
            agent(10 * index + 2, index, name, f"draft {index}"),
            span(10 * index + 3, 10 * index + 2, "chat", INPUT_MESSAGES=messages("You write drafts.")),
        )
    ]

    assert run(*steps) == ["You write drafts.", "You write drafts.", "", ""]


def test_calls_and_what_happens_in_tools_are_not_given() -> None:
    """A model's own calls come back to it as messages, and models within a tool speak to the tool."""
    call = '[{"role":"assistant","parts":[{"type":"tool_call","name":"count","arguments":{}}]}]'
    answer = '[{"role":"tool","parts":[{"type":"tool_call_response","response":"48 rooms"}]}]'
    given = run(
        agent(2, 2, "clerk", "48"),
        span(3, 2, "chat", INPUT_MESSAGES=call),
        span(4, 2, "execute_tool", AGENT_NAME="clerk", STEP_INDEX=0, **{
            words.TOOL_NAME: "count", words.STEP_RESULT_INDEX: 1, words.TOOL_RESULT: "48 rooms"}),
        span(5, 4, "chat", INPUT_MESSAGES=messages("You count.")),
        span(6, 2, "chat", INPUT_MESSAGES=answer),
    )  # fmt: skip

    assert given == ["", "", ""]


@pytest.mark.parametrize("value", ["cut off: [{", 7, ("a", "b"), None, '[{"role":"user","parts":3}]', ""])
def test_hostile_inputs_are_read_as_far_as_they_go(value: Any) -> None:
    """Whatever stands where messages should be, the run is rebuilt; a text that was cut is not lost."""
    [text] = run(agent(2, 0, "clerk", "48"), span(3, 2, "chat", INPUT_MESSAGES=value))

    assert text == "" or "cut off" in text or not isinstance(value, str) or value in text


def test_model_call_in_a_circle_belongs_to_nobody() -> None:
    """Spans that are each other's parents end the search for a step."""
    assert run(
        agent(2, 0, "clerk", "48"),
        span(3, 4, "chat", INPUT_MESSAGES=messages("a")),
        span(4, 3, "chat", INPUT_MESSAGES=messages("b")),
    ) == [""]


def test_input_survives_the_wire() -> None:
    """A run whose steps were given something is the same after it was written as OTLP, in protobuf and as JSON."""
    steps = (
        Step(0, f"{1:016x}", "clerk", content="48 rooms", input_text="The list: 40 and 8.\n\nBe brief."),
        Step(1, f"{2:016x}", "clerk", "tool_call", "count({})", input_text="48 rooms"),
        Step(2, f"{2:016x}", "clerk", "tool_result", "48", inputs=(1,)),
    )
    trace = MessageActionTrace(TRACE, "Count.", steps, (Agent("clerk"),))

    assert rebuild(spans_from_proto(spans_to_proto(emit(trace)))) == trace
    assert rebuild(spans_from_json(spans_to_json(emit(trace)))) == trace
