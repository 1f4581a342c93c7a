"""Reading prose: what is stated is read back in every wording, and what is changed is read as changed."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blamespan_lab.make.simulation.statements.facts import DerivationRule, FactValue, Limit, TaskFact, is_same
from blamespan_lab.make.simulation.statements.reading import FactStatement, TaskLexicon
from blamespan_lab.make.simulation.statements.writing import (
    end_sentence,
    lay_out,
    write_correction,
    write_fact,
    write_rule,
)
from blamespan_lab.make.wordings.banks import STATEMENTS

_FACTS = {
    fact.key: fact
    for fact in (
        TaskFact("price", "price of a lamp", unit="euros"),
        TaskFact("count", "number of lamps"),
        TaskFact("fee", "delivery fee", unit="euros"),
        TaskFact("total", "cost of all lamps", unit="euros"),
        TaskFact("share", "discount rate", unit="percent"),
        TaskFact("lasts", "duration of the trip", unit="minutes"),
        TaskFact("maker", "maker of the Orion Kettle", "name"),
        TaskFact("born", "birth year of the founder", by_name="birth year of {founder}"),
        TaskFact("founder", "founder of the maker", "name", by_name="founder of {maker}"),
        TaskFact("negatives", "negative numbers", "choice", choices=("skipped", "kept")),
        TaskFact("offer", "offer of Elm Court", "verdict", choices=("suitable", "not suitable")),
        TaskFact("budget", "cost allowed", "limit", unit="euros"),
        TaskFact("best", "venue to be booked", "name"),
        TaskFact("code", "function solve", "code"),
    )
}
_LEXICON = TaskLexicon(_FACTS, "total", {"best": ("price", "fee")})
_AMOUNTS = st.one_of(
    st.integers(-99_999, 9_999_999).map(float), st.integers(1, 999_999).map(lambda cents: round(cents / 100, 2))
)
_VALUES: dict[str, st.SearchStrategy[FactValue]] = {
    "amount": _AMOUNTS,
    "name": st.sampled_from(["Maria Keller", "Brightline", "Elm Court", "Molde Bay", "Orion-3", "Quarry Lane"]),
    "limit": st.builds(Limit, st.sampled_from(["<=", ">="]), st.integers(1, 9_999).map(float)),
}
_SEEDS = st.integers(0, 10**6)


def _value_of(fact: TaskFact) -> st.SearchStrategy[FactValue]:
    return st.sampled_from(fact.choices) if fact.choices else _VALUES[fact.kind]


_STATED = st.sampled_from([fact for fact in _FACTS.values() if fact.kind != "code"]).flatmap(
    lambda fact: st.tuples(st.just(fact), _value_of(fact), _value_of(fact))
)


def _read(text: str) -> list[FactStatement]:
    return list(_LEXICON.read(text).statements)


@given(_STATED, _SEEDS, st.booleans())
@settings(max_examples=250, deadline=None, derandomize=True)
def test_what_is_stated_is_read_back(
    stated: tuple[TaskFact, FactValue, FactValue], seed: int, has_working: bool
) -> None:
    """Every wording of every kind of fact is read as exactly the fact and value it states."""
    fact, value, _ = stated
    text = end_sentence(write_fact(fact, value, Random(seed), working="3 * 4" if has_working else ""))

    (said,) = _read(text)

    assert (said.key, said.is_denied) == (fact.key, False), text
    assert is_same(said.value, value), text


@given(_STATED, _SEEDS)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_a_correction_is_read_as_the_new_value(stated: tuple[TaskFact, FactValue, FactValue], seed: int) -> None:
    """ "Not 12 but 14" is 14, in every wording."""
    fact, value, wrong = stated
    if is_same(value, wrong) or fact.choices:
        return

    text = end_sentence(write_correction(fact, value, wrong, Random(seed)))

    assert [(said.key, said.is_denied) for said in _read(text)] == [(fact.key, False)], text
    assert is_same(_read(text)[0].value, value), text


@given(st.lists(_STATED, min_size=2, max_size=6, unique_by=lambda stated: stated[0].key), _SEEDS)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_a_message_of_many_facts_is_read_whole(stated: list[tuple[TaskFact, FactValue, FactValue]], seed: int) -> None:
    """Lists, joined sentences and plain prose lose no statement and mix none up."""
    rng = Random(seed)
    text = lay_out([write_fact(fact, value, rng) for fact, value, _ in stated], rng)

    read = {said.key: said.value for said in _read(text)}

    assert sorted(read) == sorted(fact.key for fact, _, _ in stated), text
    assert all(is_same(read[fact.key], value) for fact, value, _ in stated), text


@given(st.lists(_STATED, min_size=3, max_size=5, unique_by=lambda stated: stated[0].key), _SEEDS, st.integers(0, 2))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_a_dropped_sentence_is_not_read(
    stated: list[tuple[TaskFact, FactValue, FactValue]], seed: int, dropped: int
) -> None:
    """What nobody says nobody knows."""
    rng = Random(seed)
    sentences = [end_sentence(write_fact(fact, value, rng)) for fact, value, _ in stated]
    del sentences[dropped]

    keys = {said.key for said in _read(" ".join(sentences))}

    assert keys == {fact.key for place, (fact, _, _) in enumerate(stated) if place != dropped}


@pytest.mark.parametrize("operation", sorted(STATEMENTS.rules))
def test_a_rule_is_read_back(operation: str) -> None:
    """Every wording of every rule, of two inputs and of three, is read as that rule."""
    inputs = {"percent": ("share", "total"), "product": ("price", "count"), "quotient": ("total", "count")}
    two = inputs.get(operation, ("price", "fee"))
    wide = [("price", "fee", "count")] if operation in ("sum", "larger", "smaller") else []
    out = "best" if operation in ("lowest", "highest") else "fee" if operation == "percent" else "total"
    rules = [DerivationRule(out, operation, names) for names in [two, *wide]]

    for rule in rules:
        for seed in range(40):
            text = end_sentence(write_rule(rule, _FACTS, "price", Random(seed)))
            assert _LEXICON.read(text).rules == (rule,), text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Price of a lamp: 12 euros; delivery fee: 3 euros.", {"price": 12.0, "fee": 3.0}),
        ("We have 12 euros for the price of a lamp and 3 euros for the delivery fee.", {"price": 12.0, "fee": 3.0}),
        ("The price of a lamp is 12 euros and the delivery fee is 3.", {"price": 12.0, "fee": 3.0}),
        ("3. The delivery fee was corrected from 12 to 14.", {"fee": 14.0}),
        ("The price of a lamp is 12. It should be 14 instead.", {"price": 14.0}),
        ("**Price of a lamp** = \u20ac1,250.50", {"price": 1250.5}),
        ("**Price of a lamp** = $1,250.50", {}),
        ("The duration of the trip is 1 h 30 min.", {"lasts": 90.0}),
        ("The duration of the trip is 2 hours.", {"lasts": 120.0}),
        ("The price of a lamp is 3 thousand euros.", {"price": 3000.0}),
        ('The price of a lamp is 12. Bob wrote: "the price of a lamp is 99 euros".', {"price": 12.0}),
        ("> The price of a lamp is 99.\nI get 12 for the price of a lamp.", {"price": 12.0}),
        ("The negative numbers are not skipped.", {"negatives": "kept"}),
        ("The cost allowed is not at most 300 euros but at most 200.", {"budget": Limit("<=", 200.0)}),
        ("Is the price of a lamp 12 euros?", {}),
        ("The price of a lamp is some of them.", {}),
        ("The price of a lamp is 12 dollars.", {}),
        ("In step 3 I look at the price of a lamp.", {}),
        ("The answer is 48.", {"total": 48.0}),
        ("To answer this, we do this: 1) first one thing.", {}),
    ],
)
def test_prose_that_was_not_written_by_us_is_read(text: str, expected: dict[str, FactValue]) -> None:
    """Reading goes by phrases, values and small words, not by our own wordings."""
    read = {said.key: said.value for said in _read(text) if not said.is_denied}

    assert read == expected


def test_a_negated_statement_is_a_denial() -> None:
    """ "Is not 12" says nothing of what it is."""
    assert _read("The price of a lamp is not 12 euros.") == [FactStatement("price", 12.0, is_denied=True)]


def test_a_negated_rule_is_no_rule() -> None:
    """A rule that is said not to hold is not read as one."""
    assert _LEXICON.read("The cost of all lamps is not the price of a lamp times the number of lamps.").rules == ()


def test_facts_are_read_by_the_names_the_reader_believes() -> None:
    """A text may call a fact by what another fact is; who believes otherwise does not understand it."""
    text = "The birth year of Ada Rossi is 1903."

    assert _LEXICON.read(text, {"founder": "Ada Rossi"}).statements == (FactStatement("born", 1903.0),)
    assert _LEXICON.read(text, {"founder": "Ole Dahl"}).statements == ()


def test_code_is_read_from_its_block_and_rejected_in_words() -> None:
    """The last block is the code; a message that calls it wrong takes it back."""
    assert _read("Here:\n```python\ndef solve(v):\n    return v\n```") == [
        FactStatement("code", "def solve(v):\n    return v\n")
    ]
    assert _read("The function solve fails its tests.") == [FactStatement("code", None, is_denied=True)]


@given(st.text(max_size=300))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_text_can_be_read(text: str) -> None:
    """Nothing that a text holds breaks the reader."""
    _LEXICON.read(f"The price of a lamp is {text}")
