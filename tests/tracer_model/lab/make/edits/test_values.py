"""Values are found as they are written, and another value of the same form is a value of that form."""

from __future__ import annotations

import random

import pytest

from blamespan_lab.make.edits.values import EditableValue, Substitution, find_editable_values, substitute, vary


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("It costs 1,250.50 EUR.", [("number", "1,250.50")]),
        ("Booked for 2026-03-12 at 14:05.", [("date", "2026-03-12"), ("time", "14:05")]),
        ("From 3 March 2026, by Yusuf Rossi", [("date", "3 March 2026"), ("name", "Yusuf Rossi")]),
        ("order #W2378156 of aarav_garcia_1177", [("identifier", "#W2378156"), ("identifier", "aarav_garcia_1177")]),
        ("It fell by -3.2% over 14 days.", [("direction", "fell"), ("sign", "-3.2%"), ("unit", "14 days")]),
        ("a ratio of 50:99, not a time", []),
        ("Dear Anna Lund, pay 512MB, one hundred, 7 or $1'250", [("name", "Anna Lund"), ("number", "1'250")]),
        ("version v1 of 7", []),
    ],
)
def test_values_are_found_as_written(text: str, values: list[tuple[str, str]]) -> None:
    """A longer form hides the numbers inside it; single digits are no values."""
    assert [(value.form, value.text) for value in find_editable_values(text)] == values


def test_quotation_and_what_it_says_are_values() -> None:
    """A number that somebody quotes can be misread as well."""
    values = list(find_editable_values('The page says "the fare rose to 455 euros".'))

    assert [(value.form, value.text) for value in values] == [
        ("direction", "rose"),
        ("number", "455"),
        ("quotation", "the fare rose to 455 euros"),
    ]


@pytest.mark.parametrize("text", ["452", "2026-03-12", "14:05", "3 March 2026", "HAT172", "14 days", "-3.2%", "rose"])
@pytest.mark.parametrize("seed", range(20))
def test_other_value_has_the_same_form(text: str, seed: int) -> None:
    """Nothing about the form gives a changed value away."""
    (value,) = find_editable_values(text)
    other = vary(value, random.Random(seed))

    assert other is not None
    assert other != text
    assert [found.form for found in find_editable_values(other)] == [value.form]


def test_names_and_quotations_change_by_others() -> None:
    """A name becomes one of as many words; a quotation differs in one word."""
    draws = random.Random(1)

    assert vary(EditableValue("Yusuf Rossi", "name", 0), draws, ["Mei Kovacs", "Anna Maria Silva"]) == "Mei Kovacs"
    quotation = vary(EditableValue("the shop was closed", "quotation", 0), draws, ["the museum opens late"])
    assert quotation is not None
    assert len(set(quotation.split()) - {"the", "shop", "was", "closed"}) == 1


def test_substitution_leaves_longer_words_alone() -> None:
    """A value inside a longer number, identifier or word is another value."""
    text = "45 and 45.5, 145, 1.45, #45, A45, 45th; 45, or 45."

    assert substitute(text, [Substitution("45", "46")]) == "46 and 45.5, 145, 1.45, #45, A45, 45th; 46, or 46."


def test_substitutions_happen_at_once() -> None:
    """Two values change places."""
    assert substitute("12 before 34", [Substitution("12", "34"), Substitution("34", "12")]) == "34 before 12"
