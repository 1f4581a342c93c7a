"""A graph's state as text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blamespan.rebuilding.state_text import state_lines, state_text, task_lines

HUMAN = {"type": "human", "content": "How many rooms?"}
WRAPPED = {"lc": 1, "type": "constructor", "id": ["langchain", "HumanMessage"], "kwargs": HUMAN}
CALLING = {"role": "assistant", "content": "", "tool_calls": [{"name": "count", "args": {"floor": 2}}]}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("state", "lines"),
    [
        ({"plan": "ask the clerk"}, ["plan: ask the clerk"]),
        ({"plan": "ask\nthen write"}, ["plan:\nask\nthen write"]),
        ({"notes": ["one"]}, ["notes: one"]),
        ({"notes": ["one", "two"]}, ["notes:\n- one\n- two"]),
        ({"scores": [1, 2.5, None]}, ["scores: [1, 2.5, null]"]),
        ({"n": 0, "done": True, "left": None}, ["n: 0", "done: true", "left: null"]),
        ({"plan": {"first": "ask", "then": ["write", "send"]}}, ["plan:\n  first: ask\n  then:\n  - write\n  - send"]),
        ({"jobs": [{"who": "ann", "what": "ask"}, "rest"]}, ["jobs:\n- who: ann\n  what: ask\n- rest"]),
        ({"messages": [HUMAN], "plan": "count"}, ["How many rooms?", "plan: count"]),
        ({"messages": [WRAPPED, CALLING]}, ['How many rooms?\ncount({"floor":2})']),
        ({"last": {"type": "human", "data": {"content": [{"type": "text", "text": "Hi"}]}}}, ["last: Hi"]),
        ({"shape": {"type": "circle", "content": "round"}}, ["shape:\n  type: circle\n  content: round"]),
    ],
)
def test_state_is_told_as_lines(state: dict[str, Any], lines: list[str]) -> None:
    """Each value is a line under its key; texts stand as they are, messages by their text alone."""
    assert state_lines(state) == lines


@pytest.mark.parametrize(
    ("state", "lines"),
    [
        ({"anything": "Book a room."}, ["Book a room."]),
        ({"docs": ["a", "b"], "question": "Which?"}, ["Which?", "docs:\n- a\n- b"]),
        ({"Question": "Which?", "notes": [], "answer": "", "plan": None}, ["Which?"]),
        ({"limit": 3, "style": "short"}, ["limit: 3", "style: short"]),
        ({"words": []}, ["words: []"]),
        ({"task": {"goal": "x"}}, ["task: goal: x"]),
    ],
)
def test_task_comes_first(state: dict[str, Any], lines: list[str]) -> None:
    """What a run is to do stands at the front without its key; what is empty says nothing of it."""
    assert task_lines(state) == lines


@given(VALUES)
def test_any_value_has_a_text(value: Any) -> None:
    """No JSON value raises; a text is told as it is, and of a state every text is there."""
    text = state_text(value)

    assert text == value or not isinstance(value, str)
    assert all(item in text for item in _texts_in(value))


def test_deep_values_stay_json() -> None:
    """What nests deeper than anybody reads is shown as JSON, in no more time than its size takes."""
    value: Any = "deep"
    for _ in range(80):
        value = {"in": value}

    assert json.dumps(value["in"]["in"]["in"], separators=(",", ":"))[-30:] in state_text(value)


def _texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value] if "\n" not in value else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    is_message = isinstance(value, dict) and {"type", "role", "content"} & value.keys()
    return [] if is_message else [text for item in inner for text in _texts_in(item)]
