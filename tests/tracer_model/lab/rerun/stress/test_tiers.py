"""By which tier a fault was tolerated: read off real runs of LangGraph, each with its twin."""

from __future__ import annotations

from typing import Any

import pytest

import blamespan
from blamespan.guarding.policy import Pattern, Policy, TextRule
from blamespan_lab.rerun.stress.containment import Caught, tier_of
from blamespan_lab.rerun.stress.recipe import StressRecipe
from blamespan_lab.rerun.stress.subjects import Named
from blamespan_lab.rerun.stress.tiers import Defences, asks_to_verify
from blamespan_lab.rerun.stress.trial import Clean, FaultTrial, Planned, try_fault
from blamespan_lab.rerun.stress.watching import WatchedRun

TEAMS = "tests.tracer_model.lab.rerun.stress.teams"
OTHERS_WORK = Planned("aegis:FM-1.2", "response", "clerk", 0, 0)
"""The clerk says that it has done somebody else's work: the boss hears no rooms."""
TOOL_BREAKS = Planned("blamespan:X4", "tool", "clerk", 0, 2)


def tried(team: str, planned: Planned) -> FaultTrial:
    pytest.importorskip("langgraph")
    subject = Named(f"{TEAMS}:{team}", f"{TEAMS}:is_right", ("How many rooms?",)).open()
    run = subject.run(0)
    try:
        return try_fault(subject, planned, Clean(run, {name: (name,) for name in run.agents}), StressRecipe("mine"))
    finally:
        blamespan.uninstrument()


@pytest.mark.parametrize(
    ("team", "planned", "tier"),
    [
        ("retried", TOOL_BREAKS, "mechanism"),
        ("validated", OTHERS_WORK, "rule"),
        ("sent_back", OTHERS_WORK, "rule"),
        ("told_to_verify", OTHERS_WORK, "prompt"),
        ("told_nothing", OTHERS_WORK, "reasoning"),
        ("told_not_to", OTHERS_WORK, "reasoning"),
    ],
)
def test_tier_is_that_of_what_acted(team: str, planned: Planned, tier: str) -> None:
    """The framework, code, an agent as it is told, or of its own accord."""
    found = tried(team, planned)

    assert (found.succeeded, found.tier) == (True, tier)


def test_fault_that_does_harm_was_not_tolerated() -> None:
    """The twin of a retry: without one, the tool's failure ends the run."""
    found = tried("not_retried", TOOL_BREAKS)

    assert (found.is_flipped, found.tier) == (True, None)


CAUGHT, IGNORED = Caught("boss", "objection", 1), Caught("", "ignored", None)


def seen(**defences: Any) -> WatchedRun:
    return WatchedRun("48", True, defences=Defences(**defences))


@pytest.mark.parametrize("what", ["retries", "rules"])
def test_what_happens_without_the_fault_as_well_tolerates_nothing(what: str) -> None:
    """A flaky tool, or a guard that always warns, is no answer to the fault."""
    once, twice = seen(**{what: ("a",)}), seen(**{what: ("a", "a")})

    assert tier_of(once, once, IGNORED) == "masked"
    assert tier_of(twice, once, IGNORED) == ("mechanism" if what == "retries" else "rule")


@pytest.mark.parametrize(
    ("defences", "tier"),
    [({"coded": frozenset({"boss"})}, "rule"), ({"verifiers": frozenset({"boss"})}, "prompt"), ({}, "reasoning")],
)
def test_tier_is_that_of_who_caught_it(defences: dict[str, Any], tier: str) -> None:
    """What others are told to do does not count."""
    assert tier_of(seen(**defences), seen(), CAUGHT) == tier
    assert tier_of(seen(**defences), seen(), Caught("clerk", "re-derivation", 2)) == "reasoning"


def test_agent_that_is_sent_back_mends_by_a_rule_only_what_it_mends_itself() -> None:
    """That the workflow gives the boss a turn again says nothing of the clerk."""
    run = seen(sent_back=("boss",))

    assert tier_of(run, seen(), Caught("boss", "self-correction", 1)) == "rule"
    assert tier_of(run, run, Caught("boss", "self-correction", 1)) == "reasoning"
    assert tier_of(run, seen(), Caught("clerk", "self-correction", 1)) == "reasoning"


def test_guard_that_acts_is_a_rule() -> None:
    """It has the clerk's answer written anew; the guard that only observes has done nothing."""
    for action, tier in (("rewrite", "rule"), ("observe", "reasoning")):
        with blamespan.guard(Policy(texts=(TextRule(forbidden_pattern=Pattern("gone ahead"), action=(action,)),))):
            assert tried("told_nothing", OTHERS_WORK).tier == tier


@pytest.mark.parametrize(
    "text",
    [
        "Verify every number before you pass it on.",
        "You review the draft of the writer.",
        "Check that the total is right, and object if it is not.",
        "Make sure the figures match the source.",
        "You are a critic. Double-check what others say.",
    ],
)
def test_instructions_that_ask_to_verify(text: str) -> None:
    """In the words that people use."""
    assert asks_to_verify(f"You are one of a team. {text}")


@pytest.mark.parametrize(
    "text",
    [
        "You pass on what the clerk says.",
        "Do not verify what others say.",
        "There is no need to check their numbers; trust them and review nothing.",
        "Guests check in at noon.",
        "",
    ],
)
def test_instructions_that_do_not(text: str) -> None:
    """The twins: other uses of the words, and those that forbid it."""
    assert not asks_to_verify(text)
