"""A corpus can be held out by its words: the two halves of all wordings have none in common."""

from __future__ import annotations

from random import Random

from blamespan_lab.make.simulation.agents.team import CASTS, name_team
from blamespan_lab.make.simulation.program import Program
from blamespan_lab.make.wordings import choose
from blamespan_lab.make.wordings.banks import TALK
from blamespan_lab.make.wordings.choosing import use_wordings


def said(wordings: str) -> set[str]:
    with use_wordings(wordings):
        return {choose(TALK.openers, Random(seed)) for seed in range(300)}


def test_halves_share_no_wording_and_all_holds_both() -> None:
    """What one half says, the other never does."""
    first, second = said("first"), said("second")

    assert first
    assert second
    assert not first & second


def test_same_seed_makes_a_task_of_other_words_in_each_half() -> None:
    """Tasks made before do not reach into the other half; what they ask for is the same."""
    tasks = []
    for wordings in ("first", "second", "first"):
        with use_wordings(wordings):
            tasks.append(Program("word_problems", "chain", "langgraph", seed=4).task())

    assert tasks[0].question == tasks[2].question != tasks[1].question
    assert tasks[0].truth == tasks[1].truth


def test_every_cast_has_a_name_for_each_of_a_large_team() -> None:
    """Where names run out, they bear numbers; each is given once."""
    for cast in CASTS:
        names = [member.name for member in name_team(["solver"] * 20, cast, Random(1))]

        assert len(set(names)) == 20
