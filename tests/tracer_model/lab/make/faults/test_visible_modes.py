"""A label goes by what a fault shows, not by the kind that it was written for."""

from __future__ import annotations

from collections import defaultdict

import pytest

from blamespan.intercepting.boundaries import Opportunity, RunScope
from blamespan.taxonomy import canonical
from blamespan_lab.make.faults.catalogue import KINDS
from blamespan_lab.make.faults.visible_modes import find_visible_modes

WRITERS = sorted(
    {(way, operator) for kind in KINDS.values() for way, operators in kind.writers.items() for operator in operators}
)


def at(task: str = "", *heard: str) -> Opportunity:
    return Opportunity("response", RunScope(), "worker", 0, task=task, heard=heard)


@pytest.mark.parametrize(("mechanism", "operator"), WRITERS)
def test_operator_shows_the_same_whatever_it_was_written_for(mechanism: str, operator: str) -> None:
    """Two kinds that are written by one operator at one boundary carry the same canonical modes."""
    found = defaultdict(set)
    for kind in KINDS.values():
        if operator in kind.writers.get(mechanism, ()):  # type: ignore[call-overload]
            modes = find_visible_modes(operator, kind.modes, at("Pay 40."), "It is 12.", "It is 21.")
            found[frozenset(canonical(mode)[0] for mode in modes)].add(kind.name)

    assert len(found) == 1, dict(found)


@pytest.mark.parametrize(
    ("heard", "before", "after", "mode"),
    [
        (("The fee is 120 a month.",), "So the fee is 120.", "So the fee is 210.", "blamespan:X3"),
        ((), "The task says 40, so 40.", "The task says 400, so 400.", "blamespan:X3"),
        (("The fee is 120.",), "120 + 40 = 160", "120 + 40 = 106", "mast:FM-2.6"),
        (("Ask Anna Berg.",), "I was told Anna Berg.", "I was told Carl Lund.", "blamespan:X3"),
        ((), "I take it that Anna Berg.", "I take it that Carl Lund.", "mast:FM-2.6"),
    ],
)
@pytest.mark.parametrize("kind", ["aegis:FM-1.1", "mas-fire:hallucination", "blamespan:X3"])
def test_what_was_told_is_misread_and_the_rest_is_reasoned_wrongly(
    kind: str, heard: tuple[str, ...], before: str, after: str, mode: str
) -> None:
    """A changed number or name is called by where the right one comes from."""
    operator = "swap-name" if "Berg" in before else "change-number"

    shown = find_visible_modes(operator, KINDS[kind].modes, at("Add 40.", *heard), before, after)

    assert [str(each) for each in shown] == [mode]


def test_names_of_other_taxonomies_stay() -> None:
    """What AEGIS calls the same thing is kept beside the canonical mode."""
    shown = find_visible_modes("withhold", KINDS["aegis:FM-2.4"].modes, at(), "It is 12.", "I have it.")

    assert [str(each) for each in shown] == ["aegis:FM-2.4", "mast:FM-2.4"]
