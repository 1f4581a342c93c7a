"""Parallel calls: whichever comes first, the verdict is the same."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_tracer.auto.parallel_calls import order_parallel_calls, restore_order
from blamespan_tracer.auto.tracer import AutoTracer

CITIES = ("Oslo", "Turin", "Ghent")
UNITS = {"Oslo": 415, "Turin": 382, "Ghent": 96}
LETTER = "Oslo has 415 units, Turin has 328 units and Ghent has 96 units."


def _run(calls: tuple[str, ...], answers: tuple[str, ...], letter: str = LETTER) -> MessageActionTrace:
    """Build a run in which Clerk asks for the stock of all cities at once; a call and its answer share a span."""
    said = [("Planner", "message", "Clerk, ask for the stock of all warehouses at once.", "a", ())]
    said += [("Clerk", "tool_call", f'stock({{"warehouse": "{city}"}})', city, (0,)) for city in calls]
    said += [
        ("Clerk", "tool_result", f'{{"warehouse": "{city}", "units": {UNITS[city]}}}', city, (1 + calls.index(city),))
        for city in answers
    ]
    said += [("Clerk", "message", letter, "b", (4, 5, 6)), ("Planner", "message", f"The answer: {letter}", "c", (7,))]
    spans = {name: f"{number:016x}" for number, name in enumerate(("a", "b", "c", *CITIES), 1)}
    steps = tuple(
        Step(index, spans[span], agent, kind, content, inputs=inputs)  # type: ignore[arg-type]
        for index, (agent, kind, content, span, inputs) in enumerate(said)
    )
    task = "How many units are in each warehouse?"
    return MessageActionTrace("1" * 32, task, steps, (Agent("Planner"), Agent("Clerk")), "failed")


@pytest.mark.parametrize("calls", list(permutations(CITIES)))
def test_order_of_parallel_calls_changes_no_verdict(calls: tuple[str, ...]) -> None:
    """Each span has the same share whatever the order of the calls and of their answers; so has everything else."""
    tracer = AutoTracer.bundled()
    usual = _run(CITIES, CITIES)
    other = _run(calls, tuple(reversed(calls)))

    [expected, verdict] = tracer.attribute([usual, other])

    assert [step.index for step in verdict.steps] == list(range(len(other.steps)))
    assert [step.span_id for step in verdict.steps] == [step.span_id for step in other.steps]
    by_words = [
        {trace.steps[step.index].content: step.score for step in each.steps}
        for trace, each in ((usual, expected), (other, verdict))
    ]
    assert by_words[0] == by_words[1]
    assert verdict.decisive_step == expected.decisive_step == 7
    assert (verdict.modes, verdict.failure_score, verdict.agents) == (
        expected.modes,
        expected.failure_score,
        expected.agents,
    )
    assert [other.steps[item.index].content.count(item.quote) for item in verdict.evidence] == [1] * len(
        verdict.evidence
    )


def test_mended_letter_is_not_blamed() -> None:
    """The sound twin: with the right number the letter has less blame, in every order."""
    tracer = AutoTracer.bundled()
    right = LETTER.replace("328", "382")

    wrong, *sound = tracer.attribute(
        [_run(CITIES, CITIES), *(_run(calls, calls, right) for calls in permutations(CITIES))]
    )

    assert {verdict.failure_score for verdict in sound} == {sound[0].failure_score}
    assert (sound[0].unaided_score or 0) < (wrong.unaided_score or 0)


def test_calls_that_build_on_each_other_keep_their_order() -> None:
    """A call that uses an earlier one is not parallel to it, and a run without parallel calls stays as it is."""
    run = _run(("Turin", "Oslo", "Ghent"), ("Turin", "Oslo", "Ghent"))
    chain = replace(run, steps=tuple(replace(step, inputs=(1,)) if step.index == 2 else step for step in run.steps))

    ordered, places = order_parallel_calls(chain)

    assert [step.content for step in ordered.steps[1:4]] == [step.content for step in chain.steps[1:4]]
    assert places == list(range(len(chain.steps)))
    assert order_parallel_calls(ordered)[0] is ordered


def test_ordered_run_is_sound_and_leads_back() -> None:
    """The ordered run keeps every rule of a trace, and each place leads to the same words."""
    run = _run(("Turin", "Oslo", "Ghent"), ("Ghent", "Turin", "Oslo"))

    ordered, places = order_parallel_calls(run)
    [verdict] = AutoTracer.bundled().attribute([run])

    assert sorted(places) == list(range(len(run.steps)))
    assert [run.steps[place].content for place in places] == [step.content for step in ordered.steps]
    assert restore_order(verdict, list(range(len(run.steps)))) is verdict
