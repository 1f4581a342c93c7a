"""A number is contradicted by the one that a tool has answered about the thing that the sentence names."""

from __future__ import annotations

import pytest

from blamespan.attribution import Contradicted
from blamespan.trace import MessageActionTrace
from blamespan_tracer.auto.tracer import AutoTracer
from blamespan_tracer.ledger import read_ledger
from tests.tracer_model.teams import Said, team

LAMP = 'look_up({"item": "lamp"})'
PRICE = '{"item": "lamp", "price": 48, "currency": "euros"}'


def _find(run: MessageActionTrace) -> list[tuple[int, str, str]]:
    """Return the step, the number and what a record has instead, of each claim that a record contradicts."""
    return [
        (claim.mention.step, claim.mention.value.text, one.source.value.text)
        for claims in read_ledger(run).claims
        for claim in claims
        for one in claim.contradictions
        if one.kind == "record"
    ]


def _tell(call: str, answer: str, said: str, *later: Said) -> MessageActionTrace:
    return team(("a", call, "tool_call"), ("a", answer, "tool_result"), ("a", said), *later)


SHAPES = {
    "JSON": (LAMP, PRICE, "The lamp costs {} euros.", "84", "48"),
    "Python": (LAMP, "{'item': 'lamp', 'price': 48, 'sold': True}", "The lamp costs ${}.", "84", "48"),
    "lines": (LAMP, "item: lamp\nprice: $48.00\nstock: 12", "The lamp costs ${}.", "84.00", "48.00"),
    "assigned": (LAMP, "item=lamp price=48 currency=EUR", "The price of the lamp is {} EUR.", "84", "48"),
    "one line": (LAMP, "price 48 euros", "The lamp costs {} euros.", "84", "48"),
    "clauses": (LAMP, "lamp: price 48 euros, in stock 23", "We have {} units of the lamp.", "32", "23"),
    "bare": ("get_price({'item': 'lamp'})", "48.0", "The price of the lamp is \u20ac{}.", "84", "48.0"),
    "nested": (LAMP, '{"result": {"item": "lamp", "offer": {"price": 48}}}', "The lamp costs {} EUR.", "84", "48"),
    "table": (
        "list_items({})",
        "| item | price | stock |\n|---|---|---|\n| lamp | 48 | 12 |\n| chair | 120 | 31 |",
        "The chair costs {} euros.",
        "210",
        "120",
    ),
    "rows": (
        "list_items({})",
        '[{"item": "lamp", "price": 48}, {"item": "chair", "price": 120}]',
        "Lamp: {} euros.",
        "84",
        "48",
    ),
    "thousands": (LAMP, '{"item": "lamp", "total": 1250}', "The total for the lamp is ${}.", "1,520", "1250"),
    "unit in the key": (
        'get_distance({"from": "Paris", "to": "Rome"})',
        '{"distance_km": 1420}',
        "The distance from Paris to Rome is {} km.",
        "1240",
        "1420",
    ),
    "number of a thing": (
        'get_order({"order_id": 4411})',
        '{"order_id": 4411, "amount": 350}',
        "Order 4411 was charged {} euros.",
        "530",
        "350",
    ),
    "sentence before": (LAMP, PRICE, "I looked up the lamp. It costs {} euros.", "84", "48"),
    "emphasis": (LAMP, PRICE, "Final answer: the lamp costs **{} euros**.", "84", "48"),
    "two digits that others give by chance": (
        LAMP,
        '{"item": "lamp", "price": 48, "stock": 12}',
        "The lamp costs {}.",
        "84",
        "48",
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_other_number_of_the_thing_is_contradicted(shape: str) -> None:
    """However the tool answers, its number contradicts a wrong one, and not the right one."""
    call, answer, said, wrong, right = SHAPES[shape]

    assert _find(_tell(call, answer, said.format(wrong))) == [(2, wrong, right)]
    assert _find(_tell(call, answer, said.format(right))) == []


@pytest.mark.parametrize(
    "said",
    [
        "The old price of the lamp was 84 euros.",
        "Other shops ask 84 euros for the lamp.",
        "Amazon sells the lamp for 84 euros.",
        "Does the lamp cost 84 euros?",
        "The lamp costs about 84 euros.",
        "If the lamp costs 84 euros, we buy it.",
        "We should offer 84 euros for the lamp.",
        "I will pay 84 euros for the lamp.",
        "84. The lamp costs 48 euros.",
        "Two lamps cost 96 euros.",
        "The lamp costs 57.60 euros with 20 % tax.",
        "The chair costs 84 euros.",
        "The lamp and the chair cost 84 euros.",
        "The bulb of the lamp costs 84 euros.",
        "The lamp has 84 watts.",
        "The lamp weighs 84 grams.",
        "The lamp is 84 % cheaper.",
        "The lamp costs 84 dollars.",
        "The lamp is of 1984.",
        "The lamp is No. 84.",
        "```\nlamp costs 84 euros\n```",
    ],
)
def test_sentence_about_something_else_is_not_contradicted(said: str) -> None:
    """Another time, thing, kind or currency, a guess, a plan, a question or a calculation is no other word for it."""
    assert _find(_tell(LAMP, PRICE, said)) == []


def test_contradiction_moves_with_the_mistake() -> None:
    """Who miscopies is contradicted, and neither who copied rightly before nor who repeats the wrong number."""
    first = _tell(LAMP, PRICE, "The lamp costs 84 euros.", ("b", "Our lamp costs 84 euros."))
    second = _tell(LAMP, PRICE, "The lamp costs 48 euros.", ("b", "Our lamp costs 84 euros."))
    sound = _tell(LAMP, PRICE, "The lamp costs 48 euros.", ("b", "Our lamp costs 48 euros."))

    assert [_find(run) for run in (first, second, sound)] == [[(2, "84", "48")], [(3, "84", "48")], []]


def test_ambiguous_records_contradict_nothing() -> None:
    """Where several rows are of the thing, or tools answered differently, nothing tells which is meant."""
    rows = '[{"item": "lamp", "colour": "red", "price": 48}, {"item": "lamp", "colour": "blue", "price": 57}]'
    again = ("a", LAMP, "tool_call"), ("a", '{"item": "lamp", "price": 57}', "tool_result")
    twice = team(("a", LAMP, "tool_call"), ("a", PRICE, "tool_result"), *again, ("a", "The lamp costs 84."))

    assert _find(_tell("list_items({})", rows, "The lamp costs 84 euros.")) == []
    assert _find(twice) == []


def test_number_of_the_task_or_of_a_later_answer_is_not_contradicted() -> None:
    """What the task states has a source, and what a tool answers later is confirmed."""
    later = ("a", LAMP, "tool_call"), ("a", '{"item": "lamp", "price": 84}', "tool_result")
    said = "The lamp costs 84 euros."

    assert _find(_tell(LAMP, PRICE, said, *later)) == []
    assert _find(team(("a", LAMP, "tool_call"), ("a", PRICE, "tool_result"), ("a", said), task=said)) == []


def test_tracer_raises_the_alarm_and_quotes_the_record() -> None:
    """A run whose agent contradicts a record is called failed by that step; its sound twin is not."""
    wrong, right = (_tell(LAMP, PRICE, f"The lamp costs {number} euros.") for number in (84, 48))

    verdict, sound = AutoTracer.bundled().attribute([wrong, right])

    assert (verdict.calls_failed, verdict.decisive_step, sound.calls_failed) == (True, 2, False)
    assert verdict.evidence[0].contradicts == Contradicted(1, PRICE)
