"""What LangChain's objects become: messages of every form, states, updates and answers."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.outputs import Generation, LLMResult
from langgraph.types import Command, Send
from pydantic import BaseModel

from blamespan.genai_messages import Message
from blamespan.trace import Usage
from blamespan_integrations.langgraph._calls import chat_answer, model_name
from blamespan_integrations.langgraph._convert import VALUE, open_calls, read_input, read_update, task_of, tool_answer
from blamespan_integrations.langgraph._memory import GraphMemory
from blamespan_integrations.langgraph._messages import as_text, is_message, message_text, to_message

CALL = {"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}


@dataclasses.dataclass
class DataState:
    draft: str
    messages: list[Any]


class ModelState(BaseModel):
    draft: str
    messages: list[Any]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (HumanMessage("hi", name="ann"), Message.of_text("user", "hi", name="ann")),
        (SystemMessage("be kind"), Message.of_text("system", "be kind")),
        (("ai", "hello"), Message.of_text("assistant", "hello")),
        ({"role": "user", "content": "hi", "name": "ann"}, Message.of_text("user", "hi", name="ann")),
        (
            ToolMessage("3", tool_call_id="c1", name="add"),
            Message("tool", ({"type": "tool_call_response", "id": "c1", "response": "3"},), "add"),
        ),
        (RemoveMessage("m1"), Message.of_text("assistant", "removes message m1")),
        (
            AIMessage(["so", {"type": "text", "text": "it is"}, {"type": "reasoning", "reasoning": "hm"}]),
            Message(
                "assistant",
                (
                    {"type": "text", "content": "so"},
                    {"type": "text", "content": "it is"},
                    {"type": "reasoning", "content": "hm"},
                ),
            ),
        ),
        (
            HumanMessage([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]),
            Message("user", ({"type": "blob", "modality": "image_url"},)),
        ),
        (
            HumanMessage([{"type": "image", "url": "https://a.example/b.png"}]),
            Message("user", ({"type": "uri", "modality": "image", "uri": "https://a.example/b.png"},)),
        ),
    ],
)
def test_message_of_any_form_is_converted(given: Any, expected: Message) -> None:
    """Objects, pairs and dicts become the same messages; data is named, not copied."""
    assert to_message(given) == expected


def test_tool_call_is_said_once_whatever_the_provider() -> None:
    """A call that stands both in the contents and in `tool_calls` is one part."""
    blocks = [{"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}]
    message = to_message(AIMessage(blocks, tool_calls=[CALL], response_metadata={"stop_reason": "tool_use"}))

    assert message == Message(
        "assistant",
        ({"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 1}},),
        finish_reason="tool_use",
    )


@pytest.mark.parametrize("value", ["hi", ("a", "b", "c"), {"content": "hi"}, 3, None, ("nobody", "hi")])
def test_what_is_no_message_is_not_taken_for_one(value: Any) -> None:
    """Only a known role makes a pair or dict a message."""
    assert not is_message(value)


@pytest.mark.parametrize("kind", [dict, DataState, ModelState])
def test_state_of_any_kind_is_split_into_messages_and_rest(kind: Any) -> None:
    """Dicts, dataclasses and pydantic models are states alike."""
    given = read_input(kind(draft="d", messages=[("user", "hi")]))

    assert (given.messages, given.rest) == ([("user", "hi")], {"draft": "d"})


def test_update_gathers_commands_messages_and_state() -> None:
    """A list of commands and updates is read as one update, the end being no target."""
    message, send = AIMessage("done"), Send("worker", {"n": 1})
    update = read_update([Command(update={"messages": [message], "n": 1}, goto=["next", "__end__", send])])

    assert (update.messages, update.state, update.goto, update.sends) == (
        [message],
        {"n": 1},
        ["next", "worker"],
        [send],
    )
    assert read_update(3).state == {VALUE: 3}
    assert read_update(None).state == {}


@pytest.mark.parametrize(
    "given",
    [
        {"messages": [HumanMessage("?"), AIMessage("", tool_calls=[CALL])]},
        [CALL],
        {"__type": "tool_call_with_context", "tool_call": CALL, "state": {}},
    ],
)
def test_open_calls_are_found_in_every_form(given: Any) -> None:
    """Calls stand in the last message, or are sent by themselves."""
    assert list(open_calls(read_input(given))) == ["c1"]


def test_answered_calls_are_not_open() -> None:
    """A call whose answer is in the state has been executed."""
    asked = AIMessage("", tool_calls=[CALL])

    assert open_calls(read_input({"messages": [asked, ToolMessage("3", tool_call_id="c1")]})) == {}
    assert open_calls(read_input({"messages": [asked, HumanMessage("never mind")]})) == {}


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"messages": [("user", "one"), ("ai", "two"), ("user", "three")]}, ["three"]),
        ({"messages": "one"}, ["one"]),
        ({"topic": "lamps"}, ["lamps"]),
        (Command(resume="yes"), ["yes"]),
        (None, []),
        ("lamps", ["lamps"]),
    ],
)
def test_task_is_the_last_question(inputs: Any, expected: list[str]) -> None:
    """What a run is asked is the last user message, else the whole input."""
    assert [message.parts[0]["content"] for message in task_of(inputs)] == expected


def test_tool_answer_says_error_and_target() -> None:
    """An error message and a handoff can be read off what a tool gives back."""
    failed = ToolMessage("no", tool_call_id="c1", status="error")

    assert tool_answer(failed) == ("no", "tool_error", [])
    assert tool_answer(Command(goto="boss", update={"messages": [failed]})) == ("no", "tool_error", ["boss"])
    assert tool_answer({"n": 1}) == ('{"n":1}', None, [])


def test_text_model_answer_is_read() -> None:
    """A plain text model has no messages; its tokens are counted beside the answer."""
    said = {"token_usage": {"prompt_tokens": 3, "completion_tokens": 4}, "model_name": "m-1"}
    answer = chat_answer(LLMResult(generations=[[Generation(text="hi")]], llm_output=said))

    assert (answer.messages, answer.usage, answer.model) == (
        (Message.of_text("assistant", "hi"),),
        Usage(3, 4),
        "m-1",
    )


def test_model_is_named_by_what_is_known_of_it() -> None:
    """LangChain's own name for it wins over the call's parameters, those over the class."""
    serialized = {"id": ["langchain", "FakeChat"]}

    assert model_name(serialized, {"ls_model_name": "m-1"}, {"model": "m-2"}) == "m-1"
    assert model_name(serialized, {}, {"model": "m-2"}) == "m-2"
    assert model_name(serialized, {}, {}) == "FakeChat"


def test_any_value_becomes_text() -> None:
    """What JSON cannot hold becomes text, and what holds itself comes to an end."""
    loop: dict[str, Any] = {}
    loop["self"] = loop

    assert as_text({"s": {1}, "b": b"x", "m": AIMessage("hi")}) == '{"s":[1],"b":"b\'x\'","m":"hi"}'
    assert as_text(loop).startswith('{"self":{"self":')
    assert message_text(AIMessage("", tool_calls=[CALL])) == 'add({"a":1})'


def test_memory_tells_an_agent_only_what_it_has_not_seen() -> None:
    """Own words and known messages are no news; what others said is, where the agent builds on it."""
    memory = GraphMemory()
    task, own, distant, near = HumanMessage("?"), AIMessage("mine"), AIMessage("distant"), AIMessage("near")
    assert [m.parts[0]["content"] for m in memory.select_new(memory.of("a"), read_input({"messages": [task]}), ())] == [
        "?"
    ]
    memory.note_update(memory.of("a"), read_update({"messages": [own]}), 0)
    memory.note_update(memory.of("b"), read_update({"messages": [distant]}), 1)
    memory.note_update(memory.of("c"), read_update({"messages": [near]}), 2)

    news = memory.select_new(memory.of("a"), read_input({"messages": [task, own, distant, near]}), {2})

    assert [m.parts[0]["content"] for m in news] == ["near"]
