"""Operators take any text and give a faulty one or nothing, the same each time, in linear time."""

from __future__ import annotations

import json
import time
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blamespan.intercepting.boundaries import (
    Answer,
    Change,
    Content,
    Line,
    Mail,
    Mechanism,
    Opportunity,
    PlannedFault,
    RunScope,
    Said,
    ToolCall,
)
from blamespan_lab.make.faults.catalogue import KINDS
from blamespan_lab.make.faults.interceptor import interceptor
from blamespan_lab.make.faults.operators.calls import CALL_OPERATORS
from blamespan_lab.make.faults.operators.text import TEXT_OPERATORS, Utterance, apply_operator

_PIECES = st.sampled_from(
    ["12", "1,200.50", "-3", "km", "must", "not", "Paris", '"x"', "`y`", "1.", "- ", "\n", ". ", "[", "|", "{0}", "%s"]
)
TEXTS = st.text(max_size=200) | st.lists(_PIECES, max_size=60).map(" ".join)


@pytest.mark.parametrize("name", TEXT_OPERATORS)
@given(text=TEXTS, heard=st.lists(TEXTS, max_size=3), said=st.lists(TEXTS, max_size=3), seed=st.integers(0, 9))
@settings(max_examples=30, deadline=None)
def test_any_text_gives_a_changed_text_or_none(
    name: str, text: str, heard: list[str], said: list[str], seed: int
) -> None:
    """Never an error, never the same text, never an empty one, always the same for the same seed."""
    utterance = Utterance(text, "Is it 12 km?", heard, said, ("planner", "{odd} name"))
    first, again = (apply_operator(TEXT_OPERATORS[name], utterance, Random(seed)) for _ in range(2))

    assert first == again
    assert first is None or (first != text and first.strip())


@pytest.mark.parametrize("name", CALL_OPERATORS)
@given(arguments=TEXTS | st.dictionaries(st.text(max_size=5), st.integers() | TEXTS | st.booleans()).map(json.dumps))
@settings(max_examples=60, deadline=None)
def test_any_call_gives_a_changed_call_or_none(name: str, arguments: str) -> None:
    """Arguments may be anything; malformed ones are none, wrong ones are well formed."""
    said = Said("", (ToolCall("look", arguments, "1"),))
    changed = CALL_OPERATORS[name](said, ("look", "count"), Random(1))

    assert changed != said
    if changed is not None and name == "malformed-arguments":
        with pytest.raises(json.JSONDecodeError):
            json.loads(changed.calls[0].arguments)
    if changed is not None and name == "wrong-argument":
        assert json.loads(changed.calls[0].arguments) != json.loads(arguments)


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXT_OPERATORS)
@pytest.mark.parametrize("piece", ["12 ", "Ab ", "\n \n", "1. ", "must not. ", '"', "`", "is 1,000 more than ", "9"])
def test_time_grows_with_the_text_and_no_faster(name: str, piece: str) -> None:
    """A text of 200,000 characters, whatever it is made of, is done in two seconds."""
    text = piece * (200_000 // len(piece))
    began = time.process_time()
    apply_operator(TEXT_OPERATORS[name], Utterance(text, text[:999], (text,), (text,), ("a",)), Random(1))

    assert time.process_time() - began < 2


@pytest.mark.parametrize("kind", KINDS)
@given(text=TEXTS, seed=st.integers(0, 5))
@settings(max_examples=15, deadline=None)
def test_every_kind_takes_any_content(kind: str, text: str, seed: int) -> None:
    """At each of its boundaries: a change that is one, or none; the label says what stood there and stands now."""
    for mechanism in KINDS[kind].mechanisms:
        content = _content(mechanism, text)
        found = interceptor(PlannedFault(kind, mechanism=mechanism))
        at = Opportunity(
            mechanism, RunScope(speakers=["b", "a"]), "a", 0, others=("b", "c"), tools=("look",), earlier=("old",)
        )
        change = found.change(at, content, Random(seed))

        assert change is None or (change.content != content and change.before != change.after)
        assert change is None or isinstance(change, Change)


def _content(mechanism: Mechanism, text: str) -> Content:
    lines = (
        Line("system", "You are a.", place=0),
        Line("user", text, "user", place=1),
        Line("user", text, "b", place=2),
    )
    contents: dict[Mechanism, Content] = {
        "prompt": lines,
        "memory": lines,
        "response": Said(text, (ToolCall("look", '{"a": 1}'),)),
        "tool": Answer(text),
        "routing": Mail(text, ("b",), ("c",)),
    }
    return contents[mechanism]


def test_history_is_lost_in_whole_exchanges() -> None:
    """A call and its answer are lost together, or neither: endpoints refuse one alone."""
    call = ToolCall("look", "{}", "1")
    lines = (
        Line("user", "Task", place=0),
        Line("assistant", "", "a", (call,), 1),
        Line("tool", "12", "look", place=2),
        Line("user", "And?", "b", place=3),
    )
    for operator in ("forget-early", "cut-context"):
        found = interceptor(PlannedFault("aegis:FM-1.4", mechanism="memory", operator=operator))
        change = found.change(Opportunity("memory", RunScope(), "a", 0), lines, Random(1))

        assert change is not None
        assert isinstance(change.content, tuple)
        places = {line.place for line in change.content}
        assert (1 in places) == (2 in places)
        assert 3 in places


def test_numbers_of_lists_are_left_alone() -> None:
    """What counts the items of a list is no amount."""
    text = "1. Take 40 rooms\n2. Pay\n"
    changed = {apply_operator(TEXT_OPERATORS["change-number"], Utterance(text), Random(seed)) for seed in range(20)}

    assert all(one is not None and one.startswith("1. Take ") and "\n2. Pay" in one for one in changed)


def test_long_message_keeps_how_it_opens_and_closes_when_what_it_says_is_replaced() -> None:
    """A wordy agent stays wordy at fault: the length of its message gives nothing away."""
    message = "**Task**\nI look at the share.\n\n**Work**\n- The share is 7.\n\n**Recap**\nSay so if it is not."
    faulty = apply_operator(TEXT_OPERATORS["derail"], Utterance(message), Random(1))

    assert faulty is not None
    assert faulty.startswith("**Task**\nI look at the share.\n\n**Work**\n")
    assert faulty.endswith("\n\n**Recap**\nSay so if it is not.")
    assert "7" not in faulty


def test_closing_part_that_holds_the_amount_goes_with_it() -> None:
    """What was replaced is said nowhere else in the message."""
    faulty = apply_operator(
        TEXT_OPERATORS["withhold"], Utterance("I look at it.\n\nThe share is 7.\n\nSo 7 it is."), Random(1)
    )

    assert faulty is not None
    assert faulty.startswith("I look at it.\n\n")
    assert "7" not in faulty
