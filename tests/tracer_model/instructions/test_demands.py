"""What sentences demand, and what they do not."""

from __future__ import annotations

import pytest

from blamespan_tracer.instructions.demands import Demand, can_be_rule, read_demands
from blamespan_tracer.instructions.languages import find_language


def read(text: str) -> list[tuple[str, bool, str]]:
    return [(demand.kind, demand.is_wanted, demand.value) for demand in read_demands(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Always answer in French.", ("language", True, "french")),
        ("Do not write in French.", ("language", False, "french")),
        ("Please answer in English, not in German.", ("language", True, "english")),
        ("Write in German instead of French.", ("language", True, "german")),
        ("Return valid JSON.", ("format", True, "json")),
        ("Answer without any lists.", ("format", False, "list")),
        ("Use no more than 30 words.", ("length", False, "")),
        ("Write at least two paragraphs.", ("length", True, "")),
        ("You must not use `rm`.", ("tool", False, "rm")),
        ("Please call send_mail.", ("tool", True, "send_mail")),
        ('Never write "cheap".', ("word", False, "cheap")),
        ("The PIN is 5521. Never share it.", ("secret", False, "5521")),
        ("Ask before you delete anything.", ("approval", True, "")),
        ("Do not ask, delete it.", ("approval", False, "")),
        ("Never give advice on taxes.", ("topic", False, "taxes")),
    ],
)
def test_demand_is_read(text: str, expected: tuple[str, bool, str]) -> None:
    """Each kind of rule is read from a plain sentence, with what it is about and whether that is wanted."""
    assert expected in read(text)


@pytest.mark.parametrize(
    "text",
    [
        "The French translation was done in May.",
        "Please translate the letter into German.",
        "The list of ports has 40 entries.",
        "A crew of 12 men was on board.",
        "He rolled the die in secret.",
        "In how many lines does \"ice\" occur?",
        '{"language": "German", "format": "JSON"}',
        "All payment methods must already be in the profile.",
        "Harbours can be closed within 24 hours of a storm.",
    ],
)  # fmt: skip
def test_sentence_without_a_demand_is_no_rule(text: str) -> None:
    """What tells, asks or is data states no rule."""
    assert [demand for demand in read_demands(text) if can_be_rule(demand)] == []


def test_kinds_that_are_not_asked_for_are_not_read() -> None:
    """A text is read for what rules are about alone."""
    text = "Answer in French. Return JSON."

    assert {demand.kind for demand in read_demands(text, frozenset({"format"}))} == {"format"}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Please book it for 13 March 2026, 08:00 to 18:00.", []),
        ("Please close ticket SEV-1 of v1.2.3.", []),
        ("Please pay EUR 2 million to them.", [2_000_000.0]),
        ("Please send 40 copies.", [40.0]),
    ],
)
def test_amounts_are_numbers_as_the_reader_of_values_reads_them(text: str, numbers: list[float]) -> None:
    """A day, an hour, a version or an identifier is no amount; money counts with its magnitude."""
    assert [demand.number for demand in read_demands(text, frozenset({"limit"}))] == numbers


def test_quote_is_the_sentence() -> None:
    """A demand quotes the sentence as it stands."""
    [demand] = [one for one in read_demands("Hello. Answer in French!") if one.kind == "language"]

    assert demand == Demand("language", "Answer in French!", True, "french", stems=demand.stems)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The boat is late and will not sail today.", "english"),
        ("Das Boot ist spät und fährt heute nicht.", "german"),
        ("Le bateau est en retard et ne part pas.", "french"),
        ("El barco no sale hoy por la tormenta.", "spanish"),
        ("船は今日出ません。", "japanese"),
        ("OK.", None),
        ("42 + 7 = 49", None),
    ],
)
def test_language_is_told_where_it_can_be(text: str, language: str | None) -> None:
    """A sentence tells its language; a word or a sum does not."""
    assert find_language(text) == language
