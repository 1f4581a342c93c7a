"""The words that operators add: enough of them in each half, with their slots, and read by who must read them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from random import Random

import pytest

from blamespan_lab.make.simulation.agents.mistakes import find_demands
from blamespan_lab.make.simulation.statements.facts import TaskFact
from blamespan_lab.make.simulation.statements.reading import FactStatement, TaskLexicon
from blamespan_lab.make.wordings import choose_alternatives
from blamespan_lab.make.wordings.banks import FAULTS, TALK
from blamespan_lab.make.wordings.choosing import select_half, use_wordings

_HALVES = ("first", "second")
_SLOTS = {"other_role": ["{other}"], "conclusions": ["{value}"], "wrongly_checked": ["{value}"]}
_PLAIN: dict[str, Sequence[str]] = {
    field.name: getattr(FAULTS, field.name) for field in fields(FAULTS) if field.name not in ("errors", "instructions")
}
_LISTS: dict[str, Sequence[str]] = {
    **_PLAIN,
    **{f"instructions:{code}": wordings for code, wordings in FAULTS.instructions.items()},
    "errors": [wording for _, wording in FAULTS.errors],
}
_FEWER = ("instructions", "errors", "timeouts")


@cache
def said(name: str, half: str) -> tuple[str, ...]:
    """Give what one half of a list offers, in some of its alternatives."""
    with use_wordings(half):
        texts = {
            choose_alternatives(wording, Random(seed)) for wording in select_half(_LISTS[name]) for seed in range(8)
        }
    return tuple(sorted(texts))


@pytest.mark.parametrize("name", _LISTS)
def test_each_half_has_many_wordings_and_none_of_the_others(name: str) -> None:
    """A model that learns from one half has met no sentence of the other, and has too many to know them by heart."""
    fewest = 6 if name.startswith(_FEWER) else 8
    halves = [set(said(name, half)) for half in _HALVES]

    assert min(len(_LISTS[name]) // 2, *map(len, halves)) >= fewest
    assert not halves[0] & halves[1]


@pytest.mark.parametrize("name", _LISTS)
def test_wording_keeps_its_slots_and_leaves_no_brackets(name: str) -> None:
    """Whatever is chosen can be said as it is, but for the slots that its operator fills."""
    for half in ("all", *_HALVES):
        for text in said(name, half):
            assert re.findall(r"\{\w*\}", text) == _SLOTS.get(name, []), text
            assert not re.search(r"[\[\]|]|  |\.\.|,\.|\s[.,;]", text), text


@pytest.mark.parametrize("half", ["all", *_HALVES])
def test_only_what_ends_a_run_holds_a_word_by_which_runs_end(half: str) -> None:
    """A team stops where an end is said, and nowhere else; what is planted by others may try."""
    for name in _LISTS:
        for text in said(name, half):
            found = [mark for mark in TALK.termination_words if mark in text]

            assert name == "planted" or (text.split()[-1] in TALK.termination_words if name == "ends" else not found), (
                text
            )


@pytest.mark.parametrize("half", ["all", *_HALVES])
def test_invented_requirement_is_read_as_one(half: str) -> None:
    """Simulated agents follow it, so that it does harm; no other wording asks for anything."""
    for name in _PLAIN:
        for text in said(name, half):
            assert len(find_demands(text)) == (name == "invented_constraints"), text


@pytest.mark.parametrize("half", ["all", *_HALVES])
def test_conclusion_is_read_as_the_answer(half: str) -> None:
    """Whoever reads that the answer is another takes it for the answer."""
    lexicon = TaskLexicon({"cost": TaskFact("cost", "cost of the trip")}, "cost")
    for text in said("conclusions", half):
        read = lexicon.read("The cost of the trip is 12. " + text.format(value="21")).statements

        assert read[-1] == FactStatement("cost", 21.0), text
