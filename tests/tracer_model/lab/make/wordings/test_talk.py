"""What agents say around the facts: it states nothing itself, and each half has enough of it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from random import Random

import pytest

from blamespan_lab.make.simulation.agents.agent import prefix_statement
from blamespan_lab.make.simulation.agents.mistakes import find_demands
from blamespan_lab.make.simulation.statements.facts import FactValue, TaskFact
from blamespan_lab.make.simulation.statements.reading import FactStatement, TaskLexicon
from blamespan_lab.make.simulation.statements.writing import fill_phrase, write_fact
from blamespan_lab.make.wordings.banks import ELABORATION, FAULTS, TALK
from blamespan_lab.make.wordings.choosing import choose_alternatives, use_wordings
from blamespan_lab.rerun.stress.containment import is_objection

_FACTS = {
    fact.key: fact
    for fact in (
        TaskFact("price", "price of a lamp", unit="euros"),
        TaskFact("maker", "maker of the Orion Kettle", "name"),
        TaskFact(
            "negatives", "negative numbers", "choice", choices=("skipped", "kept", "allowed", "left out", "added")
        ),
        TaskFact("offer", "offer of Elm Court", "verdict", choices=("suitable", "not suitable", "unsuitable")),
        TaskFact("budget", "cost allowed", "limit", unit="euros"),
        TaskFact("best", "venue to be booked", "name"),
        TaskFact("code", "function solve", "code"),
    )
}
_LEXICON = TaskLexicon(_FACTS, "price", {"best": ("price", "budget")})
_LAST_SAID = {
    "price": "The price of a lamp is 12 euros.",
    "maker": "The maker of the Orion Kettle is Halden Works.",
    "offer": "The offer of Elm Court is suitable.",
    "code": "Here is the function solve.",
}
_OBJECTING = {"objections", "tests_fail", "code_objections"}
_OF_THEMSELVES = {"adopts", "rechecks"}


def _banks() -> dict[str, Sequence[str]]:
    """Give every list of wordings of the talk, by its name."""
    banks: dict[str, Sequence[str]] = {}
    for record in (TALK, ELABORATION):
        for field in fields(record):
            bank = getattr(record, field.name)
            parts = bank if isinstance(bank, Mapping) else {"": bank}
            if field.name != "termination_words":
                banks.update({f"{field.name}:{key}".rstrip(":"): wordings for key, wordings in parts.items()})
    return banks


_BANKS = _banks()


def _worded(text: str) -> Iterator[str]:
    """Give *text* in all its alternatives, or in many where they are too many."""
    yield from sorted({choose_alternatives(text, Random(seed)) for seed in range(4)})


def _read(text: str, target: str) -> tuple[object, ...]:
    reading = replace(_LEXICON, target=target).read(text)
    return (*reading.statements, *reading.rules)


@pytest.mark.parametrize("name", sorted(_BANKS))
def test_each_half_has_words_enough_and_none_of_the_others(name: str) -> None:
    """A model that was trained on one half meets a half of its own size that it has never read."""
    said = {}
    for half in ("first", "second"):
        with use_wordings(half):
            said[half] = {choose_alternatives(text, Random(0)) for text in _BANKS[name][half == "second" :: 2]}

    assert len(said["first"]) >= 4
    assert len(said["second"]) >= 4
    assert not said["first"] & said["second"] - {""}
    assert len(set(_BANKS[name])) == len(_BANKS[name])


@pytest.mark.parametrize("name", sorted(_BANKS))
def test_talk_states_nothing(name: str) -> None:
    """Whatever it is about, and whatever was said before it, talk is read as no fact and no rule."""
    if name in ("tests_fail", "code_objections"):
        return
    about_what = {key: fact for key, fact in _FACTS.items() if name != "not_found" or fact.kind != "code"}
    for template, (key, fact) in itertools.product(_BANKS[name], about_what.items()):
        for text in _worded(template):
            named = fill_phrase(text, fact.phrase).replace("{given}", "the price of a lamp")
            before = _LAST_SAID.get(key, "")

            assert _read(f"{before} {named}", key) == _read(before, key), named


@pytest.mark.parametrize("name", sorted(name for name in _BANKS if name != "finals"))
def test_what_leads_to_a_list_names_no_answer(name: str) -> None:
    """Whatever stands behind a colon is not taken for the answer that was spoken of before it."""
    for template in _BANKS[name]:
        for text in _worded(template):
            assert not (text.endswith((":", ",")) and re.search(r"\b(?:the|our|my|final) (?:answer|result)", text)), (
                text
            )


@pytest.mark.parametrize("name", ["settled", "finals"])
def test_a_statement_is_read_behind_any_lead(name: str) -> None:
    """An answer is the same behind every word that may lead to it."""
    values: dict[str, FactValue] = {"price": 12.0, "maker": "Halden Works", "offer": "suitable", "best": "Elm Court"}
    for template, (key, value) in itertools.product(_BANKS[name], values.items()):
        for seed, text in enumerate(_worded(template)):
            said = prefix_statement(text, write_fact(_FACTS[key], value, Random(seed)))

            assert {(each.key, each.value) for each in replace(_LEXICON, target=key).read(said).statements} == {
                (key, value)
            }, said


@pytest.mark.parametrize("name", ["tests_fail", "code_objections"])
def test_code_that_is_objected_to_is_taken_back(name: str) -> None:
    """Whoever hears that the code is wrong, in whatever words, holds it no more."""
    for template in _BANKS[name]:
        for text in _worded(template):
            named = fill_phrase(text, "function solve")

            assert _read(named, "code")[-1] == FactStatement("code", None, is_denied=True), named


@pytest.mark.parametrize("name", sorted(_BANKS))
def test_talk_asks_for_nothing_and_ends_nothing(name: str) -> None:
    """No talk adds a requirement, an amount, a name, or a word by which a run ends."""
    for template in _BANKS[name]:
        for text in _worded(template):
            assert find_demands(text) == [], text
            assert not re.search(r"\d", text), text
            assert not re.search(r"(?<=[a-z,] )(?!I\b|I'|FINAL)[A-Z]", text), text
            assert not any(mark in text for mark in (*TALK.termination_words, "FINISH", "NEXT")), text


@pytest.mark.parametrize("name", sorted(_BANKS))
def test_only_objections_object(name: str) -> None:
    """Talk is told from an objection by its words."""
    if name in _OF_THEMSELVES:
        return
    for template in _BANKS[name]:
        for text in _worded(template):
            assert is_objection(text) is (name in _OBJECTING), text


def test_wordings_that_faults_add_too_stay_in_their_half() -> None:
    """What agents say without a fault and operators add is in the same half of both lists."""
    shared = [
        (said.index(text) % 2, added.index(text) % 2)
        for said, added in ((TALK.openers, FAULTS.again), (TALK.approvals, FAULTS.unchecked))
        for text in said
        if text in added
    ]

    assert len(shared) == 12
    assert all(here == there for here, there in shared)
