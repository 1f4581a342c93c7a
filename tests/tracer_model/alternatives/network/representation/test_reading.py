"""Which numbers only count the items of a list, and which say something."""

from __future__ import annotations

import pytest

from blamespan_tracer.alternatives.network.representation.reading import read_texts


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("1) Read the ledger.\n2) Subtract.", ["1", "2"]),
        ("Plan: 1. Read the ledger. 2. Subtract. 3. Report.", ["1", "2", "3"]),
        ("The answer is 1. That is all.", []),
        ("57", []),
        ("57\n12", []),
        ("412 units", []),
        ("", []),
    ],
)
def test_numbers_of_items_are_told_from_those_that_say_something(text: str, items: list[str]) -> None:
    """They open a sentence, or begin a list within a line; a number that stands alone is what a tool answered."""
    reading = read_texts(["The task.", text])

    assert [reading.tokens[reading.token[place]] for place in reading.numbers_list.nonzero()[0]] == items
