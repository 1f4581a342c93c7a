"""Who caught a fault and how, read off runs that are drawn by hand."""

from __future__ import annotations

from random import Random

import pytest

from blamespan_lab.make.wordings import choose_alternatives
from blamespan_lab.make.wordings.banks import STATEMENTS, TALK
from blamespan_lab.rerun.stress.containment import Caught, InjectedFault, caught
from blamespan_lab.rerun.stress.watching import SeenStep, WatchedRun

PLAN, WORK, WRONG = "Look it up.", "The fee is 48 euros.", "The fee is 84 euros."
FAULT = InjectedFault(1, "worker", True, WORK, WRONG)
Drawn = tuple[str, str, str, tuple[int, ...]]


def run(*steps: Drawn) -> WatchedRun:
    return WatchedRun(
        "48",
        True,
        steps=tuple(
            SeenStep(place, agent, kind, content, inputs, kind != "tool_result")
            for place, (agent, kind, content, inputs) in enumerate(steps)
        ),
    )


def after(*steps: Drawn, twin: tuple[Drawn, ...] = ()) -> Caught:
    """Tell who caught the worker's wrong fee, by what comes after it."""
    plan: Drawn = ("planner", "message", PLAN, ())
    faulty = run(plan, ("worker", "message", WRONG, (0,)), *steps)
    clean = run(plan, ("worker", "message", WORK, (0,)), *twin)
    return caught(faulty, clean, FAULT)


def test_reviewer_who_objects_has_caught_it() -> None:
    """Somebody who has heard it and says that it is wrong."""
    found = after(("reviewer", "message", "I object: the fee should be 48 euros, not 84.", (0, 1)))

    assert found == Caught("reviewer", "objection", 1)


def test_who_states_the_right_value_in_spite_of_it_has_worked_it_out() -> None:
    """Nothing is said against it, and yet the right value is back."""
    found = after(("judge", "message", "The fee is 48 euros.", (0, 1)))

    assert found == Caught("judge", "re-derivation", 1)


def test_tool_that_is_asked_anew_counts_if_it_was_not_asked_without_the_fault() -> None:
    """A look at the source that the run without the fault does not take."""
    again: Drawn = ("reviewer", "tool_call", 'look({"what": "fee"})', (1,))
    answer: Drawn = ("reviewer", "tool_result", "48", (2,))
    words: Drawn = ("reviewer", "message", "The fee is 48 euros.", (1, 3))

    assert after(again, answer, words) == Caught("reviewer", "tool re-check", 3)
    assert after(again, answer, words, twin=(again, answer, words)) == Caught("reviewer", "re-derivation", 3)


def test_judge_goes_with_the_many() -> None:
    """Two others said the right value beside the wrong one."""
    found = after(
        ("one", "message", "The fee is 48 euros.", (0,)),
        ("two", "message", "I have 48 euros for the fee.", (0,)),
        ("judge", "message", "The fee is 48 euros.", (1, 2, 3)),
    )

    assert found == Caught("judge", "majority", 3)


def test_who_erred_may_mend_it() -> None:
    """The agent itself comes back to it."""
    found = after(
        ("planner", "message", "Go on.", (1,)), ("worker", "message", "A correction: it is 48 euros, not 84.", (1, 2))
    )

    assert found == Caught("worker", "self-correction", 2)


def test_what_nobody_takes_up_is_ignored() -> None:
    """Those who did not hear of it have caught nothing, whatever they say."""
    found = after(("two", "message", "The fee is 48 euros.", (0,)), ("planner", "message", "Fine, go on.", (1,)))

    assert found == Caught("", "ignored", None)


def test_fault_is_followed_through_those_who_carry_it_on() -> None:
    """Who objects to somebody that took the wrong value over has caught it all the same."""
    found = after(
        ("writer", "message", "So 84 euros it is.", (1,)),
        ("reviewer", "message", "That does not match: it is 48 euros.", (2,)),
    )

    assert found == Caught("reviewer", "objection", 2)


def test_same_words_without_the_fault_are_no_objection() -> None:
    """Who always says `wait` has not noticed anything."""
    words: Drawn = ("planner", "message", "Wait, there is an error in the plan.", (1,))

    assert after(words, twin=(words,)) == Caught("", "ignored", None)


def test_faulty_instructions_are_followed_by_what_they_make_an_agent_say() -> None:
    """What was told is no text of the run; what the agent says instead of what it would have said is."""
    plan: Drawn = ("planner", "message", PLAN, ())
    clean = run(plan, ("worker", "message", WORK, (0,)))
    faulty = run(plan, ("worker", "message", WRONG, (0,)), ("judge", "message", "It is 48 euros.", (1,)))

    assert caught(faulty, clean, InjectedFault(1, "worker", False, "Check.", "Trust.")) == Caught(
        "judge", "re-derivation", 1
    )


@pytest.mark.parametrize("step", [None, -1, 99])
def test_fault_in_no_step_is_not_looked_for(step: int | None) -> None:
    """Without a place in the run nobody can have heard of it."""
    only = run(("planner", "message", PLAN, ()))

    assert caught(only, only, InjectedFault(step, "planner", True, "a 1", "b 2")) == Caught("", "ignored", None)


@pytest.mark.parametrize(
    "wording", [*TALK.objections, *TALK.code_objections, *TALK.tests_fail, *STATEMENTS.corrections]
)
def test_every_wording_of_an_objection_is_known(wording: str) -> None:
    """Whatever bundled teams say against others' work counts as saying so."""
    for seed in range(12):
        words = choose_alternatives(wording, Random(seed)).format(The="The fee", the="the fee", value="5", wrong="7")
        assert after(("reviewer", "message", words, (1,))).how == "objection", words


@pytest.mark.parametrize("wording", [*TALK.approvals, *TALK.go_on])
def test_no_wording_of_an_approval_is_an_objection(wording: str) -> None:
    """Who approves has caught nothing."""
    for seed in range(12):
        words = choose_alternatives(wording, Random(seed))
        assert after(("reviewer", "message", words, (1,))).how == "ignored", words
