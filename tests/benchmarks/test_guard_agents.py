"""A simulated agent that is asked again repairs its answer where it is told truthfully what is wrong, only there."""

from __future__ import annotations

import pytest

pytest.importorskip("autogen_agentchat")
pytest.importorskip("langgraph")

from tests.benchmarks.guard_agents import AskedAgain, Hint, is_truthful, read_hints
from tests.benchmarks.guard_work import TrialPlan, try_plan

from blamespan.guarding.decisions import Decision
from blamespan.guarding.guard import _what_is_wrong
from blamespan.guarding.policy import parse_policy
from blamespan.intercepting.boundaries import Answer, Opportunity, RunScope, Said
from blamespan_lab.make.corpus.recipe import find_recipe

GIVEN, SOUND = "The lamps cost 1,253 euros.", "The lamps cost 1,235 euros."


@pytest.mark.parametrize(
    ("advice", "hint"),
    [
        ("it says '1,253' where the task says '1235'", Hint("1,253", "1235")),
        ('nothing in the run supports "it\'s 1,253"', Hint("it's 1,253")),
        ("A written sum holds. comes to 74: '37 * 2 = 75'", Hint("37 * 2 = 75")),
        ("it repeats what was said before", Hint(is_repeat=True)),
        ("A message is whole. it breaks off: 'We are'", Hint("We are", is_cut=True)),
        ("It was said. bob said 'It is 12.\\nFine.': 'May I ask?'", Hint("May I ask?", told="It is 12.\nFine.")),
        ("something is wrong", Hint()),
        ("", Hint()),
    ],
)
def test_hint_is_what_the_guard_quotes_of_its_reason(advice: str, hint: Hint) -> None:
    """What the guard quotes of the whole answer is context: it points at nothing."""
    decision = Decision(("rewrite",), advice or "wrong", "rule", "check")

    assert read_hints(_what_is_wrong(Said("It says 'x': '1,253'"), [decision])) == [hint]


def test_each_reason_is_a_hint() -> None:
    """Who is told several reasons reads each of them."""
    advices = ("A written sum holds. comes to 74: '37 * 2 = 75'", "it repeats what was said before")
    decisions = [Decision(("rewrite",), "wrong", "rule", "check", advice=advice) for advice in advices]

    hints = read_hints(_what_is_wrong(Said("37 * 2 = 75. Also: 'x'"), decisions))

    assert hints == [Hint("37 * 2 = 75"), Hint(is_repeat=True)]


@pytest.mark.parametrize(
    ("hint", "repairs"),
    [
        (Hint("1,253"), True),
        (Hint("1253", "1235"), True),
        (Hint("1253", "1200"), False),  # what is called right is not
        (Hint("euros"), False),  # what is called wrong is sound
        (Hint("253"), False),  # a part of a number is another number
        (Hint("1,235"), False),  # it says something else
        (Hint(""), False),
        (Hint(is_repeat=True), False),
    ],
)
def test_only_a_truthful_hint_repairs(hint: Hint, repairs: bool) -> None:
    """It names what stands in the answer given and not in the other one, and nothing false."""
    assert is_truthful(hint, GIVEN, SOUND) is repairs


def test_repetition_must_be_one() -> None:
    """Who is told that they repeat themselves believes it only where they do, and can say something else."""
    hint = Hint(is_repeat=True)

    assert is_truthful(hint, GIVEN, SOUND, [f"  {GIVEN}"])
    assert not is_truthful(hint, GIVEN, SOUND, [SOUND])
    assert not is_truthful(hint, GIVEN, GIVEN, [GIVEN])


def test_what_breaks_off_goes_on() -> None:
    """Who is told that they break off believes it only where they can go on; what ends the run is no going on."""
    hint = Hint("We are", is_cut=True)

    assert is_truthful(hint, "To conclude: We are", "To conclude: We are at 43.\nDONE")
    assert not is_truthful(hint, "To conclude: We are", "To conclude: We are\nDONE")
    assert not is_truthful(hint, "To conclude: We are", "It is 43.")


def test_only_what_was_said_is_news() -> None:
    """What the guard claims that somebody said must have been said in this run: by the task, an agent or a tool."""
    heard = AskedAgain()
    scope = RunScope()
    heard.change(Opportunity("response", scope, "ada", 0), Said("The stock is 12."), lambda: None)
    heard.change(Opportunity("tool", scope, "ada", 0), Answer("The fee is 7."), lambda: None)

    assert heard.has_heard("stock is 12.", "How many?")
    assert heard.has_heard("The fee is 7.", "How many?")
    assert heard.has_heard("How many?", "How many?")
    assert not heard.has_heard("The stock is 13.", "How many?")


PLAN = TrialPlan(3, "lookup", "round_robin", "autogen", "blamespan:X2", "response", "malformed-arguments", 0.5)
RETRY = {"action": ["rewrite", "observe"]}
CALLS = {"check": "arguments-well-formed", "name": "calls", **RETRY}


def test_guard_that_says_what_is_wrong_repairs_and_one_that_does_not_only_asks() -> None:
    """Beside one another: broken calls are made anew where the guard quotes them; sound answers are never changed."""
    recipe = find_recipe("failures")
    told = try_plan(recipe, PLAN, parse_policy({"rewrites": 1, "findings": [CALLS]})).arms
    vague = try_plan(recipe, PLAN, parse_policy({"rewrites": 1, "texts": [{"forbidden_pattern": ".", **RETRY}]})).arms

    assert told["none"].n_faults > 0
    assert told["guard"].repaired == told["guard"].retries > 0
    assert not told["sound"].rules
    assert vague["guard"].retries > 0
    assert vague["guard"].repaired == 0
    assert vague["guard"].is_solved == vague["none"].is_solved
    assert vague["sound"].retries > 0
    assert vague["sound"].is_solved
